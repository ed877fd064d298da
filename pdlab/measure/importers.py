"""Results of other load tools as records.  The format is detected from the content.

What a file does not carry stays null: a failed request's ``ttft`` of 0.0 is no latency.  A request
that the file calls a success, though its own numbers disagree, is listed in
``summary["unverified"]``; ``pdlab.measure.slo`` counts it as neither good nor bad.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pdlab.documents import parse_json
from pdlab.errors import BadInput
from pdlab.measure import records
from pdlab.measure.foreign import Found
from pdlab.measure.frames import failure_status
from pdlab.theory._check import shown

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
    if not path.is_file():  # a pipe or a device cannot be read twice, or has no end
        raise BadInput("no plain file", "a result file or run directory", str(path))
    if _is_records(path):
        return records.read_run(path, partial)
    convert, document = _detect(path, partial)
    rows, provenance = convert(document, str(path))
    return records.Run(records.table_from_rows(rows, str(path)), provenance, name=path.stem)


def _is_records(path: Path) -> bool:
    """Whether the first line is a row of the records."""
    with path.open("rb") as lines:
        try:
            first = parse_json(lines.readline(), str(path))
        except BadInput:
            return False
    return isinstance(first, dict) and set(records.REQUIRED) <= {"warmup", *first}


def _detect(path: Path, partial: bool) -> tuple[Callable[..., Any], Any]:
    text = path.read_bytes()
    try:
        document = parse_json(text, str(path))
    except BadInput:
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
        return "JSON with the keys " + (", ".join(shown(key) for key in list(document)[:8]) or "(none)")
    if isinstance(document, list):
        return f"{len(document)} JSON values of another kind" if document else "an empty file"
    return f"a JSON {type(document).__name__}"


def _lines(text: bytes, path: Path, partial: bool) -> list[Any]:
    found = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(parse_json(line, f"{path}, line {number}", "one JSON document, or one JSON object a line",
                                    "Read whole lines only with --partial."))  # fmt: skip
        except BadInput:
            if not partial:
                raise
    return found


def _after(start_ns: int, first_ns: int, gaps_ns: Iterable[int]) -> list[int]:
    """Arrival times: the first, then each gap added."""
    at = [start_ns + first_ns]
    for gap in gaps_ns:
        at.append(at[-1] + gap)
    return at


def _gaps(found: Found, unit_ns: int) -> list[int]:
    """A list of times between arrivals, none of them null."""
    gaps = [(gap, gap.ns(unit_ns)) for gap in found.items()]
    for gap, value in gaps:
        if value is None:
            raise gap.refuse("a finite number")
    return [value for _, value in gaps if value is not None]


# ---------------------------------------------------------------- vLLM bench


def from_vllm_bench(document: Mapping[str, Any], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of ``vllm bench serve --save-detailed`` (old files spell ``request_goodput:``)."""
    whole = Found(dict(document), where)
    columns: dict[str, list[Found]] = {}
    for name in ("ttfts", "itls", "input_lens", "output_lens", "errors"):
        if not whole.key(name).there:
            raise whole.key(name).refuse("a list")
        columns[name] = list(whole.key(name).items())
    count = len(columns["ttfts"])
    for name in ("start_times", "latencies"):
        columns[name] = list(whole.key(name).items()) or [Found(None, where, name)] * count
    for name, column in columns.items():
        if len(column) != count:
            raise BadInput(f"{len(column)} {name}", f"{count}, one a request", where)
    known = [t for t in (start.number() for start in columns["start_times"]) if t is not None]
    zero = min(known, default=0.0)  # the client's perf_counter, so only differences mean anything
    rows = [_vllm_row(i, {name: column[i] for name, column in columns.items()}, zero) for i in range(count)]
    suspects = _short_of_their_count(rows, [length.whole() for length in columns["output_lens"]])
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
    summary = {
        "unverified": suspects, "tool_goodput_rps": whole.key("request_goodput", "request_goodput:").number(),
        "unseen": ["error frames inside HTTP 200"],
        "starts_unknown": not known,  # then every request is written as sent at 0: only differences mean anything
    }  # fmt: skip
    return rows, records.provenance(
        label="measured", source="vllm bench", window_ns=_window(whole.key("duration")),
        offered_rate_rps=_rate(whole.key("request_rate")), date=whole.key("date").text(),
        notes=" ".join(notes), summary=summary,
    )  # fmt: skip


