"""Faults on real servers, the quick ones; ``pdlab faults`` runs them all.  And the course's own connector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pdlab.live.faults import catalogue, table
from pdlab.live.faults.scene import NotInjected, Scene
from pdlab.live.serve import Deployment

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Deployment(table.pair("nixl"), tmp_path_factory.mktemp("nixl")) as deployment:
        yield Scene(deployment, table.LEASE_S)


def observed(scene: Scene, name: str) -> table.Row:
    """One run; nothing came twice and nothing was left behind, whatever the fault."""
    row = table.observe(scene, catalogue.CATALOGUE[name])
    assert row.twice == 0 and row.processes <= 0
    assert row.blocks_free_after_s <= table.LEASE_S + table.GRACE_S
    return row


def test_wrong_parameters_end_in_an_error(scene: Scene) -> None:
    """Decode that is sent to an engine that is not there fails the request and counts no fetched token."""
    row = observed(scene, "wrong engine id")
    assert not row.finished and row.tokens == 0
    assert row.counters["decode-0"].get("from_external_kv_transfer", 0) == 0


def test_stale_parameters_are_taken_without_a_word(scene: Scene) -> None:
    """Blocks of another prompt were really fetched, the answer is complete, and its tokens are wrong."""
    row = observed(scene, "stale parameters")
    assert row.counters["decode-0"]["from_external_kv_transfer"] >= catalogue.PROMPT - 1
    assert row.finished and row.http_status == 200 and row.right == "wrong"


def test_a_client_that_leaves_frees_its_blocks_at_once(scene: Scene) -> None:
    """Decode finished no request; the tokens that came are the beginning of a healthy answer."""
    row = observed(scene, "client gone in decode")
    assert row.counters["decode-0"]["from_external_kv_transfer"] >= catalogue.PROMPT - 1
    assert "finished" not in row.counters["decode-0"]
    assert row.right == "prefix" and row.tokens >= 5
    assert row.blocks_free_after_s < table.LEASE_S, "no lease had to end first"


def test_a_frozen_prefill_is_worked_around_by_a_retry(scene: Scene) -> None:
    """The first attempt ran into the deadline; the second gave the right tokens under the same request id."""
    row = observed(scene, "prefill-frozen, retry")
    assert row.facts["first_answer_s"] >= 1.9 and row.attempts == 2
    assert row.finished and row.right == "all" and row.facts["request_id_kept"]


def test_a_fault_that_was_not_injected_is_not_shown(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prefill is not really stopped, there is no row but NotInjected."""
    monkeypatch.setattr(scene.deployment, "signal", lambda server, number: None)
    with pytest.raises(NotInjected):
        catalogue.CATALOGUE["prefill-frozen, retry"].run(scene)


def test_the_connector_of_the_course_gives_the_same_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Over TCP, decode computes no prompt token that it could fetch, and answers as it would alone (float32)."""
    with Deployment(table.pair("tcp"), tmp_path_factory.mktemp("tcp")) as deployment:
        scene = Scene(deployment, table.LEASE_S)
        for length in (127, 128, 129, 700):
            prompt = scene.prompt(length)
            before = scene.counters(scene.decode).get("from_external_kv_transfer", 0)
            answer = scene.pull(prompt, scene.prefilled(prompt), 24).wait()
            fetched = scene.counters(scene.decode)["from_external_kv_transfer"] - before
            deployment.reset_prefix_caches()
            assert length - 1 <= fetched <= length
            assert len(answer.tokens) == 24 and answer.tokens == scene.reference(prompt, 24)
        scene.until_free(*deployment.servers, timeout_s=table.LEASE_S)
