"""Traces on disk: Mooncake JSONL, read and written, and Azure's CSV, read as it is published.

Mooncake JSONL has one request a line: ``timestamp`` (ms), ``input_length``, ``output_length``
and ``hash_ids``.  The size of a block is no field of it: published Mooncake traces use 512
tokens, and a trace written here declares its own in ``NAME.meta.json`` beside ``NAME.jsonl``.
A row that cannot be right is refused with its line number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from pdlab.documents import check_plain, parse_object
from pdlab.errors import BadInput
from pdlab.measure.workload import MOONCAKE_BLOCK_TOKENS, Ids, Request, Trace, blocks
from pdlab.options import REAL
from pdlab.theory._check import shown

MAX_TOKENS, MAX_MS = 10**7, 1e12  # far beyond any request, and 30 years
AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def read_trace(path: str | Path, block_tokens: int | None = None) -> Trace:
    """Read a Mooncake JSONL trace or an Azure LLM inference CSV; the content tells which."""
    path = Path(path)
    check_plain(path, "a trace to read")
    try:
        with _text(path) as file:
            opening = file.readline().strip()
    except OSError as error:
        raise BadInput(error.strerror or "no file", "a trace to read", str(path)) from None
    if opening.startswith("{"):
        return read_mooncake(path, block_tokens)
    if opening.split(",") == AZURE_COLUMNS:
        return read_azure(path, block_tokens or MOONCAKE_BLOCK_TOKENS)
    raise BadInput(
        f"a first line {opening[:60]!r}",
        "a JSON object (Mooncake) or the header " + ",".join(AZURE_COLUMNS) + " (Azure)",
        f"{path}:1",
    )


def find(named: str, plan_path: Path) -> Path:
    """The trace that a plan names: from the plan's folder, from here, or from the project's root.

    The plan's own folder comes first: a copy that travels with a plan is the one that was meant.
    """
    root = Path(__file__).resolve().parents[2]
    for path in (plan_path.parent / named, Path(named), root / named):
        if path.exists():
            return path
    raise BadInput("no such file", "a trace", f"{plan_path}, comparison.workload_trace: {named}",
                   "Name it from the plan's folder, from this one or from the course's.")  # fmt: skip


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """The file as UTF-8; bytes that are no text, and what no CSV holds, are bad input wherever they stand."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise BadInput(f"bytes that are no text ({error.reason})", "JSONL or CSV in UTF-8", str(path)) from None
    except csv.Error as error:
        raise BadInput(f"{error}", "CSV", str(path)) from None


def read_mooncake(path: str | Path, block_tokens: int | None = None) -> Trace:
    """Read Mooncake JSONL.  Every row must have one hash id for each block, rounded up.

    The block size is the one passed, else the one declared in ``NAME.meta.json``, else 512.
    """
    path = Path(path)
    block_tokens = block_tokens or _declared_block(path)
    requests: list[Request] = []
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                requests.append(_mooncake_row(line, len(requests), block_tokens, f"{path}:{number}"))
                _in_order(requests, f"{path}:{number}")
    return Trace(_some(requests, path), block_tokens, path.name)


def _mooncake_row(line: str, seq: int, block_tokens: int, where: str) -> Request:
    row = parse_object(line, where, "one JSON object a line")
    at_ms = _number(row, "timestamp", where, low=0, whole=False, high=MAX_MS)
    prompt = int(_number(row, "input_length", where, low=1))
    output = int(_number(row, "output_length", where, low=0))
    ids = row.get("hash_ids")
    if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
        raise BadInput(f"hash_ids {shown(ids)}", "a list of whole numbers from 0", where)
    if len(ids) != blocks(prompt, block_tokens):
        raise BadInput(
            f"{len(ids)} hash_ids for {prompt} tokens",
            f"{blocks(prompt, block_tokens)} (blocks of {block_tokens} tokens, rounded up)",
            where,
            "If the trace uses another block size, pass it as block_tokens.",
        )
    return Request(seq, at_ms, prompt, output, tuple(ids), str(row.get("kind", "all")))


