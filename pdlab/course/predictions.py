"""Guesses: kept in the kernel, shown again at the end, never marked."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from pdlab.course import answers, feedback
from pdlab.course.reading import spelled, word

_kept: dict[str, str] = {}


def keep(guess_id: str, guess: Any, choices: Iterable[Any] | None = None) -> None:
    """Keep one guess and say so.  A word that is not among ``choices`` is told, and not kept."""
    plain = answers.read(guess)
    words = [str(choice) for choice in choices] if choices is not None else []
    if answers.is_nothing(plain):
        says = "no guess yet. Put yours in place of the `...`; it is never marked."
    elif words and word(plain) not in map(word, words):
        says = f"{spelled(plain)!r} is none of the choices: {', '.join(words)}."
    else:
        _kept[guess_id] = spelled(plain)
        says = f"guess kept: {_kept[guess_id]}. Never marked; guesses() shows it again."
    feedback.publish(f"{guess_id} {says}", feedback.panel(f"<strong>{html.escape(guess_id)}</strong> {feedback.marked(says)}"))


def show(outcomes: Mapping[str, Any]) -> None:
    """Every guess of this session in order, beside its outcome where one is given."""
    if not _kept:
        says = "No guesses yet: each predict cell keeps one."
        feedback.publish(says, feedback.panel(says))
        return
    rows = [(name, guess, spelled(answers.read(outcomes[name])) if name in outcomes else "") for name, guess in _kept.items()]
    heads = ("guess", "you said", "what came out")
    if not outcomes:
        heads, rows = heads[:2], [row[:2] for row in rows]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows))
    head = "".join(f'<th scope="col" style="text-align:left">{html.escape(h)}</th>' for h in heads)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{html.escape(c)}</td>' for c in row) + "</tr>" for row in rows)
    feedback.publish(text, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
