"""Routing rules on a grid of prompts, and the record of who holds which prefix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdlab.errors import BadInput
from pdlab.live import policy
from pdlab.live.policy import Ask
from pdlab.live.prefixes import PrefixRecord, block_chain

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
