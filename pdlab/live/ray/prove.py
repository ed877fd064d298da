"""Both designs of one plan on Ray Serve LLM, in turn, and what shows that KV really moved.

The plan is the miniature's, on the model ``tiny`` in float32, where greedy answers can be equal.
Held against each other: the answers of the two designs; decode's own count of prompt tokens that
came from outside; NIXL's telemetry of each transfer, written down in the replica that asked for it
(``pdlab.live.nixl_ledger``), and the formula's bytes for whole blocks, request by request.  Ray's
metrics page serves as a second count of the transfers, not of their bytes: Ray makes a histogram's
sum of the buckets' middles.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from pdlab.documents import write_whole
from pdlab.live import env as live_env
from pdlab.live import metrics, models, provenance
from pdlab.live.microscope import tokens
from pdlab.live.post import TIMEOUT_S, post_json
from pdlab.live.ray import deploy, env, render
from pdlab.measure import plan as plans
from pdlab.measure import records
from pdlab.theory import kv

PLAN = live_env.ROOT / "data/plans/miniature-2core.yaml"
LENGTHS = (40, 127, 128, 129, 255, 256, 257, 500, 700, 1000)  # below, at and above whole blocks
REQUESTS, OUTPUT_TOKENS = 20, 16
SOURCE = "vllm_prompt_tokens_by_source"
BYTES = "vllm_nixl_bytes_transferred"
EXPORTED = {f"{BYTES}_count": "nixl transfers", f"{BYTES}_sum": "nixl bytes by bucket middles"}
SETTLE_S, STILL_S = 45.0, 8.0  # Ray exports each process's metrics every few seconds
PROOF = "proof.json"


def plan() -> plans.Plan:
    """The plan with ``tiny`` in float32 and little memory."""
    loaded = plans.load(PLAN)
    small = {"model": "tiny", "dtype": "float32", "kv_cache_bytes": 1 << 27, "max_model_len": 2048,
             "max_num_batched_tokens": [1024], "max_num_seqs": 16}  # fmt: skip
    return loaded.model_copy(update={"live": loaded.live.model_copy(update=small)})


def prompts() -> list[list[int]]:
    """The prompts of both designs: random token ids, no two with a common prefix."""
    return [tokens(LENGTHS[index % len(LENGTHS)], f"ray {index}") for index in range(REQUESTS)]


def ask(url: str, model: str, prompt: list[int], timeout_s: float = TIMEOUT_S) -> str:
    """One greedy completion's text."""
    body = {"model": model, "prompt": prompt, "max_tokens": OUTPUT_TOKENS, "temperature": 0, "ignore_eos": True}
    return json.loads(post_json(f"{url}/v1/completions", body, timeout_s))["choices"][0]["text"]


def client_saw(url: str, model: str, prompt: list[int], timeout_s: float) -> str:
    """What a client is told of one completion: its HTTP status, or why there was none."""
    try:
        ask(url, model, prompt, timeout_s)
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}: {error.read().decode()[:200]}"
    except OSError as error:
        return str(error)
    return "HTTP 200"


def counters(page: metrics.Metrics) -> dict[str, dict[str, float]]:
    """By replica: prompt tokens by source; NIXL's transfers, and what the page makes of their bytes."""
    found: dict[str, dict[str, float]] = {}
    for sample in page.samples:
        name = sample.name.removeprefix("ray_").removesuffix("_total")
        if key := sample.labels.get("source") if name == SOURCE else EXPORTED.get(name):
            replica = found.setdefault(sample.labels.get("ReplicaId", ""), {})
            replica[key] = replica.get(key, 0.0) + sample.value
    return found


