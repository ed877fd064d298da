"""The one table that every run writes and every analysis reads: a row an offered request.

Failed, rejected and timed-out requests have a row too.  Raw times are kept, in nanoseconds of the
run's own monotonic clock (0 = run start); TTFT, TPOT, ITL and E2E are derived from them by
``pdlab.measure.slo`` and never stored instead.  What a source does not know is null, never zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pdlab.documents import MOST_BYTES, check_plain, parse_object, write_whole
from pdlab.errors import BadInput
from pdlab.measure.foreign import Found
from pdlab.theory._check import shown

SCHEMA_VERSION = 1
STATUSES = ("ok", "failed", "rejected", "timeout", "cancelled")
LABELS = ("hypothetical", "published", "simulated", "measured")
STAMP_SOURCES = ("kernel", "user", "simulated", "imported")
ROW_GROUP_ROWS = 2_000  # small enough that a damaged group costs little, large enough to read fast

SCHEMA = pa.schema(
    [
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),  # order of the schedule
        pa.field("warmup", pa.bool_(), nullable=False),
        ("scheduled_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("frame_ns", pa.list_(pa.int64())),  # arrival of each frame that carried >= 1 output token
        ("frame_tokens", pa.list_(pa.int32())),  # output tokens in that frame
        ("first_token_ns", pa.int64()),  # these two only where the source carries no frames
        ("last_token_ns", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("requested_output_tokens", pa.int64()),
        pa.field("status", pa.string(), nullable=False),
        ("http_status", pa.int64()),
        ("error", pa.string()),
        ("attempts", pa.int64()),
        ("route", pa.string()),
        ("connect_ns", pa.int64()),
        ("new_connection", pa.bool_()),
        ("stamp_source", pa.string()),
        ("stage_ns", pa.map_(pa.string(), pa.int64())),  # router's or simulator's steps
    ]
)
RISING = (  # times that mostly rise: their differences are short
    "scheduled_ns", "sent_ns", "end_ns", "frame_ns.list.element", "first_token_ns", "last_token_ns",
    "stage_ns.key_value.value",
)  # fmt: skip
REQUIRED = tuple(f.name for f in SCHEMA if not f.nullable)
_INTEGERS = tuple(f.name for f in SCHEMA if pa.types.is_integer(f.type))
_INTEGER_LISTS = ("frame_ns", "frame_tokens")

NO_COLUMN = (pa.ArrowException, ValueError, OverflowError, TypeError)  # what Arrow raises for values it cannot hold
DAMAGED = (pa.ArrowException, OSError, ValueError, EOFError)  # what Arrow raises for a damaged file

PROVENANCE_KEYS = (
    "schema_version", "label", "source", "design", "offered_rate_rps", "cache_state", "window_ns",
    "seed", "plan_sha256", "workload", "machine", "versions", "date", "commit", "notes", "summary",
)  # fmt: skip

PARQUET, JSONL, PROVENANCE, SWEEP = "records.parquet", "records.jsonl", "provenance.json", "sweep.json"
FOOTER_SUFFIX = ".footer"  # a copy of the Parquet footer: a truncated file is unreadable without it


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its requests (``SCHEMA``), where they come from, and its directory if it has one."""

    table: pa.Table
    provenance: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    directory: Path | None = None

    @property
    def place(self) -> str:
        """Where the run was read from, for messages; its name where it has no directory."""
        if self.directory is None:
            return self.name
        return str(self.directory if self.directory.name == self.name else self.directory / self.name)


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """One run of a sweep, by what was varied."""

    name: str
    design: str
    cache_state: str | None
    offered_rate_rps: float
    dir: Path

    def read(self) -> Run:
        """The run itself."""
        return read_run(self.dir)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Several runs of one plan."""

    plan: str
    entries: tuple[SweepEntry, ...]


def provenance(*, label: str, source: str, **known: Any) -> dict[str, Any]:
    """A complete provenance document: every key present, null where nothing is known.

    ``label`` is one of ``LABELS``.  ``summary`` holds what the source states run-wide
    (for instance ``itl_max_ms``).  An unknown key is refused.
    """
    document = dict.fromkeys(PROVENANCE_KEYS) | {"schema_version": SCHEMA_VERSION, "summary": {}}
    document |= {"label": label, "source": source} | known
    return check_provenance(document)


def check_provenance(document: Mapping[str, Any], where: str = PROVENANCE) -> dict[str, Any]:
    """``document`` with absent keys as null; refused when a key, label or version is unknown."""
    unknown = sorted(set(document) - set(PROVENANCE_KEYS), key=str)
    if unknown:
        raise BadInput(f"key {unknown[0]!r}", "one of " + ", ".join(PROVENANCE_KEYS), where)
    if document.get("label") not in LABELS:
        raise BadInput(f"label {document.get('label')!r}", "one of " + ", ".join(LABELS), where)
    if document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise BadInput(
            f"schema_version {document['schema_version']!r}", f"{SCHEMA_VERSION}", where,
            "Read it with the pdlab version that wrote it.",
        )  # fmt: skip
    whole = dict.fromkeys(PROVENANCE_KEYS) | {"schema_version": SCHEMA_VERSION} | dict(document)
    whole["summary"] = whole["summary"] or {}
    _check_kinds(Found(whole, where))
    return whole


def _check_kinds(whole: Found) -> None:
    """What an analysis counts with, or prints as text, has to be that; the rest is kept as it is."""
    for name in ("source", "design", "cache_state", "plan_sha256", "date", "commit", "notes"):
        whole.key(name).text()
    whole.key("offered_rate_rps").number()
    window = [end.whole() for end in whole.key("window_ns").items()]
    if window and (len(window) != 2 or None in window or window[0] >= window[1]):
        raise whole.key("window_ns").refuse("[start, end], whole nanoseconds with the end after the start")
    summary = whole.key("summary")
    for name in ("itl_mean_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_max_ms", "single_replica_goodput_rps"):
        summary.key(name).number()
    for ident in summary.key("unverified").items():
        ident.text()


# ---------------------------------------------------------------- rows and tables


def _row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``row`` with every column, in the form Arrow takes; refused when a key or value cannot be."""
    unknown = sorted(set(row) - set(SCHEMA.names))
    if unknown:
        raise BadInput(f"column {unknown[0]!r}", "a column of the records schema", where)
    whole = dict.fromkeys(SCHEMA.names) | {"warmup": False} | dict(row)
    missing = [name for name in REQUIRED if whole[name] is None]
    if missing:
        raise BadInput(f"no {missing[0]}", "a value in every row", where)
    if whole["status"] not in STATUSES:
        raise BadInput(f"status {shown(whole['status'])}", "one of " + ", ".join(STATUSES), where)
    if whole["stamp_source"] is not None and whole["stamp_source"] not in STAMP_SOURCES:
        raise BadInput(
            f"stamp_source {whole['stamp_source']!r}", "one of " + ", ".join(STAMP_SOURCES), where
        )
    # Arrow would cut a fraction of a nanosecond off without a word
    for name in _INTEGERS:
        if isinstance(whole[name], float | bool):
            raise BadInput(f"{name} {shown(whole[name])}", "a whole number", where)
    for name in _INTEGER_LISTS:
        if whole[name] is not None and isinstance(whole[name], float | int | str):
            raise BadInput(f"{name} {shown(whole[name])}", "a list of whole numbers", where)
        if whole[name] is not None and any(isinstance(x, float | bool) for x in whole[name]):
            raise BadInput(f"a fraction in {name}", "whole numbers", where)
    if whole["stage_ns"] is not None:
        whole["stage_ns"] = _stages(whole["stage_ns"], where)
    return whole


