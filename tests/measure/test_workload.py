"""Schedules, populations, prompts and traces."""

import json
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.measure import traces, workload
from pdlab.measure.workload import Kind, Request
from tests.shared import shared_data

POISSON = workload.poisson_ms(4, 2000, seed=7)
MIXED = (
    Kind("short", 0.5, prompt_tokens=300, output_tokens=150),
    Kind("long", 0.2, prompt_tokens=4000, output_tokens=200),
    Kind("shared", 0.3, prompt_tokens=2000, output_tokens=200, shared_tokens=1536, groups=4),
)


def test_poisson_is_one_unstretched_stream():
    """A longer schedule begins with the shorter one, and the rate is random, not forced."""
    assert workload.poisson_ms(4, 500, seed=7) == POISSON[:500]
    assert POISSON[-1] != pytest.approx(500_000, rel=1e-4)
    assert POISSON[-1] == pytest.approx(500_000, rel=0.1)


def test_poisson_gaps_scatter_as_a_poisson_process_does():
    """The gaps' standard deviation equals their mean, within 10 % at 2,000 gaps."""
    gaps = np.diff([0, *POISSON])
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1, abs=0.1)


def test_poisson_seed_pins_the_values():
    """These two numbers guard every recorded schedule against a change of generator."""
    assert workload.poisson_ms(1, 2, seed=0) == pytest.approx([1860.607111, 3279.236264])
    assert workload.poisson_ms(2, 2, seed=0) == pytest.approx([930.303556, 1639.618132])


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_an_impossible_rate_is_refused(rate):
    """A rate must be a finite number above 0."""
    with pytest.raises(BadInput, match="above 0"):
        workload.poisson_ms(rate, 1, seed=0)


def test_population_is_seeded_and_independent_of_the_rate():
    """Another rate meets the same prompts; another seed meets others."""
    slow = workload.population(MIXED, workload.poisson_ms(1, 300, 1), seed=5, block_tokens=128)
    fast = workload.population(MIXED, workload.poisson_ms(9, 300, 1), seed=5, block_tokens=128)
    other = workload.population(MIXED, workload.poisson_ms(1, 300, 1), seed=6, block_tokens=128)
    assert [r.hash_ids for r in slow] == [r.hash_ids for r in fast]
    assert [r.kind for r in slow] != [r.kind for r in other]
    assert {r.kind for r in slow} == {"short", "long", "shared"}


def test_shared_prefixes_are_shared_within_a_group_only():
    """Two groups of 1,024 common tokens: prompts share 8 blocks of 128, or none."""
    trace = workload.uniform(2000, 10, range(0, 40_000, 1000), 128, shared_tokens=1024, groups=2)
    heads = {r.hash_ids[:8] for r in trace}
    tails = [i for r in trace for i in r.hash_ids[8:]]
    assert len(heads) == 2 and len(tails) == len(set(tails)) == 40 * 8
    assert workload.hit_ratio(trace) == pytest.approx(38 * 8 / (40 * 16))
    assert workload.hit_ratio(workload.cold(trace)) == 0


def test_a_prefix_longer_than_the_prompt_is_refused():
    """No prompt of 100 tokens can share 200."""
    with pytest.raises(BadInput, match="200 shared tokens"):
        workload.population([Kind("odd", 1, 100, 1, shared_tokens=200)], [0.0], 0, 16)


def test_window_and_scale_keep_the_pattern():
    """A slice starts its own clock; half the time is twice the rate."""
    trace = workload.uniform(10, 1, range(0, 10_000, 1000), 16)
    cut = workload.window(trace, 3000, 6000)
    assert [(r.seq, r.at_ms) for r in cut] == [(0, 0), (1, 1000), (2, 2000)]
    assert [r.at_ms for r in workload.scale_time(cut, 0.5)] == [0, 500, 1000]
    assert len(workload.head(trace, 4)) == 4


# ── prompts ─────────────────────────────────────────────────────────────────────────────────


def _tokens(ids: tuple[int, ...], length: int, vocab: int = 4096, block: int = 16) -> list[int]:
    return workload.token_ids(Request(0, 0, length, 1, ids), vocab, block).tolist()


