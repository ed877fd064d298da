"""Records: lossless files, damage reported by place, whole rows readable."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdlab.errors import BadInput
from pdlab.measure import records, slo
from tests.measure.runs import answer

PROVENANCE = records.provenance(label="hypothetical", source="tests", seed=3)
BIG = st.integers(-(2**63), 2**63 - 1)


@st.composite
def any_row(draw, seq):
    """A row with any mixture of known and unknown columns, extreme values included."""
    row = {"request_id": f"r{seq}", "seq": seq, "warmup": draw(st.booleans()),
           "status": draw(st.sampled_from(records.STATUSES))}  # fmt: skip
    optional = {
        "scheduled_ns": BIG, "end_ns": BIG, "output_tokens": BIG,
        "frame_ns": st.lists(BIG, max_size=5), "frame_tokens": st.lists(st.integers(0, 2**31 - 1), max_size=5),
        "error": st.text(), "new_connection": st.booleans(), "stamp_source": st.sampled_from(records.STAMP_SOURCES),
        "stage_ns": st.dictionaries(st.text(), BIG, max_size=3),
    }  # fmt: skip
    for name, values in optional.items():
        if draw(st.booleans()):
            row[name] = draw(values)
    return row


ROWS = st.integers(0, 6).flatmap(lambda n: st.tuples(*(any_row(i) for i in range(n))))


@settings(max_examples=25)
@given(ROWS)
def test_both_files_are_lossless(tmp_path_factory, rows):
    """What is written is read back alike from Parquet, from JSONL, and through the writer."""
    directory = tmp_path_factory.mktemp("run")
    table = records.table_from_rows(rows)
    records.write_run(directory / "p", table, PROVENANCE)
    assert records.read_run(directory / "p").table.equals(table)
    records.write_jsonl(directory / "r.jsonl", table)
    assert records.read_jsonl(directory / "r.jsonl").equals(table)
    writer = records.RunWriter(directory / "w", PROVENANCE)
    for row in rows:
        writer.append(row)
    assert writer.close().table.equals(table)
    assert records.read_run(directory / "w").table.equals(table)
    whole = [dict.fromkeys(records.SCHEMA.names) | row for row in rows]
    assert records.rows(table) == whole


def test_the_writer_keeps_what_happened_so_far(tmp_path):
    """A run that dies leaves its rows readable, and its last line is on disk before the next request."""
    writer = records.RunWriter(tmp_path, PROVENANCE)
    for i in range(3):
        writer.append(answer(i))
        assert records.read_run(tmp_path).table.num_rows == i + 1
    assert records.read_run(tmp_path).provenance["seed"] == 3


def test_an_exception_in_the_run_leaves_jsonl(tmp_path):
    """Leaving the writer by an exception keeps the rows and writes no Parquet."""
    with pytest.raises(RuntimeError), records.RunWriter(tmp_path, PROVENANCE) as writer:
        writer.append(answer(0))
        raise RuntimeError
    assert not (tmp_path / records.PARQUET).exists()
    assert records.read_run(tmp_path).table.num_rows == 1


def test_late_provenance(tmp_path):
    """The window, known only at the end, is added by close."""
    writer = records.RunWriter(tmp_path, PROVENANCE)
    writer.append(answer(0))
    writer.close(window_ns=[0, 5])
    assert records.read_run(tmp_path).provenance["window_ns"] == [0, 5]


def test_a_cut_jsonl_names_its_line(tmp_path):
    """A line cut short is reported by number; the whole ones are read on request."""
    path = tmp_path / "r.jsonl"
    records.write_jsonl(path, records.table_from_rows([answer(i) for i in range(5)]))
    text = path.read_bytes()
    path.write_bytes(text[:-40])
    with pytest.raises(BadInput, match="line 5"):
        records.read_jsonl(path)
    assert records.read_jsonl(path, partial=True).num_rows == 4
    lines = text.split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{broken", *lines[2:]]))
    with pytest.raises(BadInput, match="line 2"):
        records.read_jsonl(path)
    assert records.read_jsonl(path, partial=True)["seq"].to_pylist() == [0, 2, 3, 4]


def test_a_last_line_without_newline_is_not_trusted(tmp_path):
    """A number cut short is still a number: only the newline says that a line is whole."""
    path = tmp_path / "r.jsonl"
    path.write_text('{"request_id":"a","seq":1,"status":"ok"}\n{"request_id":"b","seq":2,"status":"ok"}')
    with pytest.raises(BadInput, match="line 2"):
        records.read_jsonl(path)


@pytest.fixture
def three_groups(tmp_path):
    """A Parquet file of three row groups."""
    table = records.table_from_rows([answer(i) for i in range(2 * records.ROW_GROUP_ROWS + 10)])
    records.write_run(tmp_path, table, PROVENANCE)
    return tmp_path


def test_a_truncated_parquet_names_its_row_group(three_groups):
    """Without its end, the file's whole row groups are found by the copy of the footer."""
    file = three_groups / records.PARQUET
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(BadInput, match="row group 1 of 3"):
        records.read_run(three_groups)
    kept = records.read_run(three_groups, partial=True).table
    assert kept["seq"].to_pylist() == list(range(records.ROW_GROUP_ROWS))
    (three_groups / (records.PARQUET + records.FOOTER_SUFFIX)).unlink()
    with pytest.raises(BadInput, match="footer"):
        records.read_run(three_groups, partial=True)


