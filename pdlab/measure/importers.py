"""Results of other load tools as records.  The format is detected from the content.

What a file does not carry stays null: a failed request's ``ttft`` of 0.0 is no latency.  A request
that the file calls a success, though its own numbers disagree, is listed in
``summary["unverified"]``; ``pdlab.measure.slo`` counts it as neither good nor bad.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pdlab.errors import BadInput
from pdlab.measure import records
from pdlab.measure.frames import failure_status

MS, S = 1_000_000, 1_000_000_000
_HTTP_STATUS = re.compile(r"(?:HTTP|[Ee]rror|[Ss]tatus)\W{1,3}(?:code\W{1,3})?([45]\d\d)\b")
_PHASES_WARM = ("warmup", "warm_up", "warm-up")


def read(path: str | Path, partial: bool = False) -> records.Run:
    """A run from anything pdlab can read: its own records, or one of the three tools' result files."""
    path = Path(path)
    if path.is_dir() or path.suffix == ".parquet":
        return records.read_run(path, partial)
    if not path.exists():
        raise BadInput("nothing", "a result file or run directory", str(path))
    if _is_records(path):
        return records.read_run(path, partial)
    convert, document = _detect(path, partial)
    rows, provenance = convert(document, str(path))
    return records.Run(records.table_from_rows(rows, str(path)), provenance, name=path.stem)


def _is_records(path: Path) -> bool:
    """Whether the first line is a row of the records."""
    with path.open("rb") as lines:
        try:
            first = json.loads(lines.readline())
        except ValueError:
            return False
    return isinstance(first, dict) and set(records.REQUIRED) <= {"warmup", *first}


def _detect(path: Path, partial: bool) -> tuple[Callable[..., Any], Any]:
    text = path.read_bytes()
    try:
        document = json.loads(text)
    except ValueError:
        document = _lines(text, path, partial)
    if isinstance(document, dict) and "metadata" in document and "metrics" in document:
        document = [document]  # an aiperf file of one request
    if isinstance(document, list) and document and all(isinstance(row, dict) for row in document):
        if all("metadata" in row and "metrics" in row for row in document):
            return from_aiperf, document
    if isinstance(document, dict):
        if {"ttfts", "itls", "input_lens", "output_lens", "errors"} <= set(document):
            return from_vllm_bench, document
        if isinstance(document.get("benchmarks"), list) and document["benchmarks"]:
            return from_guidellm, document
        if "request_throughput" in document and "ttfts" not in document:
            raise BadInput(
                "a summary without per-request values", "a result with them", str(path),
                "Run vllm bench serve with --save-detailed, or give aiperf's profile_export.jsonl.",
            )  # fmt: skip
    raise BadInput(
        _describe(document),
        "records (request_id, seq, status), vLLM bench --save-detailed (ttfts, itls, input_lens, output_lens, "
        "errors), guidellm (benchmarks[].requests) or aiperf profile_export.jsonl (metadata, metrics)",
        str(path),
    )


def _describe(document: Any) -> str:
    if isinstance(document, dict):
        return "JSON with the keys " + (", ".join(map(str, list(document)[:8])) or "(none)")
    if isinstance(document, list):
        return f"{len(document)} JSON values of another kind" if document else "an empty file"
    return f"a JSON {type(document).__name__}"


def _lines(text: bytes, path: Path, partial: bool) -> list[Any]:
    found = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except ValueError as error:
            if partial:
                continue
            where = f"{path}, line {number}"
            expected = "one JSON document, or one JSON object a line"
            raise BadInput(f"{error}", expected, where, "Read whole lines only with --partial.") from error
    return found


# ---------------------------------------------------------------- numbers as they are found in files


