"""What an exercise's own checker answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``ok`` with empty words, or the kind of mistake and what it looks like."""

    ok: bool
    kind: str = ""
    says: str = ""
