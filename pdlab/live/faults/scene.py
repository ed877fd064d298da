"""A prefill/decode pair that faults are injected into, and everything one can see of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psutil

from pdlab.errors import Failed
from pdlab.live import router_steps as steps
from pdlab.live.microscope import tokens
from pdlab.live.post import post_json
from pdlab.live.serve import Deployment, Server

POLL_S = 0.01
PATIENCE_S = 60.0
SOURCE = "vllm:prompt_tokens_by_source_total"
WATCHED = {  # short name → the server's own counter
    "failed_transfers": "vllm:nixl_num_failed_transfers_total",
    "failed_notifications": "vllm:nixl_num_failed_notifications_total",
    "expired": "vllm:nixl_num_kv_expired_reqs_total",
    "late_notifications": "vllm:nixl_num_notifications_after_expiry_total",
    "bytes": "vllm:nixl_bytes_transferred_sum",
    "finished": "vllm:request_success_total",  # a request whose client left is not in it
    "preempted": "vllm:num_preemptions_total",
}


class NotInjected(Failed):
    """The moment for the fault never came, so nothing was broken and nothing is shown."""


class BlocksLeft(Failed):
    """KV blocks stayed in use for longer than they may."""


@dataclass
class Answer:
    """What a client received so far.  ``tokens`` in order of arrival; ``ended`` once nothing more comes."""

    http_status: int | None = None
    tokens: list[int] = field(default_factory=list)
    error: str = ""
    finished: bool = False  # the server said that the answer is complete
    request_id: str = ""  # as decode names it in its frames
    ended: threading.Event = field(default_factory=threading.Event)
    sent_s: float = 0.0
    first_token_s: float | None = None
    ended_s: float = 0.0
    socket: socket.socket | None = None  # the client's end, to be cut by ``Scene.hang_up``

    def wait(self, timeout_s: float = PATIENCE_S) -> Answer:
        """Wait for the end of the answer."""
        if not self.ended.wait(timeout_s):
            raise NotInjected(f"the answer did not end in {timeout_s:.0f} s")
        return self

    @property
    def waited_s(self) -> float:
        """Seconds from sending to the first token, or to the end of an answer without one."""
        return (self.first_token_s or self.ended_s) - self.sent_s

    def saw(self) -> str:
        """In a few words, what the client saw."""
        if self.finished:
            return f"HTTP {self.http_status}, {len(self.tokens)} tokens"
        cut = self.error.split("\n")[0][:90]
        return f"HTTP {self.http_status or 'none'}, {len(self.tokens)} tokens, then: {cut}"


class Scene:
    """One running pair.  ``lease_s`` is the one its prefill was started with."""

    def __init__(self, deployment: Deployment, lease_s: float) -> None:
        self.deployment, self.lease_s = deployment, lease_s
        self.model = deployment.model_name
        self._prompts = 0

    @property
    def prefill(self) -> Server:
        return self.deployment.prefill[0]

    @property
    def decode(self) -> Server:
        return self.deployment.decode[0]

    def prompt(self, length: int) -> list[int]:
        """A prompt that no server has seen."""
        self._prompts += 1
        return tokens(length, f"fault {time.monotonic_ns()} {self._prompts}")

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    def number(self, server: Server, name: str, **labels: str) -> float:
        """One counter or gauge now; 0 where the server does not have it yet."""
        return server.metrics().total(name, **labels) or 0.0

    def counters(self, server: Server) -> dict[str, float]:
        """All watched counters of a server."""
        page = server.metrics()
        found = {short: page.total(name) or 0.0 for short, name in WATCHED.items()}
        found |= {
            f"from_{source}": value
            for source, value in page.by_label(SOURCE, "source").items()
        }
        return found

    def external_tokens(self) -> int:
        """Prompt tokens that decode says it got from outside, so far."""
        return round(self.number(self.decode, SOURCE, source="external_kv_transfer"))

    def used_share(self, server: Server) -> float:
        """Share of a server's KV blocks in use, 0 to 1."""
        return self.number(server, "vllm:kv_cache_usage_perc")

    def until(self, happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> float:
        """Wait until something has happened; the seconds it took.  Raises NotInjected."""
        start = time.monotonic()
        while not happened():
            if time.monotonic() - start > timeout_s:
                raise NotInjected(f"never seen in {timeout_s:.0f} s: {what}")
            time.sleep(POLL_S)
        return time.monotonic() - start

    def until_free(self, *servers: Server, timeout_s: float = PATIENCE_S) -> float:
        """Wait until no KV block of these servers is in use, or they are dead; the seconds it took.

        Raises BlocksLeft.
        """
        try:
            return self.until(lambda: all(map(self._free, servers)), "no KV block in use", timeout_s)
        except NotInjected:
            left = ", ".join(server.name for server in servers if not self._free(server))
            raise BlocksLeft(f"blocks still in use after {timeout_s:.0f} s on {left or 'none, by now'}") from None

    def _free(self, server: Server) -> bool:
        try:
            return self.used_share(server) == 0
        except OSError:  # a fault may take down more than it was aimed at
            return not self.deployment.alive(server)

    def waiting(self, server: Server, reason: str) -> float:
        """Requests that wait at a server for ``reason``: capacity, or deferred (for their KV)."""
        return self.number(server, "vllm:num_requests_waiting_by_reason", reason=reason)

    def stopped(self, server: Server) -> bool:
        """Whether the system has stopped a server's process."""
        try:
            return psutil.Process(server.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def arguments(self, server: Server) -> list[str]:
        """The command line with which a server's process runs."""
        return psutil.Process(server.pid).cmdline()

    # ── breaking ────────────────────────────────────────────────────────────────────────────

    def kill(self, server: Server) -> None:
        """Kill a server.  Raises NotInjected where it lives on."""
        self.deployment.kill(server)
        if self.deployment.alive(server):
            raise NotInjected(f"{server.name} is still alive")

    def freeze(self, server: Server) -> None:
        """Stop a server's process.  Raises NotInjected where it goes on."""
        self.deployment.signal(server, signal.SIGSTOP)
        self.until(lambda: self.stopped(server), f"{server.name} stopped", 5)

    def thaw(self, server: Server) -> None:
        """Let a stopped server go on.  Raises NotInjected where it was not stopped any more."""
        stopped = self.stopped(server)
        self.deployment.signal(server, signal.SIGCONT)
        if not stopped:
            raise NotInjected(f"{server.name} did not stay stopped")

    # ── talking ─────────────────────────────────────────────────────────────────────────────

    def body(self, prompt: Sequence[int], output_tokens: int, **extra: Any) -> dict[str, Any]:
        """A greedy streamed completion that reports its token ids."""
        return {
            "model": self.model, "prompt": list(prompt), "max_tokens": output_tokens, "temperature": 0,
            "ignore_eos": True, "stream": True, "return_token_ids": True, **extra,
        }  # fmt: skip

    def reference(self, prompt: Sequence[int], output_tokens: int) -> list[int]:
        """What the model answers when nothing is broken: decode alone, before or after the fault."""
        return self.pull(prompt, None, output_tokens).wait().tokens

    def compute(self, prompt: Sequence[int], **params: Any) -> bytes:
        """Have prefill compute a prompt, with what it is told of the transfer besides; its answer."""
        body = steps.prefill_body(self.body(prompt, 1))
        body["kv_transfer_params"] |= params
        try:
            return post_json(f"{self.prefill.base_url}/v1/completions", body, PATIENCE_S)
        except OSError as error:  # the scene cannot be set
            raise NotInjected(f"{self.prefill.base_url} did not answer: {error}") from error

    def prefilled(self, prompt: Sequence[int]) -> dict[str, Any]:
        """Have prefill compute a prompt and keep its blocks; the transfer parameters it gives."""
        params = steps.transfer_params(self.compute(prompt))
        if params is None:
            raise NotInjected("prefill kept no blocks")
        return params

    def send(self, base_url: str, body: Mapping[str, Any], request_id: str = "") -> Answer:
        """Send a request and receive its answer in the background."""
        answer = Answer(sent_s=time.monotonic())
        threading.Thread(target=_receive, args=(base_url, body, request_id, answer), daemon=True).start()
        return answer

    def pull(self, prompt: Sequence[int], params: Mapping[str, Any] | None, output_tokens: int) -> Answer:
        """Ask decode for an answer whose prompt it has to fetch; without parameters it is told of no blocks."""
        return self.send(self.decode.base_url, steps.decode_body(self.body(prompt, output_tokens), params))

    @staticmethod
    def hang_up(answer: Answer) -> None:
        """The client goes away in the middle: its connection is cut."""
        answer.error = answer.error or "the client went away"
        if answer.socket is not None:
            with contextlib.suppress(OSError):
                answer.socket.shutdown(socket.SHUT_RDWR)


def _receive(base_url: str, body: Mapping[str, Any], request_id: str, answer: Answer) -> None:
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=300)
    headers = {"Content-Type": "application/json"} | ({steps.REQUEST_ID: request_id} if request_id else {})
    try:
        connection.connect()
        answer.socket = connection.sock
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        answer.http_status = response.status
        if response.status != 200:
            answer.error = answer.error or steps.error_message(response.read())
            return
        for line in response:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                answer.finished = not answer.error
                break
            if message := steps.frame_error(line):
                answer.error = message
                continue
            frame = json.loads(data)
            answer.request_id = frame.get("id", answer.request_id)
            for choice in frame.get("choices", ()):
                if choice.get("token_ids"):
                    answer.first_token_s = answer.first_token_s or time.monotonic()
                    answer.tokens += choice["token_ids"]
        if not answer.finished and not answer.error:
            answer.error = "the stream ended without its end"
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer.error = answer.error or f"{type(error).__name__}: {error}"
    finally:
        connection.close()
        answer.ended_s = time.monotonic()
        answer.ended.set()

