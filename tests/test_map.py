"""The map of notebook 00 agrees with the notebooks that it lists."""

import re
from pathlib import Path

import pytest

SOLUTIONS = Path(__file__).parents[1] / "solutions"
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