def _rate(found: Found) -> float | None:
    """An offered rate; ``inf`` (everything at once) is no rate, and neither is another tool's word for one."""
    try:
        rate = float(found.value)
    except (TypeError, ValueError, OverflowError):
        return None
    return rate if math.isfinite(rate) else None


def _window(duration_s: Found) -> list[int] | None:
    end = duration_s.ns(S)
    if end is not None and end <= 0:
        raise duration_s.refuse("a duration above 0")
    return None if end is None else [0, end]


def _since(found: Found, zero: float) -> int | None:
    """A clock's reading in seconds as nanoseconds after ``zero``."""
    value = found.number()
    return None if value is None else Found(value - zero, found.where, found.path).ns(S)


def _vllm_row(i: int, columns: Mapping[str, Found], zero: float) -> dict[str, Any]:
    error = columns["errors"].text() or None
    sent = _since(columns["start_times"], zero)
    row: dict[str, Any] = {
        "request_id": str(i), "seq": i, "sent_ns": sent, "stamp_source": "imported",
        "prompt_tokens": columns["input_lens"].whole(),
        "status": failure_status(_http_status(error), error) if error else "ok", "error": error,
    }  # fmt: skip
    if error:
        row["http_status"] = _http_status(error)
        return row  # its zeros are no latencies
    first, gaps = columns["ttfts"].ns(S), _gaps(columns["itls"], S)
    latency, tokens = columns["latencies"].ns(S), columns["output_lens"].whole()
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


def _short_of_their_count(rows: list[dict], output_lens: list[int | None]) -> list[str]:
    """Successes whose token count exceeds their chunks, in a run where chunks carry one token each."""
    answered = [(row, n) for row, n in zip(rows, output_lens, strict=True) if row.get("frame_ns")]
    odd = [row["request_id"] for row, n in answered if n != len(row["frame_ns"])]
    return odd if 2 * len(odd) < len(answered) else []


# ---------------------------------------------------------------- guidellm


