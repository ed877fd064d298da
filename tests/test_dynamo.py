"""Dynamo's router: its log lines read, and its recorded decisions against our rule."""

from __future__ import annotations

import json

import pytest

from pdlab.live import dynamo, dynamo_log
from pdlab.live.env import ROOT

# Printed by ai-dynamo 1.6.1's frontend.
REMOTE = r'''{"time":"2026-11-30T07:07:08.002616Z","level":"DEBUG","file":"/opt/dynamo/lib/llm/src/kv_router/prefill_router/conditional_bypass.rs","line":181,"target":"dynamo_llm::kv_router::prefill_router::conditional_bypass","message":"Conditional disagg decision","bypass":false,"cached_tokens":0,"decode_busy_threshold":"None","decode_chosen_worker_busy":"None","decode_gate_decision":"bypass_declined_by_policy","dp_rank":0,"net_new_tokens":257,"overlap_tokens":0,"parent_id":"c22400a4f613e112","potential_decode_blocks":17,"prefill_chosen_worker_busy":"None","prompt_tokens":257,"request_id":"7343c50a-ec82-4b10-b3f6-00e1a9780af5","span_id":"e150e67f882f8bae","span_name":"completions_single","trace_id":"04287e1bb8e9930a67bf00e6b4f29455","worker_id":14171461795292907806}'''
LOCAL = r'''{"time":"2026-11-30T07:07:08.693741Z","level":"DEBUG","file":"/opt/dynamo/lib/llm/src/kv_router/prefill_router/conditional_bypass.rs","line":181,"target":"dynamo_llm::kv_router::prefill_router::conditional_bypass","message":"Conditional disagg decision","bypass":true,"cached_tokens":256,"decode_busy_threshold":"None","decode_chosen_worker_busy":"None","decode_gate_decision":"bypass_allowed_decode_gate_disabled","dp_rank":0,"net_new_tokens":64,"overlap_tokens":256,"parent_id":"54c4154684e1284a","potential_decode_blocks":20,"prefill_chosen_worker_busy":"None","prompt_tokens":320,"request_id":"1d9551a4-4712-437a-886f-e9782e4c0abe","span_id":"7856d271069e4d03","span_name":"completions_single","trace_id":"84f36cff3d4d397ed006b29464c2dcde","worker_id":14171461795292907806}'''
OTHER = r'''{"time":"2026-11-30T07:07:06.923373Z","level":"INFO","file":"/opt/dynamo/lib/runtime/src/logging.rs","line":369,"target":"dynamo_runtime::logging","message":"OpenTelemetry OTLP export disabled, traces local only","console_format":"jsonl","service":"dynamo"}'''


def test_decisions_are_read_by_request_id() -> None:
    """A bypass is local, anything else remote; the router's own token counts come with it."""
    decisions, failures = dynamo_log.read(["Traceback (most recent call last):", "", OTHER, REMOTE, LOCAL, "7"])
    assert not failures
    remote, local = decisions.values()
    assert (remote.side, remote.prompt_tokens, remote.cached_on_decode_tokens) == ("remote", 257, 0)
    assert (local.side, local.prompt_tokens, local.cached_on_decode_tokens, local.uncached_tokens) == (
        "local", 320, 256, 64,
    )  # fmt: skip
    assert decisions[local.request_id] is local


def test_a_failed_decision_is_an_error_not_a_decision() -> None:
    """A request that falls back to remote prefill was not decided by the rule."""
    line = json.dumps({"message": dynamo_log.FAILED, "request_id": "r1", "error": "no decode worker"})
    assert dynamo_log.read([line]) == ({}, {"r1": "no decode worker"})


def document(**row: object) -> dict:
    """One setting as shipped, with one request."""
    return {"settings": [{"eff_isl_threshold": 2048, "eff_isl_ratio_threshold": 0.7, "requests": [row]}]}


@pytest.mark.parametrize(("decision", "found"), [("remote", 0), ("local", 1)])
def test_a_difference_is_found(decision: str, found: int) -> None:
    """A share of exactly 0.7 leaves; a router that kept it would differ from our rule."""
    row = {"prompt_tokens": 1600, "cached_on_decode_tokens": 480, "decision": decision}
    assert len(dynamo.differences(document(**row))) == found


def test_a_request_without_a_decision_is_a_difference() -> None:
    """Silence of the router never counts as agreement."""
    assert len(dynamo.differences(document(sent_tokens=40, decision=None))) == 1


def test_recorded_decisions_agree_with_our_rule() -> None:
    """Every recorded decision is our rule's, and the record has both sides of both thresholds."""
    recorded = dynamo.read(ROOT / "data/runs/dynamo")
    assert dynamo.differences(recorded) == []
    untold, *told = recorded["settings"]
    assert untold["predicted_ttl_s"] is None
    assert {row["decision"] for row in untold["requests"]} == {"remote"}
    for part in told:
        grid = [row for row in part["requests"] if row["kind"] == "grid"]
        assert {row["decision"] for row in grid} == {"local", "remote"}
        assert len(grid) == len(dynamo.GRID)
        for row in part["requests"]:
            assert row["prompt_tokens"] == row["sent_tokens"]
            assert row["cached_on_decode_tokens"] == row["primed_tokens"], row
