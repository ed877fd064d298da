"""Options and settings that all tests share."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same verdict on a slow machine and on a quick one, today and tomorrow.
settings.register_profile("pdlab", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pdlab")

LEFT_OUT = pytest.StashKey[int]()
# A file runs on one worker; those that take longest start first, so that no worker is left alone with one at the end.
LONGEST_FIRST = (
    "test_grade.py", "test_changed_value.py", "test_sweep_killed.py", "test_nbgate.py", "test_sweep.py", "test_mutation.py",
    "test_routing.py", "test_browser.py", "test_simulate.py", "test_keeper.py", "test_build.py", "test_client.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--live", action="store_true", help="also run the tests that start real servers")
    parser.addoption("--long", action="store_true", help="with --live: those that take minutes each, too")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For ``-n logical``: twice as many workers as cores, since many tests wait for a clock or a process."""
    return min(8, 2 * (os.cpu_count() or 1))  # the slowest file alone takes longer than more would save


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the live tests, and remember how many, unless --live asks for them (and --long for the long ones)."""
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.name) if item.path.name in LONGEST_FIRST else len(LONGEST_FIRST))
    kept_out = "long" if config.getoption("--live") else "live"
    if config.getoption("--live") and config.getoption("--long"):
        return
    live = [item for item in items if item.get_closest_marker(kept_out)]
    items[:] = [item for item in items if not item.get_closest_marker(kept_out)]
    config.hook.pytest_deselected(items=live)
    config.stash[LEFT_OUT] = len(live)
    if hasattr(config, "workeroutput"):  # in an xdist worker: tell the process that prints the summary
        config.workeroutput["live_left_out"] = len(live)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get("live_left_out", 0)
    node.config.stash[LEFT_OUT] = max(node.config.stash[LEFT_OUT], left_out)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if count := config.stash[LEFT_OUT]:
        kind, how = ("long live", " ARGS=--long") if config.getoption("--live") else ("live", "")
        terminalreporter.write_line(f"left out {count} {kind} test{'s'[: count != 1]}; to run them: make test-live{how}")
