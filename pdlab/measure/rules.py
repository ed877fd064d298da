"""The same run by other tools' rules: what each would print, and whom it would call good.

Read from vLLM bench 0.33, guidellm 0.8.1, aiperf 0.13, inference-perf (commit 010d12f, November 2026),
DistServe's evaluation scripts and the MLPerf Inference rules.  Only the definitions are modelled here,
not how a tool's client keeps time.  The course's own rule stands in ``pdlab.measure.slo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pdlab.measure.records import Run, rows

MS = 1e6


@dataclass(frozen=True, slots=True)
class Answer:
    """One offered request as a tool's rule sees it; times in ms of the run's clock."""

    status: str
    http_ok: bool  # headers said 200, whatever the stream said after them
    scheduled_ms: float | None
    sent_ms: float | None
    first_ms: float | None
    last_ms: float | None
    gaps_ms: tuple[float, ...]
    tokens: int | None
    first_frame_tokens: int

    @property
    def ttft_ms(self) -> float:
        """From send to the first frame."""
        return self.first_ms - self.sent_ms

    @property
    def e2e_ms(self) -> float:
        """From send to the last token."""
        return self.last_ms - self.sent_ms

    @property
    def decode_ms(self) -> float:
        """From the first token to the last."""
        return self.last_ms - self.first_ms


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a tool says about a run.  Shares are of ``denominator``; a null share is one it does not print."""

    tool: str
    succeeded: int
    good: int
    denominator: int
    attainment: float | None
    goodput_rps: float | None
    ttft_mean_ms: float | None
    tpot_name: str
    tpot_mean_ms: float | None
    rule: str


def answers(run: Run) -> list[Answer]:
    """The run's requests after warm-up."""
    return [_answer(row) for row in rows(run.table) if not row["warmup"]]


def _answer(row: dict) -> Answer:
    frames = row["frame_ns"] or []
    first = frames[0] if frames else row["first_token_ns"]
    last = frames[-1] if frames else row["last_token_ns"]
    counts = row["frame_tokens"] or []
    tokens = row["output_tokens"] if row["output_tokens"] is not None else sum(counts) or None
    ms = lambda ns: None if ns is None else ns / MS  # noqa: E731 - null stays null
    return Answer(
        row["status"], row["status"] == "ok" or row["http_status"] == 200, ms(row["scheduled_ns"]),
        ms(row["sent_ns"]), ms(first), ms(last),
        tuple((b - a) / MS for a, b in zip(frames, frames[1:], strict=False)), tokens, counts[0] if counts else 1,
    )  # fmt: skip


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return float(np.mean(values)) if values else None


def vllm_bench(run: Run, ttft_max_ms: float, tpot_max_ms: float, duration_s: float) -> Verdict:
    """vLLM bench: an answer that began is a success; one token has TPOT 0 and passes."""
    done = [a for a in answers(run) if a.http_ok and a.first_ms is not None]
    tpot = [a.decode_ms / (a.tokens - 1) if a.tokens and a.tokens > 1 else 0.0 for a in done]
    good = sum(a.ttft_ms <= ttft_max_ms and t <= tpot_max_ms for a, t in zip(done, tpot, strict=True))
    return Verdict(
        "vLLM bench", len(done), good, len(done), None, good / duration_s, _mean(a.ttft_ms for a in done), "TPOT",
        _mean(t for a, t in zip(done, tpot, strict=True) if a.tokens and a.tokens > 1),
        "error frames inside HTTP 200 are successes; one token has TPOT 0; only a rate is printed, no share",
    )  # fmt: skip


def guidellm(run: Run, ttft_max_ms: float, tpot_max_ms: float, duration_s: float) -> Verdict:
    """guidellm: one-token answers are undetermined, errors count; its TPOT holds the first token's wait."""
    offered = answers(run)
    done = [a for a in offered if a.status == "ok"]
    judged = [a for a in done if a.tokens and a.tokens > 1]
    good = sum(a.ttft_ms <= ttft_max_ms and a.decode_ms / (a.tokens - 1) <= tpot_max_ms for a in judged)
    denominator = len(judged) + sum(a.status != "ok" for a in offered)
    weights = [a.tokens for a in done]
    tpot = [a.e2e_ms / a.tokens for a in done]
    return Verdict(
        "guidellm", len(done), good, denominator, good / denominator if denominator else None, good / duration_s,
        _mean(a.ttft_ms for a in done), "time per output token",
        float(np.average(tpot, weights=weights)) if done else None,
        "(last - start) / n, weighted by tokens, holds TTFT; one-token answers leave the share, errors stay in it",
    )  # fmt: skip


