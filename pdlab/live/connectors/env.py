"""The layer with Mooncake and LMCache, ``.venv-connectors``, over the live environment.

    python -m pdlab.live.env connectors        set it up, or say that it is there   (part of make connectors)

It holds what ``requirements-connectors.lock`` names; vLLM and all else come from the live
environment by path, which stays as it is.
"""

from __future__ import annotations

import importlib.metadata

from pdlab.live import env

LAYER = env.CONNECTORS
HOW = f"run `{LAYER.command}` ({LAYER.size})"
location, python, install, complete = LAYER.location, LAYER.python, LAYER.install, LAYER.complete


def versions(*packages: str) -> dict[str, str]:
    """Versions of these packages, in the layer or the live environment; absent ones are left out."""
    sites = [str(site) for root in (location(), env.location()) for site in root.glob("lib/python3.*/site-packages")]
    found = {package.metadata["Name"].lower(): package.version for package in importlib.metadata.distributions(path=sites)}
    return {name: found[name] for name in packages if name in found}
