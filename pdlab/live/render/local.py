"""Target ``local``: one bash script for one machine.  It starts both designs in turn, and ends what it started."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live import models
from pdlab.live.render import flags, paper, shell
from pdlab.measure import plan as plans
from pdlab.measure.plan import Plan

PDLAB, PLAN, OUT = map(shell.variable, ("pdlab", "plan", "out"))


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    if plan.nodes > 1:
        raise BadInput(f"a plan for {plan.nodes} nodes", "one for a single node", "--target local",
                       "For several use slurm, kubernetes or ray.")  # fmt: skip
    sheets = paper.sheets(asked, PLAN, OUT, PDLAB)
    check = paper.preflight(plan, PDLAB) if paper.link_first(asked) else None
    body = variables(path, "local") + made(asked) + "\n" + shell.KEEPING + "\n"
    body += "".join(function(sheet) + "\n" for sheet in sheets)
    body += preflight(check) + called(sheets) + judged(designs)
    return {"run.sh": "#!/usr/bin/env bash\n" + head(asked, HOW + hub(asked), [body]) + shell.STRICT + "\n" + body}


def called(sheets: Sequence[paper.Sheet]) -> str:
    """The calls of the functions that :func:`function` writes."""
    return "".join(f"run_{sheet.label}\n" for sheet in sheets)


def judged(designs: Sequence[paper.Design]) -> str:
    """The last step; a sweep of one design alone has nothing to be judged against yet."""
    return shell.command(paper.analyze(PLAN, OUT, PDLAB), indent="") + "\n" if len(designs) > 1 else ""


HF = ".venv-live/bin/hf"
INDENT = "  "  # begins a line of a head that is to be copied, and not to be wrapped
HOW = "Run it in the course's folder, after `make live-env`."


def head(asked: paper.Asked, how: str, texts: Sequence[str]) -> str:
    """What this is, whether it was ever run, what to do with it, and why each flag stands in ``texts``."""
    if asked.target == "slurm":
        status = (
            "Not run on GPUs: this course has none. Such a job was run on a Slurm of two nodes, with its servers on a processor "
            "(labs/cluster.md). Read it before you run it."
        )
    elif asked.plan.live_section.device == "cuda":
        status = "Rendered and validated, not run: this course has no such machines. Read it before you run it."
    else:
        status = "For a processor, where such a file has been run."
    words = f"pdlab plan render {shlex.quote(shown(asked.path))} --target {asked.target}"
    words += "".join(f" {one}" for one in (["--chunk", str(asked.chunk_tokens)] if asked.chunk_tokens else asked.tuning))
    said = [f"Rendered by `{words}`.", status, *([_tuning(asked.plan)] if asked.tune else []), *paper.remarks(asked.plan, asked.designs, asked.chunk_tokens), *how.split("\n")]
    lines = [line for one in said for line in ([f"# {one}"] if one.startswith(INDENT) else _wrapped(one))]
    return "\n".join(lines) + f"\n#\n# Flags, and why they are there:\n{flags.notes(texts)}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, flags.WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _tuning(plan: Plan) -> str:
    sizes, rate = paper.chunk_sizes(plan), plan.comparison.offered_rates_rps[-1]
    return (
        f"This compares nothing yet. It runs aggregated serving with each of the plan's {len(sizes)} chunk sizes at "
        f"{rate:g} requests/s and ends with the size to render the comparison with (--chunk). The records lie in tuning/, "
        "where `pdlab sweep --tune` puts them."
    )


def hub(asked: paper.Asked, where: str = "your environment") -> str:
    """What a model asks for that is named by its hub id; empty for a folder."""
    model = paper.model_of(asked)
    if model.local:
        return ""
    return (
        f" The model {model.name} comes from the Hugging Face hub. Fetch it before, since a start has no time for it:\n"
        f"{INDENT}{download(asked)}\n"
        f"In {where}, HF_HOME says where it lies: a folder with room for it that "
        "every node reads. The download asks for HF_TOKEN where the model is gated, after you have accepted its terms on its page. "
        "HF_HUB_OFFLINE=1, from then on, is for nodes that reach no hub, and servers then need no token. A folder does as well: "
        "--model /PATH."
    )


def download(asked: paper.Asked) -> str:
    """The command that fetches the model: the revision that servers are told, without the weights' second copy."""
    revision = asked.plan.comparison.revision
    words = [HF, "download", paper.model_of(asked).name, *(["--revision", revision] if revision else []), "--exclude", "original/*"]
    return " ".join(map(shlex.quote, words))