def test_token_ids_pin_the_values():
    """The same ids give the same prompt on every machine and in every release."""
    assert _tokens((0, 5), 20) == [
        100, 473, 3686, 804, 1992, 256, 1316, 2468, 2240, 1891, 4053, 3777, 764, 1241,
        841, 1265, 105, 1633, 917, 3970,
    ]  # fmt: skip


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=6, unique=True), st.integers(1, 16))
def test_prompts_share_exactly_the_prefix_that_their_ids_share(ids, tail):
    """Equal up to the first id that differs, and different within three tokens after it."""
    one, two = tuple(ids[:-1]), (*ids[:-2], ids[-1])
    length = 16 * (len(one) - 1) + max(tail, 3)
    a, b = _tokens(one, length), _tokens(two, length)
    cut = 16 * (len(one) - 1)
    assert len(a) == length and a[:cut] == b[:cut]
    assert a[cut : cut + 3] != b[cut : cut + 3]
    assert min(a) >= 100 and max(a) < 4096


def test_a_shorter_prompt_is_the_beginning_of_a_longer_one():
    """The last block is cut, not drawn anew."""
    assert _tokens((1, 2), 19) == _tokens((1, 2), 32)[:19]


def test_token_ids_refuse_the_wrong_block_size():
    """Two ids cannot describe 100 tokens in blocks of 16."""
    with pytest.raises(BadInput, match="expected 7"):
        _tokens((1, 2), 100)


# ── traces ──────────────────────────────────────────────────────────────────────────────────


def test_a_trace_survives_writing_and_reading(tmp_path):
    """Times, lengths, ids, kinds and the block size all come back."""
    trace = workload.population(MIXED, POISSON[:50], seed=3, block_tokens=128)
    traces.write_trace(trace, tmp_path / "t.jsonl", seed=3)
    back = traces.read_trace(tmp_path / "t.jsonl")
    assert back.requests == trace.requests and back.block_tokens == 128
    assert json.loads((tmp_path / "t.meta.json").read_text())["seed"] == 3


GOOD = '{"timestamp": 5, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}'


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "expected one JSON object a line"),
        ("[" * 100_000, "nested without end"),
        (GOOD.replace("600", "9" * 400), "input_length a whole number of"),
        (GOOD.replace("600", "9" * 5000), "one JSON object a line"),
        (GOOD.replace("600", "true"), "input_length True"),
        (GOOD.replace("2,", "1e15,"), "expected a whole number from 0 to 10,000,000"),
        (GOOD.replace("5,", "1e300,"), "timestamp 1e+300"),
        ("[1]", "a JSON list"),
        (GOOD.replace("600", "0"), "input_length 0"),
        (GOOD.replace("600", "6.5"), "input_length 6.5"),
        (GOOD.replace("600", '"x"'), "input_length 'x'"),
        (GOOD.replace("600", "NaN"), "input_length nan"),
        (GOOD.replace('"output_length": 2, ', ""), "output_length null"),
        (GOOD.replace("[0, 1]", "[0, -1]"), "hash_ids"),
        (GOOD.replace("[0, 1]", "[0]"), "1 hash_ids for 600 tokens, expected 2"),
        (GOOD.replace("5,", "4,"), "time 4.0 ms after 5.0 ms"),
    ],
)
def test_a_bad_mooncake_row_is_refused_with_its_line(tmp_path, bad, says):
    """The message names file and line, and what was found."""
    path = tmp_path / "t.jsonl"
    path.write_text(f"{GOOD}\n{bad}\n{GOOD}\n")
    with pytest.raises(BadInput) as error:
        traces.read_trace(path)
    assert says in str(error.value) and error.value.where == f"{path}:2"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", ":2"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1,x\n", ":2"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1\n", ":2"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", ""),
        ("when,what\n1,2\n", ":1"),
        ("", ":1"),
    ],
)
def test_a_bad_azure_file_is_refused(tmp_path, text, where):
    """A wrong header, time, number or an empty file: refused with the place."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        traces.read_trace(path)
    assert error.value.where == f"{path}{where}"


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AT = "2023-11-16 18:17:03.97"


@pytest.mark.parametrize("text", [f"\ufeff{AZURE}{AT},5,6\n", f"{AZURE}{AT},5,6\n".replace("\n", "\r\n"), f"{AZURE}{AT},5,6"])
def test_an_azure_file_may_have_a_mark_or_other_line_ends(tmp_path, text):
    """A byte order mark, Windows line ends and a last line without an end change nothing."""
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    (request,) = traces.read_trace(tmp_path / "t.csv")
    assert (request.prompt_tokens, request.output_tokens) == (5, 6)


@pytest.mark.parametrize(
    "row",
    [f"{AT},5,6,7", f"{AT},５,6", f"{AT},1_0,6", f'{AT},"5,000",6', f"{AT},5\u202f000,6", f"{AT},{'9' * 400},6", f"{AT},1e14,6", f'"{AT},5,6',
     f"{AT},5\0,6", f'"{AT}{"x" * 200_000}",5,6', ""],
)  # fmt: skip
def test_a_strange_azure_row_is_refused(tmp_path, row):
    """Columns too many, digits of other scripts, numbers without end, open quotes: one message that names the file."""
    (tmp_path / "t.csv").write_text(f"{AZURE}{row}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="t.csv") as caught:
        traces.read_trace(tmp_path / "t.csv")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("header", ["ContextTokens,TIMESTAMP,GeneratedTokens", "TIMESTAMP, ContextTokens, GeneratedTokens", "a;b;c"])
def test_columns_in_another_order_are_refused(tmp_path, header):
    """The header is Azure's own or none."""
    (tmp_path / "t.csv").write_text(f"{header}\n{AT},5,6\n")
    with pytest.raises(BadInput, match="t.csv:1: found a first line"):
        traces.read_trace(tmp_path / "t.csv")


