"""Servers that several live tests share.  They need the live environment: make test-live."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pdlab.live.front import routed
from pdlab.live.serve import Deployment, Spec
from tests.live.live_pair import COMMON, Up, complete, prompts


@pytest.fixture(scope="session")
def aggregated_answers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[int]]:
    """The greedy tokens of one aggregated replica, by prompt length."""
    spec = Spec("tiny", replicas=1, units=1, **COMMON)
    with Deployment(spec, tmp_path_factory.mktemp("aggregated")) as deployment, routed(deployment) as url:
        return {
            length: complete(url, prompt)["choices"][0]["token_ids"]
            for length, prompt in prompts("equal").items()
        }


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One prefill and one decode server of ``tiny`` over NIXL, with the router in front."""
    logs = tmp_path_factory.mktemp("pair")
    with Deployment(Spec("tiny", "disaggregated", **COMMON), logs) as deployment, routed(deployment) as url:
        yield Up(deployment, url)
