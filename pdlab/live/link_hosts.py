"""The link between two machines: one end holds memory and listens, the other connects and measures.

    pdlab link --listen HOST:PORT     on the machine that would prefill; it serves one measurement
    pdlab link --peer HOST:PORT       on the machine that would decode; the figures appear here

The two talk over one TCP connection, a JSON line each way: the reader says how many bytes it wants
held, the owner where they lie.  Then the reader pulls them by NIXL, as a decode server pulls KV.
Whoever reaches the port may ask once for a block of known bytes and nothing else; listen on
loopback, or on an address that only your machines reach.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from pdlab.errors import BadInput
from pdlab.live import link
from pdlab.live.link import LinkFailed, LinkReport, Message
from pdlab.options import WHOLE

PROTOCOL = 1
WAIT_S = 300.0  # for the other end to come, and for one measurement
LINE_BYTES = 1 << 20  # a connection that says more than this is none of ours
RETRY_S = 0.2


def address(text: str, where: str) -> tuple[str, int]:
    """``HOST:PORT`` as a pair; the host has to be said, since it decides who can connect."""
    host, colon, port = text.rpartition(":")
    lowest = 0 if where == "--listen" else 1  # there 0 takes a free port
    if not colon or not host or not WHOLE.fullmatch(port) or not lowest <= int(port) <= 65_535:
        raise BadInput(f"address {text!r}", "HOST:PORT, such as 127.0.0.1:7600", where)
    return host.strip("[]"), int(port)


def listen(
    host: str, port: int, transport: str = link.AUTO, memory: str = "dram", wait_s: float = WAIT_S,
    progress_delay_us: int | None | str = "auto", say: Callable[[str, int], None] = lambda host, port: None,
) -> int:  # fmt: skip
    """Serve one measurement; gives the bytes that were held for it.

    ``say`` is told the address once the port is open (port 0 takes a free one).  LinkFailed when
    nobody comes in ``wait_s`` seconds, or the reader's end breaks off.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if (error.errno or 0) > 0 else error.strerror
        raise BadInput(f"{host}:{port} ({why})", "an address of this machine with a free port", "--listen") from None
    with door:
        here, bound = door.getsockname()[:2]
        say(here, bound)
        door.settimeout(wait_s)
        try:
            connection, _ = door.accept()
        except TimeoutError:
            raise LinkFailed(f"nobody came to {here}:{bound} in {wait_s:g} s") from None
    with connection:
        connection.settimeout(wait_s)
        with connection.makefile("rw", encoding="utf-8") as talk:
            return _serve(talk, transport, memory, link.delay_us(progress_delay_us), _confined(here, memory))


def _serve(talk: Any, transport: str, memory: str, delay: int | None, on_loopback: bool) -> int:
    asked = _heard(talk)
    size = asked.get("bytes")
    wrong = None
    if asked.get("protocol") != PROTOCOL:
        wrong = f"protocol {asked.get('protocol')}, here {PROTOCOL}: use one version of pdlab on both machines"
    elif not isinstance(size, int) or not 1 <= size <= link.MAX_BYTES:
        wrong = f"{size!r} bytes: from 1 to {link.MAX_BYTES} can be held"
    elif asked.get("memory") != memory or asked.get("transport") != transport:
        wrong = (f"{asked.get('memory')} over {asked.get('transport')}, here {memory} over {transport}: "
                 "give both ends the same --memory and --transport")  # fmt: skip
    if wrong:
        _say(talk, {"error": wrong})
        raise LinkFailed(f"the reader asked for {wrong}")
    with link.owner(link.settings(transport, delay, on_loopback), memory, size) as held:
        try:
            told = link.line(held)
            _say(talk, told)
            if _heard(talk).get("done") is not True:
                raise LinkFailed("the reader broke off")
        except LinkFailed as error:
            _say(talk, {"error": str(error)})
            raise
        finally:
            held.kill()
    return size


def measure(
    host: str, port: int, sizes: Sequence[int], repeats: int = link.REPEATS, descriptor_bytes: int | None = None,
    transport: str = link.AUTO, memory: str = "dram", wait_s: float = WAIT_S, progress_delay_us: int | None | str = "auto",
) -> tuple[list[Message], LinkReport]:  # fmt: skip
    """Pull from the end that listens at ``host:port``; it is waited for, since it may start later."""
    link.check(transport, sizes, repeats, descriptor_bytes)
    delay = link.delay_us(progress_delay_us)
    with _connect(host, port, wait_s) as connection, connection.makefile("rw", encoding="utf-8") as talk:
        on_loopback = _confined(connection.getpeername()[0], memory)
        _say(talk, {"protocol": PROTOCOL, "bytes": max(sizes), "memory": memory, "transport": transport})
        told = _heard(talk)
        if "error" in told or not told.keys() >= {"metadata", "address"}:
            raise LinkFailed(f"the other end refused {told.get('error', 'and did not say why')}")
        with link.reader(link.settings(transport, delay, on_loopback), memory) as puller:
            try:
                messages, first_ms = link.timed(
                    puller, {key: told[key] for key in ("metadata", "address")}, sizes, repeats, descriptor_bytes
                )
            finally:
                puller.kill()
        _say(talk, {"done": True})
    return messages, link.report(transport, messages, first_ms, descriptor_bytes, delay)


def _connect(host: str, port: int, wait_s: float) -> socket.socket:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=min(5.0, wait_s))
        except socket.gaierror as error:
            raise BadInput(f"{host!r} ({error.strerror})", "a host that this machine can look up", "--peer") from None
        except OSError as error:
            if time.monotonic() > deadline:
                raise LinkFailed(f"nobody listens at {host}:{port} after {wait_s:g} s ({error.strerror or error})") from None
            time.sleep(RETRY_S)
        else:
            connection.settimeout(wait_s)
            return connection


def _confined(host: str, memory: str) -> bool:
    """Whether UCX is kept to loopback.  Not with a GPU's memory: servers on GPUs aren't either."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback and memory == "dram"


def _say(talk: Any, document: dict[str, Any]) -> None:
    try:
        talk.write(json.dumps(document) + "\n")
        talk.flush()
    except OSError:
        pass  # the other end has gone; what it should have said is missed at the next line


def _heard(talk: Any) -> dict[str, Any]:
    """The other end's next line; LinkFailed for silence, an end, or what is no JSON object."""
    try:
        text = talk.readline(LINE_BYTES)
        document = json.loads(text) if text.endswith("\n") else None
    except (OSError, ValueError) as error:
        raise LinkFailed(f"the other end could not be understood ({error})") from None
    if not isinstance(document, dict):
        raise LinkFailed("the other end broke off")
    return document
