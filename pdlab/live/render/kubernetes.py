"""Target ``kubernetes``: plain manifests (Deployments, Services, Jobs, volume claims) and the script that applies them.

A server is a Deployment of one pod, since each has a name and a side channel of its own.  Router and
client share one pod: the router listens on loopback, there as everywhere.  The model is fetched once,
into a claim that every server mounts.  The plan itself goes along as a ConfigMap, and so does its trace
where the two are small enough for one.

Everything that is measured stands on named nodes: those of ``NODES``, or those on which a job that asks for
the plan's GPUs was placed.  The files hold a place-holder for each, which ``run.sh`` fills in.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pdlab.errors import BadInput
from pdlab.live import env
from pdlab.live.render import kubernetes_script as script
from pdlab.live.render import local, paper, shell
from pdlab.measure import traces
from pdlab.measure.plan import Plan
from pdlab.theory import kv, roofline

ENGINE_IMAGE = "vllm/vllm-openai:v" + env.GPU_PINS[0].partition("==")[2]
COURSE_IMAGE = "pdlab:0.1.0"
IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
COURSE_USER = 1000  # of the Dockerfile
POD_IP = shell.variable("POD_IP")  # Kubernetes puts the pod's address in, in arguments and later settings alike
RESULTS, MOUNT = "pdlab-results", "/results"
MODELS = "pdlab-models"
PLAN_MOUNT, PLAN_FILE = "/plan", "plan.yaml"
MOST_CONFIG_BYTES = 2**20  # that a ConfigMap may hold, by Kubernetes' own rule
MOST_NOTED_BYTES = 200_000  # client-side apply notes the whole object in an annotation, and annotations end at 256 KiB
OURS = {"app.kubernetes.io/part-of": "pdlab"}  # on every pod, and on all that a run leaves behind if it is killed
_OURS = ",".join(f"{key}={value}" for key, value in OURS.items())
PLACED = "PDLAB_NODE_"  # and the node's number, alone in a list; no node's name has a capital letter
CLIENT_CPUS = "2"  # each of router and client; a client without a processor measures itself
NO_MOUNTS = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "results", "run", "sbin", "sys", "tmp", "usr", "var")
MODEL_GIB = 200  # asked for where nothing says how large the model is
FETCH = (
    "import sys; from huggingface_hub import snapshot_download; "
    "print(snapshot_download(sys.argv[1], revision=sys.argv[2] or None, ignore_patterns=['original/*', '*.pth', '*.gguf']))"
)
LOOK = (
    "import pathlib, sys; there = pathlib.Path(sys.argv[1], 'config.json'); "
    "sys.exit(None if there.is_file() else f'no {there}: the claim does not hold this model')"
)
FETCH_MINUTES, LINK_MINUTES, UP_MINUTES = 240, 30, 60  # the last two may have to pull an image of 10 GB first
KINDS = "deployments,services,jobs,configmaps,networkpolicies"  # that a run makes; its claims stay
PROBE_S, PROBES = 5, 360  # loading from the claim and compiling, half an hour; nothing is downloaded then
RDMA = """\
# RDMA is not asked for, since every cluster names it differently.  Without it KV goes over TCP.  What to add to each
# container with GPUs here, and to those of 1-link.yaml, so that the link is measured on the path that KV takes:
#   resources: {limits: {rdma/rdma_shared_device_a: 1}}   what your device plugin calls it; this is the name in NVIDIA's
#     network operator guide (Dynamo's says rdma/ib): kubectl get nodes --output 'jsonpath={..allocatable}'
#   securityContext: {capabilities: {add: [IPC_LOCK]}}    registered memory is pinned
#   env: [{name: UCX_NET_DEVICES, value: 'mlx5_0:1'}]     the ports (ibv_devinfo in a pod), or all
#        [{name: UCX_TLS, value: 'rc,cuda_copy,cuda_ipc'}]  without tcp in it a missing fabric fails, and is not slow
# Where the operator gives pods a second network, their template's metadata needs its annotation, too:
#   annotations: {k8s.v1.cni.cncf.io/networks: NAME}
"""


@dataclass(frozen=True)
class Store:
    """The models' claim: where pods mount it, and whether it holds a hub's downloads."""

    mount: str
    hub: bool

    @property
    def home(self) -> str:
        """HF_HOME."""
        return f"{self.mount}/hf"

    def volume(self) -> dict[str, Any]:
        """For a pod."""
        return _volume("models", MODELS)

    def mounted(self) -> dict[str, Any]:
        """For a container."""
        return {"name": "models", "mountPath": self.mount}


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    where = f"{PLAN_MOUNT}/{PLAN_FILE}"
    if paper.MODELS in (model := paper.model_of(asked)).path:
        raise BadInput(f"model {model.name!r}, which is made on one machine", "one that every pod can read", "--target kubernetes",
                       "Give --model a hub id.")  # fmt: skip
    image = asked.image or COURSE_IMAGE
    if not IMAGE_NAME.fullmatch(image):
        raise BadInput(f"image {image!r}", "a name such as registry.example/me/pdlab:0.1.0", "--image")
    folder = f"{MOUNT}/{local.plain(path.stem)}-kubernetes"
    naming = paper.Naming(lambda node, name: POD_IP, lambda node, name: _name(name))
    words = (where, folder, "/opt/pdlab/.venv/bin/pdlab")
    sheets = paper.sheets(asked, *words, naming)
    store = _store(model.path)
    parts: dict[str, list[dict[str, Any]]] = {"0-results.yaml": [_claim(RESULTS, "ReadWriteOnce", 10)]}
    sent = _sent(plan, path)
    parts["1-plan.yaml"] = [_plan(sent)]
    parts["1-network.yaml"] = [_network()]
    parts["1-place.yaml"] = [_place(plan, store)]
    body = ""
    if store.hub:
        parts["0-models.yaml"] = [_claim(MODELS, "ReadWriteMany" if plan.nodes > 1 else "ReadWriteOnce", _gib(asked))]
        claims = f"{script.TOKEN}claim {MODELS} 0-models.yaml\n"
    else:
        claims = f'"${{kubectl[@]}}" get persistentvolumeclaim {MODELS} >/dev/null\n'
    if paper.link_first(asked) and (check := paper.preflight(plan, words[2], naming)):
        parts["1-link.yaml"] = _link(check, image)
        body += script.step("1-link.yaml", "pdlab-link-peer", LINK_MINUTES)
    parts["1-model.yaml"] = [_model(model.path, plan, store)]
    body += script.step("1-model.yaml", "pdlab-model", FETCH_MINUTES)
    for number, sheet in enumerate(sheets, 2):
        servers, runs = f"{number}-{sheet.label}.yaml", f"{number}-runs.yaml"
        parts[servers] = [part for server in sheet.servers for part in _server(server, store)]
        parts[runs] = [_runs(sheet, folder, image, sent)]
        names = " ".join(f"deployment/{_name(server.name)}" for server in sheet.servers)
        body += f"apply {servers}\nup Available {UP_MINUTES} {names}\n"
        body += f"apply {runs}\nfinished {_name(sheet.label)} {paper.minutes(plan, 1, asked.tune)}\n"
        body += f"over {runs} {servers}\n"
    last = len(sheets) + 2
    parts[records := f"{last}-records.yaml"] = [_job("pdlab-records", _course(("sleep", "3600"), image), plan=False)]
    after = script.TUNED if asked.tune else script.OPEN if len(designs) > 1 else ""
    body += script.COPY % {"folder": shell.word(folder), "file": records} + after
    if len(designs) > 1:
        parts[judge := f"{last + 1}-analyze.yaml"] = [_job("pdlab-analyze", _course(paper.analyze(where, folder, words[2]), image))]
        body += script.step(judge, "pdlab-analyze", LINK_MINUTES)
    note = f"# Rendered from {local.plain(local.shown(path))}: validated, not run.  run.sh applies it and says why each flag is there.\n"
    texts = {name: note + _notes(name, store) + yaml.dump_all(part, Dumper=_Plain, sort_keys=False, width=10_000)
             for name, part in parts.items()}  # fmt: skip
    head = local.head(asked, _how(image, store, sent), [text for name, text in texts.items() if name != "1-plan.yaml"])
    passing = " ".join(f"--filename {name}" for name in parts if not name.startswith("0-") and name != "1-network.yaml")
    run = script.RUN % {"all": passing, "ours": _OURS, "results": RESULTS, "states": script.STATES, "placed": PLACED, "nodes": plan.nodes,
                 "up": UP_MINUTES, "apart": " --server-side" if _size(sent) > MOST_NOTED_BYTES else ""}  # fmt: skip
    run += ("" if "/" in image else script.NO_REGISTRY % image) + claims + script.PLACE % {"nodes": plan.nodes, "up": UP_MINUTES} + "\n"
    return {"run.sh": "#!/usr/bin/env bash\n" + head + shell.STRICT + "\n" + run + body, **texts}


def _how(image: str, store: Store, sent: Sequence[Sent]) -> str:
    """What has to be there before, and what the script does."""
    if store.hub:
        weights = (
            f"The model is fetched once, into the claim {MODELS}, and the servers read it from there with the hub switched off. "
            "A gated model wants a token, as the secret hf-token (1-model.yaml has the command). Servers on several nodes need a "
            "claim that many nodes mount (ReadWriteMany); 0-models.yaml says what to set."
        )
    else:
        weights = (
            f"The model's folder has to be in the claim {MODELS}, which is mounted at {store.mount}; 1-model.yaml looks whether it is, "
            "and says what to put there where a folder of the nodes takes the claim's place."
        )
    return (
        "Start it in tmux, or the like, on a machine that stays up: servers hold their GPUs until run.sh deletes them, and nothing "
        f"else does. If it was killed: `kubectl --namespace NAMESPACE delete {KINDS} --selector {_OURS}`. "
        "NODES='NAME …' says on which nodes all of it stands, as many as the plan has; without it run.sh takes those where the "
        "GPUs are free, and says which. The namespace has to be there. "
        f"Image {image} is yours to build and to push (Dockerfile); another name: --image. Where the registry asks who you are, "
        "give the namespace's default service account its imagePullSecrets. "
        + ("The plan and its trace go along in 1-plan.yaml. " if len(sent) > 1 else
           "The plan goes along in 1-plan.yaml; its trace is too large for that and has to be in the image. ") +
        f"{ENGINE_IMAGE} carries NIXL (seen in "
        f"v0.20.1: vLLM issue 41637). The cluster is 1.29 or newer (the router is a sidecar). {weights} Between pods KV does not go "
        "over NVLink (published: Dynamo 1.6, disaggregated communication guide): with no RDMA device in the pods UCX is left "
        "with TCP; the head of the disaggregated servers' file says what to add, 1-link.yaml shows what the link then gives. run.sh "
        "applies the files in order, waits until the servers answer, and ends with their last words as soon as one has "
        "crashed. Records, the log and node of every pod and the files as they were applied are in results/ beside it afterwards "
        "(OUT names another folder, NAMESPACE another namespace than that of kubectl's context). Servers ask nobody who he is: "
        "1-network.yaml lets only this run's pods in, where the cluster's network heeds such rules; a second network for RDMA "
        "knows none."
    )


def _notes(name: str, store: Store) -> str:
    """What a file's reader may have to add, as comments."""
    if name == "0-models.yaml":
        return (
            "# storageClassName is left to the cluster's default: name one that fits (kubectl get storageclass).  A class without\n"
            "# ReadWriteMany leaves the claim pending where servers stand on several nodes.\n"
        )
    if name == "1-model.yaml" and store.hub:
        return "# A gated model, once its licence is taken:\n#   kubectl --namespace NAMESPACE create secret generic hf-token --from-literal=token=\"$HF_TOKEN\"\n"
    if name == "1-model.yaml":
        return (
            "# In place of the claim, here and in the servers' files, a folder that lies on every node with GPUs:\n"
            "#   volumes: [{name: models, hostPath: {path: /FOLDER, type: Directory}}]\n"
        )
    return RDMA if name.endswith("-disaggregated.yaml") else ""


