"""Public sample data that the project tries itself on and does not ship."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HOME = Path(os.environ.get("PDLAB_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared_data(name: str) -> Path:
    """The path of one sample file; the test is skipped, with the reason, where it is absent."""
    path = HOME / "data" / name
    if not path.exists():
        pytest.skip(f"sample data absent: {path} (set PDLAB_SHARED to the folder that has data/)")
    return path
