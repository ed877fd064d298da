"""Guesses: kept, shown again at the end, never marked.

They live in the kernel and, where ``PDLAB_GUESSES`` names a file (``make lab`` does), in that file too:
a kernel started again and a later notebook still know them.  A file that cannot be used is no error.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pdlab.course import answers, feedback
from pdlab.course.reading import key, listed, spelled, word

FILE = "PDLAB_GUESSES"  # an environment variable: where guesses are kept; without it, in the kernel only

MOST_ID, MOST_GUESS = 40, 400  # characters
_kept: dict[str, str] = {}


def keep(guess_id: str, guess: Any, choices: Iterable[Any] | None = None, count: int | None = None) -> None:
    """Keep one guess and say so.  What is not among ``choices``, or no list of ``count`` of them, is told and not kept."""
    guess_id, plain = str(guess_id)[:MOST_ID], answers.read(guess)
    words = [str(choice) for choice in choices] if choices is not None else []
    if answers.is_nothing(plain):
        says = "no guess yet. Put yours in place of the `...`; it is never marked."
    elif count is not None and not _is_list(plain, count, words):
        among = f", each one of {listed(words)}" if words else ""
        says = f"not kept: {spelled(plain)[:MOST_GUESS]} is no list of {count}{among}."
    elif count is None and words and word(plain) not in map(word, words):
        says = f"{spelled(plain)[:MOST_GUESS]!r} is none of the choices: {listed(words)}."
    else:
        said = spelled(plain)
        _kept[guess_id] = said if len(said) <= MOST_GUESS else said[: MOST_GUESS - 1] + "…"
        _store()
        says = f"guess kept: {_kept[guess_id]}. Never marked; guesses() shows it again."
    feedback.publish(f"{guess_id} {says}", feedback.panel(f"<strong>{html.escape(guess_id)}</strong> {feedback.marked(says)}"))


def _is_list(plain: Any, count: int, words: list[str]) -> bool:
    """Whether a plain form is a list of so many of the words (numbers by value), or of anything where there are none."""
    return isinstance(plain, list) and len(plain) == count and (not words or {*map(key, plain)} <= {*map(key, words)})


def show(outcomes: Mapping[str, Any]) -> None:
    """The guesses of the notebooks that this kernel or ``outcomes`` speaks of, beside what came out; else all."""
    notebooks = {_notebook(name) for name in (*_kept, *outcomes)}
    known = {name: guess for name, guess in (_stored() | _kept).items() if not notebooks or _notebook(name) in notebooks}
    if not known:
        says = "No guesses yet: each predict cell keeps one."
        feedback.publish(says, feedback.panel(says))
        return
    rows = [(name, guess, spelled(answers.read(outcomes[name])) if name in outcomes else "") for name, guess in known.items()]
    heads = ("guess", "you said", "what came out")
    if not outcomes:
        heads, rows = heads[:2], [row[:2] for row in rows]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows))
    head = "".join(f'<th scope="col" style="text-align:left">{html.escape(h)}</th>' for h in heads)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{html.escape(c)}</td>' for c in row) + "</tr>" for row in rows)
    feedback.publish(text, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _notebook(guess_id: str) -> str:
    return guess_id.partition(".")[0]


def _stored() -> dict[str, str]:
    """The guesses in the file; none where there is no file or nothing that could be one."""
    try:
        found = json.loads(Path(os.environ[FILE]).read_text(encoding="utf-8"))
        return {name: guess for name, guess in found.items() if isinstance(guess, str)}
    except (KeyError, OSError, ValueError, AttributeError, RecursionError):
        return {}


def _store() -> None:
    """Write the guesses of this kernel beside those that are there, all or nothing."""
    if not os.environ.get(FILE):
        return
    path = Path(os.environ[FILE])
    text = json.dumps(_stored() | _kept, indent=1, ensure_ascii=False)
    with contextlib.suppress(OSError, ValueError):  # a full or read-only disk: the kernel still knows the guess
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8", errors="replace") as new:
            try:
                new.write(text)
                new.close()
                Path(new.name).replace(path)
            except OSError:
                Path(new.name).unlink()
