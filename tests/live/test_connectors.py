"""The connectors that are recorded as running, run again on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdlab.live import env
from pdlab.live.connectors import kinds, run, table

pytestmark = [pytest.mark.live, pytest.mark.long]
RECORDED = run.read(Path(env.ROOT) / "data/runs/connectors")


def test_recorded_connectors_do_it_again(tmp_path: Path) -> None:
    """Each connector does as recorded: it runs, or does not with the same words; it moves the formula's bytes, answers
    equally, and fails in the same way.  What is missing is installed first; a connector is never left out."""
    env.CONNECTORS.install()
    rows = run.run(kinds.pick([row.connector for row in RECORDED]), logs=tmp_path)
    assert {row.connector: row.reason for row in rows} == {row.connector: row.reason for row in RECORDED}
    assert sum(row.ran for row in rows) >= 5
    for row, recorded in zip(rows, RECORDED, strict=True):
        assert table.holds(row) == recorded.ran, row
        assert [_outcome(one) for one in row.failures] == [_outcome(one) for one in recorded.failures], row.connector


def _outcome(failure: dict) -> tuple:
    return failure["injected"], failure["right"], failure["external_tokens"], failure["decode_alive"]
