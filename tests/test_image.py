"""The Dockerfile and the environment for GPUs, as far as they can be seen without a container engine and without a GPU."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from minicourse import ROOT

from pdlab.live import env, environment
from pdlab.live.render import kubernetes, targets

HASHED = re.compile(r"^([a-z0-9._-]+)==(\S+)( ; [^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}", re.MULTILINE)


def instructions() -> list[list[str]]:
    """The Dockerfile's instructions as words, comments left out and lines joined."""
    text = "\n".join(line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def test_what_the_image_copies_is_there_and_nothing_else_is_sent() -> None:
    """Every file and folder that is copied exists and is let through by .dockerignore; answers and environments are not."""
    copied = [word.rstrip("/") for words in instructions() if words[0] == "COPY" for word in words[2:-1]]
    assert {"pdlab", "data", "requirements-live-gpu.lock"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines and {line[1:] for line in lines if line.startswith("!")} == set(copied)


def test_the_image_is_the_one_that_the_manifests_name() -> None:
    """Its user is not root and is the one that the claim's files are given to, its folder the one that pods start in."""
    by_word = {words[0]: words[1:] for words in instructions()}
    assert by_word["USER"] == [str(kubernetes.COURSE_USER)] and ":" in by_word["FROM"][0]
    files = targets.render(ROOT / "data/plans/node-2gpu.yaml", "kubernetes", chunk_tokens=2048)
    folder = by_word["WORKDIR"][0]
    assert f"workingDir: {folder}\n" in files["2-runs.yaml"] and f"- {folder}/.venv/bin/pdlab\n" in files["2-runs.yaml"]
    assert by_word["ENTRYPOINT"] == [f"[{folder}/.venv/bin/pdlab]"]
    made = next(words for words in instructions() if words[:2] == ["RUN", "make"])
    assert made[2:] == ["env", "live-env", "PDLAB_DEVICE=cuda"]
    told = subprocess.run(["make", "--silent", "--eval", "told: ; @echo $$PDLAB_DEVICE", "told", made[-1]],
                          cwd=ROOT, capture_output=True, text=True, check=True)  # fmt: skip
    assert told.stdout == "cuda\n"  # what make is told on its command line, its recipes find in their environment


def test_the_gpu_lock_pins_everything_with_hashes() -> None:
    """Every package of the lock has one version and a hash, and the three that it was made of are the stated ones."""
    text = env.GPU_LOCK.read_text()
    pinned = {f"{name}=={version}" for name, version, _ in HASHED.findall(text)}
    assert len(pinned) > 150 and set(env.GPU_PINS) <= pinned
    assert len(pinned) == sum("==" in line for line in text.splitlines() if line[:1].isalnum())


def test_the_device_is_what_was_asked_for_then_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PDLAB_DEVICE=cuda installs the GPU lock where no GPU is; afterwards the environment stays for GPUs without being told."""
    ran: list[str] = []
    monkeypatch.setattr(environment, "run", lambda command: ran.append(" ".join(command)))
    monkeypatch.setattr(env.budget, "gpus", list)
    monkeypatch.setenv("PDLAB_LIVE_ENV", str(tmp_path / "live"))
    monkeypatch.delenv(env.DEVICE_ENV, raising=False)
    assert env.device() == "cpu"
    monkeypatch.setenv(env.DEVICE_ENV, "cuda")
    env.LIVE.fill()
    assert str(env.GPU_LOCK) in ran[0] and "--require-hashes" in ran[0] and "--no-deps" in ran[0]
    told = env.LIVE.wanted()
    (tmp_path / "live/lib/python3.12/site-packages/vllm-0.33.0.dist-info").mkdir(parents=True)
    (tmp_path / "live/lib/python3.12/site-packages/vllm-0.33.0.dist-info/METADATA").write_text("Name: vllm\nVersion: 0.33.0\n")
    monkeypatch.delenv(env.DEVICE_ENV)
    assert env.device() == "cuda" and env.LIVE.wanted() == told


def test_a_device_that_is_none_is_bad_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """PDLAB_DEVICE=gpu ends in one sentence and status 2."""
    monkeypatch.setenv(env.DEVICE_ENV, "gpu")
    assert env.main(["live"]) == 2
    assert "PDLAB_DEVICE" in capsys.readouterr().err
