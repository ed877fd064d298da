"""What a process leaves that was killed while it wrote, and two that write into one place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdlab import documents
from pdlab.errors import BadInput
from pdlab.live import environment, models, simulate, sweep, tuned
from pdlab.measure.caches import SERVER_METRICS

PLANS = Path(__file__).resolve().parents[1] / "data" / "plans"


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """A write that fails leaves the file as it was, and nothing beside it."""
    path = tmp_path / "a.json"
    documents.write_whole(path, "one")

    def full(self, text, **_):
        self.touch()
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="No space"):
        documents.write_whole(path, "two")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a.json", b"one")]


def test_half_a_line_of_counters_is_dropped_when_a_sweep_goes_on(tmp_path):
    """A sampler that was killed left half a line; the next one starts a new line, and the file is read to its end."""
    path = tmp_path / SERVER_METRICS
    path.write_text('{"monotonic_ns": 10, "server": "a"}\n{"monotonic_ns": 20, "ser')
    with sweep.Sampler([], path) as sampler:
        pass
    sampler.close([{"t0_monotonic_ns": 4}])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"t_ns": 6, "server": "a"}]


def test_a_second_sweep_in_the_same_directory_is_refused(tmp_path):
    """While one is at work; afterwards the directory is free."""
    (tmp_path / "plan.yaml").touch()
    with sweep._alone(tmp_path), pytest.raises(BadInput, match="another sweep at work in .*choose another directory"), sweep._alone(tmp_path):
        pass
    with sweep._alone(tmp_path):
        pass


def test_a_sweep_that_could_not_start_leaves_its_directory_free(tmp_path, monkeypatch):
    """Without an environment for the servers nothing is left that would have to be resumed; a run that began stays."""
    monkeypatch.setenv("PDLAB_LIVE_ENV", str(tmp_path / "none"))
    plan, out = PLANS / "miniature-2core.yaml", tmp_path / "out"
    for _ in range(2):
        with pytest.raises(BadInput, match="no live environment"):
            sweep.run_sweep(plan, out, tune=True, say=lambda text: None)
        assert not out.exists()
    out.mkdir()
    (out / "mine.txt").touch()
    with pytest.raises(BadInput, match="no live environment"):
        sweep.run_sweep(plan, out, say=lambda text: None)
    assert [one.name for one in out.iterdir()] == ["mine.txt"]
    (out / "a-run").mkdir()
    (out / "a-run" / "spool.bin").touch()
    with pytest.raises(BadInput, match="no live environment"):
        sweep.run_sweep(plan, out, say=lambda text: None)
    assert (out / "plan.yaml").exists()


@pytest.mark.parametrize("text", ["", '{"chunk_tokens": 51', "[]", "{}", '{"chunk_tokens": "x"}', '{"chunk_tokens": 0}', "\xff"])
def test_a_torn_file_is_named_with_what_to_do(tmp_path, text):
    """The chosen chunk size and the simulator's hashes: bad input.  An environment's stamp and a model's sums: made again."""
    (tmp_path / tuned.CHOICE).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=r"choice\.json.*--tune"):
        tuned.chosen(tmp_path)
    (tmp_path / simulate.HASHES).write_bytes(text.encode("latin-1"))
    if text not in ("{}", '{"chunk_tokens": "x"}'):
        with pytest.raises(BadInput, match=simulate.HASHES):
            simulate.read_hashes(tmp_path)
    (tmp_path / models.SUMS).write_bytes(text.encode("latin-1"))
    assert not models._intact(tmp_path) and models.revision(tmp_path).startswith("sha256:")


@pytest.mark.parametrize("text", ["", '{"wanted": "', "[]", "{}"])
def test_a_torn_stamp_is_no_stamp(tmp_path, monkeypatch, text):
    """An environment whose stamp was cut off is not taken for complete."""
    (tmp_path / "lock").write_text("x")
    one = environment.Environment("torn", "it", "make it", "1 GB", tmp_path / "lock", "pass", (), 1)
    monkeypatch.setenv("PDLAB_TORN_ENV", str(tmp_path / "env"))
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").touch()
    one._stamp().write_text(text)
    assert one.whole() and not one.complete()