def _stages(value: Any, where: str) -> list[tuple[str, int | None]]:
    """Steps as Arrow takes them.  Checked here: for some values Arrow ends the whole process instead of raising."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise BadInput(f"stage_ns {shown(value)}", "an object of steps and their times", where)
    for name, at in pairs:
        if not isinstance(name, str) or not (at is None or isinstance(at, Integral) and -(2**63) <= at < 2**63):
            raise BadInput(f"stage_ns {shown(value)}", "steps by name, each with whole nanoseconds", where)
    return [tuple(pair) for pair in pairs]


def table_from_rows(rows: Iterable[Mapping[str, Any]], where: str = "rows") -> pa.Table:
    """Rows (dicts, absent keys are null) as a table of ``SCHEMA``."""
    whole = [_row(row, f"{where}, row {i}") for i, row in enumerate(rows)]
    try:
        return pa.Table.from_pylist(whole, schema=SCHEMA)
    except NO_COLUMN as error:
        raise BadInput(str(error), "values of the records schema", where) from error


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The table as dicts, ``stage_ns`` as a dict: the inverse of ``table_from_rows``."""
    return table.to_pylist(maps_as_pydicts="strict")


# ---------------------------------------------------------------- files


def write_jsonl(path: str | Path, table: pa.Table) -> None:
    """One JSON object a line; null columns are left out."""
    with Path(path).open("w", encoding="utf-8") as out:
        for row in rows(table):
            out.write(_line(row))


