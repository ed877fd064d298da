"""Routing rules on a grid of prompts, the record of who holds which prefix, and both in placement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdlab.errors import BadInput
from pdlab.live import policy
from pdlab.live.placement import Placement, Prompt
from pdlab.live.policy import Ask
from pdlab.live.prefixes import PrefixRecord, block_chain
from pdlab.live.router_steps import Route

# prompt, cached on decode, llm-d at 2,048, Dynamo's defaults
GRID = [
    (300, 0, "local", "remote"),  # the short cold prompt: the two systems disagree
    (300, 256, "local", "local"),
    (2047, 0, "local", "remote"),
    (2048, 0, "remote", "remote"),
    (2049, 0, "remote", "remote"),
    (4096, 2049, "local", "local"),  # 2,047 missing, half the prompt
    (4096, 2048, "remote", "remote"),  # 2,048 missing: neither rule is strict on its edge
    (4096, 2047, "remote", "remote"),
    (8192, 7168, "local", "local"),  # the long cached prompt
    (8192, 0, "remote", "remote"),  # the long cold prompt
    (2900, 870, "local", "remote"),  # 2,030 missing is exactly 0.7: not below it
    (2900, 871, "local", "local"),
    (100, 100, "local", "local"),
]


@pytest.mark.parametrize(("prompt", "cached", "llm_d", "dynamo"), GRID)
def test_the_two_published_rules_on_the_grid(prompt, cached, llm_d, dynamo):
    """llm-d looks at the missing tokens alone; Dynamo also at their share of the prompt."""
    ask = Ask(prompt, cached)
    assert policy.llm_d(2048)(ask).side == llm_d
    assert policy.dynamo()(ask).side == dynamo


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("blocks", [1, 2, 16])
def test_block_boundaries_move_no_rule(extra, blocks):
    """The rules count tokens, not blocks: only the threshold itself matters."""
    tokens = 128 * blocks + extra
    decision = policy.local_below(128 * blocks)(Ask(tokens))
    assert decision.remote == (extra >= 0)
    assert str(tokens) in decision.reason


def test_llm_d_default_is_off_and_sends_nothing_away():
    """A threshold of 0 is a switch, not a threshold that every prompt passes."""
    decision = policy.llm_d(0)(Ask(100_000))
    assert not decision.remote
    assert "off" in decision.reason


@given(st.integers(1, 10**6), st.floats(0, 1), st.integers(1, 10**5))
def test_more_cached_never_turns_local_into_remote(prompt, share, threshold):
    """A longer hit on decode is never a reason to send a prompt away."""
    cached = int(prompt * share)
    for rule in (policy.local_below(threshold), policy.dynamo(threshold, 0.7)):
        if not rule(Ask(prompt, cached)).remote:
            assert not rule(Ask(prompt, prompt)).remote


@pytest.mark.parametrize(
    ("name", "prompt", "side"),
    [
        ("all-local", 9000, "local"),
        ("all-remote", 1, "remote"),
        ("local-below:500", 499, "local"),
        ("llm-d:500", 500, "remote"),
        ("dynamo", 300, "remote"),
        ("dynamo:2048:1.0", 300, "remote"),  # share 1.0 is not below 1.0
    ],
)
def test_rules_by_name(name, prompt, side):
    """The command line's names build the same rules."""
    assert policy.rule_from_name(name)(Ask(prompt)).side == side


@pytest.mark.parametrize("name", ["", "dynamo:1", "llm-d", "llm-d:x", "local-below:0", "nearest"])
def test_an_unknown_rule_is_refused(name):
    """A misspelt rule is refused with the forms that exist."""
    with pytest.raises(BadInput):
        policy.rule_from_name(name)


@pytest.mark.parametrize(("prompt", "cached"), [(0, 0), (10, 11), (10, -1)])
def test_an_impossible_request_is_refused(prompt, cached):
    """A prompt has tokens, and no more of them cached than it has."""
    with pytest.raises(BadInput):
        Ask(prompt, cached)