def from_guidellm(document: Mapping[str, Any], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of guidellm's JSON; of several benchmarks in one file, only a lone one is read."""
    whole = Found(dict(document), where)
    benchmark, *more = whole.key("benchmarks").items()
    if more:
        raise BadInput(
            f"{1 + len(more)} benchmarks", "one benchmark a file", where, "Export each rate by itself."
        )
    found = [
        (status, item)
        for status, group in (("ok", "successful"), ("failed", "errored"), ("cancelled", "incomplete"))
        for item in benchmark.key("requests").key(group).items()
    ]
    if not found:
        raise BadInput("no requests", "benchmarks[0].requests with successful, errored, incomplete", where)
    timings = [item.key("info").key("timings") for _, item in found]
    starts = [timing.key("targeted_start").number() or timing.key("request_start").number() for timing in timings]
    zero = benchmark.key("start_time").number() or min((s for s in starts if s), default=0.0)
    order = sorted(range(len(found)), key=lambda i: (starts[i] is None, starts[i] or 0.0))
    rows = [_guidellm_row(seq, *found[i], timings[i], zero) for seq, i in enumerate(order)]
    version = whole.key("metadata").key("guidellm_version").text()
    strategy = benchmark.key("config").key("strategy")
    seed = strategy.key("random_seed").value
    return rows, records.provenance(
        label="measured", source="guidellm", window_ns=_window(benchmark.key("duration")),
        offered_rate_rps=_rate(strategy.key("rate")), versions={"guidellm": version} if version else None,
        seed=seed if isinstance(seed, int) else None,
        notes="First and last token times only: gaps inside a request are not in this file. "
        "The connect time is not counted in TTFT.",
    )  # fmt: skip


def _guidellm_row(seq: int, status: str, item: Found, timing: Found, zero: float) -> dict[str, Any]:
    def at(name: str) -> int | None:
        return _since(timing.key(name), zero)

    error = item.key("info").key("error").text()
    http_status = _http_status(error)
    if status == "failed":
        status = failure_status(http_status, error or "")
    tokens = item.key("output_metrics").key("total_tokens", "text_tokens").whole()
    name = item.key("response_id", "request_id").value
    return {
        "request_id": str(name or seq), "seq": seq,
        "scheduled_ns": at("targeted_start"), "sent_ns": at("request_start"),
        "first_token_ns": at("first_token_iteration"), "last_token_ns": at("last_token_iteration"),
        "end_ns": at("request_end") if timing.key("request_end").value else at("resolve_end"),
        "prompt_tokens": item.key("input_metrics").key("total_tokens").whole(),
        "cached_tokens": item.key("input_metrics").key("cached_tokens").whole(),
        # a failed request's count is what was received, where the file has it; zero is not known there
        "output_tokens": tokens if status == "ok" or tokens else None,
        "status": status, "http_status": http_status, "error": error, "stamp_source": "imported",
    }  # fmt: skip


# ---------------------------------------------------------------- aiperf


def from_aiperf(lines: list[Mapping[str, Any]], where: str) -> tuple[list[dict], dict[str, Any]]:
    """Rows and provenance of aiperf's ``profile_export.jsonl``, as of 2025 and of 2026."""
    found = [Found(dict(line), f"{where}, line {n}") for n, line in enumerate(lines, 1)]
    starts = [_aiperf_start(line) for line in found]
    zero = min((s for s in starts if s is not None), default=0)
    order = sorted(range(len(found)), key=lambda i: (starts[i] is None, starts[i] or 0))
    rows = [_aiperf_row(seq, found[i], starts[i], zero) for seq, i in enumerate(order)]
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


def _aiperf_start(line: Found) -> int | None:
    metadata, metrics = line.key("metadata"), line.key("metrics")
    for found in (
        metadata.key("request_start_ns"),
        metrics.key("min_request_timestamp").key("value"),
        metadata.key("timestamp_ns"),
    ):
        if found.there:
            return found.whole()
    return None


def _unit_ns(metric: Found) -> int:
    """The unit that a metric of time states, in ns; a bare number counts nanoseconds."""
    unit = metric.key("unit")
    if unit.there and not isinstance(unit.value, str):
        raise unit.refuse("text")
    return {"ms": MS, "s": S, "sec": S, "us": 1_000}.get(unit.value, 1)


def _time(metrics: Found, *names: str) -> int | None:
    """A metric of time in ns, under the first of several spellings."""
    metric = metrics.key(*names)
    return metric.key("value").ns(_unit_ns(metric))


def _aiperf_row(seq: int, line: Found, start: int | None, zero: int) -> dict[str, Any]:
    metadata, metrics, trace = line.key("metadata"), line.key("metrics"), line.key("trace_data")
    error = line.key("error")
    sent = None if start is None else start - zero
    phase = metadata.key("benchmark_phase", "credit_phase").text() or "profiling"
    end, issued = metadata.key("request_end_ns").whole(), metadata.key("credit_issued_ns").whole()
    row: dict[str, Any] = {
        "request_id": str(metadata.key("x_request_id").value or seq), "seq": seq, "sent_ns": sent,
        "warmup": phase in _PHASES_WARM, "status": "ok", "stamp_source": "imported",
        "prompt_tokens": metrics.key("input_sequence_length").key("value").whole(),
        "output_tokens": metrics.key("output_sequence_length").key("value").whole(),
        "http_status": trace.key("response_status_code").whole(),
    }  # fmt: skip
    if end is not None:
        row["end_ns"] = end - zero
    if issued is not None:
        row["stage_ns"] = {"credit_issued": issued - zero}
    if (reused := metrics.key("http_req_connection_reused")).there:
        row["new_connection"] = not reused.key("value").value
    if (connecting := trace.key("connecting_ns").whole()) is not None:
        row["connect_ns"] = connecting
    if error.value or metadata.key("was_cancelled").value:
        return row | _aiperf_failure(error if error.value else None, row)
    first = _time(metrics, "time_to_first_token", "ttft")
    if first is not None and sent is not None:
        gaps, latency = metrics.key("inter_chunk_latency"), _time(metrics, "request_latency")
        if not gaps.key("value").there and latency is not None and latency > first:
            row |= {"first_token_ns": sent + first, "last_token_ns": sent + latency}
        else:
            row["frame_ns"] = _after(sent, first, _gaps(gaps.key("value"), _unit_ns(gaps)))
            tokens = row["output_tokens"]
            row["frame_tokens"] = [1] * tokens if tokens == len(row["frame_ns"]) else None
        if "end_ns" not in row:
            row["end_ns"] = None if latency is None else sent + latency
    return row


def _aiperf_failure(error: Found | None, row: Mapping[str, Any]) -> dict[str, Any]:
    if error is None:  # the file says only that it was cancelled
        return {"status": "cancelled", "error": "cancelled", "http_status": 499}
    code = error.key("code").value
    text = f"{error.key('type').value or ''} {error.key('message').value or ''}".strip()
    http_status = code if type(code) is int and 400 <= code < 600 else row.get("http_status")
    return {"status": failure_status(http_status, text), "error": text or str(code), "http_status": http_status}