def test_a_flipped_bit_is_never_believed(three_groups):
    """One wrong bit is reported and costs its row group only, or it lies where no data is and changes nothing."""
    file = three_groups / records.PARQUET
    whole, table = file.read_bytes(), records.read_run(three_groups).table
    reported = 0
    for at in range(7, len(whole), len(whole) // 30):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        try:
            assert records.read_run(three_groups).table.equals(table)
        except BadInput:
            reported += 1
            kept = records.read_run(three_groups, partial=True).table.num_rows
            assert kept in (10 + records.ROW_GROUP_ROWS, 2 * records.ROW_GROUP_ROWS, table.num_rows)
    assert reported >= 15


@pytest.mark.parametrize(
    "row, words",
    [
        ({"request_id": "a", "seq": 0, "status": "fine"}, "status 'fine'"),
        ({"request_id": "a", "status": "ok"}, "no seq"),
        ({"request_id": "a", "seq": 0, "status": "ok", "ttft": 3}, "column 'ttft'"),
        ({"request_id": "a", "seq": 0, "status": "ok", "sent_ns": 1.5}, "sent_ns 1.5"),
        ({"request_id": "a", "seq": 0, "status": "ok", "frame_ns": [1, 2.0]}, "fraction in frame_ns"),
        ({"request_id": "a", "seq": 0, "status": "ok", "sent_ns": 2**70}, "values of the records schema"),
    ],
)
def test_rows_that_are_refused(row, words):
    """An unknown status or column, a missing key, a fraction of a nanosecond: refused with the row."""
    with pytest.raises(BadInput, match=words):
        records.table_from_rows([row])


def test_wrong_type_inside_a_jsonl(tmp_path):
    """A value of the wrong type names its request."""
    path = tmp_path / "r.jsonl"
    path.write_text('{"request_id":"a","seq":1,"status":"ok"}\n{"request_id":"b","seq":"x","status":"ok"}\n')
    with pytest.raises(BadInput, match="'b'"):
        records.read_jsonl(path)
    assert records.read_jsonl(path, partial=True).num_rows == 1


def test_provenance_is_checked(tmp_path):
    """An unknown key, label or version is refused; absent keys become null."""
    for bad in ({"label": "guess"}, {"label": "measured", "speed": 3}, {"label": "measured", "schema_version": 99}):
        with pytest.raises(BadInput):
            records.check_provenance(bad)
    whole = records.check_provenance({"label": "measured"})
    assert set(whole) == set(records.PROVENANCE_KEYS)
    records.write_run(tmp_path, records.table_from_rows([answer(0)]), PROVENANCE)
    (tmp_path / records.PROVENANCE).write_text("{")
    with pytest.raises(BadInput, match="provenance.json"):
        records.read_run(tmp_path)


def test_writing_twice_gives_the_same_bytes(tmp_path):
    """The same table gives the same file."""
    table = records.table_from_rows([answer(i) for i in range(20)])
    files = [records.write_run(tmp_path / n, table, PROVENANCE) / records.PARQUET for n in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_sweeps(tmp_path):
    """A sweep names its runs and reads them from its own folder."""
    records.write_run(tmp_path / "a", records.table_from_rows([answer(0)]), PROVENANCE)
    entry = records.SweepEntry("a", "aggregated", "cold", 1, tmp_path / "a")
    records.write_sweep(tmp_path, "plan.yaml", [entry])
    sweep = records.read_sweep(tmp_path)
    assert sweep.entries == (entry,)
    assert sweep.entries[0].read().table.num_rows == 1
    (tmp_path / records.SWEEP).write_text(json.dumps({"plan": "p", "runs": [{"name": "a"}]}))
    with pytest.raises(BadInput, match=r"runs\[0\]"):
        records.read_sweep(tmp_path)


def test_nothing_there(tmp_path):
    """An empty folder is named, with what was looked for."""
    with pytest.raises(BadInput, match="records.parquet"):
        records.read_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"runs": 5}', "runs: found 5, expected a list"), ('{"runs": "abc"}', "runs: found 'abc'"),
        ('{"runs": [1]}', r"runs\[0\]: found 1, expected an object"), ('{"runs": {"a": 1}}', "expected a list"), ("[]", "a JSON object"),
        ('{"runs": [{"name": "a", "design": 2, "offered_rate_rps": 1, "dir": "r"}]}', r"runs\[0\].design: found 2, expected text"),
        ('{"runs": [{"name": "a", "design": "b", "offered_rate_rps": "nan", "dir": "r"}]}', "expected a finite number"),
        ('{"runs": [{"name": "a", "design": "b", "offered_rate_rps": -1, "dir": "r"}]}', "offered_rate_rps .a number above 0"),
        ('{"runs": [{"name": "a", "design": "b", "offered_rate_rps": 1, "dir": "a\\u0000"}]}', "a directory's name"),
        ('{"runs": [{"name": "a", "design": "b", "offered_rate_rps": 1, "dir": "\\ud800"}]}', "a directory's name"),
        ('{"plan": 5, "runs": []}', "plan: found 5, expected text"), ("[" * 100_000, "nested without end"), ("\0", "a JSON object"),
    ],
)  # fmt: skip
def test_a_strange_sweep_is_refused(tmp_path, text, words):
    """Whatever stands in sweep.json: one message with file and key."""
    (tmp_path / records.SWEEP).write_text(text)
    with pytest.raises(BadInput, match=words) as caught:
        records.read_sweep(tmp_path)
    assert records.SWEEP in str(caught.value)


