"""The set-up that ``make lab`` and ``make test`` share: when it works, when it refuses, how it heals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from minicourse import ROOT

from pdlab.course import bootstrap

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make_env(python: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "env", f"PYTHON={python}"], cwd=root, capture_output=True, text=True, timeout=120)


def test_missing_python_gets_one_sentence() -> None:
    """Without the named Python, make says which one is missing and what to do."""
    result = make_env("python-that-is-not-here")
    assert result.returncode != 0
    assert result.stderr.splitlines()[0].startswith("There is no python-that-is-not-here here: install Python 3.11")


def test_old_python_gets_one_sentence(tmp_path: Path) -> None:
    """A Python before 3.11 is refused with its version, before anything is made."""
    old = tmp_path / "python3"
    old.write_text(f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 9, 18)\nexec(sys.argv[2])\n")
    old.chmod(0o755)
    result = make_env(str(old))
    assert result.returncode != 0
    assert result.stderr.splitlines()[0].startswith("Python 3.9 is too old: pdlab needs 3.11 or newer")


def test_lab_serves_on_loopback_only() -> None:
    """make lab binds to 127.0.0.1, opens notebook 00 and passes ARGS on."""
    result = subprocess.run(
        ["make", "--dry-run", "lab", "ARGS=--no-browser"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = " ".join(result.stdout.split("jupyter lab", 1)[1].split())
    assert "--ip=127.0.0.1" in line and "--no-browser" in line and "/lab/tree/notebooks/00-" in line


def test_lab_keeps_to_its_folder_and_knows_the_command(tmp_path: Path) -> None:
    """Under make lab `pdlab` is a command, in terminals too, and what Jupyter keeps lies in the course's folder."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    jupyter, command = tmp_path / ".venv" / "bin" / "jupyter", tmp_path / ".venv" / "bin" / "pdlab"
    jupyter.write_text('#!/bin/sh\ncommand -v pdlab\nprintf "%s\\n" "$@"\nenv\n')
    command.write_text("#!/bin/sh\n")
    jupyter.chmod(0o755)
    command.chmod(0o755)
    made = subprocess.run(
        ["make", "-s", "-o", "env", "-f", str(ROOT / "Makefile"), "lab"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=os.environ | {"SHELL": "/bin/sh"},
    )  # fmt: skip
    lines = made.stdout.splitlines()
    assert lines[0] == str(command)
    assert "--ServerApp.terminado_settings={'shell_command': ['/bin/sh']}" in lines
    kept = dict(line.partition("=")[::2] for line in lines)
    places = [name for name in kept if name.startswith(("JUPYTER", "IPYTHONDIR", "MPLCONFIGDIR", "PDLAB_GUESSES"))]
    assert len(places) == 8 and all(kept[name].startswith(f"{tmp_path}/.") for name in places)
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {kept[name].removeprefix(f"{tmp_path}/").split("/")[0] + "/" for name in places} <= set(ignored)


def test_one_size_and_one_time_are_told() -> None:
    """The README and the set-up itself say the same of what .venv takes."""
    said = re.search(r"Making \.venv \(about (.+?), (.+?)\)", Path(bootstrap.__file__).read_text())
    assert said
    readme = (ROOT / "README.md").read_text()
    assert f"{said[1]} of disk" in readme and f"makes `.venv`: {said[2]}" in readme


# ── the steps of the set-up, with what it would run written down instead ────────────────────


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A project folder whose set-up only writes down the commands it would run."""
    (tmp_path / "requirements.lock").write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    commands: list[str] = []

    def run(*command: str, fills: Path | None = None) -> None:
        commands.append(" ".join(command))
        if "venv" in command:
            (tmp_path / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
            (tmp_path / ".venv" / "pyvenv.cfg").touch()
            link = tmp_path / ".venv" / "bin" / "python"
            link.unlink(missing_ok=True)
            link.symlink_to(sys.executable)

    monkeypatch.setattr(bootstrap, "_run", run)
    return tmp_path, commands


def test_set_up_is_made_once(project: tuple[Path, list[str]]) -> None:
    """The first run makes the environment and installs the lock with hashes; the second does nothing."""
    root, commands = project
    assert bootstrap.ensure(root) is None
    assert "-m venv --clear" in commands[0]
    assert "--require-hashes" in commands[1] and "requirements.lock" in commands[1]
    assert "--editable" in commands[2]
    commands.clear()
    assert bootstrap.ensure(root) is None
    assert commands == []


def test_changed_lock_is_installed_again(project: tuple[Path, list[str]]) -> None:
    """A changed lock is installed into the environment that is there."""
    root, commands = project
    bootstrap.ensure(root)
    commands.clear()
    (root / "requirements.lock").write_text("a==2\n")
    assert bootstrap.ensure(root) is None
    assert not any("venv --clear" in command for command in commands)
    assert any("requirements.lock" in command for command in commands)


def test_interrupted_set_up_begins_afresh(project: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was cut off in the middle leaves no stamp, and the next one makes everything again."""
    root, commands = project
    real = bootstrap._run

    def cut_off(*command: str, fills: Path | None = None) -> None:
        if "--require-hashes" in command:
            raise KeyboardInterrupt
        real(*command)

    monkeypatch.setattr(bootstrap, "_run", cut_off)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.ensure(root)
    monkeypatch.setattr(bootstrap, "_run", real)
    commands.clear()
    assert bootstrap.ensure(root) is None
    assert "-m venv --clear" in commands[0]


def test_environment_without_its_python_is_made_again(project: tuple[Path, list[str]]) -> None:
    """When the Python behind .venv is gone, the environment is made again."""
    root, commands = project
    bootstrap.ensure(root)
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(root / "gone")
    commands.clear()
    assert bootstrap.ensure(root) is None
    assert "-m venv --clear" in commands[0]


def test_failed_install_is_one_sentence(project: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """When pip fails, the message names the step and what to do, and no stamp is left."""
    root, _ = project

    def fail(*command: str, fills: Path | None = None) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(bootstrap, "_run", fail)
    assert "Run the same command again" in (bootstrap.ensure(root) or "")
    assert not (root / ".venv" / "pdlab-ready").exists()


def test_each_stage_says_what_it_does(project: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """A set-up prints a line a stage, with the number of packages; one that has nothing to do prints nothing."""
    root, _ = project
    assert bootstrap.ensure(root) is None
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Making", "Fetching", "Adding", "The"] and "1 packages" in lines[1]
    bootstrap.ensure(root)
    assert capsys.readouterr().out == ""


def test_a_long_step_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """While a step runs, a line now and then says for how long and how many packages are there."""
    (tmp_path / "lib/python3.11/site-packages/one-1.dist-info").mkdir(parents=True)
    monkeypatch.setattr(bootstrap, "NEWS_EVERY_S", 0.05)
    bootstrap._run(sys.executable, "-c", "import time; time.sleep(0.3)", fills=tmp_path)
    assert "s so far, 1 packages are there" in capsys.readouterr().out


def test_an_interrupt_is_one_sentence(tmp_path: Path) -> None:
    """Ctrl-C during a step ends the step and leaves one sentence, status 130, no traceback, no process and no stamp."""
    program = tmp_path / "pdlab/course/bootstrap.py"
    program.parent.mkdir(parents=True)
    program.write_text(Path(bootstrap.__file__).read_text())
    (tmp_path / "requirements.lock").write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    stand_in = tmp_path / "modules" / "venv.py"  # what `-m venv` finds: a step that takes long
    stand_in.parent.mkdir()
    stand_in.write_text("import os, pathlib, time\npathlib.Path('step').write_text(str(os.getpid()))\nprint('begun', flush=True)\ntime.sleep(60)\n")
    set_up = subprocess.Popen(
        [sys.executable, str(program)], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(stand_in.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # where tests run in the background it is ignored
    )  # fmt: skip
    assert set_up.stdout
    assert set_up.stdout.readline().startswith("Making") and set_up.stdout.readline() == "begun\n"
    os.killpg(set_up.pid, signal.SIGINT)  # as a terminal does
    _, said = set_up.communicate(timeout=20)
    assert set_up.returncode == 130 and said.strip().startswith("Stopped:") and len(said.strip().splitlines()) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "step").read_text()), 0)
    assert not (tmp_path / ".venv" / "pdlab-ready").exists()


def test_python_without_venv_is_named(project: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without the venv module gets one sentence that says how to install it."""
    root, commands = project
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    assert "has no venv module" in (bootstrap.ensure(root) or "")
    assert commands == []


def test_too_little_disk_is_named(project: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little disk nothing is begun, and the message says how much is needed."""
    root, commands = project
    usage = namedtuple("usage", "total used free")(10, 9, 10**8)
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda path: usage)
    assert "0.1 GB free" in (bootstrap.ensure(root) or "")
    assert commands == []


def test_other_folder_named_venv_is_left_alone(project: tuple[Path, list[str]]) -> None:
    """A .venv that is no environment is not cleared."""
    root, commands = project
    (root / ".venv").mkdir()
    (root / ".venv" / "letters.txt").touch()
    assert "is no virtual environment" in (bootstrap.ensure(root) or "")
    assert commands == [] and (root / ".venv" / "letters.txt").exists()


def test_lock_covers_what_the_project_asks_for() -> None:
    """Every dependency of pyproject.toml is in the lock, and every pin has a hash."""
    import re
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([a-z0-9._-]+)==\S+(?: ;[^\\\n]*)? \\\n    --hash=sha256:", lock, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z0-9._-]+==", lock, re.MULTILINE))
    names = {re.match(r"[A-Za-z0-9._-]+", one)[0].lower().replace("_", "-") for one in wanted}
    assert len(names) > 10 and names <= set(pins)


@pytest.mark.skipif(os.environ.get("CI") is None and not (ROOT / ".venv" / "pdlab-ready").exists(), reason="no .venv here")
def test_this_environment_is_the_locked_one() -> None:
    """The stamp of the environment that runs these tests fits the lock file."""
    stamp = json.loads((ROOT / ".venv" / "pdlab-ready").read_text())
    assert stamp["lock"] == bootstrap._sha256(ROOT / "requirements.lock")
