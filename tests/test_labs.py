"""Recorded and live modes of a lab: which run a cell gets, and what it says of it."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from pdlab.course import evidence, labs
from pdlab.errors import BadInput
from pdlab.live import labs as live_labs

ABOUT = {"date": "2026-11-30T01:02:03+00:00", "machine": {"cores": 2, "cpu": "Some CPU"}}


def run_in(directory: Path) -> None:
    (directory / "one").mkdir(parents=True, exist_ok=True)
    (directory / "one" / "provenance.json").write_text(json.dumps(ABOUT))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder of recorded runs with one run in it, and a place for live ones."""
    monkeypatch.setattr(evidence, "RUNS", tmp_path / "runs")
    monkeypatch.setenv(labs.PLACE, str(tmp_path / "live"))
    monkeypatch.delenv(labs.SWITCH, raising=False)
    run_in(tmp_path / "runs" / "mini")
    return tmp_path


def test_recorded_is_the_default_and_says_so(runs, capsys):
    """Without the switch nothing is measured; the line names date and machine."""
    assert labs.lab_run("mini", lambda d: pytest.fail("measured")) == runs / "runs" / "mini"
    said = capsys.readouterr().out
    assert said.startswith("recorded: measured on 2026-11-30 on 2 cores of Some CPU") and labs.SWITCH in said


def test_live_measures_into_a_place_of_its_own_and_says_so(runs, capsys, monkeypatch):
    """With the switch the run is made outside the repository and is not called recorded."""
    monkeypatch.setenv(labs.SWITCH, "1")
    assert labs.lab_run("mini", run_in) == runs / "live" / "mini"
    said = capsys.readouterr().out
    assert said.startswith("live:") and "recorded" not in said


@pytest.mark.parametrize("value", ["", "0"])
def test_the_switch_is_off_when_empty_or_zero(runs, monkeypatch, value):
    """PDLAB_LIVE=0 is recorded mode."""
    monkeypatch.setenv(labs.SWITCH, value)
    assert not labs.live()


def test_a_lab_that_stops_says_why_and_keeps_what_it_had(tmp_path, monkeypatch, capfd):
    """What ran is written to labs/live with its outputs; the reason is one plain line, and the terminal hears nothing else."""
    monkeypatch.setattr(live_labs, "LABS", tmp_path)
    for name, source in (("L8-fine", "print(6 * 7)"), ("L9-broken", "print('so far')\n1 / 0")):
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), tmp_path / f"{name}.ipynb")
    found = {number: live_labs.run(live_labs.notebook(number)) for number in ("L8", "L9")}
    assert [stopped for _, stopped in found.values()] == ["", "ZeroDivisionError: division by zero"]
    shown = [nbformat.read(target, as_version=4).cells[0].outputs[0].text for target, _ in found.values()]
    assert shown == ["42\n", "so far\n"] and found["L8"][0] == tmp_path / "live" / "L8-fine.ipynb"
    assert capfd.readouterr() == ("", "")
    with pytest.raises(BadInput, match="L8, L9"):
        live_labs.notebook("L7")
