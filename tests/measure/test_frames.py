"""Streams as servers send them: status, tokens and times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdlab.measure import frames

CASES = json.loads(Path(__file__).with_name("stream-cases.json").read_text())["cases"]
MS = 1_000_000


def chunk(tokens_so_far=None, finish=None, delta=None, usage_only=False):
    """One event of a chat completion as raw text."""
    body = {"choices": [] if usage_only else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}
    if tokens_so_far is not None:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": tokens_so_far}
    return f"data: {json.dumps(body)}\n\n"


def text(content, **more):
    """One event whose delta carries ``content``."""
    return chunk(delta={"content": content}, **more)


DONE = "data: [DONE]\n\n"


def read(*parts, **options):
    """Read events that arrive 10 ms apart."""
    return frames.read_stream([(10 * MS * i, part) for i, part in enumerate(parts)], **options)


def latencies(stream):
    """(ttft, tpot, largest gap, e2e) in ms of a successful stream, by the definitions of the course."""
    at, n = stream.frame_ns, stream.output_tokens
    tpot = (at[-1] - at[0]) / (n - 1) / MS if n > 1 else None
    gap = max((b - a for a, b in zip(at, at[1:], strict=False)), default=None)
    return at[0] / MS, tpot, None if gap is None else gap / MS, at[-1] / MS


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_known_streams(case):
    """Every kind of stream that is reported as wrongly measured is measured right."""
    got = frames.read_stream([(round(at * MS), raw) for at, raw in case["frames"]])
    want = case["expected"]
    assert ("succeeded" if got.status == "ok" else "failed") == want["status"]
    assert got.output_tokens == want["output_tokens"]
    if got.frame_ns:
        assert got.frame_ns[0] / MS == want["ttft_ms"]
    else:
        assert want["ttft_ms"] is None
    if got.status == "ok":
        ttft, tpot, gap, e2e = latencies(got)
        assert tpot == (None if want["tpot_ms"] is None else pytest.approx(want["tpot_ms"], rel=1e-6))
        assert (gap, e2e) == (want["max_itl_ms"], want["e2e_ms"])
    else:
        assert got.error


def test_there_are_cases():
    """The file of cases has not gone empty."""
    assert len(CASES) >= 13


@given(st.sampled_from(CASES), st.data())
def test_cutting_the_bytes_elsewhere_changes_nothing_but_the_stamps(case, data):
    """Where the network cuts a stream into chunks does not change its status, tokens or error."""
    whole = "".join(raw for _, raw in case["frames"]).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    got = frames.read_stream(list(enumerate(pieces)))
    want = frames.read_stream([(0, raw) for _, raw in case["frames"]])
    assert (got.status, got.output_tokens, got.error) == (want.status, want.output_tokens, want.error)
    assert got.frame_tokens == want.frame_tokens


def test_an_event_arrives_with_its_last_byte():
    """A frame split over two reads has the stamp of the second."""
    raw = text("a")
    got = frames.read_stream([(1, raw[:20]), (2, raw[20:] + text("b", finish="stop")), (3, DONE)])
    assert (got.frame_ns, got.frame_tokens) == ([2, 2], [1, 1])


def test_usage_that_contradicts_the_count_leaves_the_frames_unknown():
    """Three frames and nine tokens without continuous usage: the total is known, the split is not."""
    got = read(text("abc"), text("def"), text("g", finish="stop"), chunk(9, usage_only=True), DONE)
    assert (got.status, got.output_tokens, got.frame_tokens) == ("ok", 9, None)
    assert len(got.frame_ns) == 3


def test_role_frame_with_usage_zero():
    """A role frame that carries usage 0 is no token."""
    got = read(chunk(0, delta={"role": "assistant", "content": ""}), text("a", tokens_so_far=1, finish="stop"), DONE)
    assert got.frame_ns == [10 * MS]


def test_completions_endpoint_and_tool_calls():
    """Plain completions carry ``text``; a tool call's name and arguments are generated tokens."""
    plain = read('data: {"choices": [{"text": "a"}]}\n\n', 'data: {"choices": [{"text": "b", "finish_reason": "length"}]}\n\n')
    assert (plain.status, plain.output_tokens) == ("ok", 2)
    call = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
    assert read(chunk(delta=call), chunk(finish="tool_calls"), DONE).output_tokens == 1


def test_a_null_error_is_no_error():
    """A frame whose error key is null is a frame like any other."""
    raw = 'data: {"error": null, "choices": [{"text": "a", "finish_reason": "stop"}]}\n\n'
    assert read(raw).status == "ok"


def test_error_as_object():
    """The older form, an object of kind error, is an error frame as well."""
    got = read(text("a"), 'data: {"object": "error", "message": "no", "code": 400}\n\n', DONE)
    assert (got.status, got.output_tokens) == ("failed", 1)
    assert "no" in got.error


def test_what_follows_the_end_marker_is_not_read():
    """Frames after [DONE] belong to nobody."""
    got = read(text("a", finish="stop"), DONE, text("b"))
    assert (got.status, got.output_tokens) == ("ok", 1)


@pytest.mark.parametrize("ended, status", [("closed", "failed"), ("timeout", "timeout"), ("cancelled", "cancelled")])
def test_incomplete_streams(ended, status):
    """A stream that stops before its end is failed, timed out or cancelled, as the client left it."""
    got = read(text("a"), ended=ended)
    assert (got.status, got.output_tokens) == (status, 1)
    assert read(text("a", finish="stop"), ended=ended).status == "ok"


def test_broken_json():
    """A frame that is no JSON fails the request; cut by the deadline, it is a timeout."""
    assert read(text("a"), "data: {oops}\n\n", text("b", finish="stop"), DONE).status == "failed"
    assert read(text("a"), 'data: {"choi', ended="timeout").status == "timeout"


def test_an_answer_that_shows_nothing_but_has_a_token():
    """Only an end-of-sequence token: usage counts it, and it came with the finishing frame."""
    got = read(chunk(delta={"role": "assistant"}), chunk(finish="stop"), chunk(1, usage_only=True), DONE)
    assert (got.status, got.output_tokens, got.frame_ns) == ("ok", 1, [10 * MS])


def test_aborted_by_the_server():
    """A finish reason of abort is not a success."""
    assert read(text("a"), chunk(finish="abort"), DONE).status == "failed"


@pytest.mark.parametrize("code, status", [(500, "failed"), (429, "rejected"), (503, "rejected"), (504, "timeout")])
def test_other_http_statuses(code, status):
    """Anything but HTTP 200 is no answer, whatever its body says."""
    got = read('{"error": "busy"}', http_status=code)
    assert (got.status, got.output_tokens, got.frame_ns) == (status, 0, [])
    assert str(code) in got.error


def test_cached_tokens():
    """Cached prompt tokens are taken from usage where it has them, and stay unknown where it has not."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    body = {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": usage}
    assert read(f"data: {json.dumps(body)}\n\n").cached_tokens == 8
    assert read(text("a", finish="stop")).cached_tokens is None
