"""The timed path of the open-loop client: one process, one thread, no parsing.

Requests leave on an absolute schedule whatever the server does.  Every byte to send is built
before the clock starts; every byte that arrives is kept with the kernel's own time of receipt and
goes, once the answer has ended, down a pipe into a spool.  Nothing is decoded here beyond what
tells that an answer has ended: ``client_wire`` reads the spool afterwards.

Run by ``client.py`` as ``python -m pdlab.live.client_loop < schedule | cat >> spool``.  It imports
nothing heavy, so it starts in tens of milliseconds and takes no core from the servers.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import platform
import select
import socket
import ssl
import struct
import sys
import time
from array import array
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

ENTRY = struct.Struct(">4sIII")  # magic, bytes of JSON, reads, raw bytes
MAGIC = b"pdl1"
TIMESPEC = struct.Struct("@ll")
NO_STAMP = bytes(TIMESPEC.size)
# Linux gives SO_TIMESTAMPNS this number wherever it uses the generic socket header.  The other
# architectures number their options themselves; there, stamps are taken in user space.
GENERIC_SOCKET_NUMBERS = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x", "loongarch64")
SO_TIMESTAMPNS = 35
ANCILLARY_BYTES = socket.CMSG_SPACE(TIMESPEC.size)
READ_BYTES = 1 << 16
PIPE_BYTES = 1 << 20
LEAD_NS = 200_000_000
STAMP_TRIES = 50
SPIN_NS = 250_000  # above the kernel's 50 µs of timer slack and a virtual core's wake-up
COARSE_NS = 2_000_000  # epoll counts whole milliseconds and rounds up: leave it early
LOOK_UP_NS = 500_000_000  # how often to see whether the parent is still there

now_ns = time.monotonic_ns


class Conn:
    """One connection.  ``stage``: connecting, handshake, idle, busy."""

    __slots__ = ("sock", "fd", "stage", "exchange", "born_ns", "idle_since_ns", "unsent")

    def __init__(self, sock: socket.socket, born_ns: int) -> None:
        self.sock, self.fd, self.born_ns = sock, sock.fileno(), born_ns
        self.stage = "connecting"
        self.exchange: Exchange | None = None
        self.idle_since_ns = born_ns
        self.unsent = b""


class Exchange:
    """One request and everything that came back for it.  Times are monotonic ns."""

    __slots__ = (
        "seq", "request_id", "due_ns", "payload", "sent_ns", "connect_ns", "new_connection",
        "user_ns", "kernel", "parts", "framing", "expected", "received", "scanned", "unscanned",
        "keep", "conn",
    )  # fmt: skip

    def __init__(self, seq: int, request_id: str, due_ns: int, payload: bytes) -> None:
        self.seq, self.request_id, self.due_ns, self.payload = seq, request_id, due_ns, payload
        self.sent_ns: int | None = None
        self.connect_ns: int | None = None
        self.new_connection = False
        self.user_ns = array("q")
        self.kernel: list[bytes] = []
        self.parts: list[bytes] = []
        self.framing = ""  # "", then "chunked", "length" or "close"
        self.expected = self.received = 0
        self.scanned = 0  # parts that `unscanned` already holds
        self.unscanned = b""
        self.keep = True
        self.conn: Conn | None = None


def kernel_stamps_work() -> bool:
    """Whether this kernel stamps TCP data at receipt: tried over loopback.

    Linux begins to stamp a moment after the first socket asks for it, hence the patience.
    """
    if sys.platform != "linux" or platform.machine() not in GENERIC_SOCKET_NUMBERS:
        return False
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
                near.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                near.settimeout(2)
                for _ in range(STAMP_TRIES):
                    far.sendall(b"x")
                    _, ancillary, _, _ = near.recvmsg(1, ANCILLARY_BYTES)
                    if ancillary:
                        (_, kind, data), *_ = ancillary
                        return kind == SO_TIMESTAMPNS and _is_now(data)
                    time.sleep(0.01)
    except (OSError, struct.error):
        pass
    return False


def _is_now(timespec: bytes) -> bool:
    seconds, nanoseconds = TIMESPEC.unpack(timespec)
    return abs(seconds * 10**9 + nanoseconds - time.time_ns()) < 10**9


def wall_offset_ns(tries: int = 5) -> int:
    """Monotonic minus wall clock, from the tightest of a few readings."""
    best = None
    for _ in range(tries):
        before, wall, after = now_ns(), time.time_ns(), now_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2 - wall)
    assert best is not None
    return best[1]


class Loop:
    """Sends ``exchanges`` (in order of their due time) to one server and spools what comes back.

    ``config``: host, port, tls (bool), verify (bool), connections, deadline_ns, idle_limit_ns,
    parent (the process id without which the run is void).
    """

    def __init__(self, config: dict, exchanges: list[Exchange], out_fd: int) -> None:
        self.config, self.out_fd = config, out_fd
        self.pending = deque(exchanges)
        self.in_flight: dict[int, Exchange] = {}
        self.deadlines: deque[Exchange] = deque()
        self.idle: list[Conn] = []
        self.conns: dict[int, Conn] = {}
        self.epoll = select.epoll()
        self.backlog: deque[bytes] = deque()
        self.parent = config["parent"]  # asked of the parent: it may be gone before we look
        self.tls = None
        if config["tls"]:
            self.tls = ssl.create_default_context()
            if not config.get("verify", True):
                self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.address = _resolve(config["host"], config["port"])
        self.kernel = self.tls is None and kernel_stamps_work()
        self._keep_stamping = self._socket()  # the kernel stops stamping when no socket asks for it

    # ── the clock ───────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Everything, from the first connection to the last answer or deadline."""
        for _ in range(min(self.config["connections"], len(self.pending))):
            if not self._open_warm():
                break  # no server: each request will say so for itself
        gc.collect()
        gc.freeze()
        gc.disable()
        self.offset_ns = wall_offset_ns(50)
        first_due_ns = self.pending[0].due_ns if self.pending else 0
        t0_ns = now_ns() + LEAD_NS - first_due_ns
        for exchange in self.pending:
            exchange.due_ns += t0_ns
        self.t0_ns = t0_ns
        self._spool(
            {
                "session": True,
                "t0_monotonic_ns": t0_ns,
                "t0_unix_ns": t0_ns - self.offset_ns,
                "first_due_ns": first_due_ns,
                "stamp_source": "kernel" if self.kernel else "user",
                "warm_connections": len(self.idle),
            }
        )
        self._turn()
        if os.getppid() == self.parent:
            self._spool({"closed": True})
        self._flush(wait=True)

    def _turn(self) -> None:
        pending, poll, epoll_fd = self.pending, self.epoll.poll, [self.epoll.fileno()]
        look_up_ns = 0
        while pending or self.in_flight:
            now = now_ns()
            if pending and pending[0].due_ns <= now:
                self._dispatch(pending.popleft(), now)
                continue
            if now >= look_up_ns:
                look_up_ns = now + LOOK_UP_NS
                if os.getppid() != self.parent:
                    return  # nobody is left to account for what we would send
                self.offset_ns = wall_offset_ns()
            wait_ns = look_up_ns - now
            if self.deadlines and self._expire(now):
                wait_ns = min(wait_ns, self._deadline_ns(self.deadlines[0]) - now)
            if pending:
                wait_ns = min(wait_ns, pending[0].due_ns - now)
            if wait_ns > 2 * COARSE_NS:
                ready = poll((wait_ns - COARSE_NS) / 1e9)
            elif wait_ns > SPIN_NS:
                select.select(epoll_fd, (), (), (wait_ns - SPIN_NS) / 1e9)  # microseconds
                ready = poll(0)
            else:
                ready = poll(0)
            for fd, events in ready:
                if fd in self.conns:
                    self._event(self.conns[fd], events)
                while pending and pending[0].due_ns <= now_ns():
                    self._dispatch(pending.popleft(), now_ns())
            if self.backlog:
                self._flush()

    def _deadline_ns(self, exchange: Exchange) -> int:
        return exchange.due_ns + self.config["deadline_ns"]

    def _expire(self, now: int) -> bool:
        """End what is past its deadline; true while a deadline is left to wait for."""
        queue = self.deadlines
        while queue and (queue[0].seq not in self.in_flight or self._deadline_ns(queue[0]) <= now):
            exchange = queue.popleft()
            if exchange.seq in self.in_flight:
                self._end(exchange, "timeout", "no complete answer before the deadline")
        return bool(queue)

    # ── connections ─────────────────────────────────────────────────────────────────────────

    def _socket(self) -> socket.socket:
        family, _, _, _, _ = self.address
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.kernel:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return sock

    def _secure(self, sock: socket.socket) -> ssl.SSLSocket:
        assert self.tls is not None
        return self.tls.wrap_socket(
            sock, server_hostname=self.config["host"], do_handshake_on_connect=False
        )

    def _adopt(self, sock: socket.socket, born_ns: int, events: int) -> Conn:
        sock.setblocking(False)
        conn = Conn(sock, born_ns)
        self.conns[conn.fd] = conn
        self.epoll.register(conn.fd, events)
        return conn

    def _open_warm(self) -> bool:
        """One ready connection before the clock starts."""
        sock = self._socket()
        try:
            sock.settimeout(5)
            sock.connect(self.address[4])
            if self.tls:
                sock = self._secure(sock)
                sock.do_handshake()
        except OSError:
            sock.close()
            return False
        conn = self._adopt(sock, now_ns(), select.EPOLLIN)
        conn.stage = "idle"
        self.idle.append(conn)
        return True

    def _drop(self, conn: Conn) -> None:
        if self.conns.pop(conn.fd, None) is not None:
            try:
                self.epoll.unregister(conn.fd)
            except OSError:
                pass
            conn.sock.close()
        if conn.stage == "idle" and conn in self.idle:
            self.idle.remove(conn)

    def _dispatch(self, exchange: Exchange, now: int) -> None:
        """The request's time has come: the warmest idle connection, or a new one."""
        self.in_flight[exchange.seq] = exchange
        self.deadlines.append(exchange)
        while self.idle:
            conn = self.idle.pop()
            if now - conn.idle_since_ns < self.config["idle_limit_ns"]:
                self._send(conn, exchange)
                return
            conn.stage = "stale"  # the server may be closing it this very moment
            self._drop(conn)
        exchange.new_connection = True
        try:
            sock = self._socket()
            sock.setblocking(False)
            born_ns = now_ns()
            sock.connect_ex(self.address[4])
            if self.tls:
                sock = self._secure(sock)
            conn = self._adopt(sock, born_ns, select.EPOLLOUT)
        except OSError as error:
            self._end(exchange, "failed", f"connect: {error}")
            return
        conn.exchange, exchange.conn = exchange, conn

    def _connected(self, conn: Conn, exchange: Exchange) -> None:
        if conn.stage == "connecting":
            if code := conn.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._end(exchange, "failed", f"connect: {os.strerror(code)}")
                return
            conn.stage = "handshake"
        if self.tls:
            try:
                conn.sock.do_handshake()  # type: ignore[attr-defined]
            except ssl.SSLWantReadError:
                self.epoll.modify(conn.fd, select.EPOLLIN)
                return
            except ssl.SSLWantWriteError:
                self.epoll.modify(conn.fd, select.EPOLLOUT)
                return
            except OSError as error:
                self._end(exchange, "failed", f"TLS: {error}")
                return
        exchange.connect_ns = now_ns() - conn.born_ns
        self.epoll.modify(conn.fd, select.EPOLLIN)
        self._send(conn, exchange)

    def _send(self, conn: Conn, exchange: Exchange) -> None:
        conn.stage, conn.exchange, exchange.conn = "busy", exchange, conn
        payload = exchange.payload
        exchange.sent_ns = now_ns()
        try:
            sent = conn.sock.send(payload)
        except (BlockingIOError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self._end(exchange, "failed", f"send: {error}")
            return
        if sent < len(payload):
            conn.unsent = payload[sent:]
            self.epoll.modify(conn.fd, select.EPOLLIN | select.EPOLLOUT)

    def _send_rest(self, conn: Conn, exchange: Exchange) -> None:
        try:
            conn.unsent = conn.unsent[conn.sock.send(conn.unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            self._end(exchange, "failed", f"send: {error}")
            return
        if not conn.unsent:
            self.epoll.modify(conn.fd, select.EPOLLIN)

    # ── answers ─────────────────────────────────────────────────────────────────────────────

    def _event(self, conn: Conn, events: int) -> None:
        exchange = conn.exchange
        if exchange is None:  # nobody asked: the server closes an idle connection
            self._drop(conn)
        elif conn.stage != "busy":
            self._connected(conn, exchange)
        else:
            if events & select.EPOLLOUT and conn.unsent:
                self._send_rest(conn, exchange)
            if events & ~select.EPOLLOUT and conn.exchange is exchange:
                self._read(conn, exchange)

    def _read(self, conn: Conn, exchange: Exchange) -> None:
        try:
            if self.kernel:
                data, ancillary, _, _ = conn.sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
                exchange.user_ns.append(now_ns())
                exchange.kernel.append(ancillary[0][2] if ancillary else NO_STAMP)
            else:
                data = conn.sock.recv(READ_BYTES)
                exchange.user_ns.append(now_ns())
                exchange.kernel.append(NO_STAMP)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._end(exchange, "failed", f"receive: {error}")
            return
        exchange.parts.append(data)
        if not data:
            if exchange.framing == "close":
                exchange.keep = False
                self._end(exchange, "complete")
            elif exchange.received:
                self._end(exchange, "failed", "the connection closed in mid-answer")
            else:
                self._end(exchange, "failed", "the connection closed without an answer")
            return
        exchange.received += len(data)
        try:
            ended = _ended(exchange, data)
        except ValueError:
            self._end(exchange, "failed", "the answer is not HTTP/1.1")
            return
        if ended:
            self._end(exchange, "complete")
        elif self.tls and conn.sock.pending():  # type: ignore[attr-defined]
            self._read(conn, exchange)  # decrypted already: epoll would not tell

    def _end(self, exchange: Exchange, outcome: str, error: str | None = None) -> None:
        """Spool the exchange; keep the connection only if it is known to be clean."""
        end_ns = now_ns()
        self.in_flight.pop(exchange.seq, None)
        if outcome == "failed" and os.getppid() != self.parent:
            return  # the router went with our parent: that is no failure of the servers
        conn, exchange.conn = exchange.conn, None
        if conn is not None:
            conn.exchange = None
            if outcome == "complete" and exchange.keep:
                conn.stage, conn.idle_since_ns = "idle", end_ns
                self.idle.append(conn)
            else:
                self._drop(conn)
        self._spool(
            {
                "seq": exchange.seq,
                "request_id": exchange.request_id,
                "due_ns": exchange.due_ns - self.t0_ns,
                "sent_ns": None if exchange.sent_ns is None else exchange.sent_ns - self.t0_ns,
                "end_ns": end_ns - self.t0_ns,
                "connect_ns": exchange.connect_ns,
                "new_connection": exchange.new_connection,
                "outcome": outcome,
                "error": error,
                "t0_ns": self.t0_ns,
                "offset_ns": self.offset_ns,
                "kernel": self.kernel,
            },
            exchange,
        )

    # ── the spool ───────────────────────────────────────────────────────────────────────────

    def _spool(self, meta: dict, exchange: Exchange | None = None) -> None:
        text = json.dumps(meta).encode()
        if exchange is None:
            self.backlog.append(ENTRY.pack(MAGIC, len(text), 0, 0) + text)
        else:
            raw, sizes = b"".join(exchange.parts), array("q", map(len, exchange.parts))
            reads = len(sizes)
            self.backlog.append(
                b"".join(
                    (
                        ENTRY.pack(MAGIC, len(text), reads, len(raw)),
                        text,
                        exchange.user_ns.tobytes(),
                        sizes.tobytes(),
                        *exchange.kernel,
                        raw,
                    )
                )
            )
        self._flush()

    def _flush(self, wait: bool = False) -> None:
        """Write what the pipe takes; a full pipe never holds up the clock."""
        if wait:
            os.set_blocking(self.out_fd, True)
        try:
            while self.backlog:
                entry = self.backlog[0]
                written = os.write(self.out_fd, entry)
                if written == len(entry):
                    self.backlog.popleft()
                else:
                    self.backlog[0] = entry[written:]
        except BlockingIOError:
            pass


def _ended(exchange: Exchange, data: bytes) -> bool:
    """Whether the answer is complete with this read; ValueError when it isn't HTTP."""
    if not exchange.framing and not _learn_framing(exchange):
        return False
    if exchange.framing == "chunked":
        # A cheap look first; only what could be the end is walked to, chunk by chunk.
        return (data.endswith(b"\r\n\r\n") or len(data) < 5) and _chunks_ended(exchange)
    return exchange.framing == "length" and exchange.received >= exchange.expected


def _learn_framing(exchange: Exchange) -> bool:
    """Learn from the head of the answer how its end will be known; false while it is incomplete."""
    raw = b"".join(exchange.parts)
    head, separator, rest = raw.partition(b"\r\n\r\n")
    if not b"HTTP/1.".startswith(raw[:7]):
        raise ValueError(head)
    if not separator:
        return False
    head = head.lower()
    exchange.keep = b"\r\nconnection: close" not in head and not head.startswith(b"http/1.0")
    exchange.scanned, exchange.unscanned = len(exchange.parts), rest
    if b"\r\ntransfer-encoding: chunked" in head:
        exchange.framing = "chunked"
    elif (at := head.find(b"\r\ncontent-length:")) >= 0:
        exchange.framing = "length"
        exchange.expected = len(raw) - len(rest) + int(head[at + 17 :].split(b"\r\n", 1)[0])
    else:
        exchange.framing = "close"
    return True


def _chunks_ended(exchange: Exchange) -> bool:
    """Walk the chunks received so far; true when the last one, of size 0, is complete."""
    data = exchange.unscanned + b"".join(exchange.parts[exchange.scanned :])
    exchange.scanned = len(exchange.parts)
    at = 0
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].split(b";", 1)[0], 16)
        if size == 0:
            # trailers, if any, end with an empty line
            if data.startswith(b"\r\n", line + 2) or data.find(b"\r\n\r\n", line + 2) >= 0:
                return True
            break
        following = line + 2 + size + 2
        if following > len(data):
            break
        at = following
    exchange.unscanned = data[at:]
    return False


def _resolve(host: str, port: int) -> tuple:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return infos[0]


def read_schedule(source: BinaryIO) -> tuple[dict, list[Exchange]]:
    """The first line is the configuration; each further line is one request."""
    config = json.loads(source.readline())
    head = config["head"].encode("latin-1")
    return config, list(_exchanges(source, head))


def _exchanges(source: BinaryIO, head: bytes) -> Iterator[Exchange]:
    for line in source:
        one = json.loads(line)
        body = one["body"].encode()
        payload = b"%sX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s" % (
            head, one["request_id"].encode("latin-1"), len(body), body,
        )  # fmt: skip
        yield Exchange(one["seq"], one["request_id"], one["due_ns"], payload)


def main() -> int:
    """Read the schedule from stdin, write the spool to stdout."""
    config, exchanges = read_schedule(sys.stdin.buffer)
    out_fd = sys.stdout.fileno()
    try:
        fcntl.fcntl(out_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (OSError, AttributeError):
        pass  # a file, or a system that doesn't resize pipes: the backlog takes over
    os.set_blocking(out_fd, False)
    try:
        Loop(config, exchanges, out_fd).run()
    except BrokenPipeError:  # what was to be kept has nowhere to go; the client says why
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