def _store(path: str) -> Store:
    """Where pods find the model: what is fetched below ``/models``, a folder where its path says.

    The claim is mounted at the first part of a folder's path, and holds the rest of it.
    """
    if not path.startswith("/"):
        return Store("/models", True)
    first, _, rest = path[1:].partition("/")
    if not rest or first in NO_MOUNTS or not re.fullmatch(r"[A-Za-z0-9._-]*[A-Za-z0-9_-]", first):
        raise BadInput(f"model folder {path!r}", "one such as /mnt/NAME: the claim is mounted at the first part", "--model")
    return Store(f"/{first}", False)


def _gib(asked: paper.Asked) -> int:
    """Room for the plan's model: its weights, a quarter more, and 10 GiB."""
    link = asked.plan.live_section.link
    if asked.model or link is None:
        return MODEL_GIB
    return math.ceil(1.25 * roofline.weight_bytes(kv.load(link.kv_config)) / 2**30) + 10


class _Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """No anchors: a reader looks for labels where they are used."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.Node:
        """What has lines, the plan, line by line."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Plain.add_representer(str, _Plain.text)


def _model(path: str, plan: Plan, store: Store) -> dict[str, Any]:
    """The job that puts the model into the claim, or sees that it is there; on the first node, since a volume may stay where it is made."""
    words, settings = [LOOK, path], []
    if store.hub:
        words, settings = [FETCH, path, plan.comparison.revision or ""], [_token(), *_settings({"HF_HOME": store.home})]
    container = {"name": "model", "image": ENGINE_IMAGE, "command": ["python3", "-c"], "args": [_literal(word) for word in words],
                 "env": settings, "volumeMounts": [store.mounted()]}  # fmt: skip
    job = _job("pdlab-model", container, results=False)
    job["spec"]["template"]["spec"] |= {"volumes": [store.volume()], **_on(0)}
    return job


