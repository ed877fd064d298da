"""YAML and JSON that somebody else wrote, read here alone, so that no document can end a command with a traceback.

A library's own errors are only part of what a document can raise: a date that does not exist, an integer
of 5,000 digits, a thousand brackets and a mapping as a key each raise something else.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from pdlab.errors import BadInput

MAX_KEY = 200
MOST_BYTES = 10_000_000  # of a document that a person writes; the course's largest has a hundredth of it
MAX_DEPTH = 64  # no document of this course needs a tenth of it


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Plain values only; a key given twice is refused, where YAML's own loader keeps the last one."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (BadInput, yaml.YAMLError):
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            text = repr(node.value) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"
            kind = node.tag.rpartition(":")[2]
            raise BadInput(_short(text), f"what YAML calls {kind}", _line(node), "Quote it if it is text.") from error


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise BadInput(f"a {type(key).__name__} as a key", "a word", _line(key_node))
        if len(key_node.value) > MAX_KEY:
            raise BadInput(f"a key of {len(key_node.value):,} characters", "a word", _line(key_node))
        if key in seen:
            raise BadInput(f"key {_short(str(key_node.value))!r} a second time", "each key once", _line(key_node))
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_yaml(text: str, where: str) -> Any:
    """The one document in ``text``.  ``BadInput`` names ``where`` and the line; aliases are refused."""
    try:
        _check_shape(text)
        return yaml.load(text, _Loader)  # noqa: S506, a safe loader
    except BadInput as error:
        raise BadInput(error.found, error.expected, f"{where}, {error.where}", error.do) from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(" ".join(str(error).split()), "YAML", where) from error


def _check_shape(text: str) -> None:
    """Refuse aliases, with which a few lines stand for billions of values, and nesting without end."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadInput(f"the alias *{event.anchor}", "every value written out", _line(event),
                           "Copy what the alias stands for to where it is used.")  # fmt: skip
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise BadInput(f"more than {MAX_DEPTH} levels of nesting", "a plain document", _line(event))


def _line(marked: yaml.Node | yaml.Event) -> str:
    return f"line {marked.start_mark.line + 1}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def check_plain(path: Path, expected: str, most_bytes: int | None = None) -> None:
    """Refuse a pipe or a device, of which one may wait for ever or has no end, and a file that is too large.

    What is not there, or a folder, is left to whoever opens it.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise BadInput("no plain file", expected, str(path))
    if stat.S_ISREG(found.st_mode) and most_bytes is not None and found.st_size > most_bytes:
        raise BadInput(f"{found.st_size:,} bytes", f"{expected} of at most {most_bytes:,}", str(path))


def read_yaml(path: str | Path) -> Any:
    """The one document in a YAML file; ``BadInput`` for a file that cannot be read."""
    path = Path(path)
    check_plain(path, "a readable YAML file", MOST_BYTES)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise BadInput(why(error), "a readable YAML file", str(path)) from error
    return parse_yaml(text, str(path))


def why(error: Exception) -> str:
    """What an error says, without the path that a message names anyway."""
    return getattr(error, "strerror", None) or str(error)


def parse_json(text: str | bytes, where: str, expected: str = "one JSON document", do: str = "") -> Any:
    """The JSON value in ``text``; ``BadInput`` for anything else, too many brackets or digits among it."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise BadInput("values nested without end", expected, where, do) from error
    except ValueError as error:
        raise BadInput(f"{error}", expected, where, do) from error


def parse_object(text: str | bytes, where: str, expected: str = "a JSON object", do: str = "") -> dict[str, Any]:
    """The JSON object in ``text``; ``BadInput`` for any other value, too."""
    found = parse_json(text, where, expected, do)
    if not isinstance(found, dict):
        raise BadInput(f"a JSON {type(found).__name__}", expected, where, do)
    return found


def read_lines(path: str | Path) -> list[Any]:
    """The values of a file of JSON lines that the course itself wrote, or is writing: one that is not whole yet is left out."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


def write_whole(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, all of it or nothing: a process that is killed leaves what was there before."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # of a full disk it says nothing more
            error.filename = str(path)
        raise
