"""Send one JSON document to a server and wait for the answer, outside any measurement of latencies."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from pdlab.live import direct

TIMEOUT_S = 60.0


def post_json(url: str, body: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> bytes:
    """POST ``body`` to ``url``; the answer's own bytes, read to their end.

    ``timeout_s`` seconds may pass without a byte from the server.  Raises OSError where it does not
    answer, among them ``urllib.error.HTTPError`` where it answers with an error, and
    ``http.client.HTTPException`` where an answer breaks off.
    """
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with direct.opened(request, timeout_s) as answer:
        return answer.read()