def aiperf(run: Run, ttft_max_ms: float, tpot_max_ms: float, duration_s: float) -> Verdict:
    """aiperf: an error frame leaves a success without length; without ITL nobody is good."""
    offered = answers(run)
    done = [a for a in offered if a.http_ok and a.first_ms is not None]
    # the final usage never comes after an error frame, so such an answer has no length and no ITL
    sized = [a for a in done if a.status == "ok" and a.tokens and a.tokens > a.first_frame_tokens]
    itl = [a.decode_ms / (a.tokens - a.first_frame_tokens) for a in sized]
    good = sum(a.ttft_ms <= ttft_max_ms and i <= tpot_max_ms for a, i in zip(sized, itl, strict=True))
    return Verdict(
        "aiperf", len(done), good, len(offered), good / len(offered) if offered else None, good / duration_s,
        _mean(a.ttft_ms for a in done), "inter token latency", _mean(itl),
        "divides by the tokens after the first chunk; no ITL, not good; share of valid and errors",
    )  # fmt: skip


def inference_perf(run: Run, ttft_max_ms: float, tpot_max_ms: float, duration_s: float) -> Verdict:
    """inference-perf: the share is of successful requests; one token has neither TTFT nor TPOT, and is not good."""
    done = [a for a in answers(run) if a.status == "ok"]
    sized = [a for a in done if a.tokens and a.tokens > 1]
    tpot = [a.decode_ms / (a.tokens - 1) for a in sized]
    good = sum(a.ttft_ms <= ttft_max_ms and t <= tpot_max_ms for a, t in zip(sized, tpot, strict=True))
    return Verdict(
        "inference-perf", len(done), good, len(done), good / len(done) if done else None, good / duration_s,
        _mean(a.ttft_ms for a in sized), "TPOT", _mean(tpot),
        "failed requests are in no denominator; one token has no latency at all and is not good",
    )  # fmt: skip


def distserve(run: Run, ttft_max_ms: float, tpot_max_ms: float, duration_s: float) -> Verdict:
    """DistServe's scripts: joint attainment over what came back; one token has TPOT 0."""
    done = [a for a in answers(run) if a.status == "ok"]
    tpot = [a.decode_ms / (a.tokens - 1) if a.tokens and a.tokens > 1 else 0.0 for a in done]
    good = sum(a.ttft_ms <= ttft_max_ms and t <= tpot_max_ms for a, t in zip(done, tpot, strict=True))
    return Verdict(
        "DistServe scripts", len(done), good, len(done), good / len(done) if done else None, None,
        _mean(a.ttft_ms for a in done), "TPOT", _mean(tpot), "what did not come back is dropped; one token has TPOT 0",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MlperfVerdict:
    """MLPerf's server scenario: two gates on p99 values, from the time a request was due."""

    ttft_p99_ms: float
    tpot_p99_ms: float
    passes: bool


def mlperf(run: Run, ttft_max_ms: float, tpot_max_ms: float) -> MlperfVerdict:
    """p99 of TTFT and of TPOT, counted from the scheduled time; needs a schedule and answers."""
    done = [a for a in answers(run) if a.status == "ok"]
    ttft = [a.first_ms - (a.scheduled_ms if a.scheduled_ms is not None else a.sent_ms) for a in done]
    tpot = [a.decode_ms / (a.tokens - 1) for a in done if a.tokens and a.tokens > 1]
    p99 = [float(np.percentile(values, 99)) if values else float("inf") for values in (ttft, tpot)]
    return MlperfVerdict(p99[0], p99[1], p99[0] <= ttft_max_ms and p99[1] <= tpot_max_ms)


def percentile_methods(values_ms: Sequence[float], q: float) -> dict[str, float]:
    """One percentile by the two methods in use: numpy's linear, and the inverted CDF of guidellm."""
    return {m: float(np.percentile(values_ms, q, method=m)) for m in ("linear", "inverted_cdf")}


RULES = (vllm_bench, guidellm, aiperf, inference_perf, distserve)
