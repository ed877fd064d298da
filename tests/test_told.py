"""What the prose tells of a run or a sum is what the page beside it shows."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pdlab.live import dynamo, sim_points
from pdlab.measure import plan
from pdlab.theory import kv, link, queueing, roofline

ROOT = Path(__file__).parents[1]


class Page:
    """A built notebook: its prose in one string, its tables by caption, what its cells printed, and its figures' words."""

    def __init__(self, number: str) -> None:
        # The answers' copy: the learner's has the same prose, and keeps back what answers an exercise.
        cells = nbformat.read(next((ROOT / "solutions").glob(f"{number}-*.ipynb")), 4).cells
        self.prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        self.tables: dict[str, list[dict[str, str]]] = {}
        self.printed = self.figures = ""
        for output in (output for cell in cells for output in cell.get("outputs", ())):
            self.printed += output.get("text", "")
            shown = output.get("data", {})
            self.figures += shown.get("text/plain", "") if "<img" in shown.get("text/html", "") else ""
            for table in re.findall(r"<table.*?</table>", shown.get("text/html", ""), re.S):
                self.tables |= _table(table)

    def row(self, caption: str, **wanted: str) -> dict[str, str]:
        """The one row of the table whose caption begins so in which each named column (spaces as _) holds that value."""
        (rows,) = (rows for name, rows in self.tables.items() if name.startswith(caption))
        (found,) = (row for row in rows if all(row[key.replace("_", " ")] == value for key, value in wanted.items()))
        return found

    def after(self, words: str) -> list[float]:
        """The numbers printed after some words, to the end of that line."""
        (line,) = re.findall(f"{words}(.*)", self.printed)
        return [number(found) for found in re.findall(r"-?[\d,]*\.?\d+", line)]


