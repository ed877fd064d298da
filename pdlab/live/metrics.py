"""Read a server's Prometheus page and ask it for one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from prometheus_client.parser import text_string_to_metric_families

from pdlab.live import direct

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Sample:
    """One line of the page: a name such as ``vllm:kv_cache_usage_perc``, labels, a value."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Metrics:
    """All samples of one scrape.

    Units are the server's: seconds, bytes, tokens, and fractions of one for ``*_perc``.
    """

    samples: tuple[Sample, ...]

    def matching(self, name: str, **labels: str) -> Iterator[Sample]:
        """The samples of that exact name whose labels include those given."""
        for sample in self.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                yield sample

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over engines and other labels, or None where the server has no such metric.

        A counter is asked for by the name on the page, ``_total`` (or ``_sum``, ``_count`` of a
        histogram) included.
        """
        values = [sample.value for sample in self.matching(name, **labels)]
        return sum(values) if values else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The values of one metric by one of its labels, summed over the others."""
        totals: dict[str, float] = {}
        for sample in self.matching(name):
            key = sample.labels.get(label, "")
            totals[key] = totals.get(key, 0.0) + sample.value
        return totals


def parse(page: str, names: tuple[str, ...] = ()) -> Metrics:
    """The samples of a Prometheus text page; with ``names``, those of these names alone.

    A server's page is long; lines of other names are not even parsed.
    """
    if names:
        page = "\n".join(line for line in page.splitlines() if line.startswith(names)) + "\n"
    return Metrics(
        tuple(
            Sample(sample.name, dict(sample.labels), sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if not names or sample.name in names
        )
    )


def scrape(base_url: str, timeout_s: float = TIMEOUT_S, names: tuple[str, ...] = ()) -> Metrics:
    """Fetch ``{base_url}/metrics`` and ``parse`` it.  OSError where the server doesn't answer."""
    with direct.opened(f"{base_url}/metrics", timeout_s) as answer:
        return parse(answer.read().decode(), names)
