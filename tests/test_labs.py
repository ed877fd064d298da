"""Recorded and live modes of a lab: which run a cell gets, and what it says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdlab.course import evidence, labs

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
