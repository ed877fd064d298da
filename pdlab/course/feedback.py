"""What a check says, as text and as HTML that is readable in light and dark themes."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["not attempted", "not yet", "correct"]

# The words carry the outcome; the line beside them repeats it by shape and by colour.
_LINE = {
    "not attempted": "4px dotted var(--jp-border-color1, #767676)",
    "not yet": "4px dashed var(--jp-warn-color1, #b35c00)",
    "correct": "4px solid var(--jp-success-color1, #2e7d32)",
}


@dataclass(frozen=True)
class Feedback:
    """The outcome of one check.  ``kind`` names the mistake; ``says`` never holds the answer."""

    id: str
    outcome: Outcome
    kind: str = ""
    says: str = ""
    points: int = 0

    @property
    def text(self) -> str:
        """One line, words only."""
        if self.outcome == "correct":
            points = f"{self.points} point{'' if self.points == 1 else 's'}"
            return f"{self.id} correct ({points}). {self.says}".strip()
        return f"{self.id} {self.outcome}" + (f": {self.says}" if self.says else "")

    @property
    def html(self) -> str:
        head = f"{self.id} {self.outcome}"
        rest = marked(self.text[len(head) :])
        return panel(f"<strong>{html.escape(head)}</strong>{rest}", _LINE[self.outcome])


def marked(text: str) -> str:
    """Plain words as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def panel(inner: str, line: str = "4px solid var(--jp-border-color2, #767676)") -> str:
    """A block with a line at its side, in the theme's own text colour."""
    return (
        f'<div style="border-left: {line}; padding: 0.3em 0.8em; margin: 0.2em 0; '
        f'color: var(--jp-ui-font-color1, inherit); max-width: 60em">{inner}</div>'
    )


def publish(text: str, page: str, metadata: dict[str, Any] | None = None) -> None:
    """Show words with their HTML twin in a notebook; print the words anywhere else."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(text)
    else:
        display({"text/plain": text, "text/html": page}, raw=True, metadata=metadata or {})
