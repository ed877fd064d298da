"""The script of target kubernetes, against a kubectl that is a few lines of bash, and where the model lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from minicourse import ROOT

from pdlab.errors import BadInput
from pdlab.live.render import kubernetes, targets, verify

PLAN = ROOT / "data/plans/node-2gpu.yaml"
KUBECTL = """\
#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
  *"get pods"*jsonpath*) printf '%b' "$STATES" ;;
  *"get pods"*name*) echo pod/pdlab-prefill-0-x ;;
  *"get job/"*) echo "$JOB" ;;
  *"logs"*) echo "words of ${*: -1}" ;;
  *" wait --for"*) exit "$NOT_UP" ;;
  *"exec "*) tar --create --directory="$RECORDS" . ;;
esac
"""


@pytest.fixture
def script(tmp_path: Path):
    """``run(**settings)``: the rendered script with that kubectl; gives it and the calls that it made."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim/sweep.json").write_text("{}")
    text = targets.render(PLAN, "kubernetes", chunk_tokens=2048)["run.sh"]
    (tmp_path / "run.sh").write_text(text)

    def run(**settings: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        told = {"CALLS": str(tmp_path / "calls"), "RECORDS": str(tmp_path / "claim"), "PAUSE": "0", "NOT_UP": "0",
                "STATES": "pdlab-prefill-0-x|0 |\\n", "JOB": "1/", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}  # fmt: skip
        done = subprocess.run(["bash", str(tmp_path / "run.sh")], env=told | settings, capture_output=True, text=True, timeout=20)
        return done, (tmp_path / "calls").read_text().splitlines()

    return run


def test_records_and_logs_are_brought_out_before_anything_is_deleted(script, tmp_path: Path) -> None:
    """A run to its end: records and each pod's log lie beside the script, every design in turn, nothing left applied."""
    done, calls = script()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/sweep.json").exists()
    assert "words of" in (tmp_path / "results/logs/pdlab-prefill-0-x.log").read_text()
    applied = [call.rpartition(" ")[2] for call in calls if " apply " in call]
    assert applied == ["1-link.yaml", "1-model.yaml", "2-aggregated.yaml", "2-runs.yaml", "3-disaggregated.yaml", "3-runs.yaml",
                       "4-records.yaml", "5-analyze.yaml"]  # fmt: skip
    for name in ("2-aggregated.yaml", "3-disaggregated.yaml"):
        up, gone = (next(i for i, call in enumerate(calls) if i > 5 and verb in call and name in call) for verb in (" apply ", " delete "))
        assert any(" logs pod/" in call for call in calls[up:gone])


@pytest.mark.parametrize(
    ("states", "why"),
    [("pdlab-prefill-0-x|1 |CrashLoopBackOff \\n", "has crashed and was started again"),
     ("pdlab-other-y|0 |\\npdlab-prefill-0-x|0 |ImagePullBackOff\\n", "ImagePullBackOff")],
)  # fmt: skip
def test_a_server_that_crashes_is_told_and_ends_the_script(script, tmp_path: Path, states: str, why: str) -> None:
    """The pod, why, and its last words at once; its log is kept first, then all is deleted, and no client was started."""
    done, calls = script(STATES=states, NOT_UP="1")
    assert done.returncode == 1 and f"pdlab-prefill-0-x: {why}" in done.stderr and "words of" in done.stderr
    assert not any("2-runs.yaml" in call and " apply " in call for call in calls)
    assert "words of" in (tmp_path / "results/logs/pdlab-prefill-0-x.log").read_text()
    assert " delete " in calls[-1] and any(" logs pod/" in call for call in calls[-4:-1])


def test_a_job_that_fails_is_told_and_a_pod_that_only_starts_is_no_failure(script) -> None:
    """A failed job's words stand in the message; pods that are still being made are waited for."""
    done, _ = script(JOB="/1", STATES="pdlab-model-z|0 |ContainerCreating PodInitializing\\n")
    assert done.returncode == 1 and "pdlab-link-peer has failed" in done.stderr and "words of" in done.stderr
    assert "goes on with it" in done.stderr


def pods(files: dict[str, str]) -> dict[str, dict]:
    """Name → pod of every Deployment and Job."""
    every = [one for name, text in files.items() if name.endswith(".yaml") for one in yaml.load_all(text, verify.LOADER)]
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in every if "template" in one["spec"]}


def test_the_model_is_fetched_once_and_read_by_all() -> None:
    """A hub id: one job has the token and fetches; every server mounts the same claim and asks no hub."""
    found = pods(targets.render(PLAN, "kubernetes", chunk_tokens=2048))
    fetch = found["pdlab-model"]["containers"][0]
    assert fetch["args"][1:] == ["meta-llama/Llama-3.1-8B-Instruct", ""] and "snapshot_download" in fetch["args"][0]
    home = next(one["value"] for one in fetch["env"] if one["name"] == "HF_HOME")
    servers = [pod for name, pod in found.items() if pod["containers"][0]["name"] == "vllm"]
    assert len(servers) == 4
    for pod in servers:
        told = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        assert (told["HF_HOME"], told["HF_HUB_OFFLINE"]) == (home, "1") and "HF_TOKEN" not in told
        (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "models"]
        assert home.startswith(mount["mountPath"] + "/")
        assert {"name": "models", "persistentVolumeClaim": {"claimName": "pdlab-models"}} in pod["volumes"]


def test_a_models_folder_is_mounted_where_its_path_says() -> None:
    """A folder: the claim is mounted at its path's first part and is looked into first; no claim is made, nothing fetched."""
    files = targets.render(PLAN, "kubernetes", chunk_tokens=2048, model="/mnt/models/llama", image="registry.example/me/pdlab:2")
    found = pods(files)
    assert "0-models.yaml" not in files and "get persistentvolumeclaim pdlab-models" in files["run.sh"]
    assert found["pdlab-model"]["containers"][0]["args"][1] == "/mnt/models/llama"
    for pod in (found["pdlab-model"], found["pdlab-prefill-0"]):
        assert {"name": "models", "mountPath": "/mnt"} in pod["containers"][0]["volumeMounts"]
    course = {pod["containers"][0]["image"] for pod in found.values()} - {kubernetes.ENGINE_IMAGE}
    assert course == {"registry.example/me/pdlab:2"}
    for model in ("/llama", "/usr/llama", "/a:b/llama"):
        with pytest.raises(BadInput, match="first part"):
            targets.render(PLAN, "kubernetes", chunk_tokens=2048, model=model)
    with pytest.raises(BadInput, match="--image"):
        targets.render(PLAN, "kubernetes", chunk_tokens=2048, image="a b")


def test_what_looks_for_the_model_runs(tmp_path: Path) -> None:
    """The line that looks into the claim is Python, and tells a folder without a model."""
    words = [sys.executable, "-I", "-S", "-c", kubernetes.LOOK, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and "does not hold this model" in done.stderr
    (tmp_path / "config.json").write_text("{}")
    assert subprocess.run(words, capture_output=True).returncode == 0
    compile(kubernetes.FETCH, "fetch", "exec")
