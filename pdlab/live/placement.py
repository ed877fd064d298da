"""Chooses the servers of each request, and keeps what the choices need to know.

A router sees its servers only through what it sent them.  From that it knows three things: which
prompts each server has computed or received, how many prompt tokens each prefill server still has
to compute, and how many answers each decode server is writing.  The rules (``policy``) are pure
and are given these; nothing here asks a server anything.

What is believed to be cached is a belief.  A server may have evicted a prefix, so the record is
emptied when a server is lost, and can be emptied on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pdlab.errors import BadInput
from pdlab.live import policy
from pdlab.live import router_steps as steps
from pdlab.live.prefixes import PrefixRecord, block_chain
from pdlab.live.router_steps import Route

Choice = Literal["queue", "prefix", "round-robin"]
CHOICES: tuple[Choice, ...] = ("queue", "prefix", "round-robin")
BLOCK_SIZE = 128  # vLLM's on a CPU; one that is larger than the server's only believes less
CACHE_BLOCKS = 256  # a server's KV cache; more than it has would believe in what is gone


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as placement sees it.  ``chain`` is empty where nothing asks for it, and for text.

    Text has no blocks before somebody tokenises it, so of text nothing is believed to be cached.
    """

    tokens: int
    chain: tuple[bytes, ...] = ()


NO_PROMPT = Prompt(0)


class Placement:
    """Chooses: decode by load, then remote or local by ``rule``, then prefill by ``prefill_choice``.

    Aggregated replicas (no ``prefill``) are taken in turn.  Ties go to the first server named.
    """

    def __init__(
        self,
        decode: Sequence[str],
        prefill: Sequence[str] | None,
        rule: policy.Rule,
        prefill_choice: Choice = "queue",
        block_size: int = BLOCK_SIZE,
        cache_blocks: int = CACHE_BLOCKS,
    ) -> None:
        if prefill_choice not in CHOICES:
            raise BadInput(f"prefill choice {prefill_choice!r}", f"one of {', '.join(CHOICES)}", "router")
        self.decode, self.prefill, self.rule, self.prefill_choice = list(decode), list(prefill or ()), rule, prefill_choice
        self.held = {server: PrefixRecord(block_size, cache_blocks) for server in (*self.prefill, *self.decode)}
        self.running = dict.fromkeys(self.decode, 0)
        self.queued_tokens = dict.fromkeys(self.prefill, 0)
        # Hashing a prompt costs more than all the rest of a decision: only where somebody looks.
        self._looks_at_decode = bool(self.prefill) and rule not in policy.BLIND
        self._looks_at_prefill = bool(self.prefill) and prefill_choice == "prefix"
        self._turn = policy.round_robin(self.prefill or self.decode)

    def read(self, body: Mapping[str, Any] | None) -> Prompt:
        """What placement needs of a request's body; None where the body was not looked into."""
        if body is None:
            return NO_PROMPT
        if (ids := steps.token_ids(body)) is None:
            return Prompt(steps.prompt_tokens(body))
        if not (self._looks_at_decode or self._looks_at_prefill):
            return Prompt(len(ids))
        salt = str(body.get("cache_salt") or "")
        return Prompt(len(ids), tuple(block_chain(ids, self.held[self.decode[0]].block_size, salt)))

    def place(self, prompt: Prompt) -> Route:
        """The servers for a prompt, with the reason and what was believed when they were chosen."""
        if not self.prefill:
            return Route(next(self._turn), None, "round robin")
        decode = policy.least_loaded(self.running)
        choice = f"decode of {self.running[decode]} running"
        cached = self.cached_tokens(decode, prompt) if self._looks_at_decode else None
        decision = self.rule(policy.Ask(prompt.tokens, cached or 0))
        if not decision.remote:
            return Route(decode, None, decision.reason, cached, choice)
        prefill = self._choose_prefill(prompt)
        choice += f", prefill by {self.prefill_choice} behind {self.queued_tokens[prefill]} tokens"
        return Route(decode, prefill, decision.reason, cached, choice)

    def _choose_prefill(self, prompt: Prompt) -> str:
        if self.prefill_choice == "round-robin":
            return next(self._turn)
        if self.prefill_choice == "queue":
            return policy.least_queued(self.queued_tokens)
        cached = {server: self.cached_tokens(server, prompt) for server in self.prefill}
        return policy.most_prefix(cached, self.queued_tokens, prompt.tokens)

    def cached_tokens(self, server: str, prompt: Prompt) -> int:
        """Tokens of the prompt that ``server`` is believed to hold.

        An engine computes at least the last token, since the answer starts from it; with whole
        blocks that means that a prompt which ends with a block misses that block.
        """
        record = self.held[server]
        return record.matched_tokens(prompt.chain[: max(0, prompt.tokens - 1) // record.block_size])

    # ── what happens to a request, as the router tells it ───────────────────────────────────

    @contextmanager
    def prefilling(self, server: str, prompt: Prompt) -> Iterator[None]:
        """While this lasts, the prompt's missing tokens stand in ``server``'s queue; then it holds them."""
        work = prompt.tokens - self.cached_tokens(server, prompt)
        self.queued_tokens[server] += work
        try:
            yield
            self.holds(server, prompt)
        finally:
            self.queued_tokens[server] -= work

    @contextmanager
    def answering(self, route: Route) -> Iterator[None]:
        """While this lasts, one more request runs on the route's decode server (or replica)."""
        self.running[route.decode] += 1
        try:
            yield
        finally:
            self.running[route.decode] -= 1

    def holds(self, server: str, prompt: Prompt) -> None:
        """``server`` has computed or received the whole prompt."""
        if prompt.chain:
            self.held[server].add(prompt.chain)

    def forget(self, *servers: str) -> None:
        """Believe nothing of ``servers``, or of any: they were lost, or their caches were emptied."""
        for server in servers or self.held:
            self.held[server].clear()
