"""Target ``ray``: both designs for Ray Serve LLM, as ``serve`` YAML and as Python (see ``pdlab.live.ray.render``)."""

from __future__ import annotations

import json
from typing import Any

from pdlab.live import LOOPBACK, models
from pdlab.live.ray import render
from pdlab.live.render import local, paper, shell
from pdlab.measure.plan import Plan

HOW = (
    "For a cluster that is up (`ray start --head`, `ray start --address` on the other nodes) with Ray Serve LLM and "
    "vLLM in Ray's environment on every node (here `make ray` makes one). run.sh, on the head node in the course's "
    "folder, deploys each design from its YAML file, sends the plan's load and judges it; `python DESIGN.py` deploys the "
    "same. Ray's own proxy takes the place of the course's router, so rows carry no route."
)
OTHER_END = (
    " The link comes first, and between two nodes its other end is started by hand: on another node than the head's, in the "
    f"course's folder, `.venv/bin/pdlab link --listen ITS_ADDRESS:{paper.LINK_PORT} --memory vram` (it serves one measurement), then here "
    "LINK_PEER=ITS_ADDRESS before run.sh."
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
NO_APPLICATION = "No application: run.sh deploys this between two designs.  Serve then deletes the one that ran, and goes on itself."
OTHER = shell.variable("LINK_PEER")
NOTHING = "none.yaml"  # no application: what was deployed from a file before is deleted, and Serve stays
LOADED_MINUTES, GONE_MINUTES = 60, 10
RUN = """\
here=$(dirname "$0")
export no_proxy="127.0.0.1,localhost,${no_proxy:-${NO_PROXY:-}}" # `serve` asks Ray's dashboard, here
export NO_PROXY="$no_proxy"

applications() { # NAME: STATUS of each that Serve lists
  "$serve" status | awk '
    /^[^ ]/ {part = $1}
    part == "applications:" && /^  [^ ]/ {name = $1}
    part == "applications:" && /^    status: / {print name, $2}' || echo "no answer"
}

give_up() { # WHAT: say what was waited for and what there is; the trap ends Serve
  echo "$1; Serve lists: ${found:-no application}" >&2
  "$serve" status >&2 || true
  exit 1
}

"$serve" status >/dev/null # ends here, with its words, where no cluster answers
found=$(applications)
if [[ -n $found ]]; then
  echo "Serve has something to do already, which this would delete or measure: $found; end it first (serve shutdown)" >&2
  exit 1
fi

listed() { # whether the address lists a model; no proxy of the site answers in its place
  curl --noproxy '*' --silent --fail --output /dev/null --max-time 5 "%(url)s/v1/models"
}

if listed; then
  echo "something that is none of Serve's applications lists models at %(url)s; end it first: Serve's port is fixed" >&2
  exit 1
fi
trap 'exec 9>&-; "$serve" shutdown --yes' EXIT # 9 ends the link's listener, while one is up

up() { # FILE NAME: deploy it and wait until NAME, and nothing beside it, runs and the address lists a model
  local limit=$((SECONDS + 60 * %(loaded)d))
  until found=$(applications) && [[ $found == "$2: RUNNING" ]]; do
    case $found in
      "") "$serve" deploy "$here/$1" ;; # once more, too: a Serve that is ending loses what it is told
      *DEPLOY_FAILED*) give_up "$2 could not be deployed" ;;
    esac
    ((SECONDS < limit)) || give_up "$2 is not running after %(loaded)d minutes"
    sleep 5
  done
  until listed; do
    ((SECONDS < limit)) || give_up "nothing lists a model at %(url)s after %(loaded)d minutes"
    sleep 5
  done
}

down() { # delete what runs and wait until Serve lists nothing: the next has the same address and model
  local limit=$((SECONDS + 60 * %(gone)d))
  "$serve" deploy "$here/%(nothing)s"
  until found=$(applications) && [[ -z $found ]]; do
    ((SECONDS < limit)) || give_up "an application is still there after %(gone)d minutes"
    sleep 5
  done
}

"""


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    found, model = {}, paper.model_of(asked)
    source = model.path.replace(paper.MODELS, str(models.cache_dir() / "models"))
    sides = paper.sides(asked)
    for side in sides:
        options: dict[str, Any] = {"name": model.name, "chunk_tokens": side.chunk_tokens}
        arguments = render.arguments(plan, side.design, source, **options)
        value = _python(arguments)
        code = PYTHON.format(builder=render.BUILDER[side.design], value=value, port=paper.ROUTER_PORT, design=side.design)
        document = render.document(plan, side.design, source, paper.ROUTER_PORT, **options)
        note = f"# Rendered from {local.plain(local.shown(path))}.  run.sh says what it is and why each setting is there.\n"
        found |= {f"{side.label}.yaml": note + document, f"{side.label}.py": note + code}
    several = plan.nodes > 1 and paper.link_first(asked) and paper.preflight(plan, local.PDLAB)
    link = _preflight(plan) if paper.link_first(asked) else ""
    keeper = "python=${PYTHON:-.venv/bin/python}\n" if shell.HOLDING in link else ""
    body = local.variables(path, "ray", f"{keeper}serve=${{SERVE:-.venv-ray/bin/serve}}\n")
    if source != model.path:
        body += f'"$pdlab" model get {model.name}\n'
    body += "\n" + shell.CURL + RUN % {"loaded": LOADED_MINUTES, "gone": GONE_MINUTES, "url": paper.ROUTER_URL, "nothing": NOTHING}
    body += link
    for side in sides:
        attach = paper.attach(asked, side, local.PLAN, local.OUT, local.PDLAB)
        body += f'up {side.label}.yaml {side.design}\n{shell.command(attach, indent="")}\ndown\n\n'
    body += local.judged(designs)
    found[NOTHING] = f"# {NO_APPLICATION}\n{render.document_of([], paper.ROUTER_PORT)}"
    head = local.head(asked, HOW + (OTHER_END if several else "") + local.hub(asked, "the environment of `ray start` on every node"), [*found.values(), body])
    return {"run.sh": "#!/usr/bin/env bash\n" + head + shell.STRICT + "\n" + body, **found}


def _preflight(plan: Plan) -> str:
    """The link first.  Ray places replicas itself, so on several nodes the other end is started by hand."""
    naming = paper.Naming(lambda node, name: LOOPBACK, lambda node, name: OTHER) if plan.nodes > 1 else paper.HERE
    if (check := paper.preflight(plan, local.PDLAB, naming)) is None:
        return ""
    if plan.nodes == 1:
        return shell.HOLDING + "\n" + local.preflight(check)
    gpu = [f"env CUDA_VISIBLE_DEVICES={check.peer_units[0]}"] if "vram" in check.peer else []
    return (
        f"# First the link.  At least: {check.how}.\n"
        f"# Before this, on another node: pdlab link --listen ITS_ADDRESS:{paper.LINK_PORT} --memory vram\n"
        f": \"${{LINK_PEER:?start pdlab link --listen on another node and name its address here}}\"\n{shell.command(check.peer, '', '', gpu)}\n\n"
    )


def _python(value: Any, indent: str = "") -> str:
    """Plain data as Python, a key on each line."""
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    inner = indent + "    "
    if isinstance(value, dict):
        lines = [f'{inner}"{key}": {_python(one, inner)},\n' for key, one in value.items()]
        return "{\n" + "".join(lines) + indent + "}"
    return "[\n" + "".join(f"{inner}{_python(one, inner)},\n" for one in value) + indent + "]"