def _line(row: Mapping[str, Any]) -> str:
    known = {key: value for key, value in row.items() if value is not None}
    return json.dumps(known, separators=(",", ":"), allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """numpy scalars and arrays, as Python's own numbers and lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise BadInput(f"a {type(value).__name__}", "a number, text, list or mapping", "a row's value")


def read_jsonl(path: str | Path, partial: bool = False) -> pa.Table:
    """The rows of a JSONL file.  A damaged line is reported by its number, or, with ``partial``, skipped."""
    path, found = Path(path), []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            try:
                # the newline is written last: a line without one may have lost its end
                if not line.endswith(b"\n"):
                    raise BadInput(
                        "a last line without its newline (the file is truncated)", "whole lines", where
                    )
                found.append(_row(parse_object(line, where, "one JSON object a line"), where))
            except BadInput as error:
                if not partial:
                    raise BadInput(error.found, error.expected, error.where, _PARTIAL) from error
    try:
        return pa.Table.from_pylist(found, schema=SCHEMA)
    except NO_COLUMN:
        return _convert_line_by_line(found, path, partial)


def _convert_line_by_line(found: list[dict], path: Path, partial: bool) -> pa.Table:
    """Only after a conversion failed: find the row whose value has the wrong type."""
    good = []
    for index, row in enumerate(found):
        try:
            good.append(pa.Table.from_pylist([row], schema=SCHEMA))
        except NO_COLUMN as error:
            if not partial:
                where = f"{path}, request {row['request_id']!r} (row {index})"
                raise BadInput(str(error), "values of the records schema", where, _PARTIAL) from error
    return pa.concat_tables([SCHEMA.empty_table(), *good])


_PARTIAL = "Read with partial=True (--partial) to keep the whole rows."


def write_parquet(path: str | Path, table: pa.Table) -> None:
    """Write ``table`` with page checksums, and a copy of the footer beside it.

    A Parquet file's index stands at its end, so that a truncated file is lost as a whole;
    with the copy its whole row groups can be read.  Both files appear only when complete.
    """
    path = Path(path)
    table = table.cast(SCHEMA)
    part = path.with_name(path.name + ".part")
    pq.write_table(
        table, part, row_group_size=ROW_GROUP_ROWS, compression="zstd", write_page_checksum=True,
        use_dictionary=["status", "error", "route", "stamp_source"],
        column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
    )  # fmt: skip
    pq.read_metadata(part).write_metadata_file(path.with_name(path.name + FOOTER_SUFFIX))
    part.replace(path)


def read_parquet(path: str | Path, partial: bool = False) -> pa.Table:
    """The rows of a Parquet file.  A damaged row group is reported by its number, or, with ``partial``, skipped."""
    path = Path(path)
    footer = path.with_name(path.name + FOOTER_SUFFIX)
    path.open("rb").close()  # what cannot be opened is told as that, not as damage
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        schema, intact = file.schema_arrow, True
    except DAMAGED as error:
        found = "a Parquet file without a readable footer (truncated?)"
        if not footer.exists():
            raise BadInput(
                found, "a whole file", str(path),
                f"Its row groups could be read with the copy {footer.name}, which is not there.",
            ) from error  # fmt: skip
        try:
            file = pq.ParquetFile(path, metadata=pq.read_metadata(footer), page_checksum_verification=True)
            schema, intact = file.schema_arrow, False
        except DAMAGED:
            raise BadInput(found, "a whole file", str(path), f"Its copy {footer.name} is damaged, too.") from error
    groups = range(file.num_row_groups)
    _check_schema(schema, path)
    if intact:
        try:
            return _fitted(file.read(), path)
        except DAMAGED:
            pass  # some group is damaged: find out which
    whole: list[pa.Table] = []
    for group in groups:
        try:
            whole.append(file.read_row_group(group))
        except DAMAGED as error:
            if not partial:
                where = f"{path}, row group {group} of {len(groups)}"
                raise BadInput("damaged or missing data", "a whole row group", where, _PARTIAL) from error
    if not intact and not partial:
        raise BadInput("a damaged footer (every row group is whole)", "a whole file", str(path), _PARTIAL)
    return _fitted(pa.concat_tables([schema.empty_table(), *whole]), path)


def _check_schema(found: pa.Schema, path: Path) -> None:
    for want in SCHEMA:
        if found.names.count(want.name) != 1:
            how = "two columns" if want.name in found.names else "no column"
            raise BadInput(f"{how} {want.name!r}", "the records schema", str(path))
        kind = found.field(want.name).type
        if not _holds(kind, want.type, want.nullable):
            raise BadInput(
                f"{want.name} of type {_type(kind)}", _type(want.type), str(path),
                "Write the file with pdlab.measure.records, or convert the column." if not pa.types.is_floating(kind)
                else "Times and counts are whole numbers here; what is not known is null.",
            )  # fmt: skip
    extra = sorted(set(found.names) - set(SCHEMA.names))
    if extra:
        raise BadInput(f"column {extra[0]!r}", "the records schema", str(path))


def _holds(found: pa.DataType, want: pa.DataType, nullable: bool) -> bool:
    """Whether a column of one type can be read as the other without changing what its values mean."""
    t = pa.types
    if t.is_dictionary(found):
        found = found.value_type
    if t.is_null(found):
        return nullable
    if t.is_string(want):
        return t.is_string(found) or t.is_large_string(found) or t.is_string_view(found)
    if t.is_integer(want):
        return t.is_integer(found)
    if t.is_map(want):
        return t.is_map(found) and _holds(found.key_type, want.key_type, False) and _holds(found.item_type, want.item_type, True)
    if t.is_list(want):
        return (t.is_list(found) or t.is_large_list(found)) and _holds(found.value_type, want.value_type, True)
    return found == want


def _type(kind: pa.DataType) -> str:
    """A column's type, short enough for a message."""
    return str(kind) if len(str(kind)) <= 60 else str(kind)[:57] + "..."


def _fitted(table: pa.Table, path: Path) -> pa.Table:
    """``table``, whose bytes are whole, as ``SCHEMA``; refused where a value is none that a run can have."""
    for name in REQUIRED:
        if table[name].null_count:
            row = pc.index(table[name].is_null(), True).as_py()
            raise BadInput(f"no {name}", "a value in every row", f"{path}, row {row}")
    try:
        fitted = table.select(SCHEMA.names).cast(SCHEMA)
        fitted.validate(full=True)
    except (*DAMAGED, *NO_COLUMN) as error:
        raise BadInput(" ".join(str(error).split())[:200], "values of the records schema", str(path)) from error
    for name, known in (("status", STATUSES), ("stamp_source", STAMP_SOURCES)):
        strange = pc.index(pc.is_in(fitted[name], pa.array([*known, None], pa.string())), False).as_py()
        if strange >= 0:
            found = f"{name} {shown(fitted[name][strange].as_py())}"
            raise BadInput(found, "one of " + ", ".join(known), f"{path}, row {strange}")
    return fitted


# ---------------------------------------------------------------- runs


def write_run(directory: str | Path, table: pa.Table, document: Mapping[str, Any]) -> Path:
    """Write a run directory: ``records.parquet`` and ``provenance.json``; returns it."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_parquet(directory / PARQUET, table)
    write_provenance(directory, document)
    return directory


def write_provenance(directory: Path, document: Mapping[str, Any]) -> None:
    """Write ``provenance.json``, checked, into ``directory``, which is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_json(directory / PROVENANCE, check_provenance(document))


def read_run(path: str | Path, partial: bool = False) -> Run:
    """A run from its directory, or from one ``.parquet`` or ``.jsonl`` file of records.

    ``provenance.json`` is taken from beside the records; a bare file has an empty one.
    With ``partial``, whole rows of a damaged file are returned instead of an error.
    """
    path = Path(path)
    directory = path if path.is_dir() else path.parent
    file = path
    if path.is_dir():
        file = next((path / n for n in (PARQUET, JSONL) if (path / n).exists()), path / PARQUET)
    if not file.exists():
        raise BadInput("nothing", f"a run directory with {PARQUET} or {JSONL}", str(path))
    check_plain(file, "a file of records")
    read = read_parquet if file.suffix == ".parquet" else read_jsonl
    document = _read_json(directory / PROVENANCE) if (directory / PROVENANCE).exists() else None
    if document is not None:
        document = check_provenance(document, str(directory / PROVENANCE))
    return Run(read(file, partial), document or {}, name=path.stem if path.is_file() else path.name, directory=directory)


class RunWriter:
    """Writes a run while it happens: each row is on disk before the next one starts.

    Use it as a context manager, or call ``close`` to turn the JSONL into Parquet.
    A run that stops half-way leaves ``records.jsonl``, which ``read_run`` reads.
    """

    def __init__(self, directory: str | Path, document: Mapping[str, Any]) -> None:
        self.directory = Path(directory)
        self.provenance = check_provenance(document)
        self.directory.mkdir(parents=True, exist_ok=True)
        for stale in (PARQUET, PARQUET + FOOTER_SUFFIX):
            (self.directory / stale).unlink(missing_ok=True)
        _write_json(self.directory / PROVENANCE, self.provenance)
        self._out = (self.directory / JSONL).open("w", encoding="utf-8")
        self._count = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one request's row (absent keys are null)."""
        _row(row, f"{self.directory}, row {self._count}")
        self._out.write(_line(dict(row)))
        self._out.flush()
        self._count += 1

    def close(self, **late: Any) -> Run:
        """End the run: rows in schedule order as Parquet; ``late`` adds to the provenance."""
        self._out.close()
        table = read_jsonl(self.directory / JSONL).sort_by([("seq", "ascending")])
        self.provenance = check_provenance(self.provenance | late)
        write_run(self.directory, table, self.provenance)
        (self.directory / JSONL).unlink()
        return Run(table, self.provenance, name=self.directory.name)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self._out.closed:
            return
        if kind is None:
            self.close()
        else:  # the rows so far stay readable as JSONL
            self._out.close()


def write_sweep(directory: str | Path, plan: str, entries: Iterable[SweepEntry]) -> None:
    """Write ``sweep.json``; the directories of its runs lie below this one."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    runs = [asdict(one) | {"dir": one.dir.relative_to(directory).as_posix()} for one in entries]
    _write_json(directory / SWEEP, {"plan": plan, "runs": runs})


def read_sweep(directory: str | Path) -> Sweep:
    """The runs of a sweep directory, by name; the runs themselves are read with ``.read()``."""
    directory = Path(directory)
    file = directory / SWEEP
    if not file.exists():
        raise BadInput("nothing", f"a sweep directory with {SWEEP}", str(directory))
    document = Found(_read_json(file), str(file))
    return Sweep(document.key("plan").text() or "", tuple(_entries(document, directory)))


def _entries(document: Found, directory: Path) -> Iterator[SweepEntry]:
    for run in document.key("runs").items():
        name, design, place = (run.key(key).text() for key in ("name", "design", "dir"))
        rate = run.key("offered_rate_rps")
        if name is None or design is None or place is None or not (rate.number() or 0) > 0:
            raise run.refuse("an object with name, design, dir (text) and offered_rate_rps (a number above 0)")
        if "\0" in place or any("\ud800" <= letter <= "\udfff" for letter in place):
            raise run.key("dir").refuse("a directory's name")
        yield SweepEntry(name, design, run.key("cache_state").text(), float(rate.value), directory / place)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _read_json(path: Path) -> dict[str, Any]:
    check_plain(path, "a JSON object", MOST_BYTES)
    return parse_object(path.read_bytes(), str(path))
