"""A run's table as arrays that can be counted with: ordered times, token counts, gaps between frames.

What cannot be is refused here, with the request it stands in: a clock that runs back, an end before the
beginning, a count beyond all sense.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pdlab.errors import BadInput
from pdlab.measure.foreign import LONGEST_NS

MOST_TOKENS = 10**12  # of one request


@dataclass(frozen=True, slots=True)
class Columns:
    """The table as arrays; times in ns as int64, with a mask where there may be none."""

    n: int
    ok: np.ndarray
    verified: np.ndarray
    sent: np.ndarray
    has_sent: np.ndarray
    scheduled: np.ndarray
    has_scheduled: np.ndarray
    end: np.ndarray
    has_end: np.ndarray
    first: np.ndarray
    last: np.ndarray
    has_times: np.ndarray  # first and last token are known
    has_frames: np.ndarray
    tokens: np.ndarray
    has_tokens: np.ndarray
    max_gap: np.ndarray
    pooled_gaps: np.ndarray  # of successful requests


def _ints(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    column = table[name].combine_chunks()
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64), present


def _refuse(table: pa.Table, wrong: np.ndarray, found: str, expected: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        ident = table["request_id"][row].as_py()
        raise BadInput(f"{found} ({int(wrong.sum())} requests)", expected, f"request {ident!r}")


def _far(times: np.ndarray) -> np.ndarray:
    """Times so far away that the difference of two would wrap around without a word."""
    return (times <= -LONGEST_NS) | (times >= LONGEST_NS)


def _lists(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A list column as its lengths and its flat values."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no rows at all
        column = pa.array([], column.type)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    if flat.null_count:
        raise BadInput(f"a null inside {name}", "numbers", name)
    return lengths.astype(np.int64), flat.to_numpy(zero_copy_only=False)


def columns(table: pa.Table, unverified: Iterable[str]) -> Columns:
    """The arrays of ``table``; what ``unverified`` requests say of themselves is not believed.  Raises BadInput."""
    n = table.num_rows
    sent, has_sent = _ints(table, "sent_ns")
    scheduled, has_scheduled = _ints(table, "scheduled_ns")
    end, has_end = _ints(table, "end_ns")
    status = np.asarray(table["status"].to_pylist(), dtype=object)
    ok = status == "ok" if n else np.zeros(0, bool)

    lengths, frames = _lists(table, "frame_ns")
    stops = np.cumsum(lengths)
    starts = stops - lengths
    has_frames = lengths > 0
    first, has_first = _ints(table, "first_token_ns")
    last, has_last = _ints(table, "last_token_ns")
    if len(frames):
        first = np.where(has_frames, frames[np.minimum(starts, len(frames) - 1)], first)
        last = np.where(has_frames, frames[np.maximum(stops - 1, 0)], last)
    has_times = has_frames | (has_first & has_last)
    far = np.isin(np.arange(n), np.repeat(np.arange(n), lengths)[_far(frames)])  # requests with such a frame
    for name, where in (("a scheduled_ns", has_scheduled & _far(scheduled)), ("a sent_ns", has_sent & _far(sent)),
                        ("an end_ns", has_end & _far(end)), ("a token", far | has_times & (_far(first) | _far(last)))):  # fmt: skip
        _refuse(table, where, f"{name} more than a century from 0", "nanoseconds of the run's own clock")

    tokens, has_tokens = _token_counts(table, lengths)
    max_gap, pooled = _gaps(table, frames, starts, lengths, ok)
    _refuse(table, has_times & (last < first), "a last token before the first", "times that do not fall")
    _refuse(table, has_times & has_sent & (first < sent), "a token before the request was sent",
            "times that do not fall")  # fmt: skip
    _refuse(table, has_end & has_sent & (end < sent), "an end before the request was sent",
            "times that do not fall")  # fmt: skip
    _refuse(table, has_tokens & (tokens < 0), "a negative token count", "0 or more")
    _refuse(table, has_tokens & (tokens > MOST_TOKENS), "a token count beyond all sense", f"at most {MOST_TOKENS:,}")
    doubted = set(unverified)
    verified = np.ones(n, bool)
    if doubted:
        verified = ~np.isin(np.asarray(table["request_id"].to_pylist(), dtype=object), list(doubted))
    return Columns(
        n, ok, verified, sent, has_sent, scheduled, has_scheduled, end, has_end, first, last, has_times,
        has_frames, tokens, has_tokens, max_gap, pooled,
    )  # fmt: skip


def _token_counts(table: pa.Table, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Output tokens: the frames' sum where they are counted, else what the source says.

    ``frames`` is the number of frames of each request.
    """
    tokens, has_tokens = _ints(table, "output_tokens")
    lengths, flat = _lists(table, "frame_tokens")
    counted = lengths > 0
    _refuse(table, counted & (lengths != frames), "frame_ns and frame_tokens of different lengths",
            "one count a frame")  # fmt: skip
    owners = np.repeat(np.arange(len(lengths)), lengths)
    _refuse(table, np.isin(np.arange(len(lengths)), owners[flat < 0]), "a frame of fewer than 0 tokens", "0 or more")
    if counted.any():
        ends = np.cumsum(lengths)
        tokens[counted] = np.add.reduceat(flat, (ends - lengths)[counted], dtype=np.int64)
    return tokens, has_tokens | counted


def _gaps(
    table: pa.Table, frames: np.ndarray, starts: np.ndarray, lengths: np.ndarray, ok: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each request's largest gap, and all gaps of successful requests; refuses a clock that runs back."""
    n = len(lengths)
    if len(frames) < 2:
        return np.zeros(n, np.int64), np.zeros(0, np.int64)
    gaps = np.diff(frames)  # gaps[i] stands before frame i + 1
    inside = np.ones(len(gaps), bool)
    heads = starts[lengths > 0]
    inside[heads[heads > 0] - 1] = False  # between the last frame of one request and the first of the next
    if (inside & (gaps < 0)).any():
        at = int(np.flatnonzero(inside & (gaps < 0))[0])
        row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        raise BadInput(
            f"frame times that fall from {frames[at]} to {frames[at + 1]} ns", "a clock that runs forward",
            f"request {table['request_id'][row].as_py()!r}",
        )  # fmt: skip
    many = lengths > 1
    largest = np.zeros(n, np.int64)
    gaps[~inside] = -1
    # a request's first gap stands at its first frame's index, and the next request's is beyond its last
    largest[many] = np.maximum.reduceat(gaps, starts[many])
    return largest, gaps[inside & np.repeat(ok, lengths)[1:]]
