"""The script that applies Kubernetes' manifests: its texts.  ``kubernetes`` fills them in and puts them in order."""

from __future__ import annotations

RUN = """\
kubectl=(kubectl)
if [[ -n ${NAMESPACE:-} ]]; then # else that of kubectl's own context
  kubectl+=(--namespace "$NAMESPACE")
fi
known() { # end here unless the nodes are as many as the plan has, and named as nodes are
  if ((${#nodes[@]} != %(nodes)d)) || ! [[ ${nodes[*]} =~ ^[a-z0-9.\\ -]+$ ]]; then
    echo "nodes: ${nodes[*]}; expected %(nodes)d, as kubectl get nodes writes them (NODES)" >&2
    exit 1
  fi
}
read -ra nodes <<<"${NODES:-}"
[[ -z ${NODES:-} ]] || known
here=$(dirname "$0")
out=${OUT:-$here/results}
mkdir -p "$out/logs" "$out/applied"
out=$(cd "$out" && pwd)
cd "$here"

apply() { # FILE OPTION...: the nodes' names put in; what was applied is kept beside the records
  local words=(-e "") number
  for number in "${!nodes[@]}"; do
    words+=(-e "s/^\\( *- \\)%(placed)s$number\\$/\\1${nodes[number]}/")
  done
  sed "${words[@]}" "$1" >"$out/applied/$1"
  "${kubectl[@]}" apply "${@:2}" --filename "$out/applied/$1"
}

keep() { # each pod's log, node and description, beside the records
  local pod at
  "${kubectl[@]}" get pods --selector %(ours)s --output wide >>"$out/logs/nodes.txt" 2>&1 || true
  for pod in $("${kubectl[@]}" get pods --selector %(ours)s --output name); do
    at=$out/logs/${pod#pod/}
    "${kubectl[@]}" describe "$pod" >"$at.txt" 2>&1 || true
    "${kubectl[@]}" logs "$pod" --all-containers --prefix >"$at.log" 2>&1 || true
    "${kubectl[@]}" logs "$pod" --all-containers --prefix --previous >"$at.before.log" 2>/dev/null || rm -f "$at.before.log"
  done
}

leave() { # however this ends: first the logs, then the GPUs
  local status=$?
  trap - EXIT
  keep || true
  "${kubectl[@]}" delete --ignore-not-found --wait=false %(all)s || true
  "${kubectl[@]}" delete --ignore-not-found --filename 1-network.yaml || true
  if ((status)); then
    echo "Logs: $out/logs.  What was recorded stays in the claim %(results)s; run.sh goes on with it." >&2
  fi
  exit "$status"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

failed() { # POD WHY: its last words, before anything is deleted; then end here
  echo "$1: $2" >&2
  "${kubectl[@]}" describe pod "$1" | tail -n 25 >&2 || true
  "${kubectl[@]}" logs "$1" --all-containers --tail=60 --previous >&2 2>/dev/null || true
  "${kubectl[@]}" logs "$1" --all-containers --tail=60 >&2 || true
  exit 1
}

sound() { # end here where one of our pods has crashed, or cannot start
  local pods pod restarts reasons word
  pods=$("${kubectl[@]}" get pods --selector %(ours)s --output 'jsonpath=%(states)s') || return 0
  while IFS='|' read -r pod restarts reasons; do
    for word in $restarts; do
      [[ $word == 0 ]] || failed "$pod" "has crashed and was started again"
    done
    for word in $reasons; do
      case $word in
        ContainerCreating | PodInitializing | ErrImagePull) ;;
        *) failed "$pod" "$word" ;;
      esac
    done
  done <<<"$pods"
}

late() { # WHAT MINUTES: tell what is known, then end here
  echo "$1: not done after $2 minutes" >&2
  "${kubectl[@]}" get pods --output wide >&2 || true
  "${kubectl[@]}" get events --sort-by=.lastTimestamp | tail -n 20 >&2 || true
  exit 1
}

up() { # CONDITION MINUTES WHAT...: wait until it holds of these
  local condition=$1 limit=$2
  shift 2
  SECONDS=0
  until "${kubectl[@]}" wait --for="condition=$condition" --timeout=10s "$@" >/dev/null 2>&1; do
    sound
    ((SECONDS < 60 * limit)) || late "$*" "$limit"
    sleep "${PAUSE:-5}"
  done
}

finished() { # JOB MINUTES: wait for it, and watch the servers meanwhile
  SECONDS=0
  while ((SECONDS < 60 * $2)); do
    case $("${kubectl[@]}" get "job/$1" --output "jsonpath={.status.succeeded}/{.status.failed}") in
      1/*)
        "${kubectl[@]}" logs "job/$1" --all-containers
        return
        ;;
      /[1-9]*)
        "${kubectl[@]}" logs "job/$1" --all-containers >&2 || true
        echo "$1 has failed; its last words stand above" >&2
        exit 1
        ;;
    esac
    sound
    sleep "${PAUSE:-10}"
  done
  late "$1" "$2"
}

over() { # FILE...: these are done with; their logs are kept
  local file words=()
  for file in "$@"; do
    words+=(--filename "$file")
  done
  keep
  "${kubectl[@]}" delete --ignore-not-found --wait "${words[@]}"
}

claim() { # NAME FILE: made where it is not there yet
  "${kubectl[@]}" get persistentvolumeclaim "$1" >/dev/null 2>&1 || "${kubectl[@]}" create --filename "$2"
}

# What an earlier run may have left, if it was killed.
"${kubectl[@]}" delete --ignore-not-found --wait %(all)s
claim %(results)s 0-results.yaml
apply 1-plan.yaml%(apart)s
apply 1-network.yaml || echo "No network policy: whoever reaches a pod's address reaches the server in it." >&2
"""
PLACE = """\

# The nodes: those of NODES, else where as many GPUs are free as the plan takes of one.
if ((${#nodes[@]} == 0)); then
  apply 1-place.yaml
  while ((${#nodes[@]} < %(nodes)d)); do
    up Ready %(up)d pod --selector job=pdlab-place
    sleep "${PAUSE:-5}"
    read -ra nodes <<<"$("${kubectl[@]}" get pods --selector job=pdlab-place --output 'jsonpath={.items[*].spec.nodeName}')"
  done
  over 1-place.yaml
fi
known
echo "Nodes: ${nodes[*]}"
"""
TOKEN = """\
"${kubectl[@]}" get secret hf-token >/dev/null 2>&1 ||
  echo "No secret hf-token to be seen in this namespace: a gated model cannot be fetched (1-model.yaml has the command)." >&2
"""
NO_REGISTRY = """\
echo "The course's image, %s, names no registry: the nodes must have it already (--image names yours)." >&2
"""
STATES = (  # name|restarts of each container|why each waits
    "{range .items[*]}{.metadata.name}|{.status.containerStatuses[*].restartCount} {.status.initContainerStatuses[*].restartCount}|"
    '{.status.containerStatuses[*].state.waiting.reason} {.status.initContainerStatuses[*].state.waiting.reason}{"\\n"}{end}'
)
COPY = """\
apply %(file)s
up Ready 30 pod --selector job=pdlab-records
"${kubectl[@]}" exec job/pdlab-records -- tar --create --directory=%(folder)s . | tar --extract --directory="$out"
"${kubectl[@]}" delete --wait=false --filename %(file)s
echo "Records and logs: $out.  They stay in the claim as well."
"""
OPEN = 'echo "Lab L2 opens them: PDLAB_RUN_L2=$out make lab"\n'
TUNED = 'echo "The size for --chunk is in the last words of the last job, above."\n'


def step(name: str, job: str, minutes: int) -> str:
    """Apply a file, wait until its job has ended, and delete it."""
    return f"apply {name}\nfinished {job} {minutes}\nover {name}\n"