def _server(server: paper.Server, store: Store) -> list[dict[str, Any]]:
    """A Deployment of one pod and the Service that gives it a name."""
    name, labels = _name(server.name), {"app": "pdlab", "server": server.name}
    port = int(server.url.rpartition(":")[2])
    # the cluster deals the GPUs
    settings = {key: value for key, value in server.settings.items() if key != "CUDA_VISIBLE_DEVICES"}
    if store.hub:
        settings |= {"HF_HOME": store.home, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    container = {
        "name": "vllm", "image": ENGINE_IMAGE, "command": ["vllm", "serve"], "args": [_literal(word) for word in server.command[2:]],
        "env": [*_own_address(), *_settings(settings)],
        "ports": [{"name": "http", "containerPort": port},
                  {"name": "side-channel", "containerPort": int(server.settings["VLLM_NIXL_SIDE_CHANNEL_PORT"])}],
        "resources": {"limits": {"nvidia.com/gpu": len(server.units)}},
        "startupProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": PROBE_S, "failureThreshold": PROBES},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, store.mounted()],
    }  # fmt: skip
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, store.volume()]
    pod: dict[str, Any] = {"containers": [container], "volumes": volumes, **_on(server.node)}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": OURS | labels},
         "spec": {"replicas": 1, "strategy": {"type": "Recreate"}, "progressDeadlineSeconds": 60 * UP_MINUTES,
                  "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": OURS | labels}, "spec": pod}}},
        _service(name, labels, port),
    ]  # fmt: skip