def _table(markup: str) -> dict[str, list[dict[str, str]]]:
    def texts(tag: str, part: str) -> list[str]:
        return [html.unescape(text) for text in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", part, re.S)]

    names = texts("th", markup)
    rows = [dict(zip(names, texts("td", row))) for row in texts("tr", markup.partition("<tbody>")[2])]
    return {"".join(texts("caption", markup)): [{key: html.unescape(value) for key, value in row.items()} for row in rows]}


def number(text: str) -> float:
    """The first number in a cell: 5,072 of "5,072 ms"."""
    return float(re.search(r"-?[\d,]*\.?\d+", text)[0].replace(",", ""))


def parts(text: str) -> list[float]:
    """All numbers of a cell such as "0.92 to 1.00" or "100 / 112 / 160"."""
    return [number(found) for found in re.findall(r"[\d,]*\.?\d+", text)]


@functools.cache
def page(name: str) -> Page:
    return Page(name)


SHAPE = kv.uniform(layers=80, kv_heads=8, head_dim=128)
RANK_OF_8 = {tokens: kv.per_rank_bytes(SHAPE, tokens, 8) for tokens in (300, 2000, 8192)}
AGGREGATED, SPLIT = "Two TP8 replicas, each prefills", "One TP8 worker prefills"
GAPS, TTFTS = "gap P50/95/99/max, ms", "TTFT P50/95/99, ms"


def floor(tokens: int, gb_s: float) -> float:
    return link.bandwidth_floor_ms(RANK_OF_8[tokens], gb_s)


def p99(caption: str, rate: str, column: str) -> str:
    return f"{parts(page('07').row(caption, **{'requests/s': rate})[column])[2]:g}"


def sweep_2(design: str, rate: str) -> dict[str, str]:
    return page("L2").row("The plan's six runs", design=design, **{"req/s": rate})


def interval(row: dict[str, str]) -> list[float]:
    return parts(row["95 % interval"])


def apart(one: list[float], other: list[float]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def repeated(fault: str) -> dict[str, str]:
    return page("L3").row("Each fault many times", fault=fault)


def came_to_something() -> float:
    """The runs of the repeated faults, where none of them came to nothing."""
    about = json.loads((ROOT / "data/runs/faults-repeats/provenance.json").read_text())["summary"]
    assert about["runs_that_came_to_nothing"] == {}
    return sum(number(row["runs"]) for row in page("L3").tables["Each fault many times"])


def asked_of_dynamo() -> dict[str, Any]:
    return dynamo.read(ROOT / "data/runs/dynamo")


def mid_l4(rule: str, kind: str) -> float:
    (words,) = re.findall(rf"{re.escape(rule)}: (short [^;.]*)", page("L4").figures)
    return number(re.search(rf"{kind} ([\d,]+)", words)[1])


def bill(row: str, column: str) -> float:
    return number(page("05").row("One comparison, six entries", row=row)[column])


def kept(rule: str) -> float:
    return number(page("L4").row("Six runs of one trace", rule=rule)["attainment"])


def met(rule: str, target: str) -> float:
    return number(page("L4").row("Share of the offered requests", rule=rule)[f"met {target}"])


def ttft_1(setting: str) -> float:
    return sum(parts(page("01").row("Four streams", **{"the prompt goes to": setting})["TTFT of the prompt (ms)"])) / 2


def floor_512_ms() -> str:
    chunk = roofline.prefill(kv.load("llama-3.1-8b"), batch=1, tokens=512)
    return f"{roofline.floor_ms(chunk, roofline.device('h100-sxm')):.1f}"


def layout(*names: str) -> list[str]:
    return [page("07").row("Seven ways", **{"16 GPUs as": name})["capacity, requests/s"] for name in names]


DRAWN = ("2 × TP8, aggregated", "1 × TP8 + 1 × TP8", "4 × TP4, aggregated", "3 × TP4 + 1 × TP4")


def drawn(name: str) -> list[str]:
    """A layout's capacity by the trace and by each draw."""
    row = page("07").row("Capacity in requests/s, by four draws", **{"16 GPUs as": name})
    return [value for key, value in row.items() if key != "16 GPUs as"]


def prefill_room() -> int:
    """Tokens of KV for which a simulated TP8 prefill worker has room."""
    about = json.loads((ROOT / "data/runs/sim-reference/main/disaggregated-warm-8rps/provenance.json").read_text())
    return about["summary"]["kv_per_rank"]["prefill"]["capacity_tokens"]


def reference() -> plan.Comparison:
    return plan.load(ROOT / "data/plans/reference-16gpu.yaml").comparison


def ends(told: str, setting: str) -> tuple[str, ...]:
    """The two ends of a range in notebook 01's table, as they stand there."""
    return tuple(re.findall(r"[\d,]+", page("01").row("Four streams", **{"the prompt goes to": setting})[told]))


def tuned_2(what: str, column: str) -> float:
    return number(page("L2").row("Aggregated serving at", **{"aggregated with": what})[column])


def scene_2(setting: str, column: str) -> list[float]:
    return parts(page("L2").row("Four steady streams", **{"the prompt is computed as": setting})[column])


ONE_SERVER = ("whole prompt", "chunks of 512", "chunks of 128")


def usual_2() -> tuple[str, ...]:
    """The usual gap of lab L2's settings with one server, and the ends of its repetitions, in whole ms."""
    by_repetition = [ms for one in ONE_SERVER for ms in scene_2(one, "that, by repetition (ms)")]
    usual = [scene_2(one, "usual gap (ms, median)")[0] for one in ONE_SERVER]
    return tuple(f"{ms:.0f}" for ms in (*usual, min(by_repetition), max(by_repetition)))


def first_two_chunks() -> float:
    """How far apart the best two chunk sizes of lab L2's tuning are in attainment."""
    best, second, *_ = sorted((tuned_2(f"chunk {size}", "attainment") for size in (64, 128, 1024)), reverse=True)
    return best - second


def waits(gb_s: int) -> dict[str, str]:
    """What notebook 07 shows of the hand-off over a link of so many GB/s."""
    return page("07").row("The two waits of a hand-off", link=f"{gb_s} GB/s")


def usual_gap(design: str) -> float:
    return number(page("09").row("The proposal carried out", design=design, **{"offered, requests/s": "4"})["median ITL, ms"])


def memory_gb_s(size: str) -> float:
    return number(page("L1").row("Median time and bandwidth", bytes=size)["memory: GB/s"])


def after_prefill() -> float:
    spans = {row["span"]: number(row["median (ms)"]) for row in page("L2").tables["A disaggregated request at 3 requests/s, step by step"]}
    last = spans["decode's queue, pull, and first token"]
    return last / (last + spans["prefill, its queue included"] + spans["in the router, before prefill"])


WAITS_5 = ("TTFT p50 (ms)", "TPOT p50 (ms)", "longest gap p50 (ms)")


def sweep_5(design: str, column: str, rate: str = "4.5") -> float:
    return number(page("L5").row("The plan's six runs behind", design=design, **{"req/s": rate})[column])


# notebook, the words with their numbers, what those numbers have to be (or whether the words hold)
TOLD: list[tuple[str, str, Callable[[], object]]] = [
    ("01", r"puts it at ([\d.]+) ms \(arithmetic", floor_512_ms),
    ("01", r"first token comes about twice as late as when it is taken in one piece", lambda: 1.6 < ttft_1("separate workers") / ttft_1("one piece") < 2.5),
    ("01", r"is (\d+) to (\d+) ms with separate workers and (\d+) to (\d+) ms in one piece", lambda: ends("usual gap (ms)", "separate workers") + ends("usual gap (ms)", "one piece")),
    ("04", r"The same traffic is ([\d.]+) Gbit/s", lambda: f"{link.traffic_gbit_s(kv.kv_bytes(SHAPE, 512), 10):.1f}"),
    ("04", r"at 96.6 % busy, the mean wait is (\d+) sends long", lambda: f"{queueing.md1_mean_wait_s(10, 0.09664) / 0.09664:.0f}"),
    ("05", r"With (\d+) sequences a step takes ([\d.]+) ms, with (\d+) it takes ([\d.]+) ms", lambda: tuple(value for rate in ("4", "12") for value in list(page("05").row("Three times the sequences", **{"requests/s": rate}).values())[2:])),
    ("05", r"does prompts one after another, (\d+) ms each", lambda: page("05").row("Three times the sequences", **{"requests/s": "4"})["prefill time of a prompt, ms"]),
    ("05", r"a step takes about 20 ms here\. About half a step goes by until room is reserved\. Then the bytes travel while the next step runs", lambda: abs(bill("A", "3 × TP4 + 1 × TP4") - 20) < 1 and abs(bill("B", "3 × TP4 + 1 × TP4") / 20 - 1.5) < 0.1),
    ("05", r"Its (\d+) ms have more than one cause", lambda: f"{bill('C', '3 × TP4 + 1 × TP4') - bill('C', '2 × TP8, aggregated'):.0f}"),
    ("05", r"floor of notebook 03 for these bytes is ([\d.]+) ms", lambda: f"{link.bandwidth_floor_ms(kv.per_rank_bytes(SHAPE, 2000, 4), 25):.1f}"),
    ("05", r"hand-off takes more than four times that", lambda: bill("B", "3 × TP4 + 1 × TP4") > 4 * link.bandwidth_floor_ms(kv.per_rank_bytes(SHAPE, 2000, 4), 25)),
    ("05", r"room for fewer than fifty prompts", lambda: number(page("05").row("Each halving", **{"16 GPUs as": "8 × TP2"})["tokens"]) < 50 * 2000),
    ("05", r"cuts the P99 gap from (\d+) to (\d+) ms", lambda: (p99(AGGREGATED, "12", GAPS), p99(SPLIT, "12", GAPS))),
    ("07", r"the P99 gap is (\d+) ms against (\d+), and the P99 TTFT is (\d+) ms\s+against (\d+)", lambda: (p99(AGGREGATED, "4", GAPS), p99(SPLIT, "4", GAPS), p99(AGGREGATED, "4", TTFTS), p99(SPLIT, "4", TTFTS))),
    ("07", r"\| Ana \| (\d+) \| (\d+) \| ([\d.]+) \|", lambda: (page("07").row("Six chunk sizes", **{"chunk, tokens": "256"})["capacity, requests/s"], *layout("1 × TP8 + 1 × TP8"), "2.5")),
    ("07", r"\| Ben \| (\d+) \| (\d+) \| ([\d.]+) \|", lambda: (*layout("2 × TP8, aggregated", "1 × TP8 + 1 × TP8"), "0.71")),
    ("07", r"\| Dee \| (\d+) \| (\d+) \| ([\d.]+) \|", lambda: (*layout("4 × TP4, aggregated", "3 × TP4 + 1 × TP4"), "1.4")),
    ("07", r"floors for 2,000 tokens are ([\d.]+), ([\d.]+) and ([\d.]+) ms", lambda: tuple(f"{floor(2000, rate):.3f}" for rate in (10, 25, 100))),
    ("07", r"of a rank are ([\d.]+) ms at 10 GB/s and ([\d.]+) ms at 100", lambda: (f"{floor(300, 10):.2f}", f"{floor(300, 100):.2f}")),
    ("07", r"they are ([\d.]+) and ([\d.]+) ms", lambda: (f"{floor(8192, 10):.2f}", f"{floor(8192, 100):.2f}")),
    ("07", r"names four rates, from (\d+) to (\d+), for (\d+) s each", lambda: tuple(f"{value:g}" for value in (reference().offered_rates_rps[0], reference().offered_rates_rps[-1], reference().duration_seconds))),
    ("07", r"at these both sides pass everything", lambda: all(page("07").row(side, **{"requests/s": f"{rate:g}"})["verdict"] == "pass" for side in (AGGREGATED, SPLIT) for rate in reference().offered_rates_rps)),
    ("07", r"The rates from (\d+) up were added to it, with the same trace and the same limits but ([\d,]+) requests a run", lambda: (f"{min(sim_points.UPWARD_RPS)}", f"{sim_points.UPWARD_REQUESTS:,}")),
    ("07", r"has a P99 TTFT of (\d+) ms here and of (\d+) ms in the first table", lambda: (page("07").row("Six chunk sizes", **{"chunk, tokens": "2,048"})["P99 TTFT at 8/s, ms"], p99(AGGREGATED, "8", TTFTS))),
    ("07", r"([\d,]+) a run here, ([\d,]+) there", lambda: (f"{sim_points.CHUNK_REQUESTS:,}", f"{8 * reference().duration_seconds:,.0f}")),
    ("07", r"From then on it grows by less than chance allows", lambda: 0 < page("07").after("rise from the second to the last: ")[0] < page("07").after("rise from the second to the last: ")[1]),
    ("07", r"First it waits for the step that is running, half a step on average", lambda: all(0.4 < float(waits(rate)["until room is reserved, ms (median)"]) / float(waits(rate)["from then until taken in, ms (median)"]) < 0.6 for rate in (10, 25, 100))),
    ("07", r"a whole step, whether the wire takes ([\d.]+) ms or (\d+)", lambda: (waits(100)["floor, ms"], f"{float(waits(10)['floor, ms']):.0f}")),
    ("07", r"which loses in A, C, D and E", lambda: all(number(found) < number(layout("2 × TP8, aggregated")[0]) for found in layout("1 × TP8 + 1 × TP8", "2 × TP4 + 2 × TP4", "1 × TP4 + 3 × TP4", "2 × TP4 + 1 × TP8"))),
    ("07", r"The order is the same in all four", lambda: all(number(drawn("1 × TP8 + 1 × TP8")[n]) < number(drawn("2 × TP8, aggregated")[n]) < number(drawn("4 × TP4, aggregated")[n]) < number(drawn("3 × TP4 + 1 × TP4")[n]) for n in range(4))),
    ("07", r"Two draws repeat every figure\. Draw 101 lifts (\w+) of them by a step", lambda: all(row[0] == row[2] == row[3] for row in map(drawn, DRAWN)) and {3: "three"}[sum(row[0] != row[1] for row in map(drawn, DRAWN))]),
    ("07", r"one is (\d+) MB, and a TP8 worker has room for ([\d,]+)", lambda: (f"{kv.kv_bytes(SHAPE, 1024) / 1e6:.0f}", f"{round(prefill_room() / 1024, -2):,.0f}")),
    ("07", r"at 24/s the P95 gap is (\d+) ms on the aggregated side, and (\d+) on the other", lambda: tuple(f"{number(page('09').row('300-token prompts', design=design, **{'offered, requests/s': '24'})['P95 ITL, ms']):.0f}" for design in ("aggregated", "disaggregated"))),
    ("07", r"At 3 requests/s the intervals lie apart, and the split is ahead", lambda: apart(interval(sweep_2("aggregated", "3")), interval(sweep_2("disaggregated", "3")))),
    ("07", r"At 4\.5 they overlap", lambda: not apart(interval(sweep_2("aggregated", "4.5")), interval(sweep_2("disaggregated", "4.5")))),
    ("08", r"(\d+) prompts around the edges above, under each of (\w+) settings", lambda: (f"{len(dynamo.GRID)}", {4: "four"}[len(asked_of_dynamo()["settings"])])),
    ("08", r"All (\d+) decisions were those of the rule you wrote", lambda: f"{sum(len(part['requests']) for part in asked_of_dynamo()['settings']) - len(dynamo.differences(asked_of_dynamo()))}"),
    ("08", r"leaves ([\d,]+) B a token, and a link of 1 GB/s moves that in ([\d.]+) ms", lambda: (f"{kv.kv_bytes(SHAPE, 1):,}", f"{link.bandwidth_floor_ms(kv.kv_bytes(SHAPE, 1), 1):.5f}")),
    ("09", r"A prompt takes the prefill worker ([\d.]+) ms, and 48 × ([\d.]+) is ([\d.]+):", lambda: (f"{(ms := page('09').after('a prompt takes the prefill worker ')[0]):.1f}", f"{ms / 1000:.3f}", f"{48 * ms / 1000:.2f}")),
    ("09", r"at 4 requests a second the proposal's is a third shorter", lambda: 0.6 < usual_gap("disaggregated") / usual_gap("aggregated") < 0.72),
    ("L1", r"get a figure ten times as high", lambda: 8 < memory_gb_s("1,048,576") / memory_gb_s("4,096") < 13 and memory_gb_s("134,217,728") < memory_gb_s("1,048,576")),
    ("L1", r"a message of 256 KiB gets more than four times the rate of one of 128 MiB", lambda: 4 < memory_gb_s("262,144") / memory_gb_s("134,217,728") < 5),
    ("L2", r"more than a quarter of the requests miss a target", lambda: number(page("L2").row("Aggregated serving at", **{"aggregated with": "chunk 1024"})["attainment"]) < 0.75),
    ("L2", r"At 1\.5 requests/s both lie above the 0\.90 of the gate", lambda: all(interval(sweep_2(design, "1.5"))[0] > 0.9 for design in ("aggregated", "disaggregated"))),
    ("L2", r"its interval\s+holds 0\.90\. The pair's lies above it altogether", lambda: interval(sweep_2("aggregated", "3"))[0] < 0.9 < interval(sweep_2("disaggregated", "3"))[0]),
    ("L2", r"a request's longest gap is nearly twice its usual\s+one", lambda: 1.6 < number(sweep_2("disaggregated", "3")["longest gap p50 (ms)"]) / number(sweep_2("disaggregated", "3")["TPOT p50 (ms)"]) < 2),
    ("L2", r"closer to each other than two runs of the \*same\* two replicas are", lambda: abs(number(sweep_2("aggregated", "4.5")["attainment"]) - tuned_2("1 replica", "attainment")) < abs(number(sweep_2("aggregated", "4.5")["attainment"]) - tuned_2("chunk 128", "attainment"))),
    ("L2", r"one replica's median TTFT is more than twice that of two", lambda: tuned_2("1 replica", "TTFT p50 (ms)") > 2 * tuned_2("chunk 128", "TTFT p50 (ms)")),
    ("L2", r"a token takes about 55 ms here", lambda: all(52 < number(sweep_2(design, "1.5")["TPOT p50 (ms)"]) < 58 for design in ("aggregated", "disaggregated"))),
    ("L2", r"its two attainments lie as far apart there as the highest and the second highest of this table's chunk sizes do", lambda: abs(first_two_chunks() - abs(tuned_2("chunk 128", "attainment") - number(sweep_2("aggregated", "4.5")["attainment"]))) < 0.002),
    ("L2", r"They don't: (\d+), (\d+) and (\d+) ms, and by repetition anything from (\d+) to (\d+)", lambda: usual_2()),
    ("L2", r"it is the longest of the four, (\d+) ms, but (\d+) in one repetition", lambda: tuple(f"{scene_2('another core', column)[0]:.0f}" for column in ("usual gap (ms, median)", "that, by repetition (ms)"))),
    ("L2", r"which is among the others", lambda: float(usual_2()[3]) < scene_2("another core", "that, by repetition (ms)")[0] < float(usual_2()[4])),
    ("L2", r"and the longest TTFT of all", lambda: all(scene_2("another core", "its TTFT (ms)")[1] > scene_2(one, "its TTFT (ms)")[1] for one in ONE_SERVER)),
    ("L2", r"The third has a gap such as chunks of 512 have", lambda: scene_2("chunks of 512", "longest gap while it is (ms)")[0] < scene_2("another core", "longest gap while it is (ms)")[1] < scene_2("chunks of 512", "longest gap while it is (ms)")[1]),
    ("L2", r"About half of the pair's TTFT passes after prefill is done", lambda: 0.4 < after_prefill() < 0.6),
    ("L3", r"about three quarters of that had passed", lambda: 0.7 < page("L3").after("in the middle of a transfer: ")[0] / (22 * 262_144) < 0.8),
    ("L3", r"in (\d+) of its (\d+) runs both servers were dead", lambda: (f"{number(repeated('decode killed before the first token')['runs']) - number(repeated('decode killed before the first token')['runs with a living server']):.0f}", repeated("decode killed before the first token")["runs"])),
    ("L3", r"the single run let go after ([\d.]+) s", lambda: page("L3").row("How long blocks stayed", fault="dtype mismatch")["no block in use on them after (s)"]),
    ("L3", r"One of the twenty took ([\d.]+) s, more than two seconds over the lease", lambda: repeated("dtype mismatch")["no block in use on it after (s, at most)"]),
    ("L3", r"wrong once in (\d+) runs", lambda: f"{sum(number(row['runs with a living server']) for row in page('L3').tables['Each fault many times']):.0f}"),
    ("L3", r"would have been wrong once", lambda: page("L3").after("longer than the lease and two seconds: ") == [1]),
    ("L3", r"no run of the (\d+) ended with blocks still in use", lambda: f"{came_to_something():.0f}"),
    ("L3", r"It kept the ten seconds", lambda: all(number(row["no block in use on it after (s, at most)"]) < 16 for row in page("L3").tables["Each fault many times"])),
    ("L3", r"two rows made a second attempt", lambda: sum(row["attempts"] == "2" for row in page("L3").tables["Runs in which a token came or the router tried again"]) == 2),
    ("L4", r"waited (\d+) to (\d+) ms where it could stay", lambda: tuple(f"{ms:.0f}" for ms in sorted(mid_l4(rule, "short") for rule in ("local-below:200", "llm-d:200")))),
    ("L4", r"Under `all-local` it waited (\d+) ms", lambda: f"{mid_l4('all-local', 'short'):.0f}"),
    ("L4", r"(\d+) ms under Dynamo's rule, (\d+) under `all-remote`", lambda: tuple(f"{mid_l4(rule, 'short'):.0f}" for rule in ("dynamo:200:0.7", "all-remote"))),
    ("L4", r"about a half under each extreme, nine in ten and more under the rule between them, three quarters under Dynamo's", lambda: all(0.45 < kept(rule) < 0.6 for rule in ("all-local", "all-remote")) and kept("llm-d:200") > 0.9 and 0.7 < kept("dynamo:200:0.7") < 0.8),
    ("L4", r"still only ([\d.]+) of the requests met the target", lambda: f"{met('all-remote', 'TPOT'):.2f}"),
    ("L5", r"the page says half as many bytes again as NIXL does", lambda: 1.4 < page("L5").after("Ray's page: ")[1] / page("L5").after("NIXL:       ")[1] < 1.6),
    ("L5", r"At the lowest rate the two replicas are ahead in all three columns of waits", lambda: all(sweep_5("aggregated", column, "1.5") < sweep_5("disaggregated", column, "1.5") for column in WAITS_5)),
    ("L5", r"its first tokens come later at every rate", lambda: all(sweep_5("aggregated", WAITS_5[0], rate) < sweep_5("disaggregated", WAITS_5[0], rate) for rate in ("1.5", "3", "4.5"))),
    ("L5", r"the pair's tokens come twice as fast and its longest gaps are half as long", lambda: all(1.8 < sweep_5("aggregated", column) / sweep_5("disaggregated", column) < 2.3 for column in ("TPOT p50 (ms)", "longest gap p50 (ms)"))),
]


@pytest.mark.parametrize(("name", "words", "shown"), TOLD, ids=[f"{name}-{words[:40]}" for name, words, _ in TOLD])
def test_the_prose_tells_what_the_page_shows(name: str, words: str, shown: Callable[[], object]) -> None:
    """The words stand in the notebook once, and their numbers are those of its tables, prints or of the formula."""
    found = re.findall(words.replace(" ", r"\s+"), page(name).prose)
    expected = shown()
    if isinstance(expected, bool):
        assert len(found) == 1 and expected, found
    else:
        assert found == [expected if isinstance(expected, str) else tuple(expected)]
