"""One load against one server: what ``pdlab load`` sends, and what a sweep sends in each run."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

from pdlab.documents import parse_object, write_whole
from pdlab.errors import BadInput
from pdlab.live import client, direct
from pdlab.measure import traces, workload

ASKED = "asked.json"  # in a run's directory: what the run was asked for, so that resuming can be held to it
MAX_LIST_BYTES = 1 << 24
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


def asked_of(out: Path) -> dict[str, Any]:
    """What a run in ``out`` was asked for; empty where none has begun.  BadInput for a run that does not say."""
    path = out / ASKED
    if not path.exists():
        if (out / client.SPOOL).exists() or client.is_finished(out):
            raise BadInput(f"a run without {ASKED}", "one that pdlab load began", str(out), "Begin anew in another directory.")
        return {}
    return parse_object(path.read_bytes(), str(path))


def ask(out: Path, resume: bool, asked: dict[str, Any]) -> None:
    """Write down what a run is asked for; a run that is resumed must be asked for the same.

    Raises BadInput that names each difference: what is in ``out`` answers another question.
    """
    before = asked_of(out) if resume else {}
    other = [name for name in {**before, **asked} if before and before.get(name) != asked.get(name)]
    if other:
        raise BadInput(
            "; ".join(f"--{name} {asked.get(name)}" for name in other).replace("--url", "URL"),
            "; ".join(f"{before.get(name)}" for name in other) + ", as the run in it was asked for", str(out),
            "Resume with what was asked for then, or choose another directory.",
        )  # fmt: skip
    if not before and not (out / client.SPOOL).exists() and not client.is_finished(out):
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / ASKED, json.dumps(asked, indent=2) + "\n")


def base(url: str) -> str:
    """A server's address, to which the API's paths are added.

    BadInput for one that has them already, and for a host that cannot be looked up.
    """
    parts = client.endpoint(url)
    path = parts.path.rstrip("/")
    if path.endswith(("/v1", "/v1/models", "/completions")):
        raise BadInput(f"url {url!r:.80}", "the server's address alone", "URL",
                       f"Leave out {path[path.index('/v1'):] if '/v1' in path else path}: it is added.")  # fmt: skip
    try:
        socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"host {parts.hostname!r} ({why})", "one that this machine can look up", "URL") from error
    return url.rstrip("/")


def first_model(url: str, insecure: bool = False) -> str:
    """The first model that the server lists."""
    base(url)
    context = ssl._create_unverified_context() if insecure else None
    try:
        with direct.opened(f"{url.rstrip('/')}/v1/models", 10, context) as answer:
            model = json.loads(answer.read(MAX_LIST_BYTES))["data"][0]["id"]
        if not isinstance(model, str) or not model:
            raise ValueError(f"its first model is {model!r:.40}")
        return model
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadInput(f"no list of models ({error})", "an OpenAI-compatible server", url,
                       "Start one, or name the model with --model.") from error  # fmt: skip
