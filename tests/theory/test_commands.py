"""``pdlab kv``, ``handoff`` and ``transfer-model``: keys, numbers, and one message for bad input."""

from __future__ import annotations

import json

import pytest

from pdlab.course.cli import main
from pdlab.theory import kv

CONFIG = str(kv.MODELS_DIR / "llama-3.1-70b.json")


def document(capsys, *argv: str) -> dict:
    """The JSON that a command prints last; it must succeed and print nothing else."""
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_kv_keys_and_numbers(capsys):
    """All keys, with the worked example's numbers and per-rank and block sizes."""
    found = document(capsys, "kv", CONFIG, "--tokens", "2000", "--tp", "8", "--block-size", "128")
    expected = {"bytes_per_token": 327_680, "kv_bytes": 655_360_000, "kv_mib": 625.0,
                "attention": "GQA", "per_rank_bytes": 81_920_000, "blocks": 16,
                "block_bytes_total": 2048 * 327_680, "label": "hypothetical"}
    assert expected.items() <= found.items()


def test_kv_fp8_scales(capsys):
    """The scales flag reaches the arithmetic."""
    found = document(capsys, "kv", CONFIG, "--tokens", "1", "--dtype", "fp8",
                     "--fp8-scales", "per-token-head")
    assert found["bytes_per_token"] == 168_960


def test_kv_takes_a_short_name_and_prints_a_table(capsys):
    """A shipped model goes by its name; people get a table."""
    assert main(["kv", "smollm2-135m", "--tokens", "100", "--block-size", "128"]) == 0
    out = capsys.readouterr().out
    assert "2,304,000" in out and "2,949,120" in out and "hypothetical" in out


def test_handoff_links(capsys):
    """One row a link, in order, with both floors and the verdict, however the flag is given."""
    base = ("handoff", CONFIG, "--tokens", "2000", "--setup-ms", "1", "--budget-ms", "20")
    found = document(capsys, *base, "--link", "100", "25", "--link", "10")
    rows = found["links"]
    assert [r["effective_bandwidth_gb_s"] for r in rows] == [100, 25, 10]
    assert [round(r["bandwidth_floor_ms"], 4) for r in rows] == [6.5536, 26.2144, 65.5360]
    assert [round(r["handoff_floor_ms"], 4) for r in rows] == [7.5536, 27.2144, 66.5360]
    assert [r["within_budget"] for r in rows] == [True, False, False]
    assert main([*base, "--link", "25"]) == 0
    assert "27.2144" in capsys.readouterr().out


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_transfer_model_document(capsys, flag):
    """Exactly the agreed keys and the course's numbers, with the flag or without."""
    assert main(["transfer-model", *flag]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["scope", "bytes_per_token", "prompt_tokens", "kv_bytes", "kv_mib",
                           "links", "broken_short_prompt_case"]
    assert (found["bytes_per_token"], found["prompt_tokens"]) == (327_680, 2000)
    assert (found["kv_bytes"], found["kv_mib"]) == (655_360_000, 625.0)
    assert [tuple(row.values()) for row in found["links"]] == [
        (100.0, 6.5536, 7.5536, True), (25.0, 26.2144, 27.2144, False),
        (10.0, 65.536, 66.536, False)]
    assert set(found["links"][0]) == {"effective_bandwidth_gb_s", "bandwidth_floor_ms",
                                      "handoff_floor_ms", "floor_within_20ms_budget"}
    assert found["broken_short_prompt_case"] == {
        "prompt_tokens": 300, "effective_bandwidth_gb_s": 10.0, "handoff_floor_ms": 10.8304}


KV = ["kv", CONFIG, "--tokens", "10"]
HANDOFF = ["handoff", CONFIG, "--tokens", "10", "--setup-ms", "1", "--budget-ms", "20", "--link", "25"]


@pytest.mark.parametrize("argv", [
    [*KV, "--tokens", "-1"], [*KV, "--tokens", "0"], [*KV, "--tokens", "1e3"],
    [*KV, "--tokens", "nan"], [*KV, "--tokens", "9" * 30], [*KV, "--tokens", "9" * 5000],
    [*KV, "--tp", "3"], [*KV, "--tp", "0"], [*KV, "--dtype", "int4"], [*KV, "--dtype", ""],
    [*KV, "--fp8-scales", "per-token-head"], [*KV, "--dtype", "fp8", "--fp8-scales", "some"],
    [*KV, "--block-size", "0"], [*KV, "--block-size", "x"],
    [*HANDOFF, "--link", "0"], [*HANDOFF, "--link", "-25"], [*HANDOFF, "--link", "nan"],
    [*HANDOFF, "--link", "inf"], [*HANDOFF, "--link", "25GB"], [*HANDOFF, "--link", "1e30"],
    [*HANDOFF, "--setup-ms", "-1"], [*HANDOFF, "--setup-ms", "nan"], [*HANDOFF, "--budget-ms", "0"],
    [*HANDOFF, "--budget-ms", "inf"], [*HANDOFF, "--tokens", "0"], [*HANDOFF, "--dtype", "bf16"],
    ["kv", str(kv.MODELS_DIR), "--tokens", "1"], ["kv", "no-such.json", "--tokens", "1"],
    ["kv", "", "--tokens", "1"], ["kv", "a\0b", "--tokens", "1"], ["kv", "x" * 5000, "--tokens", "1"],
    ["handoff", "/dev/null", *HANDOFF[2:]],
], ids=lambda argv: " ".join(argv)[-40:])
def test_bad_input_is_one_message_and_status_2(argv, capsys):
    """Found, expected, where; nothing on stdout, no traceback."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "found" in err and "expected" in err


@pytest.mark.parametrize("content", [
    b"", b"{", b"not json", b"[1, 2]", b"3", b"null", b"\xff\xfe\x00", b"{}", b'{"num_hidden_layers": 1e999}',
    b"[" * 100_000, b'{"num_hidden_layers": NaN, "num_attention_heads": 1, "hidden_size": 64}',
])
def test_files_that_are_no_config(content, tmp_path, capsys):
    """Truncated, binary, deeply nested and field-less files are named, not crashed on."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert main(["kv", str(path), "--tokens", "1"]) == 2
    err = capsys.readouterr().err
    assert str(path) in err and err.count("\n") == 1
