"""Target ``slurm``: one sbatch script.  Servers run as job steps on their nodes, router and client on the first."""

from __future__ import annotations

from pdlab.errors import BadInput
from pdlab.live import keeper
from pdlab.live.render import local, paper, shell

HOW = ("Submit it with `sbatch` and your site's --partition and --account, in the course's folder on a file system "
       "that all nodes share, after `make live-env` on a node with GPUs. Job and steps take your environment with them, "
       "unless your site sets --export.")  # fmt: skip

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
HERE_ONLY = [f"--unset={keeper.SOCKETS}"]  # a folder of the first node, where the keepers are


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    if plan.live is None or plan.live.device != "cuda":
        raise BadInput("a plan for a processor", "one for GPUs", "--target slurm", "For one machine use local.")
    naming = paper.Naming(_address, _address) if plan.nodes > 1 else paper.HERE
    words = (local.PLAN, local.OUT, local.PDLAB)
    sheets = paper.sheets(asked, *words, naming)
    check = paper.preflight(plan, local.PDLAB, naming) if paper.link_first(asked) else None
    keeping = shell.KEEPING.replace("  pids=()\n  hold\n", "  pids=()\n  steps_end\n  hold\n")
    body = local.variables(path, "slurm") + local.made(asked) + "\n" + NODES + STEPS_END + keeping + "\n"
    body += "".join(local.function(sheet, _step, HERE_ONLY) + "\n" for sheet in sheets) + local.preflight(check, _step)
    body += local.called(sheets) + local.judged(designs)
    options = _options(asked, len(sheets))
    head = local.head(asked, HOW + local.hub(asked), [options + body])
    return {"job.sbatch": "#!/usr/bin/env bash\n" + options + head + shell.STRICT + "\n" + body}


def _address(node: int, name: str) -> str:
    return shell.variable(f"ip[{node}]")


def _options(asked: paper.Asked, sheets: int) -> str:
    """What the job asks of the queue."""
    plan, name = asked.plan, local.plain(asked.path.stem)
    options = {
        "job-name": f"pdlab-{name}", "nodes": plan.nodes, "gpus-per-node": plan.live_section.gpus_per_node,
        "exclusive": None, "mem": 0, "time": paper.minutes(plan, sheets, asked.tune), "output": f"pdlab-{name}-%j.log",
    }  # fmt: skip
    return "".join(f"#SBATCH --{name}{'' if value is None else f'={value}'}\n" for name, value in options.items())


def _step(node: int) -> list[str]:
    return [f'srun --overlap --nodes=1 --ntasks=1 --nodelist="${{nodes[{node}]}}" --cpu-bind=none']