def _runs(sheet: paper.Sheet, folder: str, image: str, sent: Sequence[Sent]) -> dict[str, Any]:
    """The router beside the client, on the first node.  Its probe asks it whether all servers are up; the client waits for that."""
    ask = f"import urllib.request as u; u.build_opener(u.ProxyHandler({{}})).open('{paper.ROUTER_URL}/health')"
    router = _course(sheet.router, image, "router") | {
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["/opt/pdlab/.venv/bin/python", "-c", ask]}, "periodSeconds": 5,
                         "timeoutSeconds": 10, "failureThreshold": 60},
    }  # fmt: skip
    logs = _course(("mkdir", "-p", f"{folder}/logs"), image, "folder")
    client = _course(sheet.attach, image, "client")
    for one in (router, client):
        one["resources"] = {"requests": {"cpu": CLIENT_CPUS}}
    job = _job(_name(sheet.label), client, before=[logs, router])
    pod = job["spec"]["template"]["spec"]
    pod |= _on(0)
    (plan,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "plan"]
    plan["items"] = [{"key": one.key, "path": one.place} for one in sent]
    return job


def _link(check: paper.Preflight, image: str) -> list[dict[str, Any]]:
    """Two jobs and a name for the one that listens, on the nodes between which KV will go."""
    pair = {"app": "pdlab-link"}
    ends = []
    for end, words, node in (("listen", check.listen, check.listen_node), ("peer", check.peer, check.peer_node)):
        container = _course(words, image, "link") | {"env": _own_address(), "resources": {"limits": {"nvidia.com/gpu": 1}}}
        job = _job(f"pdlab-link-{end}", container, results=False)
        template = job["spec"]["template"]
        template["metadata"]["labels"] |= pair | {"end": end}
        template["spec"] |= _on(node)
        ends.append(job)
    return [_service(_name("link"), pair | {"end": "listen"}, paper.LINK_PORT), *ends]