def test_prefill_choice_trades_queue_against_hits():
    """A hit wins while it saves more tokens than the queue in front of it costs."""
    cached = {"a": 1024}
    assert policy.most_prefix(cached, {"a": 1000, "b": 0}, 2000) == "a"
    assert policy.most_prefix(cached, {"a": 1025, "b": 0}, 2000) == "b"
    assert policy.least_queued({"a": 5, "b": 5}) == "a"


def test_decode_choice_is_by_load():
    """Decode goes to the emptiest batch; an empty pool is an error, not a crash later."""
    assert policy.least_loaded({"d1": 3, "d0": 2}) == "d0"
    with pytest.raises(BadInput):
        policy.least_loaded({})


def test_a_chain_covers_full_blocks_and_the_whole_prefix():
    """The tail has no hash, and a change in block 0 changes every later hash."""
    tokens = list(range(300))
    chain = block_chain(tokens, 128)
    assert len(chain) == 2
    other = block_chain([7, *tokens[1:]], 128)
    assert not set(chain) & set(other)
    assert block_chain(tokens[:128], 128) == chain[:1]
    assert not set(block_chain(tokens, 128, "salt")) & set(chain)


def test_a_record_matches_prefixes_only():
    """A held block behind a missing one is no hit."""
    record = PrefixRecord(block_size=16, capacity_blocks=8)
    record.add(["x", "y", "z"])
    assert record.matched_tokens(["x", "y", "q"]) == 32
    assert record.matched_tokens(["q", "y", "z"]) == 0
    record.clear()
    assert record.matched_tokens(["x"]) == 0


def test_a_full_record_forgets_the_longest_unused_tail_first():
    """Room is made from the end of the oldest prompt, so what stays is still a prefix."""
    record = PrefixRecord(block_size=1, capacity_blocks=4)
    record.add(["a1", "a2", "a3"])
    record.add(["b1", "b2"])
    assert len(record) == 4
    assert record.matched_tokens(["a1", "a2", "a3"]) == 2
    assert record.matched_tokens(["b1", "b2"]) == 2


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=20), st.integers(1, 10))
def test_a_record_never_holds_more_than_its_capacity(prompts, capacity):
    """Capacity is a hard bound, and what was added last is held as far as it fits."""
    record = PrefixRecord(block_size=1, capacity_blocks=capacity)
    for prompt in prompts:
        chain = block_chain(prompt, 1)
        record.add(chain)
        assert len(record) <= capacity
        assert record.matched_tokens(chain) == min(len(chain), capacity)


def test_ids_that_no_block_can_hold_are_refused():
    """A client's nonsense in the prompt is its mistake, not a crash of the router."""
    with pytest.raises(BadInput):
        block_chain([1, 2**70], 2)


# ── placement: the choices together, with what they need to know ────────────────────────────

PROMPT = list(range(300))


def placed(rule="local-below:200", prefill=("p0", "p1"), decode=("d0", "d1"), **options):
    return Placement(list(decode), list(prefill), policy.rule_from_name(rule), **options)


def serve_one(placement, ids):
    """Place a prompt, let it be prefilled and answered, and give its route."""
    prompt = placement.read({"prompt": ids})
    route = placement.place(prompt)
    if route.prefill:
        with placement.prefilling(route.prefill, prompt):
            pass
    with placement.answering(route):
        placement.holds(route.decode, prompt)
    return route


def test_a_prompt_that_decode_received_is_local_the_next_time():
    """The first time it is sent away; then decode holds its two full blocks and misses 44 tokens."""
    placement = placed()
    first, second = serve_one(placement, PROMPT), serve_one(placement, PROMPT)
    assert (first.prefill, first.cached_tokens) == ("p0", 0)
    assert (second.prefill, second.cached_tokens, second.reason) == (None, 256, "44 uncached < 200")


def test_only_the_decode_server_chosen_counts():
    """What another decode server holds is of no use to the one with the smaller load."""
    placement = placed()
    assert serve_one(placement, PROMPT).decode == "d0"
    with placement.answering(Route("d0")):
        route = placement.place(placement.read({"prompt": PROMPT}))
    assert (route.decode, route.cached_tokens, route.prefill) == ("d1", 0, "p0")
    assert route.choice == "decode of 0 running, prefill by queue behind 0 tokens"


