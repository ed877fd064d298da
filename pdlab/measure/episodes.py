"""The interference microscope: token gaps of steady decodes, aligned on a long prompt's arrival.

A recorded microscope run holds episodes.  In each, some streams decode steadily; then one long
prompt arrives.  The request ids say who is who: ``p3000.0.steady2``, ``p3000.0.prompt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pdlab.errors import BadInput
from pdlab.measure import records

ID = re.compile(r"p(\d+)\.(\d+)\.(steady\d+|prompt)")
MS = 1e6  # ns in a millisecond


def request_id(prompt_tokens: int, repeat: int, who: str) -> str:
    """The id of one request of an episode; ``who`` is ``prompt`` or ``steadyN``."""
    return f"p{prompt_tokens}.{repeat}.{who}"


@dataclass(frozen=True)
class Episode:
    """One long prompt into steady streams.  Times in ms after the prompt was sent.

    ``gap_end_ms[i]`` is when a steady stream's token arrived, ``gap_ms[i]`` the time since that
    stream's token before, ``stream[i]`` which stream.  ``first_token_ms`` is the prompt's TTFT.
    """

    prompt_tokens: int
    repeat: int
    first_token_ms: float
    gap_end_ms: np.ndarray
    gap_ms: np.ndarray
    stream: np.ndarray

    @property
    def during(self) -> np.ndarray:
        """Gaps (ms) that overlap the prompt's prefill: from its sending to its first token."""
        begin_ms = self.gap_end_ms - self.gap_ms
        return self.gap_ms[(self.gap_end_ms > 0) & (begin_ms < self.first_token_ms)]

    @property
    def quiet(self) -> np.ndarray:
        """Gaps (ms) before the prompt was sent."""
        return self.gap_ms[self.gap_end_ms <= 0]


def episodes(run: records.Run) -> Iterator[Episode]:
    """The episodes of a microscope run, in order."""
    groups: dict[tuple[int, int], dict[str, dict]] = {}
    for row in records.rows(run.table):
        if row["warmup"]:
            continue
        if not (match := ID.fullmatch(row["request_id"])):
            raise BadInput(f"request {row['request_id']!r}", "an id such as p3000.0.prompt", run.name)
        tokens, repeat, who = match.groups()
        groups.setdefault((int(tokens), int(repeat)), {})[who] = row
    for (tokens, repeat), members in groups.items():
        yield _episode(tokens, repeat, members, run.name)


def _episode(tokens: int, repeat: int, members: dict[str, dict], where: str) -> Episode:
    bad = [who for who, row in members.items() if row["status"] != "ok" or not row["frame_ns"]]
    if bad or "prompt" not in members or len(members) < 2:
        raise BadInput(
            f"an episode (p{tokens}.{repeat}) without whole answers for {bad or 'its prompt'}",
            "a prompt and its steady streams, all answered", where,
        )  # fmt: skip
    sent_ns = members["prompt"]["sent_ns"]
    ends, gaps, streams = [], [], []
    for index, who in enumerate(sorted(members.keys() - {"prompt"})):
        arrivals = np.asarray(members[who]["frame_ns"], dtype=np.int64)
        ends.append((arrivals[1:] - sent_ns) / MS)
        gaps.append(np.diff(arrivals) / MS)
        streams.append(np.full(len(arrivals) - 1, index))
    return Episode(
        tokens, repeat, (members["prompt"]["frame_ns"][0] - sent_ns) / MS,
        np.concatenate(ends), np.concatenate(gaps), np.concatenate(streams),
    )  # fmt: skip
