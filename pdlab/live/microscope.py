"""Record interference: one long prompt arrives while four streams decode steadily.

Aggregated at several chunk sizes on all cores, then prefill and decode on half of the cores each:
the same budget, the same prompts, the same client, the same router in front.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live import provenance
from pdlab.live.client import Offer, Options, completion, run_load
from pdlab.live.front import routed
from pdlab.live.serve import Deployment, Spec
from pdlab.measure import episodes, records

TOKEN_IDS = range(300, 4000)  # ordinary tokens in every vocabulary used here
STEADY_PROMPT = 32


@dataclass(frozen=True)
class Scene:
    """What happens in every configuration.  Tokens, seconds.

    The prompt is sent ``lead_s`` after the streams, which must outlast its prefill; ``episode_s``
    after its start the next episode begins.
    """

    prompts: tuple[int, ...] = (1024, 3000)
    repeats: int = 3
    streams: int = 4
    stream_tokens: int = 450
    lead_s: float = 1.5
    episode_s: float = 16.0
    seed: int = 20


def tokens(count: int, seed: str) -> list[int]:
    """Random token ids: no prompt shares a prefix with another, so no cache helps."""
    return random.Random(seed).choices(TOKEN_IDS, k=count)


def offers(model: str, scene: Scene) -> list[Offer]:
    """Warm-up requests of both kinds, then the episodes, on one absolute schedule."""
    planned: list[Offer] = []

    def offer(at_s: float, name: str, prompt: int, output: int, warmup: bool = False) -> None:
        ids = tokens(prompt, f"{scene.seed} {name}")
        planned.append(Offer(
            len(planned), at_s * 1000, completion(model, ids, output), name, warmup, prompt, output
        ))  # fmt: skip

    for index in range(2):
        offer(4.0 * index, f"warm{index}", max(scene.prompts), 8, warmup=True)
    start_s = 2 * 4.0 + 4.0
    for prompt in scene.prompts:
        for repeat in range(scene.repeats):
            for stream in range(scene.streams):
                name = episodes.request_id(prompt, repeat, f"steady{stream}")
                offer(start_s, name, STEADY_PROMPT, scene.stream_tokens)
            name = episodes.request_id(prompt, repeat, "prompt")
            offer(start_s + scene.lead_s, name, prompt, 1)
            start_s += scene.episode_s
    return planned


def configurations(model: str, chunks: Sequence[int], units: int | None = None) -> dict[str, Spec]:
    """Name → what to run: each chunk size aggregated, then prefill and decode apart."""
    base = Spec(model, units=units, max_model_len=4096, kv_cache_bytes=1 << 29)
    found = {
        f"chunk-{chunk}": replace(base, max_num_batched_tokens=chunk) for chunk in chunks
    }  # fmt: skip
    found["disaggregated"] = replace(
        base, design="disaggregated", max_num_batched_tokens=max(chunks)
    )
    return found


def record(
    out: Path, model: str = "smollm2", chunks: Sequence[int] = (128, 512, 4096), scene: Scene = Scene()
) -> list[records.Run]:
    """Run every configuration and write one run directory each, and ``sweep.json``, into ``out``."""
    runs, entries = [], []
    for name, spec in configurations(model, chunks).items():
        with Deployment(spec) as deployment, routed(deployment) as url:
            print(f"{name}: {deployment.describe_budget()}", flush=True)
            document = provenance.measured(
                deployment, "pdlab record interference",
                seed=scene.seed, cache_state="cold", design=spec.design,
                workload=f"{scene.streams} steady streams, one prompt of {scene.prompts} tokens",
                notes=f"{name}; one prompt arrives {scene.lead_s} s after the streams",
            )  # fmt: skip
            run = run_load(
                f"{url}/v1/completions", offers(deployment.model_name, scene), out / name, document,
                Options(connections=scene.streams + 2),
            )  # fmt: skip
        _check_apart(run, scene)
        runs.append(run)
        entries.append({"name": name, "design": spec.design, "cache_state": "cold",
                        "offered_rate_rps": scene.streams / scene.episode_s, "dir": name})  # fmt: skip
    records.write_sweep(out, "interference microscope", entries)
    return runs


def _check_apart(run: records.Run, scene: Scene) -> None:
    """An episode that ran into the next one, or whose streams ended before the prompt's answer, shows nothing."""
    for episode in episodes.episodes(run):
        last_ms = float(episode.gap_end_ms.max())
        if last_ms > (scene.episode_s - scene.lead_s) * 1000:
            raise BadInput(
                f"streams that ran {last_ms / 1000:.1f} s after their prompt", "an end before the next episode",
                run.name, "Give the episodes more time, or the streams fewer tokens.",
            )  # fmt: skip
        if last_ms < episode.first_token_ms:
            raise BadInput(
                f"streams that ended before the {episode.prompt_tokens}-token prompt was answered",
                "streams that outlast it", run.name, "Give the streams more tokens.",
            )  # fmt: skip
