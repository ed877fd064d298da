"""Ray's environment, as this package's modules name it; ``pdlab.live.env`` says what it is."""

from __future__ import annotations

from pdlab.live.env import RAY

location, python, versions, install = RAY.location, RAY.python, RAY.versions, RAY.install
