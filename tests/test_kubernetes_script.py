"""The script of target kubernetes, against a kubectl that is a few lines of bash, and where the model lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from minicourse import ROOT

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.live import sweep
from pdlab.live.render import kubernetes, targets, verify
from pdlab.measure import plan as plans

PLAN = ROOT / "data/plans/node-2gpu.yaml"
KUBECTL = """\
#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
  *"get pods"*nodeName*) echo "$PLACED" ;;
  *"get secret"*) exit "$NO_TOKEN" ;;
  *"1-network.yaml"*) exit "$NO_POLICY" ;;
  *"get pods"*jsonpath*) printf '%b' "$STATES" ;;
  *"get pods"*name*) echo pod/pdlab-prefill-0-x ;;
  *"get job/"*) echo "$JOB" ;;
  *"logs"*) echo "words of ${*: -1}" ;;
  *"wait --for"*) exit "$NOT_UP" ;;
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
    for name, text in targets.render(PLAN, "kubernetes", chunk_tokens=2048).items():
        (tmp_path / name).write_text(text)

    def run(**settings: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        told = {"CALLS": str(tmp_path / "calls"), "RECORDS": str(tmp_path / "claim"), "PAUSE": "0", "NOT_UP": "0",
                "PLACED": "gpu-a.example", "NO_TOKEN": "0", "NO_POLICY": "0",
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
    applied = [call.rpartition("/")[2] for call in calls if call.startswith("apply ")]
    assert applied == ["1-plan.yaml", "1-network.yaml", "1-place.yaml", "1-link.yaml", "1-model.yaml", "2-aggregated.yaml", "2-runs.yaml", "3-disaggregated.yaml", "3-runs.yaml",
                       "4-records.yaml", "5-analyze.yaml"]  # fmt: skip
    for name in ("2-aggregated.yaml", "3-disaggregated.yaml"):
        up, gone = (next(i for i, call in enumerate(calls) if i > 5 and verb in call and name in call) for verb in ("apply ", "delete "))
        assert any("logs pod/" in call for call in calls[up:gone])


@pytest.mark.parametrize(
    ("states", "why"),
    [("pdlab-prefill-0-x|1 |CrashLoopBackOff \\n", "has crashed and was started again"),
     ("pdlab-other-y|0 |\\npdlab-prefill-0-x|0 |ImagePullBackOff\\n", "ImagePullBackOff")],
)  # fmt: skip
def test_a_server_that_crashes_is_told_and_ends_the_script(script, tmp_path: Path, states: str, why: str) -> None:
    """The pod, why, and its last words at once; its log is kept first, then all is deleted, and no client was started."""
    done, calls = script(STATES=states, NOT_UP="1", NODES="gpu-a")
    assert done.returncode == 1 and f"pdlab-prefill-0-x: {why}" in done.stderr and "words of" in done.stderr
    assert not any("2-runs.yaml" in call and call.startswith("apply ") for call in calls)
    assert "words of" in (tmp_path / "results/logs/pdlab-prefill-0-x.log").read_text()
    assert calls[-1].startswith("delete ") and any("logs pod/" in call for call in calls[-4:-1])


def test_a_job_that_fails_is_told_and_a_pod_that_only_starts_is_no_failure(script) -> None:
    """A failed job's words stand in the message; pods that are still being made are waited for."""
    done, _ = script(JOB="/1", STATES="pdlab-model-z|0 |ContainerCreating PodInitializing\\n")
    assert done.returncode == 1 and "pdlab-link-peer has failed" in done.stderr and "words of" in done.stderr
    assert "goes on with it" in done.stderr


def pods(files: dict[str, str]) -> dict[str, dict]:
    """Name → pod of every Deployment and Job."""
    every = [one for name, text in files.items() if name.endswith(".yaml") for one in yaml.load_all(text, verify.LOADER)]
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in every if "template" in one.get("spec", {})}


def node_of(pod: dict) -> str | None:
    """The node that a pod is bound to."""
    bound = pod.get("affinity", {}).get("nodeAffinity")
    if bound is None:
        return None
    (term,) = bound["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert field["key"] == "metadata.name" and {"key": "nvidia.com/gpu", "operator": "Exists"} in pod["tolerations"]
    return field["values"][0]


def test_link_servers_and_client_stand_on_the_same_nodes(script, tmp_path: Path) -> None:
    """The nodes that were found, or named, stand in what is applied, and nowhere a place-holder; too few or odd names end the script."""
    done, calls = script()
    assert done.returncode == 0 and "Nodes: gpu-a.example" in done.stdout
    applied = {path.name: path.read_text() for path in (tmp_path / "results/applied").iterdir()}
    assert len(applied) == 11 and "PDLAB_NODE" not in "".join(applied.values())
    on = {name: node_of(pod) for name, pod in pods(applied).items()}
    assert on.pop("pdlab-place") is None and on.pop("pdlab-records") is None and on.pop("pdlab-analyze") is None
    assert len(on) == 9 and set(on.values()) == {"gpu-a.example"}
    (tmp_path / "calls").unlink()
    done, calls = script(NODES="gpu-b")
    assert done.returncode == 0 and not any("1-place.yaml" in call and call.startswith("apply ") for call in calls)
    assert "- gpu-b\n" in (tmp_path / "results/applied/2-runs.yaml").read_text()
    (tmp_path / "calls").write_text("")
    for nodes in ("gpu-a gpu-b", "a/b", "A", " "):
        done, calls = script(NODES=nodes)
        assert done.returncode == 1 and "expected 1" in done.stderr and calls == []


def test_of_two_nodes_each_pod_has_the_plans() -> None:
    """Prefill and the link's listening end stand on one node, decode and its peer on the other, the client on the first and with processors."""
    found = pods(targets.render(ROOT / "data/plans/reference-16gpu-live.yaml", "kubernetes", chunk_tokens=2048))
    on = {name: node_of(pod) for name, pod in found.items()}
    assert on["pdlab-prefill-0"] == on["pdlab-link-listen"] == on["pdlab-disaggregated"] == on["pdlab-aggregated"] == "PDLAB_NODE_0"
    assert on["pdlab-decode-0"] == on["pdlab-link-peer"] == "PDLAB_NODE_1"
    assert found["pdlab-place"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    alone = pods(targets.render(PLAN, "kubernetes", chunk_tokens=2048))["pdlab-place"]
    for pod, claims in ((found["pdlab-place"], ["pdlab-models"]), (alone, ["pdlab-results", "pdlab-models"])):
        assert [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"]] == claims  # a volume may lie on one node
    for one in (found["pdlab-disaggregated"]["containers"][0], found["pdlab-disaggregated"]["initContainers"][1]):
        assert one["resources"]["requests"]["cpu"] == kubernetes.CLIENT_CPUS


def test_the_plan_that_was_rendered_is_the_one_that_runs(tmp_path: Path) -> None:
    """Byte by byte in a ConfigMap that is mounted where attach and analyze look; it may lie anywhere, and an image's tag is asked for anew."""
    path = tmp_path / "p.yaml"
    path.write_text(PLAN.read_text() + "# ä 'b' \"c\" $(D) \t\r\n#  \n\n")
    files = targets.render(path, "kubernetes", chunk_tokens=2048, image="registry.example/me/pdlab:2")
    (made,) = yaml.load_all(files["1-plan.yaml"], verify.LOADER)
    assert made["data"]["plan.yaml"].encode() == path.read_bytes() and made["immutable"] is True
    found = pods(files)
    for name in ("pdlab-aggregated", "pdlab-disaggregated", "pdlab-analyze"):
        pod = found[name]
        (volume,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "plan"]
        assert volume["name"] == made["metadata"]["name"] and volume.get("items", [{}])[0] in ({}, {"key": "plan.yaml", "path": "plan.yaml"})
        assert {"name": "plan", "mountPath": "/plan"} in pod["containers"][0]["volumeMounts"] and "/plan/plan.yaml" in pod["containers"][0]["args"]
        assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert "configMap" not in files["4-records.yaml"]  # which is applied by hand, too, when the plan is gone
    local = pods(targets.render(path, "kubernetes", chunk_tokens=2048))["pdlab-aggregated"]
    assert "imagePullPolicy" not in local["containers"][0]


def planned(folder: Path, trace: str) -> Path:
    """The plan of two GPUs in ``folder``, with that trace."""
    path = folder / "plan.yaml"
    path.write_text(PLAN.read_text().replace("data/traces/reference-16gpu.jsonl", trace))
    return path


def test_the_trace_travels_with_its_plan_and_is_the_one_that_is_read(script, tmp_path: Path) -> None:
    """Trace and block size lie below the plan's mount as the plan names them, byte by byte, and come before a namesake elsewhere."""
    folder = tmp_path / "mine"
    (folder / "data/traces").mkdir(parents=True)
    trace = folder / "data/traces/reference-16gpu.jsonl"  # the image has another one of this name
    trace.write_bytes(b'{"timestamp": 0, "input_length": 20, "output_length": 2, "hash_ids": [1, 2], "kind": "\xc3\xa4"}\r\n')
    trace.with_suffix(".meta.json").write_text('{"block_tokens": 16}\n')
    path = planned(folder, "./data/traces/reference-16gpu.jsonl")
    files = targets.render(path, "kubernetes", chunk_tokens=2048)
    (made,) = yaml.load_all(files["1-plan.yaml"], verify.LOADER)
    mounted = tmp_path / "pod"
    for pod in (pods(files)[name] for name in ("pdlab-aggregated", "pdlab-disaggregated")):
        (volume,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "plan"]
        assert {one["key"] for one in volume["items"]} == set(made["data"]) and not any("/" in key for key in made["data"])
        for one in volume["items"]:
            (mounted / one["path"]).parent.mkdir(parents=True, exist_ok=True)
            (mounted / one["path"]).write_bytes(made["data"][one["key"]].encode())
    assert (mounted / "data/traces" / trace.name).read_bytes() == trace.read_bytes()
    read = sweep.read_workload(mounted / "plan.yaml", plans.load(mounted / "plan.yaml"))
    assert (len(read), read.block_tokens) == (1, 16)
    assert "apply 1-plan.yaml\n" in files["run.sh"] and "The plan and its trace go along" in files["run.sh"]
    _, calls = script()  # the reference's trace is more than an annotation holds
    assert [call for call in calls if "--server-side" in call] == [f"apply --server-side --filename {tmp_path}/results/applied/1-plan.yaml"]


def test_a_trace_that_cannot_travel_is_told(tmp_path: Path) -> None:
    """One that is not there, or lies where no pod looks, is refused with what to do; one too large is to be in the image."""
    for trace, says in (("nowhere.jsonl", "no such file, expected a trace.*from the plan's folder"), (str(tmp_path / "t.jsonl"), "copy the trace beside the plan"),
                        ("../t.jsonl", "copy the trace beside the plan")):  # fmt: skip
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "t.jsonl").write_text("{}\n")
        with pytest.raises(BadInput, match=says):
            targets.render(planned(tmp_path / "a", trace), "kubernetes", chunk_tokens=2048)
    (tmp_path / "a/large.jsonl").write_text("x" * 2**20)
    files = targets.render(planned(tmp_path / "a", "large.jsonl"), "kubernetes", chunk_tokens=2048)
    (made,) = yaml.load_all(files["1-plan.yaml"], verify.LOADER)
    assert list(made["data"]) == ["plan.yaml"] and "too large" in files["run.sh"] and "--server-side" not in files["run.sh"]
    assert "key: plan.yaml" in files["2-runs.yaml"] and "key: trace" not in files["2-runs.yaml"]


def test_what_a_run_makes_can_be_deleted_by_its_label_and_claims_cannot() -> None:
    """One command frees the GPUs after a killed script; records and model stay.  Only this run's pods may reach its pods."""
    files = targets.render(PLAN, "kubernetes", chunk_tokens=2048)
    seen = set()
    for one in (one for name, text in files.items() if name.endswith(".yaml") for one in yaml.load_all(text, verify.LOADER)):
        ours = kubernetes.OURS.items() <= one["metadata"].get("labels", {}).items()
        assert ours == (one["kind"] != "PersistentVolumeClaim")
        seen |= {one["kind"].lower().replace("policy", "policie") + "s"} if ours else set()
        if one["kind"] == "NetworkPolicy":
            assert one["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": kubernetes.OURS}}]}]
    assert seen == set(kubernetes.KINDS.split(","))
    head = " ".join(line.removeprefix("# ") for line in files["run.sh"].split("# Flags")[0].splitlines())
    assert f"delete {kubernetes.KINDS} --selector app.kubernetes.io/part-of=pdlab" in head


