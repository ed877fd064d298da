"""Take the source of the KV away, and see what the client gets.

Each failure is set up so that the KV was there and decode was told so (or would have found it), and
is gone when decode wants it.  The right answer is computed before, by decode alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pdlab.live.connectors.kinds import Pair
from pdlab.live.faults.table import compare
from pdlab.live.microscope import tokens

PROMPT_TOKENS, OUTPUT_TOKENS = 700, 16
DIES_WITHIN_S = 10.0  # an engine that gives up takes its server along within seconds


@dataclass(frozen=True)
class Failure:
    """What was broken and what the client saw.

    ``right`` is all, none, prefix or wrong, against the answer that decode computes alone.  ``external_tokens``
    of the prompt came from outside all the same; None where decode is dead (``decode_alive``, said a few
    seconds later) and cannot be asked.
    """

    injected: str
    client_saw: str
    waited_s: float
    right: str
    external_tokens: int | None
    decode_alive: bool


def watch(pair: Pair, patience_s: float) -> Iterator[Failure]:
    """All failures of this connector, one after the other; the pair is of no use afterwards."""
    if pair.kind.name == "ExampleConnector":
        yield from _disk(pair, patience_s)
    elif pair.kind.name == "MultiConnector":
        yield from _both(pair, patience_s)
    else:
        prompt, healthy = _prompt(pair, "killed")
        params = pair.kind.ask(pair, prompt)
        pair.deployment.kill(pair.prefill)
        yield _ask(pair, "prefill killed after it had answered", prompt, healthy, params, patience_s)


def _disk(pair: Pair, patience_s: float) -> Iterator[Failure]:
    gone, killed, torn = (_prompt(pair, name) for name in ("files gone", "killed", "one file gone"))
    pair.compute(gone[0])
    pair.empty_store()
    yield _ask(pair, "the stored files removed", *gone, None, patience_s)

    pair.forget()
    for prompt, _ in (killed, torn):
        pair.compute(prompt)
    pair.deployment.kill(pair.prefill)
    yield _ask(pair, "prefill killed after it had stored the blocks", *killed, None, patience_s)

    newest = max(pair.site.store.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    min(newest.iterdir()).unlink()
    yield _ask(pair, "the file of one layer removed", *torn, None, patience_s)


def _both(pair: Pair, patience_s: float) -> Iterator[Failure]:
    killed, stored = (_prompt(pair, name) for name in ("killed", "stored"))
    params = pair.kind.ask(pair, killed[0])
    pair.compute(stored[0])
    pair.deployment.kill(pair.prefill)
    yield _ask(pair, "prefill killed; decode is still told its address", *killed, params, patience_s)
    yield _ask(pair, "prefill killed; decode is told nothing and looks on disk", *stored, None, patience_s)


def _prompt(pair: Pair, name: str) -> tuple[list[int], list[int]]:
    """A new prompt, and what decode alone answers; afterwards nobody remembers it."""
    prompt = tokens(PROMPT_TOKENS, f"connectors {name}")
    healthy = pair.reference(prompt, OUTPUT_TOKENS)
    pair.forget()
    return prompt, healthy


def _ask(
    pair: Pair, injected: str, prompt: Sequence[int], healthy: Sequence[int], params: dict[str, Any] | None, patience_s: float
) -> Failure:
    before = pair.external_tokens()
    answer = pair.pull(prompt, params, OUTPUT_TOKENS)
    if answer.ended.wait(patience_s):
        saw = answer.saw()
    else:
        saw = f"nothing in {patience_s:.0f} s, then hung up"
        pair.hang_up(answer)
        answer.wait()
    until = time.monotonic() + DIES_WITHIN_S
    while not answer.finished and pair.deployment.alive(pair.decode) and time.monotonic() < until:
        time.sleep(0.1)
    alive, external = pair.deployment.alive(pair.decode), None
    if alive:
        try:
            external = pair.external_tokens() - before
        except OSError:  # it was dying still
            alive = False
    return Failure(
        injected=injected, client_saw=saw, waited_s=round(answer.ended_s - answer.sent_s, 2),
        right=compare(answer.tokens, healthy)[0], external_tokens=external, decode_alive=alive,
    )  # fmt: skip
