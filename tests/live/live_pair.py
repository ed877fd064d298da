"""What the tests of real servers share."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

from pdlab.live.microscope import tokens
from pdlab.live.serve import Deployment

PROMPT_LENGTHS = (40, 127, 128, 129, 500, 1000)  # below, at and above one block of 128, and several
OUTPUT_TOKENS = 24
COMMON: dict[str, Any] = {"dtype": "float32", "kv_cache_bytes": 1 << 27, "block_size": 128, "max_model_len": 2048}


@dataclass
class Up:
    """Servers that are up, the router's URL, and where the logs lie."""

    deployment: Deployment
    url: str


def complete(url: str, prompt: list[int], output_tokens: int = OUTPUT_TOKENS, **extra: Any) -> dict[str, Any]:
    """One completion of ``tiny`` with its token ids, not streamed."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": output_tokens, "temperature": 0,
            "ignore_eos": True, "return_token_ids": True, **extra}  # fmt: skip
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def prompts(purpose: str) -> dict[int, list[int]]:
    """One prompt of each length; another purpose gives others, so that no cache helps."""
    return {length: tokens(length, f"{purpose} {length}") for length in PROMPT_LENGTHS}
