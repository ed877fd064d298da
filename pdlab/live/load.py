"""One load against one server: what ``pdlab load`` sends, and what a sweep sends in each run."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live import client
from pdlab.measure import traces, workload

FIRST_TOKEN_ID = 100  # below it, tokenisers commonly keep their control tokens


def trace(
    path: Path | None, rate_rps: float, count: int, prompt_tokens: int, output_tokens: int, seed: int
) -> workload.Trace:
    """The trace in ``path``, else ``count`` requests of one shape, Poisson, no two prompts alike."""
    if path:
        return workload.head(traces.read_trace(path), count)
    return workload.uniform(prompt_tokens, output_tokens, workload.poisson_ms(rate_rps, count, seed), seed=seed)


def offers(
    requests: workload.Trace, model: str, vocab_size: int, warmup: int = 0, ids: str = "r"
) -> list[client.Offer]:
    """The requests as the client takes them, prompts as token ids, the first of all at 0.

    ``ids`` begins each request's id, so that the runs of a sweep can be told apart in one log.
    """
    start_ms = requests.requests[0].at_ms if len(requests) else 0.0
    return [
        client.Offer(
            seq=request.seq,
            at_ms=request.at_ms - start_ms,
            body=client.completion(
                model,
                workload.token_ids(request, vocab_size, requests.block_tokens, FIRST_TOKEN_ID).tolist(),
                request.output_tokens,
            ),
            request_id=f"{ids}{request.seq:05d}",
            warmup=index < warmup,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
        )
        for index, request in enumerate(requests)
    ]


def first_model(url: str, insecure: bool = False) -> str:
    """The first model that the server lists."""
    context = ssl._create_unverified_context() if insecure else None
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/v1/models", timeout=10, context=context) as answer:
            return json.load(answer)["data"][0]["id"]
    except (OSError, ValueError, LookupError) as error:
        raise BadInput(f"no list of models ({error})", "an OpenAI-compatible server", url,
                       "Start one, or name the model with --model.") from error  # fmt: skip
