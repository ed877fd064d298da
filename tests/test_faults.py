"""The fault library without servers: the comparison, the catalogue, the man in the middle, the soak's account."""

import itertools
import socket
import threading
import time

import pytest

from pdlab.errors import BadInput
from pdlab.live.faults import soak, table
from pdlab.live.faults.catalogue import CATALOGUE
from pdlab.live.faults.middle import CORRUPT_BYTES, HEAD_BYTES, Middle
from pdlab.live.faults.scene import Answer
from pdlab.live.faults.table import MISMATCHED, Row, compare, pair, summary
from pdlab.measure import records

HEALTHY = [11, 12, 13, 14, 15, 16, 17, 18]


@pytest.mark.parametrize(("tokens", "says"), [
    ([], ("none", 0)),
    (HEALTHY, ("all", 0)),
    (HEALTHY[:3], ("prefix", 0)),
    ([11, 12, 99, 98, 97, 96], ("wrong", 0)),
    ([99, 98, 97], ("wrong", 0)),
    (HEALTHY[:4] + HEALTHY[:4], ("wrong", 4)),
    (HEALTHY[:4] + [14] + HEALTHY[4:], ("wrong", 1)),
    (HEALTHY[:6] + HEALTHY[3:], ("wrong", 3)),
])  # fmt: skip
def test_tokens_are_told_apart(tokens, says):
    """All, none, the beginning, wrong ones; and a restarted stream's repeats are counted."""
    assert compare(tokens, HEALTHY) == says


@pytest.mark.parametrize(("start", "length"), list(itertools.product(range(4), (3, 4))))
def test_every_restart_of_a_stream_is_seen(start, length):
    """Whatever part of the answer a second attempt sends again, the repeats are counted."""
    again = HEALTHY[start : start + length]
    assert compare(HEALTHY[: start + length] + again, HEALTHY)[1] == len(again)


def test_tokens_that_never_end_are_too_many():
    """An answer longer than the healthy one is not called all."""
    assert compare(HEALTHY + HEALTHY, HEALTHY) == ("wrong", 8)


def test_every_fault_says_what_is_done_and_expected_and_has_servers():
    """Twenty faults or more, each with its texts and a pair that can be started."""
    assert len(CATALOGUE) >= 20
    for name, one in CATALOGUE.items():
        assert one.name == name and one.says and one.expects
        spec = pair(one.pair)
        assert spec.design == "disaggregated" and spec.mismatched == (one.pair in MISMATCHED)
    assert any(one.kills for one in CATALOGUE.values())


def test_a_table_has_one_line_a_fault():
    """Runs of one fault are put together, and the worst of them shows."""
    base = dict(injected="i", client_saw="x", http_status=200, finished=True, attempts=1,
                tokens=3, right="all", recovered_after_s=1.0, processes=0, missed=0, counters={}, facts={})  # fmt: skip
    rows = [Row(fault="a", twice=0, blocks_free_after_s=0.1, **base), Row(fault="a", twice=2, blocks_free_after_s=7.0, **base),
            Row(fault="b", twice=0, blocks_free_after_s=0.0, **base)]  # fmt: skip
    lines = list(summary(rows))
    assert [line[:2] for line in lines] == [["a", 2], ["b", 1]]
    assert lines[0][5] == 2 and lines[0][6] == 7.0


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    """Rows on disk are read back as they were and not made again; nothing is started when all is there."""
    row = Row(fault="slow link", injected="i", client_saw="x", http_status=200, finished=True, attempts=1, tokens=3, twice=0,
              right="all", blocks_free_after_s=0.1, recovered_after_s=1.0, processes=0, missed=0, counters={"decode-0": {"bytes": 3.0}},
              facts={"first_token_s": 2})  # fmt: skip
    table._write(tmp_path, [row, row], records.provenance(label="measured", source="a test"))
    assert table.read(tmp_path) == [row, row]
    monkeypatch.setattr(table, "Deployment", None)  # starting one would fail
    assert table.run(["slow link"], repeat=2, out=tmp_path) == [row, row]
    with pytest.raises(BadInput, match="one of"):
        table.run(["a fault that is not there"])