@pytest.mark.parametrize("late", [b"\xff\xff\n", b"\xed\xa0\x80\n"])
def test_bytes_that_are_no_text_are_refused(tmp_path, late):
    """Also behind good lines, in either format."""
    for name, text in (("t.jsonl", GOOD + "\n"), ("t.csv", f"{AZURE}{AT},5,6\n")):
        (tmp_path / name).write_bytes(text.encode() + late)
        with pytest.raises(BadInput, match=f"{name}: found bytes that are no text"):
            traces.read_trace(tmp_path / name)


@pytest.mark.parametrize("meta", [b"{", b"[]", b'{"block_tokens": 1e300}', b'{"block_tokens": "x"}', b"\0", b"\xff", b'{"block_tokens": 1.5}',
                                  b'{"block_tokens": ' + b"9" * 5000 + b"}"])  # fmt: skip
def test_a_strange_declaration_is_refused(tmp_path, meta):
    """What stands beside a trace is read as carefully as the trace."""
    (tmp_path / "t.jsonl").write_text(GOOD + "\n")
    (tmp_path / "t.meta.json").write_bytes(meta)
    with pytest.raises(BadInput, match="t.meta.json"):
        traces.read_trace(tmp_path / "t.jsonl")


def test_azure_times_keep_their_seventh_decimal(tmp_path):
    """Times count from the first row, in steps of 100 ns, across midnight; either line end."""
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        b"2023-11-16 23:59:59.9999999,10,2\r\n2023-11-17 00:00:00.0000001,513,3\r\n"
    )
    trace = traces.read_trace(path)
    assert [r.at_ms for r in trace] == [0, 0.0002]
    assert [len(r.hash_ids) for r in trace] == [1, 2]
    assert not trace.prefixes_known


def test_mooncake_conversation_trace_matches_its_published_facts():
    """12,031 requests; means 12,035.06 and 342.6; an endless cache hits 0.366 of the blocks."""
    trace = traces.read_trace(shared_data("mooncake-conversation_trace.jsonl"))
    found = workload.summary(trace)
    assert found["requests"] == 12_031
    assert found["prompt_tokens"]["mean"] == pytest.approx(12_035.06, abs=0.005)
    assert found["output_tokens"]["mean"] == pytest.approx(342.6, abs=0.05)
    assert found["block_hit_ratio"] == pytest.approx(0.366, abs=0.0005)
    assert len(workload.token_ids(trace.requests[0], 49_152, trace.block_tokens)) == 6758


@pytest.mark.parametrize(
    ("name", "rows", "prompt", "output", "seconds"),
    [("code", 8_819, 1_469, 13, 3_436), ("conv", 19_366, 1_020, 129, 3_502)],
)
def test_azure_traces_match_their_published_facts(name, rows, prompt, output, seconds):
    """Row counts, medians and spans of the two 2023 traces; no prefix reuse is claimed."""
    trace = traces.read_trace(shared_data(f"AzureLLMInferenceTrace_{name}.csv"))
    found = workload.summary(trace)
    assert found["requests"] == rows
    assert found["prompt_tokens"]["p50"] == prompt
    assert found["output_tokens"]["p50"] == output
    assert found["duration_s"] == pytest.approx(seconds, abs=0.5)
    assert found["block_hit_ratio"] is None


def test_the_trace_command_prints_a_table_or_json(tmp_path, capsys):
    """People get a table, programs one JSON document, and bad input exits 2 with the line."""
    path = tmp_path / "t.jsonl"
    traces.write_trace(workload.uniform(300, 9, range(0, 2500, 500), 128), path)
    assert cli.main(["trace", str(path)]) == 0
    assert "5 over 2.0 s" in capsys.readouterr().out
    assert cli.main(["trace", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rate_rps"] == 2
    path.write_text("{}\n")
    assert cli.main(["trace", str(path)]) == 2
    assert f"{path}:1" in capsys.readouterr().err