def _number(value: Any, where: str) -> float | None:
    """A finite number, null for null; NaN, infinity and text are refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput(repr(value), "a finite number", where)
    return value


def _ns(value: Any, unit_ns: int, where: str) -> int | None:
    number = _number(value, where)
    return None if number is None else round(number * unit_ns)


def _after(start_ns: int, first_ns: int, gaps_ns: list[int]) -> list[int]:
    """Arrival times: the first, then each gap added."""
    at = [start_ns + first_ns]
    for gap in gaps_ns:
        at.append(at[-1] + gap)
    return at


# ---------------------------------------------------------------- vLLM bench


def from_vllm_bench(document: Mapping[str, Any], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of ``vllm bench serve --save-detailed`` (old files spell ``request_goodput:``)."""
    columns = {name: document[name] for name in ("ttfts", "itls", "input_lens", "output_lens", "errors")}
    count = len(columns["ttfts"])
    for name in ("start_times", "latencies"):
        columns[name] = document.get(name) or [None] * count
    for name, column in columns.items():
        if len(column) != count:
            raise BadInput(f"{len(column)} {name}", f"{count}, one a request", where)
    known = [t for t in columns["start_times"] if t is not None]
    zero = min(known, default=0.0)  # the client's perf_counter, so only differences mean anything
    rows = [_vllm_row(i, columns, zero, where) for i in range(count)]
    suspects = _short_of_their_count(rows, columns["output_lens"])
    notes = [
        "TTFT is the first chunk that had choices, so an empty or role chunk may have started it.",
        "The start is stamped before a connection is opened; dispatch lag is not recorded.",
        "An error frame inside HTTP 200 counts as a success in this file and leaves no mark: which "
        "successes ended in one can't be known.",
    ]
    if suspects:
        notes.append(
            f"{len(suspects)} successes have more output tokens than chunks while the others have as many: "
            "such a stream ended without usage and its text was tokenised again. Unverified."
        )
    goodput = document.get("request_goodput", document.get("request_goodput:"))
    summary = {
        "unverified": suspects, "tool_goodput_rps": goodput, "unseen": ["error frames inside HTTP 200"],
        "starts_unknown": not known,  # then every request is written as sent at 0: only differences mean anything
    }  # fmt: skip
    return rows, records.provenance(
        label="measured", source="vllm bench", window_ns=_window(document.get("duration"), where),
        offered_rate_rps=_rate(document.get("request_rate")), date=document.get("date"),
        notes=" ".join(notes), summary=summary,
    )  # fmt: skip


def _rate(value: Any) -> float | None:
    """An offered rate; ``inf`` (everything at once) is no rate."""
    try:
        return float(value) if math.isfinite(float(value)) else None
    except (TypeError, ValueError):
        return None


def _window(duration_s: Any, where: str) -> list[int] | None:
    end = _ns(duration_s, S, f"{where}, duration")
    return None if end is None else [0, end]


def _vllm_row(i: int, columns: Mapping[str, Any], zero: float, where: str) -> dict[str, Any]:
    at = f"{where}, request {i}"
    error = columns["errors"][i] or None
    start = _number(columns["start_times"][i], f"{at}, start_times")
    sent = None if start is None else round((start - zero) * S)
    row: dict[str, Any] = {
        "request_id": str(i), "seq": i, "sent_ns": sent, "stamp_source": "imported",
        "prompt_tokens": columns["input_lens"][i],
        "status": failure_status(_http_status(error), error) if error else "ok", "error": error,
    }  # fmt: skip
    if error:
        row["http_status"] = _http_status(error)
        return row  # its zeros are no latencies
    first = _ns(columns["ttfts"][i], S, f"{at}, ttfts")
    gaps = [_ns(gap, S, f"{at}, itls") for gap in columns["itls"][i]]
    latency = _ns(columns["latencies"][i], S, f"{at}, latencies")
    tokens = columns["output_lens"][i]
    base = sent or 0
    row |= {"output_tokens": tokens, "sent_ns": base}
    if first is not None:
        row["frame_ns"] = _after(base, first, gaps)
        row["frame_tokens"] = [1] * tokens if tokens == len(row["frame_ns"]) else None
    row["end_ns"] = None if latency is None else base + latency
    return row


def _http_status(error: str | None) -> int | None:
    match = _HTTP_STATUS.search(error or "")
    return int(match.group(1)) if match else None


def _short_of_their_count(rows: list[dict], output_lens: list[int]) -> list[str]:
    """Successes whose token count exceeds their chunks, in a run where chunks carry one token each."""
    answered = [(row, n) for row, n in zip(rows, output_lens, strict=True) if row.get("frame_ns")]
    odd = [row["request_id"] for row, n in answered if n != len(row["frame_ns"])]
    return odd if 2 * len(odd) < len(answered) else []


