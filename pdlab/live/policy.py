"""Where a request goes: small pure rules, each of which gives its reason.

A rule sees one request as a :class:`Ask` and answers with a :class:`Decision`.  It looks at
nothing else, so the whole of a rule can be printed as a grid and tested as one.  Picking a
server of a pool is a second, separate step: see :func:`least_queued`, :func:`most_prefix` and
:func:`least_loaded`.

Sources: llm-d's ``prefix-based-pd-decider`` (its ``nonCachedTokens``; 0 switches the rule off,
and then nothing is sent away) and NVIDIA Dynamo 1.6's conditional disaggregation
(``isl_bounding``; effective input below 2,048 tokens and below 0.7 of the prompt stays).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from pdlab.errors import BadInput


@dataclass(frozen=True, slots=True)
class Ask:
    """What a rule may know of a request, in tokens.

    ``cached_on_decode_tokens`` is the prefix that the decode server chosen for it already holds.
    """

    prompt_tokens: int
    cached_on_decode_tokens: int = 0

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1:
            raise BadInput(f"prompt_tokens {self.prompt_tokens}", "at least 1", "Ask")
        if not 0 <= self.cached_on_decode_tokens <= self.prompt_tokens:
            raise BadInput(
                f"cached_on_decode_tokens {self.cached_on_decode_tokens}",
                f"0 to the prompt's {self.prompt_tokens}",
                "Ask",
            )

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens that decode would have to prefill itself."""
        return self.prompt_tokens - self.cached_on_decode_tokens


@dataclass(frozen=True, slots=True)
class Decision:
    """``remote``: prefill on another server.  ``reason``: one line, kept with the request."""

    remote: bool
    reason: str

    @property
    def side(self) -> str:
        """``"remote"`` or ``"local"``."""
        return "remote" if self.remote else "local"


Rule = Callable[[Ask], Decision]


def all_local(ask: Ask) -> Decision:
    """Decode prefills everything: no transfer ever."""
    return Decision(False, "all local")


def all_remote(ask: Ask) -> Decision:
    """Every prompt is prefilled elsewhere: what 'disaggregate everything' means."""
    return Decision(True, "all remote")


def local_below(uncached_tokens: int) -> Rule:
    """Local while fewer than ``uncached_tokens`` prompt tokens are missing on decode."""
    _at_least(uncached_tokens, 1, "local_below")

    def rule(ask: Ask) -> Decision:
        missing = ask.uncached_tokens
        if missing < uncached_tokens:
            return Decision(False, f"{missing} uncached < {uncached_tokens}")
        return Decision(True, f"{missing} uncached >= {uncached_tokens}")

    return rule


def llm_d(non_cached_tokens: int) -> Rule:
    """llm-d's rule.  Its default of 0 switches it off: everything stays on decode."""
    _at_least(non_cached_tokens, 0, "llm_d")
    return local_below(non_cached_tokens) if non_cached_tokens else _llm_d_off


def _llm_d_off(ask: Ask) -> Decision:
    return Decision(False, "nonCachedTokens 0: the rule is off")


BLIND = frozenset((all_local, all_remote, _llm_d_off))  # never look at what is cached


def dynamo(eff_isl_threshold: int = 2048, eff_isl_ratio_threshold: float = 0.7) -> Rule:
    """Dynamo's ``isl_bounding``: local only if the missing part is short *and* a small share.

    A short cold prompt misses all of itself, a share of 1.0, so it goes remote.
    """
    _at_least(eff_isl_threshold, 0, "dynamo")
    if not 0 <= eff_isl_ratio_threshold <= 1:
        raise BadInput(f"eff_isl_ratio_threshold {eff_isl_ratio_threshold}", "0 to 1", "dynamo")

    def rule(ask: Ask) -> Decision:
        missing = ask.uncached_tokens
        if missing >= eff_isl_threshold:
            return Decision(True, f"{missing} uncached >= {eff_isl_threshold}")
        share = missing / ask.prompt_tokens
        if share < eff_isl_ratio_threshold:
            return Decision(False, f"share {share:.2f} < {eff_isl_ratio_threshold}")
        return Decision(True, f"share {share:.2f} >= {eff_isl_ratio_threshold}")

    return rule


RULES = "all-local, all-remote, local-below:N, llm-d:N, dynamo, dynamo:THRESHOLD:RATIO"


def rule_from_name(name: str) -> Rule:
    """A rule from its command-line name, one of :data:`RULES`."""
    word, *numbers = name.split(":")
    try:
        match word, len(numbers):
            case "all-local", 0:
                return all_local
            case "all-remote", 0:
                return all_remote
            case "local-below", 1:
                return local_below(int(numbers[0]))
            case "llm-d", 1:
                return llm_d(int(numbers[0]))
            case "dynamo", 0:
                return dynamo()
            case "dynamo", 2:
                return dynamo(int(numbers[0]), float(numbers[1]))
    except BadInput:
        raise
    except ValueError:
        pass  # a word where a number belongs: the message below names all the forms
    raise BadInput(f"routing rule {name!r}", f"one of {RULES}", "policy")


# Choosing one server of a pool.  Ties go to the first of the pool, so that a run can be repeated.


def round_robin(servers: Sequence[str]) -> Iterator[str]:
    """The servers in turn, for ever."""
    if not servers:
        raise BadInput("no servers", "at least one", "round_robin")
    return (servers[i % len(servers)] for i in count())


def least_queued(queued_tokens: Mapping[str, int]) -> str:
    """The prefill server with the fewest prompt tokens waiting: prefill time follows tokens."""
    return min(_some(queued_tokens, "least_queued"), key=lambda name: queued_tokens[name])


def most_prefix(
    cached_tokens: Mapping[str, int],
    queued_tokens: Mapping[str, int],
    prompt_tokens: int,
) -> str:
    """The prefill server that would be done first: its queue plus what it must still compute.

    This is the trade prefix-aware routing makes.  A hit saves exactly the tokens it covers; a
    queue costs exactly the tokens in it.
    """

    def work(name: str) -> int:
        return queued_tokens[name] + prompt_tokens - cached_tokens.get(name, 0)

    return min(_some(queued_tokens, "most_prefix"), key=work)


def least_loaded(running_requests: Mapping[str, int]) -> str:
    """The decode server with the fewest running requests.

    Prefix overlap is left out on purpose: decode gets its blocks over the wire either way, and
    what it is short of is room in its batch.
    """
    return min(_some(running_requests, "least_loaded"), key=lambda name: running_requests[name])


def _some(pool: Mapping[str, int], where: str) -> Mapping[str, int]:
    if not pool:
        raise BadInput("no servers", "at least one", where)
    return pool


def _at_least(value: int, least: int, where: str) -> None:
    if value < least:
        raise BadInput(f"a threshold of {value} tokens", f"at least {least}", where)
