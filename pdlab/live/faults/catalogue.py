"""The faults, one function each.

A fault gets a scene whose servers are up and idle, breaks one thing at a moment that a server's own
counter or state shows, and returns what the client saw.  What was broken is mended by ``table``:
stopped processes go on, dead servers are started again, and blocks are awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pdlab.documents import read_lines
from pdlab.live.faults.middle import Middle
from pdlab.live.faults.scene import Answer, NotInjected, Scene
from pdlab.live.front import log_of, routed
from pdlab.live.serve import Server

PROMPT, LONG, LONGEST, OUTPUT = 700, 2800, 3900, 24
STREAM = 2000  # so many tokens that there is time to break something in the middle
SHORT_DEADLINES = ("--prefill-deadline", "2", "--first-token-deadline", "2")


@dataclass
class Seen:
    """What one run of a fault showed.  ``injected`` is the proof that it happened."""

    injected: str
    answer: Answer
    prompt: list[int]
    asked: int = OUTPUT  # tokens of the healthy answer to compare with; 0: nothing to compare
    attempts: int = 1
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """``pair`` names the servers it needs (see ``table.pair``); ``expects`` is said before it runs.

    ``kills`` a server, which takes long to start again.
    """

    name: str
    pair: str
    says: str
    expects: str
    run: Callable[[Scene], Seen]
    kills: bool = False


CATALOGUE: dict[str, Fault] = {}


Run = Callable[[Scene], Seen]


def fault(name: str, pair: str, says: str, expects: str, kills: bool = False) -> Callable[[Run], Run]:
    """Enter a function into the catalogue."""

    def enter(run: Run) -> Run:
        CATALOGUE[name] = Fault(name, pair, says, expects, run, kills)
        return run

    return enter


def _through_router(scene: Scene, options: tuple[str, ...], prompt: list[int]) -> tuple[Answer, dict[str, Any]]:
    """One request through a router of its own; the answer and the router's record of it."""
    log = log_of(scene.deployment)
    name = f"fault-{len(read_lines(log)) if log.exists() else 0}"
    with routed(scene.deployment, *options) as url:
        answer = scene.send(url, scene.body(prompt, OUTPUT), name).wait()
    return answer, _record(scene, name)


def _record(scene: Scene, request_id: str) -> dict[str, Any]:
    """The router's one line about a request."""
    mine = [line for line in read_lines(log_of(scene.deployment)) if line["request_id"] == request_id]
    if len(mine) != 1:
        raise RuntimeError(f"{len(mine)} lines in the router's log for one request")
    return mine[0]


def _kept(answer: Answer, record: dict[str, Any]) -> dict[str, Any]:
    """Whether the answer that came in the end still carries the client's own request id."""
    return {"request_id_kept": record["request_id"] in answer.request_id, "route": record["reason"]}


# ── prefill dies ────────────────────────────────────────────────────────────────────────────


@fault("prefill-killed-before, fail", "nixl", "prefill is dead when the request comes; the router fails at once",
       "an HTTP error, no token", kills=True)
def killed_before_fail(scene: Scene) -> Seen:
    return _killed_before(scene, "fail")


@fault("prefill-killed-before, retry", "nixl", "the same; the router retries once",
       "the right answer, computed by decode", kills=True)
def killed_before_retry(scene: Scene) -> Seen:
    return _killed_before(scene, "retry")


def _killed_before(scene: Scene, mode: str) -> Seen:
    prompt = scene.prompt(PROMPT)
    scene.kill(scene.prefill)
    answer, record = _through_router(scene, ("--on-failure", mode, *SHORT_DEADLINES), prompt)
    facts = _kept(answer, record) if mode == "retry" else {}
    return Seen(f"prefill alive: {scene.deployment.alive(scene.prefill)}", answer, prompt, attempts=record["attempts"], facts=facts)


@fault("prefill-killed-after, fail", "nixl", "prefill dies between its answer and the pull; decode's policy is fail",
       "an error after HTTP 200, no token", kills=True)
def killed_after_fail(scene: Scene) -> Seen:
    return _killed_after(scene)


@fault("prefill-killed-after, recompute", "nixl-recompute", "the same; decode's policy is recompute",
       "the right answer, computed by decode", kills=True)
def killed_after_recompute(scene: Scene) -> Seen:
    return _killed_after(scene)


def _killed_after(scene: Scene) -> Seen:
    _handshake(scene)  # the pair knows each other, as in a fleet that has been up for a while
    prompt = scene.prompt(PROMPT)
    params = scene.prefilled(prompt)
    failed = _failed(scene)
    scene.kill(scene.prefill)
    answer = scene.pull(prompt, params, OUTPUT).wait()
    _until_failed(scene, failed)
    return Seen("blocks were kept, then prefill was gone", answer, prompt)


