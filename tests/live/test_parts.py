"""The parts of the live system that need no server: budgets, metrics, link figures, ledger, models."""

from __future__ import annotations


import numpy as np
import pytest

from pdlab.errors import BadInput
from pdlab.live import budget, ledger, link, metrics, models, netns, nixl_plugin, serve
from pdlab.measure import episodes, plan, records

PAGE = """\
# HELP vllm:prompt_tokens_by_source_total Prompt tokens
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 0.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"} 500.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="tiny",source="external_kv_transfer"} 20.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.033
"""


# ── budget ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(budget, "gpus", lambda: [0, 1])


def test_cores_are_dealt_without_overlap(four_cores: None) -> None:
    """Two servers on four cores get two each, none twice."""
    dealt = budget.split("cpu", 2)
    assert dealt.shares == ((0, 1), (2, 3)) and dealt.units == 4 and not dealt.shared


def test_both_designs_count_the_same_budget(four_cores: None) -> None:
    """One replica on all cores and a pair on half each are the same number of cores."""
    assert budget.split("cpu", 1).units == budget.split("cpu", 2).units


def test_more_servers_than_cores_share_and_say_so(four_cores: None) -> None:
    """Three servers on two cores share both, and the printed budget says shared."""
    dealt = budget.split("cpu", 3, units=2)
    assert dealt.shared and dealt.units == 2
    assert "2 cores, shared by 3 servers" in dealt.describe(["a", "b", "c"])


def test_gpus_are_never_shared(four_cores: None) -> None:
    """More tensor-parallel ranks than GPUs are refused."""
    assert budget.split("cuda", 2).shares == ((0,), (1,))
    with pytest.raises(BadInput, match="at most 2 GPUs"):
        budget.split("cuda", 2, per_server=2)


def test_a_budget_larger_than_the_machine_is_refused(four_cores: None) -> None:
    """Asking for five cores of four is bad input that names both numbers."""
    with pytest.raises(BadInput, match="budget of 5 cores.*between 1 and 4"):
        budget.split("cpu", 1, units=5)


# ── metrics ─────────────────────────────────────────────────────────────────────────────────


def test_metrics_sum_over_engines_and_tell_labels_apart() -> None:
    """A total sums over engines; by_label keeps sources apart; an unknown name is None."""
    found = metrics.parse(PAGE)
    name = "vllm:prompt_tokens_by_source_total"
    assert found.total(name, source="external_kv_transfer") == 520
    assert found.by_label(name, "source") == {"local_compute": 0, "external_kv_transfer": 520}
    assert found.total("vllm:kv_cache_usage_perc") == 0.033
    assert found.total("vllm:no_such_metric") is None
    assert {sample.name for sample in metrics.parse(PAGE, ("vllm:kv_cache_usage_perc",)).samples} == {"vllm:kv_cache_usage_perc"}


# ── link ────────────────────────────────────────────────────────────────────────────────────


def straight(setup_ms: float, gb_s: float) -> tuple[link.SizeReport, ...]:
    sizes = [1 << power for power in range(12, 29, 2)]
    return link.summarise(
        link.Message(size, 0, round((setup_ms * 1e6) + size / gb_s))
        for size in sizes for _ in range(3)
    )  # fmt: skip


def test_half_bandwidth_is_setup_times_stream() -> None:
    """On a straight line, half of the stream rate is reached at setup × stream bytes."""
    half = link.half_bandwidth_bytes(straight(0.1, 10))  # 0.1 ms × 10 GB/s = 1 MB
    assert half == pytest.approx(1e6, rel=0.1)


def test_half_bandwidth_unknown_when_all_sizes_are_fast() -> None:
    """No half-bandwidth size is claimed where even the smallest message was fast enough."""
    assert link.half_bandwidth_bytes(straight(0.0, 10)) is None


def test_median_and_middle_half_come_from_raw_times() -> None:
    """1,000 bytes in 1, 2 and 4 µs: median 0.5 GB/s, quartiles between."""
    (report,) = link.summarise(link.Message(1000, 10, ns) for ns in (1000, 2000, 4000))
    assert report.count == 3 and report.gb_s == 0.5
    assert (report.gb_s_low, report.gb_s_high) == (0.375, 0.75)


@pytest.mark.parametrize(("change", "says"), [
    ({"transport": "pigeon"}, "shm or tcp"), ({"sizes": [4096]}, "two or more"),
    ({"sizes": [4096, 0]}, "two or more"), ({"repeats": 2}, "3 or more"),
    ({"descriptor_bytes": 0}, "1 or more"),
])  # fmt: skip
def test_bad_link_settings_are_refused_before_anything_starts(change: dict, says: str) -> None:
    """Unusable settings are bad input, with what was expected."""
    with pytest.raises(BadInput, match=says):
        link.measure(**({"sizes": [4096, 8192]} | change))


# ── ledger ──────────────────────────────────────────────────────────────────────────────────


def test_the_formula_side_is_49_blocks() -> None:
    """SmolLM2, blocks of 128, the four prompts: 49 blocks, 144,506,880 bytes."""
    assert ledger.expected("data/models/smollm2-135m.json", ledger.PROMPTS, 128) == {
        "blocks": 49, "bytes": 144_506_880,
    }  # fmt: skip


def test_reconciling_adds_up() -> None:
    """All parts and the unexplained rest add up to what the interface counted."""
    entry = {"transport": "tcp", "counter_bytes": 1000, "os_bytes": 1500, "os_packets": 4,
             "http_bytes": 200, "background_bytes": 10}  # fmt: skip
    parts = ledger.reconcile(entry)
    assert sum(parts.values()) == 1500 and parts["header_bytes"] == 4 * 52
    assert ledger.reconcile(entry | {"transport": "shm"})["payload_bytes"] == 0