def run(out: Path | None = None, kill: bool = False, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Both designs in turn; returns the proof, and writes it with its provenance to ``out``."""
    wanted, model = plan(), models.get("tiny")
    began = time.monotonic()
    proof: dict[str, Any] = {"label": "measured", "requests": REQUESTS, "output_tokens": OUTPUT_TOKENS,
                             "prompt_tokens": [len(prompt) for prompt in prompts()], "designs": {}}  # fmt: skip
    texts: dict[str, list[str]] = {}
    for design in ("aggregated", "disaggregated"):
        application = deploy.Application(wanted, design, model)
        with application as up:
            say(f"{design}: up in {up.up_s:.0f} s")
            texts[design] = [ask(up.url, model.name, prompt) for prompt in prompts()]
            seen = _settled(up)
            entry = {"up_s": round(up.up_s, 1), "replicas": sorted(up.replicas().values()), "counters": seen,
                     "transfers": up.transfers()}  # fmt: skip
            if kill and design == "disaggregated":
                entry["prefill_killed"] = _kill_prefill(up, say)
        entry["processes_left"] = sum(map(psutil.pid_exists, application.pids))
        entry["processes_seen"] = len(application.pids)
        proof["designs"][design] = entry
        say(f"{design}: stopped, {entry['processes_left']} of {entry['processes_seen']} processes left")
    proof |= _held_against(proof, texts, model, wanted)
    proof["seconds"] = round(time.monotonic() - began)
    if out:
        _write(out, proof, model, wanted)
    return proof


def _settled(up: deploy.Application) -> dict[str, dict[str, float]]:
    """The counters once every prompt token is in them and nothing has moved for STILL_S, or when time is up."""
    expected = sum(map(len, prompts())) * (1 if up.design == "aggregated" else 2)
    until = time.monotonic() + SETTLE_S
    last, since = {}, time.monotonic()
    while True:
        found = counters(up.metrics())
        if found != last:
            last, since = found, time.monotonic()
        counted = sum(value for one in found.values() for key, value in one.items() if key not in EXPORTED.values())
        if counted >= expected and time.monotonic() - since > STILL_S or time.monotonic() > until:
            return found
        time.sleep(1.0)


def _held_against(proof: dict[str, Any], texts: dict[str, list[str]], model: models.Model, wanted: plans.Plan) -> dict[str, Any]:
    live = wanted.live_section
    shape = kv.from_config(str(Path(model.path) / "config.json"))
    formula = [kv.block_bytes_total(shape, count, live.block_size, live.dtype) for count in proof["prompt_tokens"]]
    apart = proof["designs"]["disaggregated"]["counters"].values()
    external = sum(one.get("external_kv_transfer", 0) for one in apart)
    moved = [one["bytes"] for one in proof["designs"]["disaggregated"]["transfers"]]
    exported = {key: sum(one.get(key, 0) for one in apart) for key in EXPORTED.values()}
    computed_by_decode = sum(one.get("local_compute", 0) for one in apart if one.get("external_kv_transfer"))
    total = sum(proof["prompt_tokens"])
    equal = sum(one == other for one, other in zip(texts["aggregated"], texts["disaggregated"], strict=True))
    left = sum(one["processes_left"] for one in proof["designs"].values())
    return {
        "texts_equal": equal, "texts_distinct": len(set(texts["aggregated"])),
        "prompt_tokens_total": total, "external_kv_transfer": external,
        "computed_by_decode": computed_by_decode,
        "nixl_bytes": moved, "formula_bytes": formula, "exported_by_ray": exported,
        "holds": (equal == REQUESTS and external == total and computed_by_decode == 0 and left == 0
                  and moved == formula and exported["nixl transfers"] == REQUESTS
                  and not proof["designs"]["aggregated"]["transfers"]),
    }  # fmt: skip


def _kill_prefill(up: deploy.Application, say: Callable[[str], None]) -> dict[str, Any]:
    """``kill -9`` the prefill replica, then ask once a second until answers are right again."""
    victims = [pid for pid, title in up.replicas().items() if "prefill" in title.lower()]
    prompt = tokens(300, "ray after the kill")
    if not victims:
        return {"found": "no replica with prefill in its name"}
    os.kill(victims[0], 9)
    killed, seen = time.monotonic(), []
    while time.monotonic() - killed < 90:
        at_s = round(time.monotonic() - killed, 1)
        answer = client_saw(up.url, up.model.name, [*prompt[:-1], 300 + len(seen)], 60)
        seen.append({"at_s": at_s, "took_s": round(time.monotonic() - killed - at_s, 1), "client_saw": answer})
        if answer == "HTTP 200":
            break
        time.sleep(1)
    fresh = [title for pid, title in up.replicas().items() if "prefill" in title.lower() and pid != victims[0]]
    say(f"after kill -9 of prefill: {len(seen)} requests, the last: {seen[-1]}")
    return {"asked": seen, "new_prefill_replicas": len(fresh)}


def _write(out: Path, proof: dict[str, Any], model: models.Model, wanted: plans.Plan) -> None:
    about = provenance.measured(
        None, "pdlab ray", cache_state="cold", workload=f"{REQUESTS} prompts, one at a time, to each design",
        notes="both designs in turn on one local Ray cluster each; start-up times are of a machine that may have had other work",
        summary={"model": {"name": model.name, "revision": model.revision},
                 "arguments": {design: render.arguments(wanted, design, model.name) for design in render.BUILDER}},
    )  # fmt: skip
    about["versions"] = env.versions()
    records.write_provenance(out, about)
    write_whole(out / PROOF, json.dumps(proof, indent=1) + "\n")
