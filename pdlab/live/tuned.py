"""Which chunk size aggregated serving is tuned to, by what rule, and whether any size was good enough.

Each size has had one run at the plan's highest rate.  A plan's highest rate is as a rule one that somebody
fails, so that none passes there ends nothing; it is said wherever the choice is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdlab.documents import parse_json, write_whole
from pdlab.errors import BadInput
from pdlab.measure import plan as plans
from pdlab.measure import records, slo
from pdlab.theory._check import shown

CHOICE = "choice.json"
RULE = "the highest attainment over all offered; of equals, the lower p99 of the gaps between tokens"
TARGETS = {"ttft": "ttft_max_ms", "tpot": "tpot_max_ms", "gap": "max_itl_per_request_ms"}
_AGAIN = "Tune again (--tune), or name a size with --chunk."


@dataclass(frozen=True, slots=True)
class Tried:
    """One size's run.  ``attainment`` is None where requests could not be judged, ``itl_p99_ms`` where there was no gap.

    ``missed`` counts requests by what they missed: ``unanswered``, or of those that were answered ``ttft``,
    ``tpot`` and ``gap``; a request may miss several.
    """

    chunk_tokens: int
    attainment: float | None
    gate: slo.Result
    offered: int
    missed: dict[str, int]
    itl_p99_ms: float | None

    @property
    def rank(self) -> tuple[float, float]:
        """What the rule compares: the larger is better, and what was not observed is last."""
        return -1.0 if self.attainment is None else self.attainment, -math.inf if self.itl_p99_ms is None else -self.itl_p99_ms


@dataclass(frozen=True, slots=True)
class Choice:
    """The size that the rule gives, and what it was made from.  ``met``: a size passes the plan's attainment gate."""

    chunk_tokens: int
    met: bool
    rate_rps: float
    slo_attainment_min: float
    tried: tuple[Tried, ...]
    rule: str = RULE

    @property
    def told_apart(self) -> bool:
        """Whether any request met its targets; where none did, the gaps alone choose, and small chunks have small gaps."""
        return any(one.attainment for one in self.tried)

    def lines(self) -> Iterator[str]:
        """The table for a terminal, and what has to be said with it."""
        yield f"aggregated serving at {self.rate_rps:g} requests/s, by chunk size; what was missed in requests, a request may miss several"
        row = "{:>8}  {:>7}  {:>10}  {:>13}  {:>10}  {:>6}  {:>6}  {:>6}  {:>13}".format
        yield row("tokens", "offered", "attainment", "gate", "unanswered", "TTFT", "TPOT", "gap", "gaps p99 (ms)")
        for one in self.tried:
            share = "unknown" if one.attainment is None else f"{one.attainment:.1%}"
            p99 = "none" if one.itl_p99_ms is None else f"{one.itl_p99_ms:,.0f}"
            missed = (one.missed[name] for name in ("unanswered", *TARGETS))
            yield row(one.chunk_tokens, one.offered, share, one.gate.replace("_", " "), *missed, p99)
        if not self.met:
            yield _warning(self.rate_rps)
            yield (
                f"It asks that {100 * self.slo_attainment_min:g} % of all offered requests meet their targets. Chunks of {self.chunk_tokens} tokens "
                f"are {'what the rule gives' if self.told_apart else 'no better than the others: they have the shortest gaps'} "
                f"({self.rule}); that does not make them serve this rate."
            )  # fmt: skip


def choose(plan: plans.Plan, runs: Mapping[int, Path]) -> Choice:
    """The best of ``runs`` (chunk size → directory of its run at the plan's highest rate)."""
    found = tuple(_tried(plan, size, records.read_run(directory)) for size, directory in runs.items())
    best = max(found, key=lambda one: one.rank)
    met = any(one.gate == "pass" for one in found)
    return Choice(best.chunk_tokens, met, plan.comparison.offered_rates_rps[-1], plan.acceptance.slo_attainment_min, found)


def _tried(plan: plans.Plan, size: int, run: records.Run) -> Tried:
    report = _judged(plan, run)
    (gate,) = (gate.result for gate in report.gates if gate.name == "slo_attainment")
    return Tried(size, report.joint_attainment.all_offered, gate, report.offered, missed(plan, run), report.itl_ms.p99)


def missed(plan: plans.Plan, run: records.Run) -> dict[str, int]:
    """Requests by what they missed (see :class:`Tried`), each target judged as if it were the only one."""
    counts = {"unanswered": _judged(plan, run).failed}
    for name, target in TARGETS.items():
        report = _judged(plan, run, **{other: None for other in TARGETS.values() if other != target})
        a = report.joint_attainment
        unanswered = 0 if plan.acceptance.denominator == plans.SUCCESSFUL_ONLY else report.failed
        counts[name] = a.denominator - a.good - a.unknown - unanswered
    return counts


def _judged(plan: plans.Plan, run: records.Run, **without: None) -> slo.Report:
    options = {"output_tokens_minimum_for_tpot": plan.comparison.output_tokens_minimum_for_tpot}
    return slo.analyse(run, plan.acceptance.model_copy(update=without), **options)


def keep(directory: Path, choice: Choice) -> None:
    """Write the choice and what it was made from to ``choice.json``."""
    write_whole(directory / CHOICE, json.dumps(asdict(choice), indent=2) + "\n")


def chosen(directory: Path, say: Callable[[str], None] | None = None) -> int | None:
    """The chunk size that an earlier tuning chose, if there was one; ``say`` hears it where no size had passed."""
    size = (_read(directory) or {}).get("chunk_tokens")
    if say and (told := warning(directory)):
        say(f"{told} It has chunks of {size} tokens ({directory / CHOICE}).")
    return size


def warning(directory: Path) -> str | None:
    """One sentence where no chunk size passed the gate in an earlier tuning, without the size that was chosen; else None."""
    choice = _read(directory) or {}
    return _warning(choice["rate_rps"]) if choice.get("met") is False else None


def _warning(rate_rps: float) -> str:
    return f"NO CHUNK SIZE PASSED the attainment gate at {rate_rps:g} requests/s; the opponent is the best of them."


def _read(directory: Path) -> dict[str, Any] | None:
    path = directory / CHOICE
    if not path.exists():
        return None
    choice = parse_json(path.read_bytes(), str(path), do=_AGAIN)
    size = choice.get("chunk_tokens") if isinstance(choice, dict) else None
    if not isinstance(size, int) or size < 1:
        raise BadInput(shown(choice), "chunk_tokens, a whole number above 0", str(path), _AGAIN)
    if choice.get("met") is False and not isinstance(choice.get("rate_rps"), (int, float)):
        raise BadInput(shown(choice), "rate_rps, the rate at which none passed", str(path), _AGAIN)
    return choice
