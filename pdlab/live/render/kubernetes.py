"""Target ``kubernetes``: plain manifests (Deployments, Services, Jobs, one volume claim) and the script that applies them.

A server is a Deployment of one pod, since each has a name and a side channel of its own.  Router and
client share one pod: the router listens on loopback, there as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from pdlab.errors import BadInput
from pdlab.live import env
from pdlab.live.render import local, paper, shell
from pdlab.measure.plan import Plan

ENGINE_IMAGE = "vllm/vllm-openai:v" + env.GPU_PINS[0].partition("==")[2]
COURSE_IMAGE = "pdlab:0.1.0"
POD_IP = shell.variable("POD_IP")  # Kubernetes puts the pod's address in, in arguments and later settings alike
RESULTS, FOLDER = "pdlab-results", "/results"
HOW = (
    f"Image {COURSE_IMAGE} is yours to build: the course's folder at /opt/pdlab, after `make env live-env` on a machine "
    f"with a GPU. {ENGINE_IMAGE} carries NIXL (seen in v0.20.1: vLLM issue 41637). The cluster is 1.29 or newer (the "
    "router is a sidecar). Between pods KV does not go over NVLink (published: Dynamo 1.6, disaggregated communication "
    "guide): with no RDMA device in the pods UCX is left with TCP. What your cluster needs for RDMA (host network, a "
    "device plugin's resource, IPC_LOCK) has to be added; 1-link.yaml shows what the link then gives. run.sh applies the "
    "files in order."
)
RUN = """\
kubectl=(kubectl --namespace "${NAMESPACE:-default}")
cd "$(dirname "$0")"
trap '"${kubectl[@]}" delete --ignore-not-found %(all)s' EXIT

