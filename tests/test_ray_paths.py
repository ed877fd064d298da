"""What is read off a Ray cluster beside the client's records: calls, connections, steps of a request."""

import datetime

from pdlab.live.ray import calls, sweep, wires

LOG = """\
INFO 2026-11-30 08:11:38,873 disaggregated_Prefill:tiny pgh10u36 probe-5 -- CALL completions OK 615.8ms
INFO 2026-11-30 08:11:40,011 disaggregated_Decode:tiny 4xyhxeg8 probe-5 -- CALL completions OK 1761.0ms
INFO 2026-11-30 08:11:40,027 disaggregated_OpenAiIngress 595wkq25 probe-5 -- POST /v1/completions 200 1790.2ms
INFO 2026-11-30 08:11:40,036 proxy 192.0.2.2 probe-5 -- POST /v1/completions 200 1806.0ms
INFO 2026-11-30 08:11:41,000 proxy 192.0.2.2 other -- GET /-/healthz 200 1.0ms
INFO 2026-11-30 08:10:01,918 disaggregated_Decode:tiny 4xyhxeg8 -- Started initializing replica.
"""
SOCKETS = """\
ESTAB 0      0         127.0.0.1:10      127.0.0.1:20 users:(("ray::ServeReplica",pid=1,fd=11)) cubic bytes_sent:{} bytes_acked:{} bytes_received:9
ESTAB 0      0         127.0.0.1:20      127.0.0.1:10 users:(("ray::ServeReplica",pid=2,fd=12)) cubic bytes_acked:7 bytes_received:9
ESTAB 0      0         127.0.0.1:30      127.0.0.1:40 users:(("stranger",pid=3,fd=12)) cubic bytes_acked:7000
"""


def test_calls_are_told_by_hop_with_start_and_end():
    """Each finished call has its hop, its replica and its span; health checks and other lines are no calls."""
    found = {call.hop: call for call in calls.parse(LOG)}
    assert list(found) == ["prefill", "decode", "ingress", "proxy"]
    assert {call.request_id for call in found.values()} == {"probe-5"} and found["decode"].replica == "4xyhxeg8"
    ended = datetime.datetime(2026, 11, 30, 8, 11, 38, 873000).astimezone().timestamp()
    assert found["prefill"].end_ns == round(ended * 1000) * 10**6
    assert found["prefill"].end_ns - found["prefill"].start_ns == 615_800_000
    assert calls.hop("OpenAiIngress.initialize_and_get_metadata") == "ingress" and calls.hop("LLMServer:org--a_b") == "aggregated"
    nested = [found[hop] for hop in calls.ORDER if hop in found]
    assert all(outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns for outer, inner in zip(nested, nested[1:]))


def test_bytes_of_a_connection_go_from_its_owner_to_the_other_ends():
    """Only what was sent between the two looks counts, and only between processes with a name."""
    before, after = (wires.parse(SOCKETS.format(count, count)) for count in (100, 350))
    assert len(after) == 3
    assert wires.between(before, after, {1: "decode", 2: "prefill"}) == {("decode", "prefill"): 250}
    assert wires.between(before, after, {1: "decode"}) == {}


def test_rows_get_the_hops_and_the_pull_on_the_runs_clock():
    """A call's wall-clock times and a transfer's monotonic time land on one axis; ids join them."""
    second = 10**9
    seen = [
        calls.Call("run-00001", "decode", "dd", "completions", "OK", 105 * second, 109 * second),
        calls.Call("run-00001", "prefill", "pp", "completions", "OK", 106 * second, 107 * second),
    ]
    rows = [{"request_id": "run-00001", "stage_ns": None}, {"request_id": "run-00002", "stage_ns": {"stamp_doubt": 3}}]
    moved = [{"monotonic_ns": 8 * second, "bytes": 5, "notification": "cmpl-run-00001-0-af:1"}]
    sweep.add_steps(rows, seen, moved, [{"t0_monotonic_ns": 3 * second}], wall_minus_monotonic_ns=100 * second)
    assert rows[0]["route"] == "prefill-0 > decode-0" and rows[1]["route"] == ""
    assert rows[0]["stage_ns"] == {
        "serve_decode_start": 2 * second, "serve_decode_end": 6 * second,
        "serve_prefill_start": 3 * second, "serve_prefill_end": 4 * second, "nixl_done": 5 * second,
    }  # fmt: skip
    assert rows[1]["stage_ns"] == {"stamp_doubt": 3}
    assert moved == [{"bytes": 5, "notification": "cmpl-run-00001-0-af:1", "t_ns": 5 * second, "request_id": "run-00001"}]
