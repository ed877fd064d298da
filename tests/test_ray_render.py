"""A plan as Ray Serve LLM's configuration: what is written, without Ray."""

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import yaml

from pdlab.errors import BadInput
from pdlab.live.env import ROOT
from pdlab.live.ray import render
from pdlab.live.render import shell, targets
from pdlab.measure import plan as plans


@pytest.fixture(scope="module")
def plan():
    return plans.load(ROOT / "data/plans/miniature-2core.yaml")


def test_aggregated_counts_and_no_connector(plan):
    """The aggregated side has the plan's replicas, one core each, and no KV connector."""
    (config,) = render.arguments(plan, "aggregated", "/m")["llm_configs"]
    assert config["deployment_config"]["autoscaling_config"] == {"min_replicas": 2, "max_replicas": 2}
    assert config["placement_group_config"] == {"bundles": [{"CPU": 1}]}
    assert "kv_transfer_config" not in config["engine_kwargs"]


def test_pools_scale_apart_and_share_model_and_connector(plan):
    """Headroom moves one pool's upper bound alone; both sides name one model and connector."""
    pair = render.arguments(plan, "disaggregated", "/m", headroom={"prefill": 3})
    prefill, decode = pair["prefill_config"], pair["decode_config"]
    assert prefill["deployment_config"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 4}
    assert decode["deployment_config"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 1}
    assert prefill["model_loading_config"] == decode["model_loading_config"]
    for side in (prefill, decode):
        assert side["engine_kwargs"]["kv_transfer_config"]["kv_connector"] == "NixlConnector"


def test_gpu_ranks_become_bundles(plan):
    """On GPUs a replica's bundles are its ranks, and no CPU setting is left."""
    both = plan.deployments.disaggregated.model_copy(update={"tensor_parallel_per_replica": 4})
    gpu = plan.model_copy(update={
        "live": plan.live.model_copy(update={"device": "cuda"}),
        "deployments": plan.deployments.model_copy(update={"disaggregated": both}),
    })  # fmt: skip
    config = render.arguments(gpu, "disaggregated", "/m")["decode_config"]
    assert config["placement_group_config"]["bundles"] == [{"GPU": 1}] * 4
    assert not {"accelerator_config", "runtime_env"} & config.keys()
    assert "distributed_executor_backend" not in config["engine_kwargs"]


@pytest.mark.parametrize("design", ["aggregated", "disaggregated"])
def test_yaml_holds_the_same_arguments(plan, design):
    """The serve file carries exactly what the builder would be given, on loopback."""
    read = yaml.safe_load(render.document(plan, design, "/m"))
    (application,) = read["applications"]
    assert application["args"] == render.arguments(plan, design, "/m")
    assert application["import_path"] == f"ray.serve.llm:{render.BUILDER[design]}"
    assert read["http_options"]["host"] == "127.0.0.1"


@pytest.mark.parametrize("headroom", [{"aggregated": 1}, {"decode": -1}])
def test_bad_headroom_is_refused(plan, headroom):
    """A pool the design does not have, or a negative number, is bad input."""
    with pytest.raises(BadInput):
        render.arguments(plan, "disaggregated", "/m", headroom=headroom)


def test_a_pool_is_scaled_beside_the_application(plan):
    """Another number for one pool changes its entry and nothing else: Serve then builds nothing anew."""
    def read(**more):
        return yaml.safe_load(render.document(plan, "disaggregated", "/m", name="org/a.b", **more))["applications"][0]

    plain, wider = read(), read(replicas={"prefill": 2})
    assert [one["name"] for one in plain["deployments"]] == ["Prefill:org--a_b", "Decode:org--a_b"]
    assert wider["deployments"][0].pop("autoscaling_config") == {"min_replicas": 2, "max_replicas": 2}
    assert plain["deployments"][0].pop("autoscaling_config") == {"min_replicas": 1, "max_replicas": 1}
    assert wider == plain
    with pytest.raises(BadInput):
        read(replicas={"aggregated": 2})


def test_one_chunk_size_for_all_engines(plan):
    """A tuned chunk size replaces the plan's largest."""
    (config,) = render.arguments(plan, "aggregated", "/m", chunk_tokens=128)["llm_configs"]
    assert config["engine_kwargs"]["max_num_batched_tokens"] == 128


# ── the script, with programs that stand in for Serve, pdlab and the rest ───────────────────

