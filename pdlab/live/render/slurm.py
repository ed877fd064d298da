"""Target ``slurm``: one sbatch script.  Servers run as job steps on their nodes, router and client on the first."""

from __future__ import annotations

from pdlab.live.render import local, paper, shell

HOW = ("Submit it with `sbatch` and your site's --partition and --account, in the course's folder on a file system "
       "that all nodes share, after `make live-env` on a node with GPUs. Job and steps take your environment with them, "
       "unless your site sets --export.")  # fmt: skip

NODES = """\
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
"""
ADDRESSES = """\
# Addresses and not names: NIXL's side channel listens on one.  A node's own name often means its loopback
# there, which no other node reaches: then the node is asked for its addresses.
address() { # NODE: its first address outside loopback
  local found
  found=$(getent ahostsv4 "$1" | outside || true)
  [[ -n $found ]] || found=$(srun --overlap --nodes=1 --ntasks=1 --nodelist="$1" hostname -I | tr ' ' '\\n' | outside || true)
  echo "$found"
}

outside() { # the first IPv4 address of the lines that come which is not 127.*
  awk '$1 ~ /^[0-9.]+$/ && $1 !~ /^127[.]/ && !found++ {print $1}'
}

read -r -a ip <<<"${NODE_ADDRESSES:-}" # in the order of the nodes, where the ones found are not those to use
if ((${#ip[@]} == 0)); then
  for node in "${nodes[@]}"; do
    ip+=("$(address "$node")")
  done
fi
echo "nodes: ${nodes[*]}; addresses: ${ip[*]}"
for one in "${ip[@]}"; do
  if [[ -z $one || $one == 127.* ]]; then
    echo "no address that other nodes reach is known of each of: ${nodes[*]} (found: ${ip[*]})" >&2
    echo "Name one for each, in this order: NODE_ADDRESSES='10.0.0.1 10.0.0.2' sbatch job.sbatch" >&2
    exit 1
  fi
done
if [[ ${#ip[@]} != "${#nodes[@]}" || $(printf '%s\\n' "${ip[@]}" | sort --unique | wc --lines) != "${#nodes[@]}" ]]; then
  echo "${#nodes[@]} nodes (${nodes[*]}) need as many different addresses, not: ${ip[*]}; NODE_ADDRESSES='10.0.0.1 10.0.0.2' names them" >&2
  exit 1
fi

"""
STEPS_END = """\
steps_end() { # srun may be gone before its step is, and the next servers need the GPUs
  local turn steps
  for ((turn = 0; turn < 60; turn++)); do # a squeue that fails has told nothing
    if steps=$(squeue --steps --noheader --format=%i --jobs="$SLURM_JOB_ID") && ! grep -qv -e batch -e extern -e interactive -e '^$' <<<"$steps"; then
      return
    fi
    sleep 2
  done
  echo "Steps of this job are still there after two minutes; servers among them hold GPU memory that the next ones need:" >&2
  squeue --steps --jobs="$SLURM_JOB_ID" >&2 || echo "(squeue gives no answer)" >&2
}

"""
KEPT = """\
kept() { # CORES COMMAND...: in place of the shell that it runs in, so only in the background
  # A step has its keeper on its own node; srun hands it what comes out of the pipe, and so the pipe's end.  A keeper
  # before srun could only have the step killed, and what a killed server leaves in /tmp and /dev/shm lies on its node.
  if [[ $2 == srun ]]; then exec "${@:2}"; fi
  exec "$python" -I -S pdlab/live/keeper.py "$1" -- "${@:2}"
}
trap 'exec 9>&-; wait' EXIT # what is still there when this script has ended, Slurm kills, the keepers too
"""


def files(asked: paper.Asked) -> dict[str, str]:
    """File name → text."""
    plan, path, designs = asked.plan, asked.path, asked.designs
    naming = paper.Naming(_address, _address) if plan.nodes > 1 else paper.HERE
    words = (local.PLAN, local.OUT, local.PDLAB)
    sheets = paper.sheets(asked, *words, naming)
    check = paper.preflight(plan, local.PDLAB, naming) if paper.link_first(asked) else None
    keeping = shell.KEEPING.replace(shell.KEPT, KEPT).replace("  pids=()\n  hold\n", "  pids=()\n  steps_end\n  hold\n")
    body = local.variables(path, "slurm") + local.made(asked) + "\n" + NODES + (ADDRESSES if plan.nodes > 1 else "\n") + STEPS_END + keeping + "\n"
    body += "".join(local.function(sheet, _step) + "\n" for sheet in sheets) + local.preflight(check, _step)
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
    step = f'srun --overlap --nodes=1 --ntasks=1 --nodelist="${{nodes[{node}]}}" --cpu-bind=none'
    return [step, '"$python" -I -S pdlab/live/keeper.py "" --']