def test_loopback_counters_are_read_from_the_kernels_table() -> None:
    """The received bytes and packets of lo, whatever other interfaces say, and TCP's resent segments."""
    table = "Inter-| Receive\n face |bytes packets\n  eth0: 9 9 0 0\n    lo: 1234 56 0 0 0 0 0 0 1234 56\n"
    snmp = "Ip: Forwarding\nIp: 2\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 7 0\n"
    assert netns.counters(table, snmp) == netns.Counters(1234, 56, 7)


# ── models ──────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_model_is_made_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose files do not match their sums is not used."""
    monkeypatch.setenv("PDLAB_CACHE", str(tmp_path))
    made = []

    def convert(kind: str, out: str) -> None:
        made.append(kind)
        (models.Path(out) / "config.json").write_text("{}")

    monkeypatch.setattr(models, "_convert", convert)
    first = models.get("tiny")
    assert models.get("tiny") == first and made == ["tiny"]
    (models.Path(first.path) / "config.json").write_text("{ }")
    assert models.get("tiny") == first and made == ["tiny", "tiny"]


def test_an_interrupted_conversion_leaves_no_model(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that dies half-way leaves neither a model nor a work folder."""
    monkeypatch.setenv("PDLAB_CACHE", str(tmp_path))

    def convert(kind: str, out: str) -> None:
        (models.Path(out) / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "_convert", convert)
    with pytest.raises(KeyboardInterrupt):
        models.get("tiny")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["tinny", "../etc", "a/b/c", ""])
def test_an_unknown_model_is_refused(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is neither ours, a model folder nor a hub id is bad input."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput):
        models.resolve(name)


def test_a_folder_has_a_revision_of_its_files(tmp_path) -> None:
    """Two folders have the same revision only if their files are the same."""
    for folder, text in (("a", "{}"), ("b", "{}"), ("c", "{ }")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(text)
    a, b, c = (models.resolve(str(tmp_path / folder)).revision for folder in "abc")
    assert a == b != c


# ── spec, plugin, episodes ──────────────────────────────────────────────────────────────────


def test_a_plan_gives_both_sides_the_same_units() -> None:
    """The miniature plan's two sides are dealt the same number of cores."""
    mini = plan.load("data/plans/miniature-2core.yaml")
    sides = [serve.Spec.from_plan(mini, design) for design in ("aggregated", "disaggregated")]
    assert sides[0].units == sides[1].units == 2
    assert sides[0].roles() == ["aggregated"] * 2 and sides[1].roles() == ["prefill", "decode"]
    assert sides[1].connector_config["kv_connector_extra_config"]["kv_lease_duration"] == 30
    assert serve.Spec.from_plan(mini, "aggregated", 512).max_num_batched_tokens == 512


@pytest.mark.parametrize("change", [{"design": "both"}, {"replicas": 0}])
def test_a_spec_without_servers_is_refused(change: dict) -> None:
    """An unknown design, or a design without servers, is bad input."""
    with pytest.raises(BadInput):
        serve.Spec("tiny", **change).roles()


def test_the_plugin_delays_the_progress_thread_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable set, NIXL's agents get the delay, once; without it NIXL is untouched."""
    import sys
    import types

    class Binding:
        @staticmethod
        def nixlAgent(name: str, config: object) -> object:
            return config

    api = types.SimpleNamespace(nixlBind=Binding)
    monkeypatch.setitem(sys.modules, "nixl", types.SimpleNamespace(_api=api))
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    monkeypatch.delenv(nixl_plugin.ENV, raising=False)
    nixl_plugin.register()
    assert api.nixlBind is Binding
    monkeypatch.setenv(nixl_plugin.ENV, "200")
    nixl_plugin.register()
    nixl_plugin.register()
    config = api.nixlBind.nixlAgent("a", types.SimpleNamespace(pthrDelay=0))
    assert config.pthrDelay == 200 and api.nixlBind._binding is Binding


def microscope_run(changes: dict | None = None) -> records.Run:
    """One episode by hand: two streams of a token every 10 ms; a prompt at 100 ms holds both until 400."""
    ms = 1_000_000
    quiet = [0, 10, 20, 90]
    rows = [
        {"request_id": episodes.request_id(1024, 0, f"steady{i}"), "seq": i, "status": "ok", "sent_ns": 0,
         "frame_ns": [(at + i) * ms for at in [*quiet, 400, 410]], "frame_tokens": [1] * 6}
        for i in range(2)
    ]  # fmt: skip
    rows.append({"request_id": episodes.request_id(1024, 0, "prompt"), "seq": 2, "status": "ok",
                 "sent_ns": 100 * ms, "frame_ns": [395 * ms], "frame_tokens": [1]} | (changes or {}))  # fmt: skip
    return records.Run(records.table_from_rows(rows), {}, "hand-made")


def test_an_episode_aligns_gaps_on_the_prompt() -> None:
    """The gap that spans the prompt is 310 ms long in both streams, and is the only one during it."""
    (episode,) = episodes.episodes(microscope_run())
    assert episode.first_token_ms == 295
    assert np.allclose(episode.during, [310, 310])
    assert np.allclose(episode.quiet, [10, 10, 70] * 2)


def test_an_episode_with_a_failed_request_is_refused() -> None:
    """Half an episode is no measurement."""
    with pytest.raises(BadInput, match="p1024.0"):
        list(episodes.episodes(microscope_run({"status": "failed"})))


def test_the_lock_names_no_index() -> None:
    """The lock pins every package to one version and names no index."""
    lines = [line for line in serve.env.CPU_LOCK.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 100 and all("==" in line for line in lines)
    assert not any(word in line for line in lines for word in ("://", "--", "torchvision", "triton"))