STUBS = {
    "serve": """
cd "$STATE" || exit 1
case $1 in
  deploy)
    file=$(sed -n "s/^- name: //p" "$2")
    if [ -e lose-one ]; then rm lose-one; exit; fi
    if [ -e beside ]; then echo "other RUNNING 0" >>apps; rm beside; fi
    if [ -n "$file" ]; then echo "$file DEPLOYING 3" >>apps; else sed -i "s/ .*/ DELETING 3/" apps; fi ;;
  shutdown) echo shutdown >>told ;;
  status)
    touch apps next
    if [ -e silent ] || { [ -e blink ] && [ -s apps ]; }; then rm -f blink; echo "no cluster" >&2; exit 1; fi
    echo applications:
    while read -r name status turns; do
      printf "  %s:\\n    status: %s\\n    message: |\\n      status: X\\n" "$name" "$status"
      case $status-$turns in
        DELETING-0) [ -z "${STAYS:-}" ] || echo "$name DELETING 0" >>next ;;
        DEPLOYING-0) echo "$name ${END:-RUNNING} 0" >>next ;;
        *) echo "$name $status $((turns > 0 ? turns - 1 : 0))" >>next ;;
      esac
    done <apps
    mv next apps ;;
esac
""",
    "pdlab": """
case "$1 $2" in
  "link --listen") [ -z "${LINK:-}" ] || { echo $$ >"$STATE/listener"; exec sleep 300; } ;;
  "link --peer")
    [ -n "${LINK:-}" ] || exit 0
    until [ -s "$STATE/listener" ]; do sleep 0.02; done
    [ "$LINK" = stop ] || exit 3
    kill -TERM "$(cat "$STATE/script")"
    exec sleep 300 ;;
  *) echo "$1 $4 $(cat "$STATE/apps")" >>"$STATE/told" ;;
esac
""",
    "curl": """[ -s "$STATE/apps" ] || [ -e "$STATE/stranger" ]\n""",  # one address for all, and what is being deleted still answers
}
# The script's own clock: it begins late, and goes on by half a minute for each second that the script would sleep.
CLOCK = "echo $$ >$STATE/script\nunset SECONDS\nSECONDS=99999\nsleep() { SECONDS=$((SECONDS + 30 * $1)); }\n"


def ray_script(folder: Path, **settings: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The run.sh of a small plan among the stubs: how it ended, and what was told to them."""
    plan = ROOT / "data/plans/node-2gpu.yaml"
    for name, text in targets.render(plan, "ray", chunk_tokens=2048).items():
        (folder / name).write_text(text.replace(shell.STRICT, shell.STRICT + CLOCK))
    for name, text in STUBS.items():
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (folder / "bin" / name).chmod(0o755)
    given = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "STATE": str(folder), "OUT": str(folder / "out"),
             "PDLAB": "pdlab", "SERVE": "serve", **settings}  # fmt: skip
    done = subprocess.run(["bash", str(folder / "run.sh")], cwd=ROOT, env=given, capture_output=True, text=True, timeout=20)
    told = folder / "told"
    return done, told.read_text().splitlines() if told.exists() else []


def test_each_design_meets_its_own_application_however_long_the_one_before_took(tmp_path):
    """The limits begin anew for each design; load goes to a design that runs alone; a deployment that Serve lost is sent again."""
    (tmp_path / "lose-one").touch()
    (tmp_path / "blink").touch()  # and one look at Serve comes to nothing, which is no reason to deploy again
    done, told = ray_script(tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in told if line.startswith("attach")] == [
        "attach aggregated aggregated RUNNING 0", "attach disaggregated disaggregated RUNNING 0"]  # fmt: skip
    assert told[-2].startswith("analyze") and told[-1] == "shutdown"


@pytest.mark.parametrize(("settings", "words"), [
    ({"END": "DEPLOYING"}, "aggregated is not running after 60 minutes; Serve lists: aggregated: DEPLOYING"),
    ({"STAYS": "1"}, "an application is still there after 10 minutes; Serve lists: aggregated: DELETING"),
    ({"END": "DEPLOY_FAILED"}, "aggregated could not be deployed; Serve lists: aggregated: DEPLOY_FAILED"),
])  # fmt: skip
def test_a_limit_that_passes_ends_the_script_with_its_reason(tmp_path, settings, words):
    """What does not come up, or does not go, is named with what Serve lists; the other design is not measured."""
    done, told = ray_script(tmp_path, **settings)
    assert done.returncode == 1 and words in done.stderr
    assert not [line for line in told if "disaggregated" in line] and told[-1] == "shutdown"


def test_a_serve_that_has_work_is_left_alone(tmp_path):
    """An application of somebody else is neither deleted nor measured; with no cluster the script ends with Serve's words."""
    (tmp_path / "silent").touch()
    done, told = ray_script(tmp_path)
    assert done.returncode == 1 and "no cluster" in done.stderr and told == []
    (tmp_path / "silent").unlink()
    (tmp_path / "apps").write_text("other RUNNING 0\n")
    done, told = ray_script(tmp_path)
    assert done.returncode == 1 and "other: RUNNING" in done.stderr and told == []


def test_an_application_that_comes_beside_ours_is_not_measured(tmp_path):
    """One that somebody deploys meanwhile might answer in ours' place: no load is sent while Serve lists both."""
    (tmp_path / "beside").touch()
    done, told = ray_script(tmp_path)
    assert done.returncode == 1 and "Serve lists: other: RUNNING\naggregated: RUNNING" in done.stderr
    assert not [line for line in told if line.startswith("attach")] and told[-1] == "shutdown"


def test_what_is_none_of_serves_is_not_measured(tmp_path):
    """Something that lists models at the address before Serve has an application is named, and Serve is left as it was."""
    (tmp_path / "stranger").touch()
    done, told = ray_script(tmp_path)
    assert done.returncode == 1 and "lists models at http://127.0.0.1:8000; end it first" in done.stderr and told == []


@pytest.mark.parametrize(("link", "status"), [("fails", 3), ("stop", 143)])
def test_a_link_that_is_not_good_enough_leaves_no_listener(tmp_path, link, status):
    """The end that waits for a measurement goes with the script, whether the peer fails or a signal comes, and Serve is shut down."""
    done, told = ray_script(tmp_path, LINK=link)
    assert done.returncode == status and told == ["shutdown"], done.stderr
    listener, until = int((tmp_path / "listener").read_text()), time.monotonic() + 10
    while psutil.pid_exists(listener) and time.monotonic() < until:
        time.sleep(0.02)
    assert not psutil.pid_exists(listener)
