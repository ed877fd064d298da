"""The teaching connector's two plain halves: leases by a clock that stands still, the wire over real sockets."""

import contextlib
import socket
import threading

import pytest

from pdlab.live.tcpkv import wire
from pdlab.live.tcpkv.leases import Leases

LAYERS = [("layer.0", b"k" * 4096), ("layer.1", bytes(range(256)) * 16)]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_lease_ends_by_hand_over_or_by_time():
    """Delivered blocks are freed at once; others when their time is up, and are told apart."""
    clock = Clock()
    leases = Leases(clock)
    leases.grant("a", [1, 2], seconds=30)
    leases.grant("b", [3], seconds=30)
    assert leases.read("a") == (1, 2)
    leases.done("a", delivered=True)
    assert leases.collect() == ({"a"}, set())
    clock.now = 30
    assert leases.collect() == ({"b"}, {"b"})
    assert len(leases) == 0
    assert leases.collect() == (set(), set())


def test_a_lease_does_not_end_while_its_blocks_are_read():
    """A pull that began in time keeps its blocks, and a second reader may join it."""
    clock = Clock()
    leases = Leases(clock)
    leases.grant("a", [1], seconds=10)
    assert leases.read("a") == (1,)
    clock.now = 60
    assert leases.collect() == (set(), set())
    leases.done("a", delivered=False)
    assert leases.read("a") is None, "once nobody reads, an ended lease is over"
    assert leases.collect() == ({"a"}, {"a"})


def test_a_broken_pull_leaves_the_lease_running():
    """Decode may try again as long as the lease runs."""
    leases = Leases(Clock())
    leases.grant("a", [1], seconds=10)
    leases.read("a")
    leases.done("a", delivered=False)
    assert leases.read("a") == (1,)


class Prefill:
    """One listening socket that answers a number of pulls through ``change``, byte for byte."""

    def __init__(self, leases, change=lambda data: data, pulls=1):
        self.leases, self.change = leases, change
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.failures = []
        self.thread = threading.Thread(target=self._run, args=(pulls,), daemon=True)
        self.thread.start()

    def _run(self, pulls):
        for _ in range(pulls):
            connection, _ = self.listener.accept()
            with connection:
                try:
                    wire.answer(connection, self.leases.read, self.leases.done, self._layers, len(LAYERS))
                except (wire.TransferFailed, OSError) as error:
                    self.failures.append(error)

    def _layers(self, block_ids):
        for name, data in LAYERS:
            yield name, data[: 1024 * len(block_ids)]

    def finish(self):
        self.thread.join(5)
        assert not self.thread.is_alive()
        self.listener.close()


def held(*block_ids):
    leases = Leases(Clock())
    leases.grant("r", block_ids, seconds=30)
    return leases


def test_a_pull_delivers_every_layer_and_hands_over():
    """Bytes arrive as they were, and only then may prefill free them."""
    leases = held(7, 8, 9)
    prefill = Prefill(leases)
    got = list(wire.pull(prefill.address, "r", 2, 5))
    prefill.finish()
    assert got == [(name, data[:2048]) for name, data in LAYERS]
    assert leases.collect() == ({"r"}, set())


@pytest.mark.parametrize(
    ("request_id", "last_blocks", "says"),
    [("stranger", 1, "lease has ended"), ("r", 4, "3 are kept"), ("r", 0, "3 are kept")],
)
def test_a_pull_of_what_is_not_there_is_refused_in_words(request_id, last_blocks, says):
    """An unknown request, or more blocks than are kept: decode hears the reason."""
    leases = held(7, 8, 9)
    prefill = Prefill(leases)
    with pytest.raises(wire.TransferFailed, match=says):
        list(wire.pull(prefill.address, request_id, last_blocks, 5))
    prefill.finish()
    assert leases.read("r") is not None, "the lease runs on"


class Corrupting:
    """A man in the middle that flips one bit of what prefill sends, at byte ``at``."""

    def __init__(self, target, at):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.target, self.at = target, at
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(self.target)
        threading.Thread(target=self._copy, args=(near, far, None), daemon=True).start()
        self._copy(far, near, self.at)

    @staticmethod
    def _copy(source, sink, at):
        seen = 0
        try:
            while data := source.recv(65536):
                if at is not None and seen <= at < seen + len(data):
                    data = bytearray(data)
                    data[at - seen] ^= 0x10
                seen += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # one end has gone: so does the other
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("verify", [True, False])
def test_a_flipped_bit_is_caught_by_the_checksum_and_by_nothing_else(verify):
    """One bit of 8 KiB: with the checksum the pull fails, without it the wrong bytes are taken."""
    leases = held(1, 2, 3, 4)
    prefill = Prefill(leases)
    middle = Corrupting(prefill.address, at=1000)
    if verify:
        with pytest.raises(wire.TransferFailed, match="checksum"):
            list(wire.pull(middle.address, "r", 4, 5))
        prefill.finish()
        assert leases.collect() == (set(), set()), "nothing was handed over"
    else:
        got = list(wire.pull(middle.address, "r", 4, 5, verify=False))
        prefill.finish()
        assert got != LAYERS
        assert [len(data) for _, data in got] == [4096, 4096]
        assert leases.collect() == ({"r"}, set()), "prefill believes that all went well"


@pytest.mark.parametrize("cut", [b"", b'{"layers":2,"blocks":4}\n', b'{"layers":2,"blocks":4}\n{"layer":"a","bytes":4096,"crc32":0}\nabc', b"GET / HTTP/1.1\n"])
def test_a_peer_that_stops_or_talks_nonsense_fails_the_pull(cut):
    """Whatever the moment, a broken pull ends with an error and not with half a cache."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(cut)
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    with pytest.raises(wire.TransferFailed):
        list(wire.pull(listener.getsockname(), "r", 4, 5))
    listener.close()


def test_a_silent_peer_runs_into_the_timeout():
    """A frozen prefill does not hold decode for longer than its timeout."""
    listener = socket.create_server(("127.0.0.1", 0))
    with pytest.raises(OSError):
        list(wire.pull(listener.getsockname(), "r", 4, timeout_s=0.2))
    listener.close()


def test_a_decode_that_leaves_in_the_middle_does_not_free_anything():
    """Prefill waits for the hand-over; without it the lease decides."""
    leases = held(1, 2, 3, 4)
    prefill = Prefill(leases)
    puller = wire.pull(prefill.address, "r", 4, 5)
    assert next(puller)[0] == "layer.0"
    puller.close()
    prefill.finish()
    assert leases.collect() == (set(), set())
    assert leases.read("r") == (1, 2, 3, 4)
