"""What every command prints: a table for people, or one JSON document, last on stdout."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tabulate import tabulate


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Give a command the ``--json`` flag that all commands share."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")


def printable(text: object) -> str:
    """Text of somebody else's, such as a file's name, without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in str(text))


def print_json(document: Any) -> None:
    """Print ``document`` as the last thing on stdout; NaN is refused, unknown is ``null``."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> None:
    """Print rows under headers, as plain text that survives a copy and paste."""
    print(tabulate(list(rows), headers=headers, tablefmt="simple", disable_numparse=True))
