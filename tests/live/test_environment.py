"""The environments beside the course's own: when one is whole, and how a broken one heals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pdlab.errors import BadInput
from pdlab.live import env, environment
from pdlab.live.environment import Environment, InstallFailed

Made = tuple[Environment, list[str]]


def one(tmp_path: Path, name: str = "test", **more) -> Environment:
    lock = tmp_path / f"{name}.lock"
    lock.write_text("a==1\n")
    settings = {"probe": "import json", "reported": ("a", "b"), "disk_bytes": 0} | more
    return Environment(name, "a thing", f"make {name}", "small", lock, **settings)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """An environment in an empty folder, and the commands it ran; only ``venv`` leaves something behind."""
    commands: list[str] = []

    def run(command: list[str]) -> None:
        commands.append(" ".join(command))
        if "venv" in command:
            where = Path(command[-1])
            (where / "bin").mkdir(parents=True, exist_ok=True)
            (where / "lib/python3.11/site-packages").mkdir(parents=True, exist_ok=True)
            (where / "pyvenv.cfg").write_text("version = 3.11.0\n")
            (where / "whole").touch()
            (where / "bin" / "python").unlink(missing_ok=True)
            (where / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environment, "run", run)

    def make(name: str = "test", **more) -> Made:
        monkeypatch.setenv(f"PDLAB_{name.upper()}_ENV", str(tmp_path / "made" / name))
        return one(tmp_path, name, **more), commands

    return make


def installed(made: Callable[..., Made], **more) -> Made:
    found, commands = made(**more)
    found.install()
    assert found.complete()
    commands.clear()
    return found, commands


def test_it_is_made_once(made: Callable[..., Made]) -> None:
    """The first run makes the environment and installs the lock with hashes; the second does nothing."""
    found, commands = made()
    with pytest.raises(BadInput, match=r"make test.*small"):
        found.python()
    assert found.install() == found.python()
    assert "-m venv --clear" in commands[0]
    assert "--no-deps --require-hashes" in commands[1] and commands[1].endswith("test.lock")
    commands.clear()
    found.install()
    assert commands == []


def test_a_half_built_one_is_made_afresh(made: Callable[..., Made]) -> None:
    """Without its stamp, whatever lies in it, it is cleared; nobody is given its Python before."""
    found, commands = installed(made)
    (found.location() / "pdlab-test.json").unlink()
    with pytest.raises(BadInput):
        found.python()
    found.install()
    assert "-m venv --clear" in commands[0] and found.complete()


def test_a_changed_lock_is_installed_over_it(made: Callable[..., Made]) -> None:
    """A whole environment takes the changed lock without being cleared, and is usable meanwhile."""
    found, commands = installed(made)
    found.lock.write_text("a==2\n")
    assert found.python() and not found.complete()
    found.install()
    assert len(commands) == 1 and "--require-hashes" in commands[0] and found.complete()


def test_one_that_no_longer_imports_is_made_afresh(made: Callable[..., Made]) -> None:
    """Where the probe fails after a change, the environment is made once more."""
    found, commands = installed(made, probe="open('pyvenv.cfg'); open('whole')")
    (found.location() / "whole").unlink()
    found.lock.write_text("a==2\n")
    found.install()
    assert [("venv --clear" in command, "--require-hashes" in command) for command in commands] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip


def test_one_that_does_not_import_when_new_is_not_taken(made: Callable[..., Made]) -> None:
    """Where the probe fails in a new environment, its last line is told and there is no stamp."""
    found, _ = made(probe="raise ImportError('half a package')")
    with pytest.raises(InstallFailed, match="do not import: ImportError: half a package"):
        found.install()
    assert not found.whole()


def test_its_python_may_be_gone(made: Callable[..., Made]) -> None:
    """When the Python behind it is gone, it is made afresh."""
    found, commands = installed(made)
    (found.location() / "bin" / "python").unlink()
    (found.location() / "bin" / "python").symlink_to("/gone")
    assert not found.whole()
    found.install()
    assert "-m venv --clear" in commands[0]


def test_a_layer_follows_its_base(made: Callable[..., Made]) -> None:
    """A layer is made with its base's Python, finds its packages by path, and is out of date when the base is."""
    below, commands = made("below")
    layer, _ = made("layer", base=below)
    layer.install()
    assert below.complete() and str(below.location()) in commands[2] and "-m venv" in commands[2]
    (path,) = layer.location().glob("lib/python3.*/site-packages/*.pth")
    assert f"addsitedir('{below.location()}/lib/python3.11/site-packages')" in path.read_text()
    below.lock.write_text("a==2\n")
    with pytest.raises(BadInput):
        layer.python()


def test_another_folder_is_left_alone(made: Callable[..., Made]) -> None:
    """A folder that is no environment is never cleared."""
    found, commands = made()
    found.location().mkdir(parents=True)
    (found.location() / "letters.txt").touch()
    with pytest.raises(InstallFailed, match="no virtual environment"):
        found.install()
    assert commands == [] and (found.location() / "letters.txt").exists()


def test_what_stands_in_the_way_is_said_before_any_download(made: Callable[..., Made]) -> None:
    """A Python that its packages do not accept, and too little disk, are named with what to do."""
    found, commands = made(pythons=range(3, 5), disk_bytes=10**18)
    with pytest.raises(InstallFailed, match=r"needs 3\.3 to 3\.4; name one: make test PYTHON=[\s\S]*PDLAB_TEST_ENV"):
        found.install()
    with pytest.raises(InstallFailed, match="python-that-is-not-here does not run"):
        found.install("python-that-is-not-here")
    assert commands == []


def test_a_failing_command_tells_its_last_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """What a step printed is shown as it comes, and its end is in the error."""
    with pytest.raises(InstallFailed, match="no such wheel"):
        environment.run([sys.executable, "-c", "print('no such wheel'); raise SystemExit(3)"])
    assert "no such wheel" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "hashes"), [("live", False), ("ray", True), ("sim", True), ("dynamo", True)])
def test_each_has_a_lock_and_a_way_to_be_made(name: str, hashes: bool) -> None:
    """Every environment's lock pins each package (with hashes, but for torch's own index), and make knows it."""
    found = env.ALL[name]
    lock = [line for line in found.lock.read_text().splitlines() if line and line[0] not in "# "]
    assert len(lock) > 3 and all("==" in line for line in lock)
    assert ("--hash=sha256:" in found.lock.read_text()) is hashes
    assert f"pdlab.live.env {name}" in (env.ROOT / "Makefile").read_text()
    assert found.command.removeprefix("make ") + ":" in (env.ROOT / "Makefile").read_text()


def test_a_missing_torch_wheel_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip finds no CPU build of torch, the message says which index to name, and then it is used."""
    asked: list[tuple[str, ...]] = []

    def pip(self: env.Live, *arguments: str) -> None:
        asked.append(arguments)
        if "--extra-index-url" not in arguments and "-r" in arguments:
            raise InstallFailed("No matching distribution found for torch==2.13.0+cpu")

    monkeypatch.setattr(env.Live, "pip", pip)
    monkeypatch.setattr(env.budget, "device", lambda: "cpu")
    monkeypatch.delenv(env.TORCH_INDEX_ENV, raising=False)
    with pytest.raises(InstallFailed, match=env.TORCH_INDEX_ENV):
        env.LIVE.fill()
    monkeypatch.setenv(env.TORCH_INDEX_ENV, "https://index.example/cpu")
    env.LIVE.fill()
    assert asked[-2][-2:] == ("--extra-index-url", "https://index.example/cpu") and "--editable" in asked[-1]
