"""The connectors' table and pages: what they say is what the recorded run holds."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from minicourse import ROOT

from pdlab.errors import BadInput
from pdlab.live.connectors import kinds, measure, run, table

RUN, PAGES = ROOT / "data/runs/connectors", ROOT / "labs/connectors"
ABOUT = json.loads((RUN / "provenance.json").read_text())
ROWS = {row.connector: row for row in run.read(RUN)}


def test_every_connector_is_recorded_with_its_provenance() -> None:
    """The run holds one row for each connector, is labelled measured, and names machine, versions and commit."""
    assert set(ROWS) == set(kinds.KINDS) and len(ROWS) == 6
    assert ABOUT["label"] == "measured" and ABOUT["commit"] and ABOUT["machine"]["cores"]
    for row in ROWS.values():
        assert row.version and (row.library in ABOUT["versions"] or row.library == "pdlab")


def test_recorded_connectors_moved_what_the_formula_says() -> None:
    """Five ran: tokens came from outside, bytes are the formula's, answers are equal.  One moved nothing, and says why."""
    ran = [row for row in ROWS.values() if row.ran]
    assert len(ran) == 5 and all(map(table.holds, ran))
    assert all(len(row.requests) == len(measure.PROMPTS) and row.failures for row in ran)
    refused = ROWS["LMCacheConnectorV1"]
    assert not refused.ran and "No supported cpu connector found" in refused.reason and refused.config["prefill"]
    assert all(one["external_tokens"] == 0 and one["equal"] for one in refused.requests) and refused.requests


@pytest.mark.parametrize("change", [
    {"moved_bytes": 1}, {"equal": False}, {"external_tokens": 0}, {"formula_bytes": 0}, {"local_computed_tokens": 1},
])  # fmt: skip
def test_a_connector_that_breaks_its_promise_is_seen(change: dict[str, object]) -> None:
    """Other bytes, other tokens, nothing fetched, or a comparison that was itself fetched: each is refused."""
    row = ROWS["NixlConnector"]
    assert table.holds(row) and not table.holds(replace(row, requests=[*row.requests[:-1], row.requests[-1] | change]))
    assert not table.holds(replace(row, requests=[]))


def test_pages_are_what_the_recorded_run_says() -> None:
    """Making the generated parts again changes no page, and every part stands on one."""
    parts = table.blocks(list(ROWS.values()), ABOUT)
    shown = []
    for path in PAGES.glob("*.md"):
        page = path.read_text()
        assert table.fill(page, parts, path.name) == page, f"{path}: run `pdlab connectors --pages`"
        shown += [found[2] for found in table.BLOCK.finditer(page)]
    assert sorted(shown) == sorted(parts)


def test_a_changed_number_changes_the_pages() -> None:
    """The comparison above sees a single byte."""
    row = ROWS["TcpConnector"]
    other = replace(row, requests=[row.requests[0] | {"moved_bytes": row.requests[0]["moved_bytes"] + 1}, *row.requests[1:]])
    parts = table.blocks([other if one is row else one for one in ROWS.values()], ABOUT)
    for name in ("README.md", "tcp.md"):
        page = (PAGES / name).read_text()
        assert table.fill(page, parts, name) != page


def test_every_connector_has_a_page_with_its_command() -> None:
    """The index links a page for each; each page shows how to run it."""
    index = (PAGES / "README.md").read_text()
    for name, page in table.PAGES.items():
        text = (PAGES / f"{page}.md").read_text()
        assert f"[{name}]({page}.md)" in index and text.startswith(f"# {name}: ")
        assert f"pdlab connectors {page}" in text or f"make connectors ARGS={page}" in text
        assert kinds.pick([page])[0].name == name
    assert set(table.PAGES) == set(kinds.KINDS)


def test_an_unknown_part_or_connector_is_refused() -> None:
    """A marker without a part, and a connector without a name here, are told with what there is."""
    with pytest.raises(BadInput, match="'weather'"):
        table.fill("<!-- generated: weather -->\n<!-- end -->", {"table": ""}, "x.md")
    with pytest.raises(BadInput, match="NixlConnector"):
        kinds.pick(["nixxl"])


def test_stored_bytes_leave_the_header_out(tmp_path: Path) -> None:
    """Of a safetensors file only the tensors' bytes count."""
    header = b'{"kv_cache":{}}   '
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "layer.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(640))
    assert kinds.stored_bytes(tmp_path) == 640


def test_whole_blocks_or_full_ones() -> None:
    """Connectors that fetch from a cache move the last, partly filled block; the one with files does not."""
    nixl, example = kinds.KINDS["NixlConnector"], kinds.KINDS["ExampleConnector"]
    assert [nixl.moved_tokens(count) for count in (1, 128, 129, 200)] == [1, 128, 129, 200]
    assert [example.moved_tokens(count) for count in (1, 128, 129, 200, 257)] == [0, 0, 128, 128, 256]


def test_stored_settings_hold_nothing_of_one_run(tmp_path: Path) -> None:
    """Folder and ports are replaced by names."""
    site = kinds.Site(tmp_path, (21001, 21002, 21003))
    told = measure._timeless({"path": str(tmp_path), "port": 21001, "text": "21003", "bytes": 210010}, site)
    assert told == {"path": "STORE", "port": "PORT", "text": "PORT_3", "bytes": 210010}


def test_a_log_says_why_a_connector_does_not_deliver(tmp_path: Path) -> None:
    """The first exception raised is the reason, with how the library goes on; one quoted in a warning is none."""
    (tmp_path / "decode-0.log").write_text(
        "WARNING limits can cause errors like `OSError: [Errno 24] Too many open files`.\n"
        "RuntimeError: No supported cpu connector found.\n. System will operate in degraded mode (recompute). (manager.py:107)\n"
        "(EngineCore pid=7) ERROR 11-30 08:00:00 [core.py:1] RuntimeError: Engine core failed\n"
    )
    assert measure._telling(tmp_path) == (
        "RuntimeError: No supported cpu connector found. System will operate in degraded mode (recompute)."
    )