def read_azure(path: str | Path, block_tokens: int = MOONCAKE_BLOCK_TOKENS) -> Trace:
    """Read an Azure LLM inference CSV, the clock set to 0 at its first row.

    It carries lengths but no content, so every block gets an id of its own: it can say nothing
    about prefix caches.
    """
    path, ids = Path(path), Ids()
    requests: list[Request] = []
    with _text(path) as file:
        rows = csv.DictReader(file, strict=True)
        if rows.fieldnames != AZURE_COLUMNS:
            raise BadInput(f"columns {shown(rows.fieldnames)}", ",".join(AZURE_COLUMNS), f"{path}:1")
        start: int | None = None
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if None in row:
                raise BadInput(f"{len(row[None])} more columns", ",".join(AZURE_COLUMNS), where)
            ticks = _azure_ticks(row["TIMESTAMP"], where)
            start = ticks if start is None else start
            prompt = int(_number(row, "ContextTokens", where, low=1))
            output = int(_number(row, "GeneratedTokens", where, low=0))
            hash_ids = tuple(ids.take(blocks(prompt, block_tokens)))
            at_ms = (ticks - start) / 10_000
            requests.append(Request(len(requests), at_ms, prompt, output, hash_ids))
            _in_order(requests, where)
    return Trace(_some(requests, path), block_tokens, path.name, prefixes_known=False)


def _azure_ticks(text: str | None, where: str) -> int:
    """A time of day as 100 ns ticks: the file has seven decimals, ``datetime`` holds six."""
    try:
        moment, _, fraction = (text or "").removesuffix("+00:00").partition(".")
        seconds = (datetime.fromisoformat(moment) - datetime(1970, 1, 1)).total_seconds()
        return int(seconds) * 10_000_000 + int(fraction.ljust(7, "0")[:7] or 0)
    except (ValueError, TypeError):
        raise BadInput(f"TIMESTAMP {shown(text)}", "a date and time like 2023-11-16 18:17:03.9799600",
                       where) from None  # fmt: skip


def write_trace(trace: Trace, path: str | Path, **declared: Any) -> None:
    """Write ``path`` (Mooncake JSONL plus ``kind``) and its ``.meta.json`` with the block size."""
    path = Path(path)
    lines = [
        json.dumps(
            {
                "timestamp": r.at_ms,
                "input_length": r.prompt_tokens,
                "output_length": r.output_tokens,
                "hash_ids": list(r.hash_ids),
                "kind": r.kind,
            }
        )
        for r in trace
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    meta = {"block_tokens": trace.block_tokens, "origin": trace.origin, **declared}
    meta_path(path).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")


def meta_path(path: Path) -> Path:
    """Where a trace's own block size is declared; the file need not be there."""
    return path.with_suffix(".meta.json")


def _declared_block(path: Path) -> int:
    meta = meta_path(path)
    if not meta.exists():
        return MOONCAKE_BLOCK_TOKENS
    declared = parse_object(meta.read_bytes(), str(meta))
    return int(_number(declared, "block_tokens", str(meta), low=1))


def _number(row: dict[str, Any], key: str, where: str, low: int, whole: bool = True, high: float = MAX_TOKENS) -> float:
    """A number from JSON or CSV text, from ``low`` to ``high``."""
    value = row.get(key)
    try:
        if isinstance(value, str) and REAL.fullmatch(value.strip()):  # CSV has nothing but text
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        number = float(value)
        if not low <= number <= high or (whole and number != int(number)):
            raise ValueError
    except (ValueError, OverflowError):
        what = "a whole number" if whole else "a number"
        raise BadInput(f"{key} {shown(value)}", f"{what} from {low} to {high:,.0f}", where) from None
    return number


def _in_order(requests: Sequence[Request], where: str) -> None:
    if len(requests) > 1 and requests[-1].at_ms < requests[-2].at_ms:
        raise BadInput(
            f"time {requests[-1].at_ms} ms after {requests[-2].at_ms} ms",
            "times that never go backwards", where, "Sort the trace by time.",
        )  # fmt: skip


def _some(requests: Iterable[Request], path: Path) -> tuple[Request, ...]:
    done = tuple(requests)
    if not done:
        raise BadInput("no request", "at least one", str(path))
    return done
