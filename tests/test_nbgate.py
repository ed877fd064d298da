"""What ``pytest --nbval notebooks labs solutions`` lets through, and what it does not."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from minicourse import cell, run_pytest, write_notebook

from pdlab.course import nbgate

GOOD = cell("print(6 * 7)", "42\n")
FLOOR = Path("tests", "compared-cells.json")


def set_floor(root: Path, **more: int) -> None:
    """One compared cell for every notebook of the folder, or what is given by number."""
    floor = {p.relative_to(root).as_posix(): more.get(f"n{p.stem[:2]}", 1) for p in root.rglob("*.ipynb")}
    (root / FLOOR).parent.mkdir(exist_ok=True)
    (root / FLOOR).write_text(json.dumps(floor))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, dict[str, dict[str, str]]]:
    """One run, on two workers, over a course in which every notebook but 00 has one defect."""
    root = tmp_path_factory.mktemp("broken")
    notebooks = {
        # so long that --dist load, left alone, would deal its cells out to both workers
        "00-good": [cell("x = 0", None), *(cell("x += 1; print(x)", f"{i}\n", i + 1) for i in range(1, 16))],
        "01-stripped": [GOOD, cell("print(1)", None, None)],
        "02-disorder": [cell("print(1)", "1\n", 2), cell("print(2)", "2\n", 1)],
        "03-duplicate": [cell("print(1)", "1\n", 1), cell("print(2)", "2\n", 1)],
        "04-empty-check": [GOOD, cell("None", None, 2, id="check-4-1")],
        "05-exempt-check": [GOOD, cell("print(1)", "9\n", 2, id="check-5-1", tags=("nbval-ignore-output",))],
        "06-dead": [GOOD, cell("import os; os._exit(1)", "x\n", 2), cell("print(1)", "1\n", 3)],
        "07-endless": [cell("import time\nwhile True: time.sleep(0.1)", "x\n"), cell("print(1)", "1\n", 2)],
        "08-marker": [GOOD, cell("# NBVAL_IGNORE_OUTPUT\nprint(1)", "2\n", 2)],
        "09-unknown-tag": [GOOD, cell("print(1)", "1\n", 2, tags=("nbval-ignore-outputs",))],
        "10-fewer": [GOOD],
        "11-changed": [cell("print(6 * 7)", "41\n")],
        "12-nothing": [cell("x = 1")],
        "13-silenced": [cell("print(1)"), cell("print(2)", "2\n", 2)],
        "14-error": [GOOD, cell("1 / 0", None, 2)],
    }
    stored_error = nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero", traceback=[])
    notebooks["14-error"][1].outputs = [stored_error]
    for name, cells in notebooks.items():
        write_notebook(root / "notebooks" / f"{name}.ipynb", *copy.deepcopy(cells))
    write_notebook(root / "solutions" / "00-good.ipynb", GOOD)
    (root / "notebooks" / "15-garbled.ipynb").write_text("{")
    (root / "labs").mkdir()
    set_floor(root, n10=2)
    write_notebook(root / "notebooks" / "16-unlisted.ipynb", copy.deepcopy(GOOD))
    options = ("--nbval", "--nbval-cell-timeout=2", "--continue-on-collection-errors", "-n", "2", "--dist", "load")
    return run_pytest(root, *options, "notebooks", "labs", "solutions")


CASES = {
    "01-stripped": ("stored form", "never run"),
    "02-disorder": ("stored form", "execution count 2, expected 1"),
    "03-duplicate": ("stored form", "execution count 1, expected 2"),
    "04-empty-check": ("stored form", "no stored output"),
    "05-exempt-check": ("stored form", "is tagged nbval-ignore-output"),
    "06-dead": ("Cell 1", "the kernel ended while this cell ran"),
    "07-endless": ("Cell 0", "Timeout of 2 seconds exceeded"),
    "08-marker": ("stored form", "use a cell tag"),
    "09-unknown-tag": ("stored form", "which nbval does not know"),
    "10-fewer": ("stored form", "1 cells would be compared, 2 were before"),
    "11-changed": ("Cell 0", "Cell outputs differ"),
    "12-nothing": ("stored form", "no cell has an output to compare"),
    "13-silenced": ("Cell 0", "Cell outputs differ"),
    "14-error": ("stored form", "stored with an error: ZeroDivisionError"),
    "16-unlisted": ("stored form", "no entry in tests/compared-cells.json"),
}


@pytest.mark.parametrize("name", CASES)
def test_defect_is_red(broken, name: str) -> None:
    """Each way in which a stored notebook compares less than it seems fails, and says why."""
    _, failures = broken
    test, message = CASES[name]
    assert message in failures[f"notebooks/{name}"][test]


def test_sound_notebook_stays_green_beside_broken_ones(broken) -> None:
    """A notebook without a defect has no failure, and its cells were run: all on one kernel, whatever --dist says."""
    _, failures = broken
    assert failures["notebooks/00-good"] == {}


def test_garbled_notebook_is_named(broken) -> None:
    """A file that is no notebook is a collection error that names it."""
    result, _ = broken
    assert result.returncode != 0
    assert "15-garbled.ipynb: not a notebook that can be read" in result.stdout


def test_summary_counts_compared_cells(broken) -> None:
    """The run ends with how many cells were compared, in how many notebooks."""
    result, _ = broken
    assert re.search(r"compared \d\d cells in 1\d notebooks", result.stdout)


class Config:
    """As much of pytest's config as the gate's start reads."""

    def __init__(self, **options: object) -> None:
        self.option = SimpleNamespace(**options)
        self.pluginmanager = SimpleNamespace(register=lambda *_: None)

    def getoption(self, name: str, default: object) -> object:
        return getattr(self.option, name, default)


@pytest.mark.parametrize("option", [{"nbdime": True}, {"nbval_lax": True}, {"nbval_kernel_name": "ir"}])
def test_weaker_options_are_refused(option: dict[str, object]) -> None:
    """An option that would compare less, or with another kernel, ends the run with the reason."""
    with pytest.raises(pytest.UsageError, match="--" + next(iter(option)).replace("_", "-")):
        nbgate.pytest_configure(Config(**option))


@pytest.mark.parametrize(("given", "used"), [(2000.0, 60.0), (5.0, 5.0)])
def test_a_cell_may_take_a_minute_unless_told(given: float, used: float) -> None:
    """nbval's own limit of 2000 s becomes 60 s; a limit that was asked for stays."""
    config = Config(nbval=True, nbval_cell_timeout=given)
    nbgate.pytest_configure(config)
    assert config.option.nbval_cell_timeout == used


