"""Whether two cores slow each other down: what the kernel says, and what the loops are made to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdlab.course import cli, doctor
from pdlab.errors import BadInput
from pdlab.live import budget, cores


def turns(arithmetic: float, memory: float) -> list[cores.Turn]:
    """Three rounds on a machine that drifts: each kind keeps this share beside its like, and all beside the other."""
    found = []
    for number, drift in enumerate((1.0, 0.5, 2.0)):
        for work, share in (("arithmetic", arithmetic), ("memory", memory)):
            for beside in ("", *cores.KINDS):
                found.append(cores.Turn(number, work, beside, 100 * drift * (share if beside == work else 1), 0.0))
    return found


def test_shares_are_taken_within_a_round() -> None:
    """A machine that doubles its speed between rounds does not change the share."""
    found = turns(0.6, 0.8)
    assert cores.kept(found, "arithmetic", "arithmetic") == pytest.approx(0.6)
    assert cores.kept(found, "memory", "memory") == pytest.approx(0.8)
    assert cores.kept(found, "memory", "arithmetic") == pytest.approx(1)


@pytest.mark.parametrize(("share", "says"), [(1.0, "without slowing"), (0.8, "somewhat"), (0.55, "two threads of one physical core")])
def test_the_verdict_goes_by_arithmetic(share: float, says: str) -> None:
    """Arithmetic in a core's own caches disturbs nobody on real cores, however much memory is shared."""
    assert says in cores.verdict(turns(share, 0.3))


def test_the_kernels_word(tmp_path: Path) -> None:
    """Threads of one core count as one physical core; without the kernel's word there is no number."""
    for core, siblings in ((0, "0-1"), (1, "0-1"), (2, "2")):
        (tmp_path / f"cpu{core}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(siblings + "\n")
    assert cores.physical([0, 1], tmp_path) == 1 and cores.physical([0, 1, 2], tmp_path) == 2
    assert cores.physical([0, 7], tmp_path) is None


def test_doctor_tells_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores that are the threads of one are said to be, with what measures it."""
    monkeypatch.setattr(budget, "cores", lambda: [0, 1])
    monkeypatch.setattr(cores, "physical", lambda: 1)
    assert "threads of 1 physical core:" in doctor._cores() and "pdlab doctor --cores" in doctor._cores()
    monkeypatch.setattr(cores, "physical", lambda: 2)
    assert doctor._cores() == "2"


def test_one_core_has_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one core the measurement is refused."""
    monkeypatch.setattr(budget, "cores", lambda: [0])
    with pytest.raises(BadInput, match="one core"):
        cores.measure()


@pytest.mark.skipif(len(budget.cores()) < 2, reason="needs two cores")
def test_both_loops_run_in_every_pairing(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A short measurement has every pairing with a speed; it is kept with its provenance and read back."""
    monkeypatch.setattr(cores, "MEMORY_BYTES", 1 << 20)
    real = cores.measure
    monkeypatch.setattr(cores, "measure", lambda: real(rounds=1, turn_s=0.01))
    assert cli.main(["doctor", "--cores", "--json", "--out", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    found = cores.read(tmp_path)
    assert [(turn.work, turn.beside) for turn in found] == [(work, beside) for work in cores.KINDS for beside in ("", *cores.KINDS)]
    assert all(turn.per_s > 0 for turn in found)
    assert said["kept"]["memory"]["memory"] == pytest.approx(cores.kept(found, "memory", "memory"), abs=2e-3)  # both are rounded
    about = json.loads((tmp_path / "provenance.json").read_text())
    assert about["label"] == "measured" and about["machine"]["cores"] >= 2