def test_namespace_token_and_image_are_told(script) -> None:
    """NAMESPACE stands in every call; a missing secret, a policy that one may not make and an image without a registry are said and end nothing."""
    done, calls = script(NAMESPACE="class", NO_TOKEN="1", NO_POLICY="1")
    assert "No network policy" in done.stderr
    assert done.returncode == 0 and all(call.startswith("--namespace class ") for call in calls)
    assert "No secret hf-token" in done.stderr and "pdlab:0.1.0, names no registry" in done.stderr
    assert "--namespace NAMESPACE create secret" in targets.render(PLAN, "kubernetes", chunk_tokens=2048)["1-model.yaml"]


@pytest.mark.parametrize("name", ["node-2gpu", "reference-16gpu-live"])
def test_tuning_measures_the_link_first(name: str) -> None:
    """The files that choose a chunk size begin with the link, too: a slow one is found before hours are spent."""
    files = targets.render(ROOT / f"data/plans/{name}.yaml", "kubernetes", tune=True)
    assert "--at-least-gb-s" in files["1-link.yaml"]
    assert files["run.sh"].index("apply 1-link.yaml\n") < files["run.sh"].index("apply 2-aggregated-")


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


def test_a_folder_holds_one_rendering(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of another rendering would be applied with these: they are named and nothing is written; the same again is, and own files are let be."""
    words = ["plan", "render", str(PLAN), "--target", "kubernetes", "--out", str(tmp_path)]
    (tmp_path / "mine.yaml").write_text("a: 1\n")
    assert cli.main([*words, "--tune"]) == 0 == cli.main([*words, "--tune"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert cli.main([*words, "--chunk", "512"]) == 2
    told = capsys.readouterr().err
    assert "3-aggregated-1024.yaml" in told and "another rendering" in told and "mine.yaml" not in told
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