@dataclass(frozen=True)
class Sent:
    """A file that goes along: its key, its place below the plan's mount, what it holds."""

    key: str
    place: str
    text: str


def _sent(plan: Plan, path: Path) -> list[Sent]:
    """The plan as it was rendered, since an image may hold another; and its trace, where both are small enough.

    BadInput where there is no such trace, or its name leads out of the plan's folder: a pod has no other.
    """
    named = plan.comparison.workload_trace
    where, place = f"{path}, comparison.workload_trace", os.path.normpath(named)
    trace = traces.find(named, path)
    if place.startswith(("/", "..")):
        raise BadInput(named, "a path that stays below the plan's folder or the course's", where,
                       "Pods have no other folder of yours: copy the trace beside the plan and name it from there.")  # fmt: skip
    files = {PLAN_FILE: (path, PLAN_FILE), "trace": (trace, place)}
    if (meta := traces.meta_path(trace)).exists():
        files["trace-meta"] = (meta, str(traces.meta_path(Path(place))))
    try:
        sent = [Sent(key, to, found.read_bytes().decode()) for key, (found, to) in files.items()]
    except UnicodeDecodeError as error:
        raise BadInput(f"bytes that are no text ({error.reason})", "JSONL or CSV in UTF-8", where) from None
    return sent if _size(sent) <= MOST_CONFIG_BYTES else sent[:1]


def _size(sent: Sequence[Sent]) -> int:
    return sum(len(one.key) + len(one.text.encode()) for one in sent)


def _plan(sent: Sequence[Sent]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("pdlab-plan"), "immutable": True,
            "data": {one.key: one.text for one in sent}}  # fmt: skip


