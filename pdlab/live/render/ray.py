"""Target ``ray``: both designs for Ray Serve LLM, as ``serve`` YAML and as Python (see ``pdlab.live.ray.render``)."""

from __future__ import annotations

import json
from typing import Any

from pdlab.live import models
from pdlab.live.ray import render
from pdlab.live.render import local, paper, shell
from pdlab.measure.plan import Plan

HOW = (
    "For a cluster that is up (`ray start --head`, `ray start --address` on the other nodes) with Ray Serve LLM and "
    "vLLM in Ray's environment on every node (here `make ray` makes one). run.sh, on the head node in the course's "
    "folder, deploys each design from its YAML file, sends the plan's load and judges it; `python DESIGN.py` deploys the "
    "same. Ray's own proxy takes the place of the course's router, so rows carry no route."
)
PYTHON = """\
from ray import serve
from ray.serve.llm import {builder}

ARGUMENTS = {value}

app = {builder}(ARGUMENTS)

if __name__ == "__main__":
    serve.start(http_options={{"host": "127.0.0.1", "port": {port}}})
    serve.run(app, name="{design}", blocking=True)
"""
OTHER = shell.variable("LINK_PEER")
RUN = """\
here=$(dirname "$0")
trap '"$serve" shutdown --yes' EXIT

ready() { # wait until the application lists its model
  until curl --silent --fail --output /dev/null --max-time 5 "$1/v1/models"; do
    ((SECONDS < 3600)) || exit 1
    sleep 5
  done
}

"""


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    found, model = {}, paper.model_of(asked)
    source = model.path.replace(paper.MODELS, str(models.cache_dir() / "models"))
    for design in designs:
        options: dict[str, Any] = {"name": model.name, "chunk_tokens": asked.chunk_tokens if design == "aggregated" else None}
        arguments = render.arguments(plan, design, source, **options)
        code = PYTHON.format(builder=render.BUILDER[design], value=_python(arguments), port=paper.ROUTER_PORT, design=design)
        document = render.document(plan, design, source, paper.ROUTER_PORT, **options)
        note = f"# Rendered from {local.plain(local.shown(path))}.  run.sh says what it is and why each setting is there.\n"
        found |= {f"{design}.yaml": note + document, f"{design}.py": note + code}
    body = local.variables(path, "ray", "serve=${SERVE:-.venv-ray/bin/serve}\n")
    if source != model.path:
        body += f'"$pdlab" model get {model.name}\n'
    body += (_preflight(plan) if "disaggregated" in designs else "") + RUN
    for design in designs:
        attach = [local.PDLAB, "attach", local.PLAN, "--design", design, "--url", paper.ROUTER_URL, "--out", local.OUT]
        if design == "aggregated":
            attach += ["--chunk", str(paper.chunk_of(asked))]
        body += f'"$serve" deploy "$here/{design}.yaml"\nready {paper.ROUTER_URL}\n{shell.command(attach, indent="")}\n'
        body += '"$serve" shutdown --yes\n\n'
    body += local.judged(designs)
    head = local.head(plan, path, "ray", HOW, [*found.values(), body])
    return {"run.sh": "#!/usr/bin/env bash\n" + head + shell.STRICT + "\n" + body, **found}


def _preflight(plan: Plan) -> str:
    """The link first.  Ray places replicas itself, so on several nodes the other end is started by hand."""
    naming = paper.Naming(lambda node, name: paper.LOOPBACK, lambda node, name: OTHER) if plan.nodes > 1 else paper.HERE
    if (check := paper.preflight(plan, local.PDLAB, naming)) is None:
        return ""
    gpu = [f"env CUDA_VISIBLE_DEVICES={check.peer_units[0]}"] if "vram" in check.peer else []
    peer = shell.command(check.peer, "", "", gpu)
    text = f"\n# First the link.  At least: {check.how}.\n"
    if plan.nodes > 1:
        port = paper.LINK_PORT
        return (
            f"{text}# Before this, on another node: pdlab link --listen ITS_ADDRESS:{port} --memory vram\n"
            f": \"${{LINK_PEER:?start pdlab link --listen on another node and name its address here}}\"\n{peer}\n\n"
        )
    gpu = [f"env CUDA_VISIBLE_DEVICES={check.listen_units[0]}"] if gpu else []
    return f"{text}{shell.command(check.listen, '', '', gpu)} &\n{peer}\nwait\n\n"


def _python(value: Any, indent: str = "") -> str:
    """Plain data as Python, a key on each line."""
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    inner = indent + "    "
    if isinstance(value, dict):
        lines = [f'{inner}"{key}": {_python(one, inner)},\n' for key, one in value.items()]
        return "{\n" + "".join(lines) + indent + "}"
    return "[\n" + "".join(f"{inner}{_python(one, inner)},\n" for one in value) + indent + "]"