finished() { # JOB MINUTES: wait for it; end here where it failed
  local second
  for ((second = 0; second < 60 * $2; second += 10)); do
    case $("${kubectl[@]}" get "job/$1" --output "jsonpath={.status.succeeded}/{.status.failed}") in
      1/*) return ;;
      /[1-9]*) break ;;
    esac
    sleep 10
  done
  "${kubectl[@]}" logs "job/$1" --all-containers >&2
  echo "$1 has failed or run out of time (pdlab-analyze fails where a gate is missed)" >&2
  exit 1
}

"${kubectl[@]}" apply --filename 0-results.yaml
"""


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    if plan.live is None or plan.live.device != "cuda":
        raise BadInput("a plan for a processor", "one for GPUs", "--target kubernetes", "For one machine use local.")
    where = local.shown(path)
    if where.startswith("/"):
        raise BadInput(f"a plan outside the course's folder ({where})", "one inside it, so that it is in the image", "PLAN")
    if paper.MODELS in (model := paper.model_of(asked)).path:
        raise BadInput(f"model {model.name!r}, which is made on one machine", "one that every pod can read", "--target kubernetes",
                       "Give --model a hub id.")  # fmt: skip
    naming = paper.Naming(lambda node, name: POD_IP, lambda node, name: _name(name))
    words = (where, FOLDER, "/opt/pdlab/.venv/bin/pdlab")
    sheets = paper.sheets(asked, *words, naming)
    parts: dict[str, list[dict[str, Any]]] = {"0-results.yaml": [_claim()]}
    jobs: list[tuple[str, str, int]] = []  # file, the job to wait for, minutes
    if "disaggregated" in designs and (check := paper.preflight(plan, words[2], naming)):
        parts["1-link.yaml"] = _link(check, plan.nodes > 1)
        jobs.append(("1-link.yaml", "pdlab-link-peer", 15))
    for number, sheet in enumerate(sheets, 2):
        name = f"{number}-{sheet.label}.yaml"
        parts[name] = [part for server in sheet.servers for part in _server(server, plan)] + [_runs(sheet)]
        jobs.append((name, f"pdlab-{sheet.design}", paper.minutes(plan, 1, asked.tune)))
    if len(designs) > 1:
        parts["4-analyze.yaml"] = [_job("pdlab-analyze", _course(paper.analyze(where, FOLDER, words[2])))]
        jobs.append(("4-analyze.yaml", "pdlab-analyze", 15))
    note = f"# Rendered from {local.plain(where)}: validated, not run.  run.sh applies it and says why each flag is there.\n"
    texts = {name: note + yaml.dump_all(part, Dumper=_Plain, sort_keys=False, width=10_000) for name, part in parts.items()}
    head = local.head(asked, HOW, list(texts.values()))
    return {"run.sh": "#!/usr/bin/env bash\n" + head + shell.STRICT + "\n" + _script(parts, jobs), **texts}


class _Plain(yaml.SafeDumper):
    """No anchors: a reader looks for labels where they are used."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _script(parts: Mapping[str, Any], jobs: Sequence[tuple[str, str, int]]) -> str:
    ours = " ".join(f"--filename {name}" for name in parts if name != "0-results.yaml")
    text = RUN % {"all": ours}
    for name, job, minutes in jobs:
        text += f'"${{kubectl[@]}}" apply --filename {name}\nfinished {job} {minutes}\n"${{kubectl[@]}}" logs job/{job}\n'
        text += f'"${{kubectl[@]}}" delete --wait --filename {name}\n'
    return text + "# The records stay in the claim pdlab-results.\n"


def _server(server: paper.Server, plan: Plan) -> list[dict[str, Any]]:
    """A Deployment of one pod and the Service that gives it a name."""
    name, labels = _name(server.name), {"app": "pdlab", "server": server.name}
    port = int(server.url.rpartition(":")[2])
    # the cluster deals the GPUs
    settings = {key: value for key, value in server.settings.items() if key != "CUDA_VISIBLE_DEVICES"}
    container = {
        "name": "vllm", "image": ENGINE_IMAGE, "command": ["vllm", "serve"], "args": [_literal(word) for word in server.command[2:]],
        "env": [*_own_address(), _token(), *({"name": key, "value": _literal(value)} for key, value in settings.items())],
        "ports": [{"name": "http", "containerPort": port},
                  {"name": "side-channel", "containerPort": int(server.settings["VLLM_NIXL_SIDE_CHANNEL_PORT"])}],
        "resources": {"limits": {"nvidia.com/gpu": len(server.units)}},
        "startupProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5, "failureThreshold": 360},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }  # fmt: skip
    pod: dict[str, Any] = {"containers": [container], "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    if plan.nodes == 1:
        pod["affinity"] = {"podAffinity": _together({"app": "pdlab"})}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
         "spec": {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels},
                  "template": {"metadata": {"labels": labels}, "spec": pod}}},
        _service(name, labels, port),
    ]  # fmt: skip


def _runs(sheet: paper.Sheet) -> dict[str, Any]:
    """The router beside the client.  Its probe asks it whether all servers are up; the client waits for that."""
    ask = f"import urllib.request as u; u.urlopen('{paper.ROUTER_URL}/health')"
    router = _course(sheet.router, "router") | {
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["/opt/pdlab/.venv/bin/python", "-c", ask]}, "periodSeconds": 5,
                         "timeoutSeconds": 10, "failureThreshold": 360},
    }  # fmt: skip
    folder = {"name": "folder", "image": COURSE_IMAGE, "command": ["mkdir", "-p", f"{FOLDER}/logs"], "volumeMounts": _results()}
    return _job(f"pdlab-{sheet.design}", _course(sheet.attach, "client"), before=[folder, router])


def _link(check: paper.Preflight, several: bool) -> list[dict[str, Any]]:
    """Two jobs and a name for the one that listens; on two nodes where the plan has more than one."""
    pair = {"app": "pdlab-link"}
    placed = "podAntiAffinity" if several else "podAffinity"
    ends = []
    for end, words in (("listen", check.listen), ("peer", check.peer)):
        container = _course(words, "link") | {"env": _own_address(), "resources": {"limits": {"nvidia.com/gpu": 1}}}
        job = _job(f"pdlab-link-{end}", container, results=False)
        template = job["spec"]["template"]
        template["metadata"]["labels"] |= pair | {"end": end}
        template["spec"]["affinity"] = {placed: _together(pair)}
        ends.append(job)
    return [_service(_name("link"), pair | {"end": "listen"}, paper.LINK_PORT), *ends]


def _job(name: str, container: dict[str, Any], before: Sequence[dict[str, Any]] = (), results: bool = True) -> dict[str, Any]:
    """A job that is tried once: a second try would measure something else."""
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if before:
        pod["initContainers"] = list(before)
    if results:
        pod["volumes"] = [{"name": "results", "persistentVolumeClaim": {"claimName": RESULTS}}]
    else:
        container.pop("volumeMounts")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"job": name}}, "spec": pod}}}  # fmt: skip


def _course(words: Sequence[str], name: str = "pdlab") -> dict[str, Any]:
    return {"name": name, "image": COURSE_IMAGE, "workingDir": "/opt/pdlab", "command": [words[0]], "args": [_literal(word) for word in words[1:]],
            "volumeMounts": _results()}  # fmt: skip


def _results() -> list[dict[str, Any]]:
    return [{"name": "results", "mountPath": FOLDER}]


def _claim() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": RESULTS},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}}  # fmt: skip


def _service(name: str, labels: Mapping[str, str], port: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": dict(labels), "ports": [{"name": "tcp", "port": port}]}}  # fmt: skip


def _literal(text: str) -> str:
    """A value that Kubernetes leaves as it is: of ``$(NAME)`` it would put NAME's value in, unless it is ours."""
    return shell.VARIABLE.sub(lambda match: f"$({match[1][1:-1]})", text.replace("$", "$$"))


def _own_address() -> list[dict[str, Any]]:
    return [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def _token() -> dict[str, Any]:
    return {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}}


def _together(labels: Mapping[str, str]) -> dict[str, Any]:
    """A rule about pods with these labels on one host."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    ]}  # fmt: skip


def _name(name: str) -> str:
    return f"pdlab-{name}"