@fault("prefill-killed-during", "tcp", "prefill dies in the middle of a slow transfer (TCP connector)",
       "an error, no token; decode computes nothing from half a cache", kills=True)
def killed_during(scene: Scene) -> Seen:
    prompt = scene.prompt(LONG)
    params = scene.prefilled(prompt)
    with Middle(params["remote_port"], bytes_per_s=1_000_000) as middle:
        answer = scene.pull(prompt, params | {"remote_port": middle.port}, OUTPUT)
        scene.until(lambda: middle.passed > 1_000_000, "a megabyte of the transfer")
        scene.kill(scene.prefill)
        answer.wait()
    return Seen(f"{middle.passed:,} bytes had passed", answer, prompt)


# ── prefill freezes ─────────────────────────────────────────────────────────────────────────


@fault("prefill-frozen, no deadline", "nixl", "prefill is stopped before the pull and goes on after 3 s; nobody has a deadline",
       "decode waits as long as prefill sleeps, then the right answer")
def frozen(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    answer = _deferred(scene, prompt)
    if answer.ended.wait(3.0) or answer.tokens:
        raise NotInjected("the answer came although prefill was stopped")
    scene.thaw(scene.prefill)
    answer.wait()
    return Seen("decode deferred the request", answer, prompt, facts={"first_token_s": round(answer.waited_s, 1)})


@fault("prefill-frozen, fail", "nixl", "prefill is stopped; the router has a deadline of 2 s and fails", "HTTP 504 after 2 s")
def frozen_fail(scene: Scene) -> Seen:
    return _frozen_router(scene, "fail")


@fault("prefill-frozen, retry", "nixl", "the same; the router retries once", "the right answer after 2 s, computed by decode")
def frozen_retry(scene: Scene) -> Seen:
    return _frozen_router(scene, "retry")


def _frozen_router(scene: Scene, mode: str) -> Seen:
    prompt = scene.prompt(PROMPT)
    scene.freeze(scene.prefill)
    answer, record = _through_router(scene, ("--on-failure", mode, *SHORT_DEADLINES), prompt)
    scene.thaw(scene.prefill)  # it was stopped from before the request until after its answer
    says = record["reason"] if mode == "retry" else record["error"]
    if answer.waited_s < 1.9 or not says.startswith(("retry after prefill deadline", "prefill: no answer")):
        raise NotInjected(f"the deadline did not pass: after {answer.waited_s:.1f} s the router says {says}")
    facts = {"first_answer_s": round(answer.waited_s, 1), "router_says": says, "prefill_was_stopped": True}
    facts |= _kept(answer, record) if mode == "retry" else {}
    return Seen("no answer within the deadline", answer, prompt, attempts=record["attempts"], facts=facts)


# ── wrong or old parameters ─────────────────────────────────────────────────────────────────


@fault("wrong engine id", "nixl", "the parameters name an engine that prefill is not", "an error, no token")
def wrong_engine(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    params, failed = scene.prefilled(prompt), _failed(scene)
    answer = scene.pull(prompt, params | {"remote_engine_id": "somebody-else"}, OUTPUT).wait()
    _until_failed(scene, failed)
    return Seen("engine id somebody-else", answer, prompt)


@fault("wrong port", "nixl", "the parameters name a port where nobody listens", "an error after the handshake's 5 s, no token")
def wrong_port(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    params, failed = scene.prefilled(prompt), _failed(scene)
    answer = scene.pull(prompt, params | {"remote_port": 1, "remote_engine_id": "nobody-home"}, OUTPUT).wait()
    _until_failed(scene, failed)
    return Seen("port 1", answer, prompt, facts={"error_after_s": round(answer.ended_s - answer.sent_s, 1)})


@fault("stale parameters", "nixl", "one prompt's parameters are sent with another prompt of the same length",
       "HTTP 200 and wrong tokens, with no error anywhere")
def stale(scene: Scene) -> Seen:
    first, second = scene.prompt(PROMPT), scene.prompt(PROMPT)
    fetched = scene.external_tokens()
    answer = scene.pull(second, scene.prefilled(first), OUTPUT).wait()
    return Seen(f"{_new(scene, fetched)} tokens of another prompt were fetched", answer, second)


@fault("lease over before the pull", "nixl", "decode comes after the lease has ended, before the blocks are used again",
       "the right answer by luck; prefill counts a late notification")
def lease_over(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    before = scene.counters(scene.prefill)["expired"]
    params = scene.prefilled(prompt)
    scene.until(lambda: scene.counters(scene.prefill)["expired"] > before, "an expired lease", scene.lease_s + 30)
    answer = scene.pull(prompt, params, OUTPUT).wait()
    scene.send(scene.prefill.base_url, scene.body(scene.prompt(20), 1)).wait()  # an idle prefill reads no notifications
    return Seen("the lease counter went up", answer, prompt)


@fault("stranded prefills", "nixl", "prompts are prefilled and never pulled until the cache is full",
       "the next prefill waits for room until leases end")
def stranded(scene: Scene) -> Seen:
    while scene.used_share(scene.prefill) < 0.75:
        scene.prefilled(scene.prompt(1000))
    full = scene.used_share(scene.prefill)
    prompt = scene.prompt(LONG)
    answer = scene.send(scene.prefill.base_url, scene.body(prompt, 1))
    scene.until(lambda: scene.waiting(scene.prefill, "capacity") >= 1, "a prefill that waits for blocks", 10)
    answer.wait()
    waited_s = answer.ended_s - answer.sent_s
    return Seen(f"{full:.0%} of the blocks stranded", answer, prompt, 1, facts={"waited_s": round(waited_s, 1)})


# ── decode dies, the client leaves ──────────────────────────────────────────────────────────


@fault("decode killed before the first token", "nixl", "decode dies while it waits for the transfer",
       "the connection breaks, no token; over UCX's TCP, prefill may die of it as well", kills=True)
def decode_killed_early(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    answer = _deferred(scene, prompt)
    scene.kill(scene.decode)
    scene.thaw(scene.prefill)
    answer.wait()
    return Seen("decode had deferred the request", answer, prompt)


@fault("decode killed in mid-stream", "nixl", "decode dies after five tokens; the router retries, but not after a token",
       "the tokens that came, each once, then an error; one attempt", kills=True)
def decode_killed_late(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    name = f"mid-stream-{prompt[:3]}"
    with routed(scene.deployment, "--on-failure", "retry") as url:
        answer = scene.send(url, scene.body(prompt, STREAM), name)
        scene.until(lambda: len(answer.tokens) >= 5, "five tokens")
        scene.kill(scene.decode)
        answer.wait()
    if answer.finished:
        raise NotInjected("the answer was complete before decode died")
    return Seen(f"{len(answer.tokens)} tokens had gone out", answer, prompt, len(answer.tokens) + 1, _record(scene, name)["attempts"])


@fault("client gone in prefill", "nixl", "the client hangs up while prefill computes", "nothing is left, on either side")
def gone_in_prefill(scene: Scene) -> Seen:
    prompt = scene.prompt(LONGEST)
    finished = scene.counters(scene.prefill)["finished"]
    with routed(scene.deployment) as url:
        scene.freeze(scene.prefill)  # so that it cannot be done too soon
        answer = scene.send(url, scene.body(prompt, OUTPUT))
        scene.until(lambda: answer.socket is not None, "the request on its way")
        scene.thaw(scene.prefill)
        scene.until(lambda: scene.number(scene.prefill, "vllm:num_requests_running") >= 1, "a running prefill", 5)
        scene.hang_up(answer)
        answer.wait()
        _dropped(scene, scene.prefill, finished)
    return Seen("prefill was computing, and finished nothing", answer, prompt, 0)


@fault("client gone in transfer", "nixl", "the client hangs up while decode waits for the blocks", "nothing is left once the lease is over")
def gone_in_transfer(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    answer = _deferred(scene, prompt)
    scene.hang_up(answer)
    answer.wait()
    scene.thaw(scene.prefill)
    return Seen("decode had deferred the request", answer, prompt, 0)


@fault("client gone in decode", "nixl", "the client hangs up after five tokens", "decode stops and frees its blocks at once")
def gone_in_decode(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    finished = scene.counters(scene.decode)["finished"]
    answer = scene.pull(prompt, scene.prefilled(prompt), STREAM)
    scene.until(lambda: len(answer.tokens) >= 5, "five tokens")
    scene.hang_up(answer)
    answer.wait()
    _dropped(scene, scene.decode, finished)
    return Seen(f"{len(answer.tokens)} tokens had come, and decode finished nothing", answer, prompt, len(answer.tokens) + 1)


# ── bytes that change, links that crawl ─────────────────────────────────────────────────────


@fault("corrupted payload, checksum", "tcp", "bytes change on the way; the TCP connector checks", "an error, no token")
def corrupted_checked(scene: Scene) -> Seen:
    return _corrupted(scene)


@fault("corrupted payload, no checksum", "tcp-unchecked", "bytes change on the way; nobody checks",
       "HTTP 200 and wrong tokens, with no error anywhere")
def corrupted_unchecked(scene: Scene) -> Seen:
    return _corrupted(scene)


def _corrupted(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    params = scene.prefilled(prompt)
    with Middle(params["remote_port"], corrupt=True) as middle:
        answer = scene.pull(prompt, params | {"remote_port": middle.port}, OUTPUT).wait()
    if not middle.corrupted:
        raise NotInjected("no byte was changed")
    return Seen(f"{middle.corrupted:,} bytes were changed", answer, prompt)


@fault("slow link", "tcp", "the link carries 2 MB/s", "the right answer, late: the wait is in TTFT")
def slow_link(scene: Scene) -> Seen:
    prompt = scene.prompt(PROMPT)
    params = scene.prefilled(prompt)
    with Middle(params["remote_port"], bytes_per_s=2_000_000) as middle:
        answer = scene.pull(prompt, params | {"remote_port": middle.port}, OUTPUT).wait()
    if middle.passed < 100_000 or answer.waited_s < 0.9 * middle.passed / 2_000_000:
        raise NotInjected(f"{middle.passed:,} bytes in {answer.waited_s:.2f} s: that link was not slow")
    return Seen(f"{middle.passed:,} bytes at 2 MB/s", answer, prompt, facts={"first_token_s": round(answer.waited_s, 2)})


def _deferred(scene: Scene, prompt: list[int]) -> Answer:
    """An answer in the middle of its transfer: prefill is done and stopped, and decode waits for the blocks."""
    params = scene.prefilled(prompt)
    scene.freeze(scene.prefill)
    answer = scene.pull(prompt, params, OUTPUT)
    scene.until(lambda: scene.waiting(scene.decode, "deferred") >= 1, "a request deferred for its KV")
    return answer


def _failed(scene: Scene) -> float:
    """Transfers that decode has counted as failed so far."""
    return scene.counters(scene.decode)["failed_transfers"]


def _until_failed(scene: Scene, before: float) -> None:
    """Wait until decode has counted one more: the proof that it tried, and could not."""
    scene.until(lambda: _failed(scene) > before, "a failed transfer in decode's counter", 10)


def _handshake(scene: Scene) -> None:
    """One healthy request, so that the fault does not fall into the pair's first meeting."""
    prompt = scene.prompt(40)
    answer = scene.pull(prompt, scene.prefilled(prompt), 2).wait()
    if not answer.finished:
        raise NotInjected(f"the pair is not healthy: {answer.saw()}")


# ── pools that do not belong together ───────────────────────────────────────────────────────


@fault("dtype mismatch", "nixl-dtype", "prefill computes in bfloat16, decode in float32 (our launcher was told to look away)",
       "the handshake refuses: an error, no token")
def dtype_mismatch(scene: Scene) -> Seen:
    failed = _failed(scene)
    seen = _mismatch(scene, "prefill --dtype bfloat16, decode float32")
    _until_failed(scene, failed)
    return seen


@fault("weights mismatch", "nixl-weights", "prefill holds other weights under the same name (our launcher was told to look away)",
       "the handshake passes: HTTP 200 and wrong tokens, with no error anywhere")
def weights_mismatch(scene: Scene) -> Seen:
    if "dummy" not in scene.arguments(scene.prefill) or "dummy" in scene.arguments(scene.decode):
        raise NotInjected("both servers hold the same weights")
    fetched = scene.external_tokens()
    seen = _mismatch(scene, "")
    return replace(seen, injected=f"{_new(scene, fetched)} tokens of a model with random weights were fetched")


def _mismatch(scene: Scene, what: str) -> Seen:
    prompt = scene.prompt(PROMPT)
    answer = scene.pull(prompt, scene.prefilled(prompt), OUTPUT).wait()
    return Seen(what, answer, prompt)


def _dropped(scene: Scene, server: Server, finished: float) -> None:
    """Wait until a server runs nothing more, without having finished the request."""
    scene.until(lambda: scene.number(server, "vllm:num_requests_running") == 0, "a request that is dropped", 10)
    if scene.counters(server)["finished"] > finished:
        raise NotInjected("the request was finished before its client left")


def _new(scene: Scene, before: int) -> int:
    """Tokens fetched since.  Without any, wrong blocks cannot have come."""
    if (new := scene.external_tokens() - before) <= 0:
        raise NotInjected("decode fetched nothing")
    return new
