"""What the shell scripts of two targets share: quoting, and starting, waiting for and ending servers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

MARK = "\0"  # no file name, option or plan that is rendered holds one: what they say is never a variable
VARIABLE = re.compile(MARK + r"(\{[A-Za-z_]\w*(?:\[\d+\])?\})")
INDENT = "  "


def variable(name: str) -> str:
    """A variable of the target's own, for use in a word: ``name`` or ``name[0]``."""
    return f"{MARK}{{{name}}}"


def word(text: str) -> str:
    """One word for bash: each :func:`variable` in it is one, all else is literal, ``$`` and quotes too."""
    if MARK not in text:
        return shlex.quote(text)
    kept = [re.sub(r'(["\\$`])', r"\\\1", part) for part in VARIABLE.split(text)[::2]]
    names = [f"${name}" for name in VARIABLE.findall(text)]
    return '"' + "".join(a + b for a, b in zip(kept, [*names, ""], strict=True)) + '"'


def command(words: Sequence[str], lead: str = "", indent: str = INDENT, rows: Iterable[str] = ()) -> str:
    """A command, each flag with its values on a line of its own.

    ``lead`` is shell text before it, ``rows`` are lines of shell text between the two.
    """
    lines: list[list[str]] = [[]]
    for text in words:
        if text.startswith("--"):
            lines.append([])
        lines[-1].append(word(text))
    whole = [*([lead] if lead else []), *rows, *(" ".join(line) for line in lines if line)]
    return indent + f" \\\n{indent}{INDENT}".join(whole)


def settings(values: Mapping[str, str]) -> list[str]:
    """Environment settings as words for ``env``."""
    return [f"{name}={word(value)}" for name, value in values.items()]


STRICT = "set -euo pipefail\n"

ROUTER_PORT, FIRST_PORT = 8000, 8100
KEPT = """\
kept() { # CORES COMMAND...: in place of the shell that it runs in, so only in the background
  exec "$python" -I -S pdlab/live/keeper.py "$1" -- "${@:2}"
}
"""
HOLDING = """\
# Everything hangs on a keeper (pdlab/live/keeper.py) that ends it as soon as this script's end of
# the pipe is closed, however the script ends.
trap 'exit 130' INT
trap 'exit 143' TERM
declare -A pids=() # by name

hold() { # the pipe: kept open here as 9, read by what is started as 8, and soon without a name
  local pipe
  pipe=$(mktemp -u)
  mkfifo "$pipe"
  exec 9<>"$pipe"
  exec 8<"$pipe"
  rm "$pipe"
}
hold

""" + KEPT + """
start() { # NAME CORES COMMAND...
  local name=$1 cores=$2
  shift 2
  kept "$cores" "$@" <&8 8<&- 9>&- >"$out/logs/$name.log" 2>&1 &
  pids[$name]=$!
}

run() { # COMMAND...: to its end; a signal ends this script at once, and the command with it
  kept "" "$@" <&8 8<&- 9>&- >/dev/null &
  wait "$!"
}

stop() { # end all that was started, and wait for it
  exec 9>&-
  wait "${pids[@]}" || true
  pids=()
  hold
}
"""
# Where there is no curl, `if ask` would take a busy port for a free one.
CURL = """\
command -v curl >/dev/null || {
  echo "There is no curl here, and this script asks the servers with it: install it (Debian, Ubuntu: apt install curl)" >&2
  exit 1
}
"""
KEEPING = HOLDING + "\n" + CURL + """
ask() { # SECONDS URL WORDS...: no proxy of the site answers in a server's place
  curl --noproxy '*' --silent --output /dev/null --max-time "$1" "${@:3}" "$2"
}

unused() { # URL...: end here where something answers already; it would be measured instead of ours
  local url
  for url in "$@"; do
    if ask 2 "$url/health"; then
      echo "something answers at $url already; end it first." >&2
      echo "The ports are fixed: %(router)d for the router, and from %(first)d on one a server." >&2
      exit 1
    fi
  done
}

ready() { # URL...: wait until each answers; give up as soon as something has ended, or when a start's time is over
  local url name limit=$((SECONDS + 60 * start_minutes))
  for url in "$@"; do
    until ask 5 "$url/health" --fail; do
      for name in "${!pids[@]}"; do
        if ! kill -0 "${pids[$name]}" 2>/dev/null; then
          echo "$name has ended before $url was ready. So ends $out/logs/$name.log:" >&2
          tail --lines=5 "$out/logs/$name.log" >&2
          exit 1
        fi
      done
      if ((SECONDS >= limit)); then
        echo "$url was not ready after $start_minutes minutes; look into $out/logs. START_MINUTES gives a start more." >&2
        exit 1
      fi
      sleep 2
    done
  done
}
""".replace("%(router)d", str(ROUTER_PORT)).replace("%(first)d", str(FIRST_PORT))