# ── the man in the middle ───────────────────────────────────────────────────────────────────


def through(payload, **options):
    """Send ``payload`` from a far end through the middle; what arrives, the middle, and the seconds."""
    far = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = far.accept()
        with connection:
            assert connection.recv(5) == b"give!"
            connection.sendall(payload)

    threading.Thread(target=serve, daemon=True).start()
    with Middle(far.getsockname()[1], **options) as middle, socket.create_connection(("127.0.0.1", middle.port)) as near:
        start = time.monotonic()
        near.sendall(b"give!")
        got = b""
        while data := near.recv(65536):
            got += data
    far.close()
    return got, middle, time.monotonic() - start


PAYLOAD = bytes(range(256)) * 400


def test_the_middle_passes_bytes_as_they_are():
    """Without a limit or corruption nothing changes, and all is counted."""
    got, middle, _ = through(PAYLOAD)
    assert got == PAYLOAD and middle.passed == len(PAYLOAD) and middle.corrupted == 0


def test_the_middle_changes_what_it_counts_and_nothing_else():
    """So many bytes are changed as it says, none of them in the head, and the length stays."""
    got, middle, _ = through(PAYLOAD, corrupt=True)
    differ = [index for index, (a, b) in enumerate(zip(got, PAYLOAD)) if a != b]
    assert len(got) == len(PAYLOAD) and len(differ) == middle.corrupted == CORRUPT_BYTES
    assert differ[0] == HEAD_BYTES and differ[-1] == HEAD_BYTES + CORRUPT_BYTES - 1


def test_the_middle_slows():
    """100 kB at 1 MB/s take a tenth of a second at least."""
    got, middle, took_s = through(PAYLOAD, bytes_per_s=1_000_000)
    assert got == PAYLOAD and took_s >= 0.1


def test_the_middle_hangs_up_when_the_far_end_is_not_there():
    """A dead prefill behind the middle is a closed connection, not a wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Middle(port) as middle, socket.create_connection(("127.0.0.1", middle.port), timeout=2) as near:
        assert near.recv(1) == b""


# ── the soak's account ──────────────────────────────────────────────────────────────────────


def ended(tokens=(), **known):
    answer = Answer(http_status=known.pop("http_status", 200), tokens=list(tokens), **known)
    answer.ended.set()
    return answer


def ask(number, fault="", output=3):
    return soak.Ask(number, 50, output, fault, 1.0)


def line(number, status="ok", attempts=1):
    return {"request_id": f"soak-{number}", "status": status, "attempts": attempts}


def test_the_draw_is_the_same_for_the_same_seed_and_about_the_share():
    """A soak can be repeated; about one in twenty is hurt, in every way there is."""
    asks = soak.schedule(1000, seed=5)
    assert asks == soak.schedule(1000, seed=5) != soak.schedule(1000, seed=6)
    hurt = [one.fault for one in asks if one.fault]
    assert 30 <= len(hurt) <= 80 and set(hurt) == set(soak.KINDS)


def test_an_account_that_balances():
    """Complete, left, refused: each once, and a client that left before it was read needs no line."""
    asks = [ask(0), ask(1, "hang up early"), ask(2, "bad parameters"), ask(3)]
    answers = {0: ended([1, 2, 3], finished=True), 1: ended(), 2: ended(http_status=400), 3: ended([1, 2, 3], finished=True)}
    account = soak.balance(asks, answers, [line(0), line(2, "failed"), line(3, attempts=2)])
    assert account.client == {"complete": 2, "left": 1, "refused": 1}
    assert account.second_attempts == 1 and account.faultless


@pytest.mark.parametrize(("answer", "log"), [
    (ended([1, 2, 3], finished=True), []),
    (ended([1, 2, 3], finished=True), [line(0), line(0)]),
    (ended([1, 2, 3, 3], finished=True), [line(0)]),
    (ended([1, 2], finished=True), [line(0)]),
])  # fmt: skip
def test_an_account_that_does_not(answer, log):
    """A request that nobody logged, or logged twice, or an answer of the wrong length, is found."""
    assert not soak.balance([ask(0)], {0: answer}, log).faultless
