"""Results of other tools: agreement with what they print, and honesty where they are blind."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest

from pdlab.errors import BadInput
from pdlab.measure import importers, records, rules, slo
from pdlab.measure.plan import Acceptance
from tests.measure.runs import answer
from tests.shared import shared_data

# the limits that the three tools were given; none of them knows a per-request maximum of ITL
LIMITS = Acceptance(
    ttft_max_ms=100, tpot_max_ms=20, max_itl_per_request_ms=None, slo_attainment_min=0.95, error_rate_max=0.01,
    require_no_sustained_queue_growth=True,
)  # fmt: skip
TOOLS = ("vllm-bench.json", "guidellm.json", "aiperf.jsonl")


def imported(name):
    """The run in one of the shared files."""
    return importers.read(shared_data(f"tool-results/{name}"))


def truth(tool):
    """{seq: the server's own record} of one tool's run."""
    lines = map(json.loads, shared_data("tool-results/truth.jsonl").read_text().splitlines())
    return {line["seq"]: line for line in lines if line["tool"] == tool}


@pytest.mark.parametrize("name", TOOLS)
def test_forty_offered_and_thirty_three_good(name):
    """Every file gives 40 offered and 33 known good; two more stay open where the file can't tell."""
    report = slo.analyse(imported(name), LIMITS)
    a = report.joint_attainment
    assert (report.offered, a.good, report.one_token) == (40, 33, 2)
    blind = name != "guidellm.json"
    assert a.unknown == (2 if blind else 0)
    assert (a.at_least, a.at_most) == (33 / 40, 35 / 40 if blind else 33 / 40)
    if blind:
        assert a.all_offered is None and report.goodput_rps is None
        assert any("can't be" in note and "error frame" in note for note in report.notes)
    assert report.verdict == "fail"


def test_the_unverified_are_the_error_frames():
    """The two requests that are left open are those that the server ended by an error frame."""
    failed = {seq for seq, t in truth("vllm-bench").items() if t["error_write_ns"]} - {6, 15, 24}
    assert {int(i) for i in imported("vllm-bench.json").provenance["summary"]["unverified"]} == failed == {9, 21}
    by_id = {t["x_request_id"]: seq for seq, t in truth("aiperf").items()}
    assert {by_id[i] for i in imported("aiperf.jsonl").provenance["summary"]["unverified"]} == {9, 21}


def test_vllm_bench_figures():
    """vLLM bench's printed figures come out where the definitions agree, and by its rule where they don't."""
    run = imported("vllm-bench.json")
    report = slo.analyse(run, LIMITS)
    assert (report.succeeded, report.failed) == (37, 3)
    assert (report.ttft_ms.mean, report.ttft_ms.p50, report.ttft_ms.p99) == pytest.approx((51.0330, 50.9253, 52.9913), abs=5e-5)
    assert (report.itl_ms.mean, report.itl_ms.p50, report.itl_ms.p99) == pytest.approx((9.9996, 9.9999, 10.1999), abs=5e-5)
    assert (report.e2e_ms.mean, report.e2e_ms.p50, report.e2e_ms.p99) == pytest.approx((617.77, 680.86, 682.99), abs=5e-3)
    assert report.throughput_rps == pytest.approx(13.7983, abs=5e-5)
    theirs = rules.vllm_bench(run, 100, 20, report.window_s)
    assert theirs.tpot_mean_ms == pytest.approx(9.6854, abs=5e-5)  # tokenised again: 21 where 10 were sent
    assert theirs.goodput_rps == pytest.approx(13.7983, abs=5e-5)
    assert (theirs.good, theirs.succeeded) == (37, 37)
    assert report.tpot_ms.mean == pytest.approx(10.0, abs=0.01) and report.tpot_ms.n == 33


def test_guidellm_figures():
    """guidellm's printed figures, its share of the determined, and its TPOT that holds the first token."""
    run = imported("guidellm.json")
    report = slo.analyse(run, LIMITS)
    assert (report.succeeded, report.failed) == (35, 5)
    assert report.ttft_ms.mean == pytest.approx(51.3489, abs=5e-5)
    assert report.throughput_rps == pytest.approx(13.70, abs=5e-3)
    assert report.offered / report.window_s == pytest.approx(15.66, abs=5e-3)
    spans = [(a.decode_ms, a.tokens - 1) for a in rules.answers(run) if a.status == "ok" and a.tokens > 1]
    assert sum(ms for ms, _ in spans) / sum(n for _, n in spans) == pytest.approx(9.9909, abs=5e-5)
    theirs = rules.guidellm(run, 100, 20, report.window_s)
    assert theirs.tpot_mean_ms == pytest.approx(10.6757, abs=5e-5)
    assert (theirs.good, theirs.denominator) == (33, 38)
    ttft = [a.ttft_ms for a in rules.answers(run) if a.status == "ok"]
    assert rules.percentile_methods(ttft, 99)["inverted_cdf"] == pytest.approx(53.3400, abs=1e-3)
    assert rules.percentile_methods(ttft, 99)["linear"] < 53.2


def test_guidellm_cannot_settle_a_gap_inside_a_request():
    """First and last token only: a limit on the largest gap is open, unless the span itself settles it."""
    strict = LIMITS.model_copy(update={"max_itl_per_request_ms": 200})
    report = slo.analyse(imported("guidellm.json"), strict)
    assert (report.joint_attainment.good, report.joint_attainment.unknown) == (0, 33)
    lax = LIMITS.model_copy(update={"max_itl_per_request_ms": 1000})
    assert slo.analyse(imported("guidellm.json"), lax).joint_attainment.good == 33


def test_aiperf_figures():
    """aiperf's printed figures, and its count of good requests."""
    run = imported("aiperf.jsonl")
    report = slo.analyse(run, LIMITS)
    assert (report.succeeded, report.failed) == (37, 3)
    assert (report.ttft_ms.mean, report.ttft_ms.p50, report.ttft_ms.p99) == pytest.approx((50.8880, 50.7034, 53.3339), abs=5e-5)
    assert (report.tpot_ms.mean, report.tpot_ms.p50, report.tpot_ms.p99) == pytest.approx((10.0005, 9.9991, 10.0248), abs=5e-5)
    assert report.tpot_ms.n == 33
    theirs = rules.aiperf(run, 100, 20, 2.35068)
    assert theirs.good == 33 and theirs.goodput_rps == pytest.approx(14.0385, abs=5e-4)
    assert report.dispatch_lag_ms.n == 0  # its credits are issued late: that is no schedule


@pytest.mark.parametrize("name, tool", list(zip(TOOLS, ("vllm-bench", "guidellm", "aiperf"), strict=True)))
def test_against_the_servers_own_record(name, tool):
    """What is imported lies within 10 ms of what the server wrote, request by request."""
    known, compared = truth(tool), 0
    ids = {t["x_request_id"]: seq for seq, t in known.items()}
    for row in records.rows(imported(name).table):
        if tool == "aiperf":
            seq = ids[row["request_id"]]
        elif tool == "guidellm":
            seq = int(row["request_id"].removeprefix("cmpl-")) if row["request_id"].startswith("cmpl-") else None
        else:
            seq = row["seq"]
        if row["status"] != "ok" or seq is None:
            continue
        writes, arrival = known[seq]["writes_ns"], known[seq]["arrival_ns"]
        first = row["frame_ns"][0] if row["frame_ns"] else row["first_token_ns"]
        last = row["frame_ns"][-1] if row["frame_ns"] else row["last_token_ns"]
        assert first - row["sent_ns"] == pytest.approx(writes[0] - arrival, abs=10e6)
        assert last - first == pytest.approx(writes[-1] - writes[0], abs=10e6)
        compared += 1
    assert compared >= 35


def test_aiperf_of_2025():
    """The older schema: 100 offered, 89 good, 11 cancelled, TTFT as known."""
    report = slo.analyse(importers.read(shared_data("aiperf-run1-profile_export.jsonl")))
    assert (report.offered, report.succeeded) == (100, 89)
    assert report.by_status == {"cancelled": 11, "ok": 89}
    assert report.ttft_ms.mean == pytest.approx(2343.22, abs=5e-3)
    assert report.ttft_ms.p99 == pytest.approx(3833.389, abs=5e-4)
    assert report.error_rate == 0.11
    assert report.joint_attainment.unknown == 0


# ---------------------------------------------------------------- without the shared files


def vllm_file(**change):
    """A small result of ``vllm bench serve --save-detailed``: two answers, one failure."""
    return {
        "duration": 2.0, "request_rate": 1.0, "input_lens": [10, 10, 10], "output_lens": [3, 3, 0],
        "ttfts": [0.05, 0.06, 0.0], "itls": [[0.01, 0.02], [0.01, 0.01], []], "errors": ["", "", "HTTP error: 503 busy"],
        "start_times": [100.0, 101.0, 101.5], "latencies": [0.08, 0.08, 0.0],
    } | change  # fmt: skip


def read_json(tmp_path, document, name="x.json"):
    """Import a document by way of a file."""
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return importers.read(path)


def test_vllm_file(tmp_path):
    """A failed request's zeros become no latency, and its HTTP status a rejection."""
    run = read_json(tmp_path, vllm_file())
    rows = records.rows(run.table)
    assert rows[2]["status"] == "rejected" and rows[2]["frame_ns"] is None and rows[2]["end_ns"] is None
    assert rows[0]["frame_ns"] == [50_000_000, 60_000_000, 80_000_000]
    report = slo.analyse(run)
    assert report.ttft_ms.mean == pytest.approx(55) and report.ttft_ms.n == 2


@pytest.mark.parametrize("key", ["request_goodput", "request_goodput:"])
def test_both_spellings_of_goodput(tmp_path, key):
    """Older files spell the key with a colon; both are understood."""
    run = read_json(tmp_path, vllm_file(**{key: 0.5}))
    assert run.provenance["summary"]["tool_goodput_rps"] == 0.5


def test_vllm_file_without_start_times(tmp_path):
    """Old files have no start times: latencies are known, anything that needs a clock is not."""
    document = vllm_file()
    del document["start_times"], document["latencies"]
    report = slo.analyse(read_json(tmp_path, document))
    assert report.ttft_ms.n == 2 and report.e2e_ms.max == pytest.approx(80)
    assert report.queue_trend.result == "not_evaluable" and report.throughput_rps == pytest.approx(1.0)


def test_nan_is_refused(tmp_path):
    """NaN in a file is bad input with its place, not a number."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps(vllm_file(ttfts=[0.05, float("nan"), 0.0])))
    with pytest.raises(BadInput, match=r"x.json, ttfts\[1\]: found nan, expected a finite number"):
        importers.read(path)
    with pytest.raises(BadInput, match="2 itls"):
        read_json(tmp_path, vllm_file(itls=[[], []]))


def test_several_tokens_a_chunk_are_no_suspicion(tmp_path):
    """Where most answers have fewer chunks than tokens, that is how this server sends."""
    run = read_json(tmp_path, vllm_file(output_lens=[6, 6, 0]))
    assert run.provenance["summary"]["unverified"] == []
    assert run.table["frame_tokens"].to_pylist()[0] is None
    assert slo.analyse(run).tpot_ms.mean == pytest.approx((30 / 5 + 20 / 5) / 2)


def test_records_are_read_too(tmp_path):
    """The importer reads the project's own files, by content."""
    table = records.table_from_rows([answer(0)])
    records.write_jsonl(tmp_path / "r.jsonl", table)
    assert importers.read(tmp_path / "r.jsonl").table.equals(table)


@pytest.mark.parametrize("text", ["{}", "[]", "3", "", '{"request_throughput": 3}', "a,b\n1,2\n", '{"benchmarks": []}'])
def test_unknown_formats_are_refused(tmp_path, text):
    """An unknown format is refused with what was looked for."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        importers.read(path)
    assert "x.json" in str(error.value)
    with pytest.raises(BadInput, match="no plain file"):
        importers.read("/dev/zero")


def test_a_cut_line_of_aiperf(tmp_path):
    """A damaged line is named; on request the others are read."""
    line = json.dumps({"metadata": {"x_request_id": "a", "timestamp_ns": 5}, "metrics": {"ttft": {"value": 1.0, "unit": "ms"}}})
    path = tmp_path / "x.jsonl"
    path.write_text(line + "\n" + line[:30] + "\n")
    with pytest.raises(BadInput, match="line 2"):
        importers.read(path)
    assert importers.read(path, partial=True).table.num_rows == 1


def test_nothing_there(tmp_path):
    """A path that does not exist is bad input."""
    with pytest.raises(BadInput):
        importers.read(tmp_path / "none.json")


# ---------------------------------------------------------------- values of another kind than belong there

GUIDELLM = {
    "metadata": {"guidellm_version": "1"},
    "benchmarks": [{
        "config": {"strategy": {"rate": 1.0, "random_seed": 3}}, "start_time": 100.0, "duration": 2.0,
        "requests": {"errored": [], "incomplete": [], "successful": [{
            "response_id": "a", "info": {"error": None, "timings": {
                "targeted_start": 100.0, "request_start": 100.1, "first_token_iteration": 100.2,
                "last_token_iteration": 100.4, "request_end": 100.5, "resolve_end": 100.5}},
            "input_metrics": {"total_tokens": 5, "cached_tokens": 0}, "output_metrics": {"total_tokens": 3},
        }]},
    }],
}  # fmt: skip
AIPERF = {
    "metadata": {"x_request_id": "a", "request_start_ns": 10**18, "request_end_ns": 10**18 + 5, "credit_issued_ns": 10**18,
                 "benchmark_phase": "profiling"},
    "metrics": {name: {"value": value, "unit": unit} for name, value, unit in (
        ("time_to_first_token", 5.0, "ms"), ("inter_chunk_latency", [1.0, 2.0], "ms"), ("request_latency", 9.0, "ms"),
        ("input_sequence_length", 5, "tokens"), ("output_sequence_length", 3, "tokens"),
        ("http_req_connection_reused", 1, ""))},
    "trace_data": {"response_status_code": 200, "connecting_ns": 5}, "error": None,
}  # fmt: skip
STRANGE = (None, 5, -1, True, "x", "", [], [5], [None], [[["x"]]], {"a": 1}, 1e308, 10**400, float("nan"), 2**63, "\ud800")


def paths(document, at=()):
    """Every place in a document, as the keys down to it."""
    yield at
    for key, value in document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ():
        yield from paths(value, (*at, key))


def put(document, at, value):
    """A copy with the value at one place replaced."""
    if not at:
        return value
    changed = copy.copy(document)
    changed[at[0]] = put(document[at[0]], at[1:], value)
    return changed


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "aiperf"])
def test_a_strange_value_anywhere_is_read_or_refused(tmp_path, tool):
    """Whatever stands in whatever place: the run is read and judged, or one message names the file."""
    document = {"vllm": vllm_file(date="x", request_goodput=1.0), "guidellm": GUIDELLM, "aiperf": AIPERF}[tool]
    refused = tried = 0
    for at in paths(document):
        for value in STRANGE:
            tried += 1
            try:
                run = read_json(tmp_path, put(document, at, value))
            except BadInput as error:
                refused += 1
                assert "x.json" in str(error) and len(str(error)) < 500, (at, value)
                continue
            if tried % 8 == 0:  # judging takes ten times as long as reading
                with contextlib.suppress(BadInput):
                    slo.analyse(run).to_dict()
    assert refused > 100
    assert slo.analyse(read_json(tmp_path, document)).offered in (1, 3)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (vllm_file(itls=[[0.01], 5, []]), "itls[1]: found 5, expected a list"),
        (vllm_file(itls=[[None], [], []]), "itls[0][0]: found null, expected a finite number"),
        (vllm_file(errors=[[["x"]], "", ""]), "errors[0]: found [['x']] (list), expected text"),
        (vllm_file(ttfts=None), "ttfts: found null, expected a list"),
        (vllm_file(duration=1e308), "duration: found 1e+308, expected a time of less than a century"),
        (put(GUIDELLM, ("benchmarks", 0), 5), "benchmarks[0]: found 5, expected an object"),
        (put(GUIDELLM, ("benchmarks", 0, "requests", "successful"), 5), "benchmarks[0].requests.successful: found 5, expected a list"),
        (put(GUIDELLM, ("benchmarks", 0, "requests", "successful", 0, "info"), 5), "successful[0].info: found 5, expected an object"),
        (put(AIPERF, ("error",), "boom"), "line 1, error: found 'boom' (str), expected an object"),
        (put(AIPERF, ("metadata", "request_end_ns"), "x"), "line 1, metadata.request_end_ns: found 'x' (str), expected a finite number"),
        (put(AIPERF, ("metrics", "inter_chunk_latency", "value"), 5), "metrics.inter_chunk_latency.value: found 5, expected a list"),
    ],
)  # fmt: skip
def test_a_strange_value_is_named_with_its_keys(tmp_path, document, place):
    """The message gives file, key path, found and expected."""
    with pytest.raises(BadInput) as caught:
        read_json(tmp_path, document)
    assert str(caught.value).startswith(str(tmp_path / "x.json")) and place in str(caught.value)


def test_brackets_without_end_are_refused(tmp_path):
    """A file of a hundred thousand brackets is no result, as one document and line by line."""
    for text in ("[" * 100_000, '{"metadata": ' + "[" * 100_000 + "\n{}"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(BadInput, match="x.json, line 1: found values nested without end"):
            importers.read(tmp_path / "x.json")
