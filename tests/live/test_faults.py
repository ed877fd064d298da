"""Faults on real servers, the quick ones; ``pdlab faults`` runs them all.  And the course's own connector.

Each test first asserts that its fault was really injected, on a server's own counter or state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pdlab.live.faults import catalogue, table
from pdlab.live.faults.scene import NotInjected, Scene
from pdlab.live.front import routed
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
    assert row.counters["decode-0"]["failed_transfers"] >= 1, "decode tried, and counted that it could not"
    assert not row.finished and row.tokens == 0
    assert row.counters["decode-0"].get("from_external_kv_transfer", 0) == 0


def test_stale_parameters_are_taken_without_a_word(scene: Scene) -> None:
    """Blocks of another prompt were really fetched, the answer is complete, and its tokens are wrong."""
    row = observed(scene, "stale parameters")
    assert row.counters["decode-0"]["from_external_kv_transfer"] >= catalogue.PROMPT - 1
    assert row.finished and row.http_status == 200 and row.right == "wrong"


def test_a_client_that_leaves_frees_its_blocks_at_once(scene: Scene) -> None:
    """The blocks had come, and decode finished no request; the tokens that came are the beginning of a healthy answer."""
    row = observed(scene, "client gone in decode")
    assert row.counters["decode-0"]["from_external_kv_transfer"] >= catalogue.PROMPT - 1
    assert "finished" not in row.counters["decode-0"]
    assert row.right == "prefix" and row.tokens >= 5
    assert row.blocks_free_after_s < table.LEASE_S, "no lease had to end first"


def test_a_frozen_prefill_is_worked_around_by_a_retry(scene: Scene) -> None:
    """The first attempt ran into the deadline; the second gave the right tokens under the same request id."""
    row = observed(scene, "prefill-frozen, retry")
    assert row.facts["prefill_was_stopped"] and row.facts["router_says"].startswith("retry after prefill deadline")
    assert "finished" not in row.counters["prefill-0"] and row.facts["first_answer_s"] >= 1.9 and row.attempts == 2
    assert row.finished and row.right == "all" and row.facts["request_id_kept"]


def unstopped(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scene.deployment, "signal", lambda server, number: None)


def untouched_parameters(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    right: dict[str, object] = {}
    patch.setattr(scene, "prefilled", lambda prompt: right.update(Scene.prefilled(scene, prompt)) or dict(right))
    patch.setattr(scene, "pull", lambda prompt, params, count: Scene.pull(scene, prompt, right, count))


def nothing_fetched(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scene, "pull", lambda prompt, params, count: scene.send(scene.decode.base_url, scene.body(prompt, count)))


def patient_client(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scene, "hang_up", lambda answer: None)


def unkilled(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scene.deployment, "kill", lambda server: None)


@pytest.mark.parametrize(("name", "left_out"), [
    ("prefill-frozen, retry", unstopped),
    ("prefill-frozen, no deadline", unstopped),
    ("wrong engine id", untouched_parameters),
    ("stale parameters", nothing_fetched),
    ("client gone in decode", patient_client),
    ("prefill-killed-before, retry", unkilled),
    ("prefill-killed-after, fail", unkilled),
    ("decode killed in mid-stream", unkilled),
])  # fmt: skip
def test_a_fault_that_was_not_injected_is_not_shown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, left_out: Callable[[Scene, pytest.MonkeyPatch], None]
) -> None:
    """With the injection itself left out there is no row, for no fault that is tested here, but NotInjected."""
    with monkeypatch.context() as patch:
        left_out(scene, patch)
        with pytest.raises(NotInjected):
            catalogue.CATALOGUE[name].run(scene)
    scene.until_free(*scene.deployment.servers)  # a patient client's answer goes on, on a busy machine for longer than a lease


def test_with_spare_servers_a_retry_moves_on_before_a_token_and_never_after_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two prefills, two decodes: the frozen prefill's request goes to the other one; a dead decode's stream to nobody."""
    four = replace(table.pair("nixl"), prefill=2, decode=2)
    with Deployment(four, tmp_path_factory.mktemp("four")) as deployment:
        scene = Scene(deployment, table.LEASE_S)
        with routed(deployment, "--on-failure", "retry", "--prefill-deadline", "3") as url:
            for _ in range(2):  # each prefill and decode meets its partner
                assert scene.send(url, scene.body(scene.prompt(200), 2)).wait().finished
            prompt = scene.prompt(catalogue.PROMPT)
            scene.freeze(deployment.prefill[0])
            before = scene.counters(deployment.prefill[1])["finished"]
            answer = scene.send(url, scene.body(prompt, 24), "moved").wait()
            scene.thaw(deployment.prefill[0])
            assert scene.counters(deployment.prefill[1])["finished"] == before + 1, "the other prefill computed the prompt"
            assert answer.finished and "moved" in answer.request_id

            late = scene.prompt(catalogue.PROMPT)
            started = scene.send(url, scene.body(late, catalogue.STREAM), "late")
            scene.until(lambda: len(started.tokens) >= 5, "five tokens")
            first, second = deployment.decode
            running = [scene.number(one, "vllm:num_requests_running") for one in (first, second)]
            assert running == [1, 0], "the stream runs on the first decode server, and the second is idle"
            idle = scene.counters(second)
            scene.kill(first)
            started.wait()
        log = [json.loads(line) for line in (deployment.run_dir / "router.jsonl").read_text().splitlines()]
        moved, cut = ([one for one in log if one["request_id"] == name] for name in ("moved", "late"))
        assert len(moved) == len(cut) == 1, "each request has one line"
        urls = [one.base_url for one in deployment.prefill]
        assert [route[0] for route in moved[0]["routes"]] == urls and moved[0]["status"] == "ok"
        assert cut[0]["attempts"] == 1 and cut[0]["status"] == "failed"
        assert scene.counters(second) == idle, "the second decode server was asked nothing"
        assert not started.finished and started.error
        deployment.restart(first)
        deployment.reset_prefix_caches()
        assert table.compare(answer.tokens, scene.reference(prompt, 24)) == ("all", 0)
        assert table.compare(started.tokens, scene.reference(late, len(started.tokens) + 1)) == ("prefix", 0)
        scene.until_free(*deployment.servers, timeout_s=table.LEASE_S + table.GRACE_S)


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
