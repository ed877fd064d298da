"""Ask a server over HTTP itself: a proxy that the environment names never answers in its place.

The client of a measurement takes no proxy either, so what is asked beside it must not.
"""

from __future__ import annotations

import ssl
import urllib.request
from functools import cache
from typing import Any


def opened(request: str | urllib.request.Request, timeout_s: float, context: ssl.SSLContext | None = None) -> Any:
    """``urllib.request.urlopen`` without a proxy: an answer to read from, and the same errors."""
    return _opener(context).open(request, timeout=timeout_s)


@cache
def _opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    """Made once: each one reads the machine's certificates."""
    https = [urllib.request.HTTPSHandler(context=context)] if context else []
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *https)
