"""Why each flag is there: ``data/rendered-flags.yaml``, and the notes that are made of it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cache

from pdlab.documents import read_yaml
from pdlab.live.env import ROOT

FILE = ROOT / "data" / "rendered-flags.yaml"
WIDTH = 110


MARK = {"sbatch": "SBATCH", "Ray Serve LLM": "engine_kwargs"}  # else the program's last word
ALWAYS = ("vllm serve", "environment")
AS_KEYS = ("dtype", "revision")  # beside those with an underscore, in an engine's keyword arguments


@cache
def explained() -> dict[str, dict[str, str]]:
    """Program → flag → why."""
    return read_yaml(FILE)


def used(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """What of that stands in ``texts``, comments left out."""
    whole = "\n".join(line for text in texts for line in text.splitlines() if not line.lstrip().startswith(("# ", "#!")))
    words = set(re.findall(r"[\w-]+", whole))
    found = {}
    for program, flags in explained().items():
        if program not in ALWAYS and MARK.get(program, program.split()[-1]) not in words:
            continue
        if here := {flag: why for flag, why in flags.items() if words.intersection(_spellings(flag, program))}:
            found[program] = here
    return found


def notes(texts: Iterable[str]) -> str:
    """The explanations of what stands there, as comment lines."""
    lines = []
    for program, flags in used(texts).items():
        lines.append(f"#   {program}")
        for flag, why in flags.items():
            lines += textwrap.wrap(why, WIDTH, initial_indent=f"#     {flag}  ", subsequent_indent="#         ")
    return "\n".join(lines) + "\n"


def _spellings(flag: str, program: str) -> list[str]:
    key = flag.removeprefix("--").replace("-", "_")
    return [flag, key] if program == "vllm serve" and ("_" in key or key in AS_KEYS) else [flag]