def test_a_sweep_of_nothing_is_empty(tmp_path):
    """Null runs are no runs."""
    (tmp_path / records.SWEEP).write_text('{"runs": null}')
    assert records.read_sweep(tmp_path).entries == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [("window_ns", "x"), ("window_ns", 5), ("window_ns", [1]), ("window_ns", [5, 1]), ("window_ns", [None, None]),
     ("window_ns", [0, 10**30]), ("summary", 5), ("summary", ["a"]), ("summary", {"unverified": 5}), ("summary", {"itl_max_ms": "x"}),
     ("offered_rate_rps", "x"), ("offered_rate_rps", float("nan")), ("notes", [1]), ("design", 5), ("cache_state", {"a": 1})],
)  # fmt: skip
def test_provenance_of_another_kind_is_refused(key, value):
    """What an analysis counts with or prints has its kind."""
    with pytest.raises(BadInput, match=f"{key}.*: found .*, expected"):
        records.check_provenance({"label": "measured", key: value}, "provenance.json")


def test_provenance_of_brackets_is_refused(tmp_path):
    """Brackets without end beside good records are one message."""
    records.write_run(tmp_path, records.table_from_rows([answer(0)]), records.provenance(label="measured", source="x"))
    (tmp_path / records.PROVENANCE).write_text("[" * 100_000)
    with pytest.raises(BadInput, match="provenance.json: found values nested without end"):
        records.read_run(tmp_path)


STRANGE = (-1, 0, 2**63 - 1, 2**63, -(2**63), 2**64, "x", 1.5, True, [None], [-5], ["x"], {"a": 2**70}, "\ud800", [[1]])


