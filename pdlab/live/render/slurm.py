"""Target ``slurm``: one sbatch script.  Servers run as job steps on their nodes, router and client on the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live.render import local, paper, shell
from pdlab.measure.plan import Plan

START_MINUTES = 15  # to load weights on every rank, and to compile
HOW = ("Submit it with `sbatch` and your site's --partition and --account, in the course's folder on a file system "
       "that all nodes share, after `make live-env` on a node with GPUs.")  # fmt: skip

NODES = """\
# Addresses and not names: NIXL's side channel listens on one.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
ip=()
for node in "${nodes[@]}"; do
  ip+=("$(getent ahostsv4 "$node" | awk 'NR == 1 {print $1}')")
done

"""
STEPS_END = """\
steps_end() { # srun may be gone before its step is, and the next servers need the GPUs
  local turn
  for ((turn = 0; turn < 60; turn++)); do
    if ! squeue --steps --noheader --format=%i --jobs="$SLURM_JOB_ID" | grep -qv -e batch -e extern -e interactive; then
      return
    fi
    sleep 2
  done
}

"""


def files(plan: Plan, path: Path, designs: Sequence[paper.Design], model: str | None = None, chunk: int | None = None) -> dict[str, str]:
    """File name → text."""
    if plan.live is None or plan.live.device != "cuda":
        raise BadInput("a plan for a processor", "one for GPUs", "--target slurm", "For one machine use local.")
    several = plan.nodes > 1
    naming = paper.Naming(lambda node, name: f"${{ip[{node}]}}", lambda node, name: f"${{ip[{node}]}}") if several else paper.HERE
    words = (local.PLAN, local.OUT, local.PDLAB)
    sheets = [paper.sheet(plan, design, *words, naming, model, chunk) for design in designs]
    check = paper.preflight(plan, local.PDLAB, naming) if "disaggregated" in designs else None
    keeping = shell.KEEPING.replace("  pids=()\n  exec 9<>", "  pids=()\n  steps_end\n  exec 9<>")
    body = local.variables(path, "slurm") + local.made(plan, model) + "\n" + NODES + STEPS_END + keeping + "\n"
    body += "".join(local.function(sheet, _step) + "\n" for sheet in sheets) + local.preflight(check, _step)
    body += "".join(f"run_{design}\n" for design in designs) + local.judged(designs)
    asked = _asked(plan, path, designs)
    head = local.head(plan, path, "slurm", HOW, [asked + body])
    return {"job.sbatch": "#!/usr/bin/env bash\n" + asked + head + shell.STRICT + "\n" + body}


def _asked(plan: Plan, path: Path, designs: Sequence[paper.Design]) -> str:
    """What the job asks of the queue."""
    assert plan.live is not None
    options = {
        "job-name": f"pdlab-{path.stem}", "nodes": plan.nodes, "gpus-per-node": plan.live.gpus_per_node,
        "exclusive": None, "time": paper.minutes(plan, len(designs)), "output": f"pdlab-{path.stem}-%j.log",
    }  # fmt: skip
    return "".join(f"#SBATCH --{name}{'' if value is None else f'={value}'}\n" for name, value in options.items())


def _step(node: int) -> list[str]:
    return [f'srun --overlap --nodes=1 --ntasks=1 --nodelist="${{nodes[{node}]}}" --cpu-bind=none']
