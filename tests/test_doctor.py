"""``pdlab doctor``: every missing thing comes with what to do about it."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path

import pytest

from pdlab.course import cli, doctor
from pdlab.live import budget


def by_thing(found: list[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {finding.thing: finding for finding in found}


def test_json_has_a_yes_or_no_for_every_use(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON document with every use, and for each missing thing one sentence on what to do."""
    status = cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert set(document["can_run"]) == set(doctor.USES)
    assert status == (0 if document["can_run"]["course"] else 1)
    assert len(document["findings"]) >= 8
    for finding in document["findings"]:
        assert finding["found"]
        assert finding["ok"] or finding["do"].endswith("."), finding


def test_table_lists_what_to_do(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For people: a table, one line for each missing thing, and what can be run."""
    monkeypatch.setattr(budget, "gpus", lambda: [])
    cli.main(["doctor"])
    shown = capsys.readouterr().out
    assert "NVIDIA GPU: The labs run on this processor" in shown
    assert "no   the labs on a GPU" in shown


def test_too_little_memory_and_disk_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and disk below what the course needs make it 'no', with the amounts."""
    monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: namedtuple("m", "available total")(10**9, 4 * 10**9))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: namedtuple("d", "total used free")(10, 9, 10**8))
    found = by_thing(doctor.course(tmp_path))
    assert not found["memory"].ok and "1.0 GB available of 4.0" in found["memory"].found
    assert not found["disk"].ok and "0.1 GB free" in found["disk"].found
    assert not doctor.report(list(found.values()))["can_run"]["course"]


def test_wrong_python_and_system_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old Python or a system without Unix tools is named with what to use instead."""
    monkeypatch.setattr(doctor.sys, "version_info", (3, 10, 1))
    monkeypatch.setattr(doctor.platform, "system", lambda: "Windows")
    found = by_thing(doctor.course(tmp_path))
    assert not found["Python"].ok and "3.11" in found["Python"].do
    assert not found["system"].ok and "WSL" in found["system"].do


def test_other_environment_is_seen(tmp_path: Path) -> None:
    """Run from an environment that is not the course's own, doctor says how to make it."""
    found = by_thing(doctor.course(tmp_path))
    assert not found["environment"].ok and "make env" in found["environment"].do


def test_gpu_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With GPUs in the driver's list the GPU labs can run."""
    monkeypatch.setattr(budget, "gpus", lambda: [0, 1])
    assert doctor.report(list(doctor.gpu()))["can_run"]["gpu"] is True