# ---------------------------------------------------------------- guidellm


def from_guidellm(document: Mapping[str, Any], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of guidellm's JSON; of several benchmarks in one file, only a lone one is read."""
    benchmarks = document["benchmarks"]
    if len(benchmarks) > 1:
        raise BadInput(
            f"{len(benchmarks)} benchmarks", "one benchmark a file", where, "Export each rate by itself."
        )
    benchmark = benchmarks[0]
    groups = benchmark.get("requests")
    if not isinstance(groups, dict) or not any(groups.get(k) for k in ("successful", "errored", "incomplete")):
        raise BadInput("no requests", "benchmarks[0].requests with successful, errored, incomplete", where)
    found = [
        (status, item)
        for status, group in (("ok", "successful"), ("failed", "errored"), ("cancelled", "incomplete"))
        for item in groups.get(group) or []
    ]
    timings = [(item.get("info") or {}).get("timings") or {} for _, item in found]
    starts = [t.get("targeted_start") or t.get("request_start") for t in timings]
    zero = benchmark.get("start_time") or min((s for s in starts if s), default=0.0)
    order = sorted(range(len(found)), key=lambda i: (starts[i] is None, starts[i] or 0.0))
    rows = [
        _guidellm_row(seq, found[i][0], found[i][1], timings[i], zero, f"{where}, request {i}")
        for seq, i in enumerate(order)
    ]
    version = (document.get("metadata") or {}).get("guidellm_version")
    rate = ((benchmark.get("config") or {}).get("strategy") or {}).get("rate")
    return rows, records.provenance(
        label="measured", source="guidellm", window_ns=_window(benchmark.get("duration"), where),
        offered_rate_rps=_rate(rate), versions={"guidellm": version} if version else None,
        seed=_seed(benchmark),
        notes="First and last token times only: gaps inside a request are not in this file. "
        "The connect time is not counted in TTFT.",
    )  # fmt: skip


def _seed(benchmark: Mapping[str, Any]) -> int | None:
    seed = ((benchmark.get("config") or {}).get("strategy") or {}).get("random_seed")
    return seed if isinstance(seed, int) else None


def _guidellm_row(
    seq: int, status: str, item: Mapping[str, Any], timing: Mapping[str, Any], zero: float, where: str
) -> dict[str, Any]:
    def at(name: str) -> int | None:
        value = _number(timing.get(name), f"{where}, {name}")
        return None if value is None else round((value - zero) * S)

    error = (item.get("info") or {}).get("error")
    http_status = _http_status(error)
    if status == "failed":
        status = failure_status(http_status, error or "")
    output = item.get("output_metrics") or {}
    tokens = output.get("total_tokens", output.get("text_tokens"))
    return {
        "request_id": item.get("response_id") or str(item.get("request_id") or seq), "seq": seq,
        "scheduled_ns": at("targeted_start"), "sent_ns": at("request_start"),
        "first_token_ns": at("first_token_iteration"), "last_token_ns": at("last_token_iteration"),
        "end_ns": at("request_end") if timing.get("request_end") else at("resolve_end"),
        "prompt_tokens": (item.get("input_metrics") or {}).get("total_tokens"),
        "cached_tokens": (item.get("input_metrics") or {}).get("cached_tokens"),
        # a failed request's count is what was received, where the file has it; zero is not known there
        "output_tokens": tokens if status == "ok" or tokens else None,
        "status": status, "http_status": http_status, "error": error, "stamp_source": "imported",
    }  # fmt: skip


# ---------------------------------------------------------------- aiperf


def from_aiperf(lines: list[Mapping[str, Any]], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of aiperf's ``profile_export.jsonl``, as of 2025 and of 2026."""
    starts = [_aiperf_start(line, f"{where}, line {n}") for n, line in enumerate(lines, 1)]
    zero = min((s for s in starts if s is not None), default=0)
    order = sorted(range(len(lines)), key=lambda i: (starts[i] is None, starts[i] or 0))
    rows = [
        _aiperf_row(seq, lines[i], starts[i], zero, f"{where}, line {i + 1}") for seq, i in enumerate(order)
    ]
    answered = [row for row in rows if row["status"] == "ok"]
    suspects = [row["request_id"] for row in answered if row["output_tokens"] is None]
    if len(suspects) == len(answered):
        suspects = []  # this run counts no tokens at all: that says nothing about one request
    notes = [
        "The file has no schedule: credit_issued_ns is when aiperf itself issued the request, late or not, "
        "so dispatch lag can't be known."
    ]
    if suspects:
        notes.append(
            f"{len(suspects)} successes have no token count: an error frame inside HTTP 200 looks like this, "
            "and so does a server that sent no usage. Unverified."
        )
    return rows, records.provenance(
        label="measured", source="aiperf", notes=" ".join(notes), summary={"unverified": suspects}
    )


def _aiperf_start(line: Mapping[str, Any], where: str) -> int | None:
    metadata, metrics = line["metadata"], line["metrics"]
    for value in (
        metadata.get("request_start_ns"),
        (metrics.get("min_request_timestamp") or {}).get("value"),
        metadata.get("timestamp_ns"),
    ):
        if value is not None:
            return int(_number(value, f"{where}, start"))
    return None


def _metric(metrics: Mapping[str, Any], where: str, *names: str) -> Any:
    """The first of several spellings of a metric, times in ns (each metric states its unit)."""
    for name in names:
        if name not in metrics:
            continue
        value, unit = metrics[name].get("value"), metrics[name].get("unit")
        scale = {"ms": MS, "s": S, "sec": S, "us": 1_000, "ns": 1}.get(unit)
        where = f"{where}, {name}"
        if isinstance(value, list):
            return [_ns(v, scale or 1, where) for v in value]
        return _number(value, where) if scale is None else _ns(value, scale, where)
    return None


def _aiperf_row(
    seq: int, line: Mapping[str, Any], start: int | None, zero: int, where: str
) -> dict[str, Any]:
    metadata, metrics = line["metadata"], line["metrics"]
    error = line.get("error") or None
    sent = None if start is None else start - zero
    phase = metadata.get("benchmark_phase") or metadata.get("credit_phase") or "profiling"
    row: dict[str, Any] = {
        "request_id": metadata.get("x_request_id") or str(seq), "seq": seq, "sent_ns": sent,
        "warmup": phase in _PHASES_WARM, "status": "ok", "stamp_source": "imported",
        "prompt_tokens": _metric(metrics, where, "input_sequence_length"),
        "output_tokens": _metric(metrics, where, "output_sequence_length"),
    }  # fmt: skip
    if metadata.get("request_end_ns") is not None:
        row["end_ns"] = metadata["request_end_ns"] - zero
    if metadata.get("credit_issued_ns") is not None:
        row["stage_ns"] = {"credit_issued": metadata["credit_issued_ns"] - zero}
    trace = line.get("trace_data") or {}
    row["http_status"] = trace.get("response_status_code")
    if (reused := metrics.get("http_req_connection_reused")) is not None:
        row["new_connection"] = not reused["value"]
    if trace.get("connecting_ns") is not None:
        row["connect_ns"] = trace["connecting_ns"]
    if error or metadata.get("was_cancelled"):
        return row | _aiperf_failure(error or {"code": 499, "message": "cancelled"}, row)
    first = _metric(metrics, where, "time_to_first_token", "ttft")
    if first is not None and sent is not None:
        gaps = _metric(metrics, where, "inter_chunk_latency")
        latency = _metric(metrics, where, "request_latency")
        if gaps is None and latency is not None and latency > first:
            row |= {"first_token_ns": sent + first, "last_token_ns": sent + latency}
        else:
            row["frame_ns"] = _after(sent, first, gaps or [])
            tokens = row["output_tokens"]
            row["frame_tokens"] = [1] * tokens if tokens == len(row["frame_ns"]) else None
        if "end_ns" not in row:
            row["end_ns"] = None if latency is None else sent + latency
    return row


def _aiperf_failure(error: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    code, text = error.get("code"), f"{error.get('type') or ''} {error.get('message') or ''}".strip()
    http_status = code if isinstance(code, int) and 400 <= code < 600 else row.get("http_status")
    return {"status": failure_status(http_status, text), "error": text or str(code), "http_status": http_status}
