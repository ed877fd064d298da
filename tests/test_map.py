"""The map of notebook 00 agrees with the notebooks that it lists."""

import re
from pathlib import Path

import pytest

SOLUTIONS = Path(__file__).parents[1] / "solutions"
README = Path(__file__).parents[1] / "README.md"
ROWS = re.findall(r"^\| (\d\d) \| (.+?) \| .+? \| (\d+) \|$", (SOLUTIONS / "00-start-here.py").read_text(), re.M)


def test_the_map_lists_every_notebook_once():
    """Eleven notebooks, 00 to 10, in order."""
    assert [number for number, *_ in ROWS] == [f"{n:02d}" for n in range(11)]


@pytest.mark.parametrize(("number", "name", "minutes"), ROWS)
def test_a_notebook_takes_the_time_that_the_map_states(number, name, minutes):
    """The time at the top of each notebook is the time on the map."""
    found = list(SOLUTIONS.glob(f"{number}-*.py"))
    assert len(found) == 1, f"notebook {number}, {name}: {found}"
    stated = re.search(r"\*\*Time:?\*\*:? (\d+) minutes", found[0].read_text())
    assert stated and stated[1] == minutes


PATHS = re.findall(r"^\| (short|half a day|a day)(.*?) \| (\d+) \| (.+?) \| .+? \|$", (SOLUTIONS / "00-start-here.py").read_text(), re.M)
STATED = {p.name.partition("-")[0]: int(re.search(r"\*\*Time:?\*\*:? (\d+) minutes", p.read_text())[1]) for p in SOLUTIONS.glob("*-*.py")}


def on(path):
    """The notebooks and labs of a path, "00 to 03" written out."""
    for first, last, lab in re.findall(r"\b(\d\d)(?: to (\d\d))?\b|\b(L\d)\b", path):
        yield from [lab] if lab else [f"{n:02d}" for n in range(int(first), int(last or first) + 1)]


def test_a_path_takes_the_sum_of_its_notebooks():
    """Each of the three paths states the minutes that its notebooks state together; the README says the same of the short one."""
    assert [name for name, *_ in PATHS] == ["short", "half a day", "a day"]
    for name, _, minutes, order in PATHS:
        assert int(minutes) == sum(STATED[number] for number in on(order)), name
    _, words, minutes, order = PATHS[0]
    assert f"short path{words} ({minutes} minutes): {order}." in README.read_text()
    assert "two and a half hours" in words and abs(int(minutes) - 150) <= 10


@pytest.mark.parametrize("number", sorted(number for number in STATED if number.isdigit()))
def test_a_long_notebook_has_a_place_to_stop(number):
    """A notebook of more than forty minutes says in its head and about halfway where to stop; a shorter one does not."""
    text = next(SOLUTIONS.glob(f"{number}-*.py")).read_text()
    told = re.findall(r"with a good place to stop after (\d+)\.", text)
    marked = re.findall(r"\*\*A good place to stop\*\*, after (\d+) of the (\d+) minutes", text)
    assert marked == ([(told[0], str(STATED[number]))] if STATED[number] > 40 else [])
    assert all(abs(int(after) / int(whole) - 0.5) <= 0.1 for after, whole in marked)


def test_no_head_bars_the_short_path():
    """A notebook of the short path that names one outside it as needed says in its head what a short path does instead."""
    short = set(on(PATHS[0][3]))
    for number in sorted(short):
        text = next(SOLUTIONS.glob(f"{number}-*.py")).read_text().replace("\n# ", " ")
        before = re.search(r"\*\*Before this\*\*(.+?)\*\*You need", text, re.S)[1]
        assert "short path" in before or set(on(before)) <= short, number


def test_words_are_told_where_the_short_path_meets_them():
    """The words of the notebooks in between stand in a table of 09 before its first exercise, those of the stream in 03."""
    nine = next(SOLUTIONS.glob("09-*.py")).read_text().split("# Exercise 9.1")[0]
    three = next(SOLUTIONS.glob("03-*.py")).read_text()
    for word in ("aggregated", "P/D", "TTFT, ITL, TPOT", "P95", "target, or SLO", "attainment", "gate", "chunk size", "offered rate"):
        assert re.search(rf"^# \| {re.escape(word)} \| .{{20,}} \|$", nine, re.M), word
    for word in ("TTFT", "ITL", "TPOT"):
        assert three.index(f"| {word}, ") + 2 == three.index(word), f"{word} is used before it is told"