def test_missing_notebooks_and_empty_folders_are_named(tmp_path: Path) -> None:
    """What the stored counts name and was not collected fails, in the folders that were asked for."""
    for folder in ("notebooks", "labs", "solutions"):
        write_notebook(tmp_path / folder / "00-a.ipynb", copy.deepcopy(GOOD))
    set_floor(tmp_path)
    asked = [tmp_path / "notebooks", tmp_path / "solutions"]
    both = {tmp_path / "notebooks" / "00-a.ipynb", tmp_path / "solutions" / "00-a.ipynb"}
    assert nbgate.missing(tmp_path, asked, both) == []
    only = {tmp_path / "notebooks" / "00-a.ipynb"}
    assert nbgate.missing(tmp_path, asked, only) == [
        "solutions/00-a.ipynb: not collected; run pdlab build",
        "solutions/: holds no notebook",
    ]
    assert "no notebook was collected" in nbgate.missing(tmp_path, asked, set())[0]


def test_labs_may_stand_empty_until_there_is_one(tmp_path: Path) -> None:
    """An empty labs folder is no failure while no source of a lab exists; then it is."""
    write_notebook(tmp_path / "notebooks" / "00-a.ipynb", copy.deepcopy(GOOD))
    set_floor(tmp_path)
    asked, collected = [tmp_path / "notebooks", tmp_path / "labs"], {tmp_path / "notebooks" / "00-a.ipynb"}
    assert nbgate.missing(tmp_path, asked, collected) == []
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "L1-link.py").touch()
    assert "labs/L1-link.ipynb: not collected; run pdlab build" in nbgate.missing(tmp_path, asked, collected)