def shown(path: Path) -> str:
    """The plan's path as it is written into a file: from the course's folder where it lies there."""
    whole, root = path.resolve(), flags.ROOT.resolve()
    short = str(whole.relative_to(root)) if whole.is_relative_to(root) else str(whole)
    return f"./{short}" if short.startswith("-") else short  # else the commands would take it for an option


def plain(text: str) -> str:
    """A plan's path for comments and names: letters, digits and ``._/-``, with ``_`` for all else.

    A comment is no quoting: its first lines can name a Python file's encoding, or options for sbatch.
    """
    return re.sub(r"[^A-Za-z0-9._/-]+", "_", text)


SERVERS = (  # where the script starts servers itself
    "python=${PYTHON:-.venv/bin/python}\nlive=${PDLAB_LIVE_ENV:-.venv-live}\n"
    f"start_minutes=${{START_MINUTES:-{paper.START_MINUTES}}} # for each start of servers; a job's time counts 15\n"
)


IN_FOLDER = """\
[[ -e pdlab/live/keeper.py ]] || {
  echo "This runs in the course's folder, and $PWD is none: %s" >&2
  exit 1
}
"""


def variables(path: Path, target: str, more: str = SERVERS) -> str:
    """Whether this is the course's folder, what the caller may set, and the plan as it was rendered."""
    do = "submit it there, or with sbatch --chdir=FOLDER" if target == "slurm" else "start it there"
    return IN_FOLDER % do + (
        f"plan={shlex.quote(shown(path))}\n"
        f"out=${{OUT:-runs/{plain(path.stem)}-{target}}}\n"
        f"pdlab=${{PDLAB:-.venv/bin/pdlab}}\n{more}\n"
        "# The commands below were made from this plan; a changed plan has to be rendered again.\n"
        f'echo "{plans.sha256(path)}  $plan" | sha256sum --check --quiet\n'
        'mkdir -p "$out/logs"\n'
    )


def made(asked: paper.Asked) -> str:
    """Lines that make the model, where it is one that the course makes itself."""
    if (name := paper.model_of(asked).name) not in models.MADE:
        return ""
    return f'models=${{PDLAB_CACHE:-$HOME/.cache/pdlab}}/models\n"$pdlab" model get {name}\n'


def function(sheet: paper.Sheet, launch: Callable[[int], list[str]] = lambda node: []) -> str:
    """One design: its servers, its router, its runs, the end.

    ``launch`` gives the lines that reach a node.
    """
    urls = " ".join(shell.word(server.url) for server in sheet.servers)
    parts = [f"  unused {paper.ROUTER_URL} {urls}"]
    for server in sheet.servers:
        on_gpus = "CUDA_VISIBLE_DEVICES" in server.settings
        rows = [*launch(server.node), "env", *shell.settings(server.settings)]
        cores = '""' if on_gpus else ",".join(map(str, server.units))
        log = server.name if sheet.label == sheet.design else f"{sheet.label}-{server.name}"
        parts.append(shell.command(server.command, f"start {log} {cores}", rows=rows))
    parts.append(f"  ready {urls}")
    parts.append(shell.command(sheet.router, f'start router-{sheet.label} ""'))
    parts.append(f"  ready {paper.ROUTER_URL}")
    parts.append(shell.command(sheet.attach, "run"))
    return f"run_{sheet.label}() {{\n" + "\n".join(parts) + "\n  stop\n}\n"


SLOW = """\
# Far too slow on one node: UCX may have fallen back to TCP between GPUs (NIXL pull request 2208, vLLM issue
# 26382); UCX_TLS and UCX_NET_DEVICES, set here and for the servers alike, decide what it may use.
"""


def preflight(check: paper.Preflight | None, launch: Callable[[int], list[str]] = lambda node: []) -> str:
    """The link, measured before anything else is started; the script ends where it is under the plan's minimum."""
    if check is None:
        return ""

    def rows(node: int, units: tuple[int, ...]) -> list[str]:
        return [*launch(node), *([f"env CUDA_VISIBLE_DEVICES={units[0]}"] if "vram" in check.peer else [])]

    listen = shell.command(check.listen, 'start link ""', "", rows(check.listen_node, check.listen_units))
    peer = shell.command(check.peer, "run", "", rows(check.peer_node, check.peer_units))
    return (
        f"# First the link.  At least: {check.how}.\n"
        f"# One pair at a time: what all ranks get at once can be less.\n{SLOW}{listen}\n{peer}\nstop\n\n"
    )