def test_a_prompt_that_ends_with_its_last_block_misses_that_block():
    """The answer starts from the last token's result, so an engine computes that block again."""
    placement = placed(block_size=128)
    prompt = placement.read({"prompt": list(range(256))})
    placement.holds("d0", prompt)
    assert placement.cached_tokens("d0", prompt) == 128
    longer = placement.read({"prompt": list(range(257))})
    assert placement.cached_tokens("d0", longer) == 256


def test_prefill_is_the_shortest_queue_of_tokens_and_the_queue_empties():
    """A long prompt in flight sends the next to the other server; a failed one leaves no trace."""
    placement = placed("all-remote")
    prompt = placement.read({"prompt": PROMPT})
    with placement.prefilling("p0", prompt):
        assert placement.queued_tokens == {"p0": 300, "p1": 0}
        assert placement.place(prompt).prefill == "p1"
    with pytest.raises(OSError), placement.prefilling("p1", prompt):
        raise OSError
    assert placement.queued_tokens == {"p0": 0, "p1": 0} and placement.running == {"d0": 0, "d1": 0}
    assert placement.place(prompt).prefill == "p0"


def test_prefix_choice_goes_where_the_prompt_was_until_the_queue_costs_more():
    """Behind 256 tokens and more the hit of 256 is no longer worth the wait."""
    placement = placed("all-remote", prefill_choice="prefix")
    prompt = placement.read({"prompt": PROMPT})
    placement.holds("p1", prompt)
    assert placement.place(prompt).prefill == "p1"
    with placement.prefilling("p1", placement.read({"prompt": [7] * 257})):
        assert placement.place(prompt).prefill == "p0"


def test_round_robin_and_replicas_take_turns():
    """Prefill in turn when asked for; aggregated replicas always."""
    placement = placed("all-remote", prefill_choice="round-robin")
    assert [placement.place(Prompt(9)).prefill for _ in range(3)] == ["p0", "p1", "p0"]
    replicas = Placement(["w0", "w1"], None, policy.all_remote)
    with replicas.answering(Route("w1")):
        routes = [replicas.place(replicas.read(None)) for _ in range(3)]
    assert [(r.decode, r.prefill, r.reason) for r in routes] == [(w, None, "round robin") for w in ("w0", "w1", "w0")]


@pytest.mark.parametrize(
    ("rule", "choice", "hashed"),
    [("all-remote", "queue", False), ("all-local", "queue", False), ("llm-d:0", "queue", False),
     ("llm-d:9", "queue", True), ("dynamo", "queue", True), ("all-remote", "prefix", True)],
)  # fmt: skip
def test_prompts_are_hashed_only_where_somebody_looks(rule, choice, hashed):
    """A rule that never looks at the cache costs no hashing, and the log says null, not 0."""
    placement = placed(rule, prefill_choice=choice)
    prompt = placement.read({"prompt": PROMPT})
    assert bool(prompt.chain) == hashed
    assert (placement.place(prompt).cached_tokens is None) == (rule not in ("llm-d:9", "dynamo"))


def test_of_text_nothing_is_believed():
    """Text has no blocks before it is tokenised: its length is estimated, its cached part is 0."""
    placement = placed()
    for _ in range(2):
        assert serve_one(placement, "x" * 1200).cached_tokens == 0


def test_a_lost_server_is_believed_to_hold_nothing():
    """Forgetting one server leaves the others; forgetting all leaves none."""
    placement = placed()
    prompt = placement.read({"prompt": PROMPT})
    for server in ("d0", "d1", "p0"):
        placement.holds(server, prompt)
    placement.forget("d0")
    assert [placement.cached_tokens(s, prompt) for s in ("d0", "d1", "p0")] == [0, 256, 256]
    placement.forget()
    assert not any(map(len, placement.held.values()))


def test_an_unknown_prefill_choice_is_refused():
    """A misspelt choice is refused with the ones that exist."""
    with pytest.raises(BadInput, match="queue, prefix, round-robin"):
        placed(prefill_choice="nearest")