def _network() -> dict[str, Any]:
    """Only this run's pods reach its pods; what they reach is left open."""
    ours = {"matchLabels": OURS}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _named("pdlab-ours"),
            "spec": {"podSelector": ours, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": ours}]}]}}  # fmt: skip


def _place(plan: Plan, store: Store) -> dict[str, Any]:
    """A pod a node that asks for what the plan takes there, so that the scheduler chooses the nodes.

    That is GPUs, and the claims: a volume may lie on one node.  The results' is mounted on one at a time.
    """
    gpus = math.ceil(plan.budget / plan.nodes)
    container = {"name": "place", "image": ENGINE_IMAGE, "command": ["sleep", str(60 * UP_MINUTES)],
                 "resources": {"limits": {"nvidia.com/gpu": gpus}}}  # fmt: skip
    job = _job("pdlab-place", container, results=plan.nodes == 1, plan=False)
    job["spec"] |= {"parallelism": plan.nodes, "completions": plan.nodes}
    pod = job["spec"]["template"]["spec"]
    container.setdefault("volumeMounts", []).append(store.mounted())
    pod.setdefault("volumes", []).append(store.volume())
    pod |= {"terminationGracePeriodSeconds": 1, "affinity": {"podAntiAffinity": _together({"job": "pdlab-place"})}}
    return job


def _job(name: str, container: dict[str, Any], before: Sequence[dict[str, Any]] = (), results: bool = True, plan: bool = True) -> dict[str, Any]:
    """A job that is tried once: a second try would measure something else."""
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if before:
        pod["initContainers"] = list(before)
    if results:
        container["volumeMounts"] = [{"name": "results", "mountPath": MOUNT}]
        for one in before:
            one["volumeMounts"] = container["volumeMounts"]
        pod["securityContext"] = {"fsGroup": COURSE_USER}  # the image's user is not root, and it writes into the claim
        pod["volumes"] = [_volume("results", RESULTS)]
        if plan:
            container["volumeMounts"].append({"name": "plan", "mountPath": PLAN_MOUNT})
            pod["volumes"].append({"name": "plan", "configMap": {"name": "pdlab-plan"}})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named(name),
            "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": OURS | {"job": name}}, "spec": pod}}}  # fmt: skip


def _course(words: Sequence[str], image: str, name: str = "pdlab") -> dict[str, Any]:
    found = {"name": name, "image": image, "workingDir": "/opt/pdlab", "command": [words[0]],
             "args": [_literal(word) for word in words[1:]]}  # fmt: skip
    # a tag is built again and again, and a node keeps the first; without a registry there is nowhere to ask
    return found | ({"imagePullPolicy": "Always"} if "/" in image else {})


def _claim(name: str, mode: str, gib: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": f"{gib}Gi"}}}}  # fmt: skip


def _volume(name: str, claim: str) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _service(name: str, labels: Mapping[str, str], port: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(name),
            "spec": {"selector": dict(labels), "ports": [{"name": "tcp", "port": port}]}}  # fmt: skip


def _literal(text: str) -> str:
    """A value that Kubernetes leaves as it is: of ``$(NAME)`` it would put NAME's value in, unless it is ours."""
    return shell.VARIABLE.sub(lambda match: f"$({match[1][1:-1]})", text.replace("$", "$$"))


def _settings(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": key, "value": _literal(value)} for key, value in values.items()]


def _own_address() -> list[dict[str, Any]]:
    return [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def _token() -> dict[str, Any]:
    return {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}}


def _together(labels: Mapping[str, str]) -> dict[str, Any]:
    """A rule about pods with these labels on one host."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    ]}  # fmt: skip


def _on(node: int) -> dict[str, Any]:
    """What puts a pod on a node of the run.

    The toleration is for pods without a GPU: to those with one Kubernetes adds it where nodes are tainted so.
    """
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"{PLACED}{node}"]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }


def _named(name: str) -> dict[str, Any]:
    """The metadata of what a run makes and deletes."""
    return {"name": name, "labels": dict(OURS)}


def _name(name: str) -> str:
    return f"pdlab-{name}"