@pytest.mark.parametrize("column", records.SCHEMA.names)
def test_a_strange_value_in_a_row_is_read_or_refused(tmp_path, column):
    """Whatever stands in a column: the run is read and judged, or one message names the file."""
    row = {key: value for key, value in records.rows(records.table_from_rows([answer(0)]))[0].items() if value is not None}
    for i, value in enumerate(STRANGE):
        (tmp_path / records.JSONL).write_text(json.dumps({**row, column: value}) + "\n")
        try:
            run = records.read_run(tmp_path)
            if i % 4 == 0:  # judging takes longer than reading
                slo.analyse(run).to_dict()
        except BadInput as error:
            assert len(str(error)) < 500, value


@pytest.mark.parametrize(
    "column, values, words",
    [
        ("sent_ns", pa.array([1.5]), "sent_ns of type double, expected int64. Times and counts are whole"),
        ("sent_ns", pa.array(["1"]), "sent_ns of type string, expected int64"),
        ("frame_ns", pa.array([[1.5]]), "frame_ns of type list<.*double>, expected list<.*int64>"),
        ("sent_ns", pa.array([2**64 - 1], pa.uint64()), "expected values of the records schema"),
        ("seq", pa.array([True]), "seq of type bool"), ("request_id", pa.nulls(1), "request_id of type null"),
        ("request_id", pa.array([None], pa.string()), "row 0: found no request_id"),
        ("request_id", pa.array([b"\xff"]).cast(pa.string(), safe=False), "expected values of the records schema"),
        ("status", pa.array(["fine"]), "row 0: found status 'fine'"),
        ("stamp_source", pa.array(["clock"]), "row 0: found stamp_source 'clock'"),
        ("status", pa.array(["ok"]).dictionary_encode(), None), ("error", pa.nulls(1), None),
        ("request_id", pa.array(["a"], pa.large_string()), None), ("http_status", pa.array([200], pa.uint8()), None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("partial", [False, True])
def test_a_parquet_column_of_another_kind(tmp_path, column, values, words, partial):
    """It is named with its type, and not taken for damage, with --partial neither; the same kind written otherwise is read."""
    table = records.table_from_rows([answer(0)])
    path = tmp_path / records.PARQUET
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, values), path)
    if words is None:
        assert records.read_run(path, partial).table.schema == records.SCHEMA
    else:
        with pytest.raises(BadInput, match=words) as caught:
            records.read_run(path, partial)
        assert str(caught.value).startswith(str(path)) and "damaged" not in str(caught.value)


def test_what_cannot_be_opened_is_not_called_damaged(tmp_path):
    """A folder under the name of the records: the system's own error, with its path."""
    (tmp_path / records.PARQUET).mkdir()
    (tmp_path / (records.PARQUET + records.FOOTER_SUFFIX)).touch()
    with pytest.raises(IsADirectoryError, match=records.PARQUET):
        records.read_run(tmp_path)


def test_a_repeated_request_id_is_told():
    """Two rows of one id are counted twice, and the notes say so."""
    rows = records.rows(records.table_from_rows([answer(0), answer(1)]))
    rows[1]["request_id"] = rows[0]["request_id"]
    assert "1 rows repeat the id of another row" in slo.analyse(records.Run(records.table_from_rows(rows))).notes[0]


def test_a_file_damaged_anywhere_is_told_or_read(tmp_path):
    """Cut short or with a byte turned over, with its footer's copy whole, damaged or gone: rows or one message."""
    records.write_run(tmp_path, records.table_from_rows([answer(i) for i in range(5)]), PROVENANCE)
    path = tmp_path / records.PARQUET
    copy = path.with_name(path.name + records.FOOTER_SUFFIX)
    whole, footer = path.read_bytes(), copy.read_bytes()
    damaged = [b"", b"PAR1", whole[:100], whole[: len(whole) // 2], b"x" * 1000]
    damaged += [whole[:k] + bytes([whole[k] ^ 0xFF]) + whole[k + 1 :] for k in range(0, len(whole), max(1, len(whole) // 16))]
    told = 0
    for data in damaged:
        for beside in (footer, b"", b"x" * 100, None):
            path.write_bytes(data)
            copy.unlink(missing_ok=True)
            if beside is not None:
                copy.write_bytes(beside)
            for partial in (False, True):
                try:
                    assert records.read_run(tmp_path, partial).table.num_rows <= 5
                except BadInput as error:
                    told += 1
                    assert records.PARQUET in str(error)
    assert told > 25
