"""What the router believes that decode holds, against what decode's own counter says it used."""

from __future__ import annotations

import json

import pytest

from pdlab.live import metrics, sweep
from pdlab.live.front import routed
from pdlab.live.microscope import tokens
from tests.live.live_pair import Up, complete

pytestmark = pytest.mark.live

SOURCE = "vllm:prompt_tokens_by_source_total"
SHARED, OWN = 384, 90  # three blocks of 128, and a tail of less than one


def prompt(group: str, own: str, length: int = OWN) -> list[int]:
    return tokens(SHARED, f"routing {group}") + tokens(length, f"routing {own}")


def test_the_record_of_decode_is_what_decode_uses(pair: Up) -> None:
    """Request by request: tokens believed cached = growth of decode's local_cache_hit; the rest came as decided."""
    asked = [
        prompt("a", "first"),  # 474 tokens, none held: away
        prompt("a", "second"),  # 384 held: local
        prompt("b", "third"),  # another prefix: away
        prompt("a", "fourth", 300),  # 384 held, 300 missing: away again, and only those are pulled
        prompt("a", "fourth", 300),  # 640 held of 684: local
        tokens(SHARED, "routing a"),  # held to its last token, which must be computed: its last block is
        tokens(40, "routing short"),  # short and cold: local
    ]
    with routed(pair.deployment, "--policy", "llm-d:200") as url:
        sweep.empty_caches(url)
        decode = pair.deployment.decode[0]
        grown = []
        for ids in asked:
            before = metrics.scrape(decode.base_url).by_label(SOURCE, "source")
            complete(url, ids, 4)
            after = metrics.scrape(decode.base_url).by_label(SOURCE, "source")
            grown.append({key: after[key] - before.get(key, 0) for key in after})
    log = (pair.deployment.run_dir / "router.jsonl").read_text().splitlines()[-len(asked) :]
    kept = [json.loads(line) for line in log]
    assert sum(one["local_cache_hit"] for one in grown) > 0, "nothing was ever cached: the test shows nothing"
    assert [one["cached_tokens"] for one in kept] == [0, 384, 0, 384, 640, 256, 0]
    assert [one["local_cache_hit"] for one in grown] == [one["cached_tokens"] for one in kept]
    assert [bool(one["prefill"]) for one in kept] == [True, False, True, True, False, False, False]
    for one, line in zip(grown, kept, strict=True):
        missing = line["prompt_tokens"] - line["cached_tokens"]
        came, computed = one["external_kv_transfer"], one["local_compute"]
        assert (came, computed) == ((missing, 0) if line["prefill"] else (0, missing))
