"""Record interference: one long prompt arrives while four streams decode steadily.

Aggregated at several chunk sizes on all cores, then prefill and decode on half of the cores each:
the same budget, the same prompts, the same client, the same router in front.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

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
    """What happens in every configuration.  Tokens and seconds.

    ``lead_s`` after the streams began the prompt is sent.  How many tokens the streams produce,
    and when the next episode begins, depends on the machine: see ``pace``.
    """

    prompts: tuple[int, ...] = (1024, 3000)
    repeats: int = 3
    streams: int = 4
    lead_s: float = 1.5
    seed: int = 20


@dataclass(frozen=True)
class Pace:
    """How long an episode has to be on this machine: the streams must outlast the prompt."""

    stream_tokens: int
    episode_s: float


def pace(gap_s: float, prefill_s: float, lead_s: float, stretch: float = 1.0) -> Pace:
    """From a stream's quiet gap and the longest prompt's prefill time, both as just measured.

    Beside the streams the prefill takes longer than alone, and under load the streams do too.
    """
    steady_s = lead_s + 1.6 * stretch * prefill_s + 1.0
    return Pace(round(steady_s / gap_s), 2.0 * stretch * steady_s + prefill_s + 1.0)


def tokens(count: int, seed: str) -> list[int]:
    """Random token ids: no prompt shares a prefix with another, so no cache helps."""
    return random.Random(seed).choices(TOKEN_IDS, k=count)


def offers(model: str, scene: Scene, pace: Pace, attempt: int = 0) -> list[Offer]:
    """A warm-up request, then the episodes, on one absolute schedule; other prompts in each attempt."""
    planned: list[Offer] = []

    def offer(at_s: float, name: str, prompt: int, output: int, warmup: bool = False) -> None:
        ids = tokens(prompt, f"{scene.seed} {attempt} {name}")
        planned.append(Offer(
            len(planned), at_s * 1000, completion(model, ids, output), name, warmup, prompt, output
        ))  # fmt: skip

    offer(0.0, "warm", STEADY_PROMPT, 8, warmup=True)
    start_s = 2.0
    for prompt in scene.prompts:
        for repeat in range(scene.repeats):
            for stream in range(scene.streams):
                name = episodes.request_id(prompt, repeat, f"steady{stream}")
                offer(start_s, name, STEADY_PROMPT, pace.stream_tokens)
            name = episodes.request_id(prompt, repeat, "prompt")
            offer(start_s + scene.lead_s, name, prompt, 1)
            start_s += pace.episode_s
    return planned


def calibrate(url: str, model: str, scene: Scene) -> tuple[float, float]:
    """(quiet gap of one of the streams, prefill of the longest prompt), in seconds, as they are now."""
    def offer(seq: int, at_s: float, prompt: int, output: int) -> Offer:
        return Offer(seq, at_s * 1000, completion(model, tokens(prompt, f"pace {seq}"), output))

    longest = max(scene.prompts)
    with tempfile.TemporaryDirectory() as scratch:
        document = records.provenance(label="measured", source="calibration")
        first = run_load(url, [offer(0, 0, longest, 1), offer(1, 0, 32, 1)], f"{scratch}/warm", document)
        assert first.table.num_rows == 2
        streams = [offer(seq, 0, STEADY_PROMPT, 32) for seq in range(10, 10 + scene.streams)]
        steady = run_load(url, streams, f"{scratch}/steady", document)
        alone = run_load(url, [offer(20, 0, longest, 1)], f"{scratch}/alone", document)
    gaps = [gap for row in records.rows(steady.table) for gap in np.diff(row["frame_ns"])]
    (prompt,) = records.rows(alone.table)
    return float(np.mean(gaps)) / 1e9, (prompt["frame_ns"][0] - prompt["sent_ns"]) / 1e9


def configurations(model: str, chunks: Sequence[int]) -> dict[str, Spec]:
    """Name → what to run: each chunk size aggregated, then prefill and decode apart."""
    base = Spec(model, max_model_len=4096, kv_cache_bytes=1 << 29)
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
    """Run every configuration and write one run directory each, and ``sweep.json``, into ``out``.

    A configuration that is there already is kept as it is.
    """
    configured = configurations(model, chunks)
    for name, spec in configured.items():
        if (out / name / records.PARQUET).exists():
            continue
        with Deployment(spec) as deployment, routed(deployment) as url:
            print(f"{name}: {deployment.describe_budget()}", flush=True)
            _observe(deployment, f"{url}/v1/completions", out / name, scene)
    runs = [records.read_run(out / name) for name in configured]
    records.write_sweep(out, "interference microscope", [
        records.SweepEntry(one.name, *(one.provenance[key] for key in ("design", "cache_state", "offered_rate_rps")), out / one.name)
        for one in runs
    ])  # fmt: skip
    return runs


def _observe(deployment: Deployment, url: str, out: Path, scene: Scene) -> None:
    """One configuration's run; with longer episodes where the first try was too short."""
    gap_s, prefill_s = calibrate(url, deployment.model_name, scene)
    for attempt, stretch in enumerate((1.0, 1.7, 3.0)):  # new prompts each time: the last are cached
        paced = pace(gap_s, prefill_s, scene.lead_s, stretch)
        document = provenance.measured(
            deployment, "pdlab record interference", seed=scene.seed, cache_state="cold",
            design=deployment.spec.design, offered_rate_rps=(scene.streams + 1) / paced.episode_s,
            workload=f"{scene.streams} streams of {paced.stream_tokens} tokens; prompts of "
            f"{' and '.join(map(str, scene.prompts))} tokens, {scene.repeats} of each",
            notes=f"each prompt arrives {scene.lead_s} s after its streams",
        )  # fmt: skip
        shutil.rmtree(out, ignore_errors=True)
        run = run_load(
            url, offers(deployment.model_name, scene, paced, attempt), out, document,
            Options(connections=scene.streams + 2),
        )  # fmt: skip
        if not (problem := _overlap(run, scene, paced)):
            return
        print(f"{out.name}: {problem}; once more, with longer episodes", flush=True)
    raise BadInput(problem, "episodes that stay apart", out.name, "Let the machine be quieter.")


def _overlap(run: records.Run, scene: Scene, paced: Pace) -> str:
    """Why an episode shows nothing: it ran into the next, or its streams ended before the prompt's answer."""
    for episode in episodes.episodes(run):
        last_ms = float(episode.gap_end_ms.max())
        if last_ms > (paced.episode_s - scene.lead_s) * 1000:
            return f"streams ran {last_ms / 1000:.1f} s after their prompt, into the next episode"
        if last_ms < episode.first_token_ms:
            return f"streams ended before the {episode.prompt_tokens}-token prompt was answered"
    return ""
