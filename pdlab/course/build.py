"""Build both notebooks of each source, executed and in one canonical form, or check the stored ones.

A product holds nothing that changes by itself: cell ids come from the cells, outputs from a fixed
environment, metadata from a short list.  So a rebuild without a change changes no byte, and a product
that differs from its rebuild is stale.
"""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.reader import NotJSONError

from pdlab.course import kernels, source
from pdlab.course.stored import compared_cells, conceal, text_of
from pdlab.documents import write_whole
from pdlab.errors import BadInput
from pdlab.live import budget

CELL_TIMEOUT_S = 60
PIXEL_TOLERANCE = 8  # of 255, in any channel: below what an eye sees, above a font rasteriser's rounding
PIXEL_SHARE = 0.002  # of all pixels may differ by more: edges of glyphs
FLOOR = Path("tests", "compared-cells.json")
VOLATILE = ("nbval-ignore-output", "nbval-skip")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
UNREPEATABLE = (
    (re.compile(r"\bat 0x[0-9a-f]{6,}"), "a memory address"),
    (re.compile(rf"{re.escape(str(Path.home()))}/"), "a home folder"),
    (re.compile(rf"{re.escape(str(source.ROOT))}\b"), "where the course lies"),
    (re.compile(r"/tmp/\S+"), "a temporary path"),
)


@dataclass
class Product:
    """One notebook that a source makes, and what came of building or checking it."""

    path: Path
    state: str = "unchanged"  # unchanged | written | stale | missing | orphan | failed
    problems: list[str] = field(default_factory=list)
    compared: int = 0
    seconds: float = 0.0


def choose(root: Path, wanted: list[str]) -> list[source.Source]:
    """The sources named by number ("02", "2", "L1"), name or path; all of them when none is named."""
    every = source.sources(root)
    if not wanted:
        return every
    chosen = []
    for word in wanted:
        stem = Path(word).stem
        number = stem.zfill(2) if stem.isdigit() else stem
        found = [s for s in every if number in (s.number, s.name)]
        if not found:
            known = ", ".join(s.number for s in every) or "none yet"
            raise BadInput(repr(word), f"a notebook's number: {known}", where=str(root / "solutions"))
        chosen += found
    return chosen


def build(root: Path, wanted: list[str], check: bool = False, run: bool = True, accept_fewer: bool = False) -> list[Product]:
    """Build (or, with ``check``, compare) the products of the wanted sources, two at a time.

    With ``run=False`` nothing is executed: the outputs are those of the stored product, which must
    have the same code cells.  Orphans are looked for only when every source is wanted.
    """
    chosen = choose(root, wanted)
    jobs, failed = [], []
    for one in chosen:
        try:
            learner, answers = source.notebooks(one)
        except source.SourceError as error:
            failed.append(Product(one.path, "failed", str(error).splitlines()))
            continue
        jobs += [(one.learner, learner, "not attempted"), (one.answers, answers, "correct")]
    with ThreadPoolExecutor(max_workers=max(2, len(budget.cores()))) as pool:
        products = list(pool.map(lambda job: _one(*job, check=check, run=run), jobs))
    products = failed + products
    if not wanted:
        products += [Product(path, "orphan", [f"{path}: has no source in solutions/"]) for path in _orphans(root)]
    _floor(root, products, check, accept_fewer)
    return products


def _one(path: Path, notebook: NotebookNode, verdict: str, check: bool, run: bool) -> Product:
    """Execute one notebook and write or compare it."""
    product = Product(path)
    started = time.perf_counter()
    old = _read(path)
    try:
        if run:
            execute(notebook, path.parent)
        else:
            _transplant(old, notebook)
        product.problems = list(_unfit(notebook, verdict, path))
        if verdict == "not attempted":
            conceal(notebook)
    except ValueError as error:
        product.problems = [f"{path}: {error}"]
    product.seconds = time.perf_counter() - started
    if product.problems:
        product.state = "failed" if run or not check else "stale"
        return product
    product.compared = compared_cells(notebook)
    if old is not None:
        keep_equal_outputs(old, notebook)
    text = nbformat.writes(notebook, version=4) + "\n"
    stored = path.read_text(encoding="utf-8") if path.exists() else None
    if stored == text:
        return product
    if check:
        product.state = "missing" if stored is None else "stale"
        product.problems = [f"{path}: {line}" for line in _differences(old, notebook)] if stored else [f"{path}: missing"]
    else:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text)
        product.state = "written"
    return product


def execute(notebook: NotebookNode, cwd: Path) -> None:
    """Run every cell in a fresh kernel whose folder is ``cwd``; outputs are left in canonical form.

    Raises ValueError naming the cell and ending with the last lines of its traceback.
    """
    cwd.mkdir(exist_ok=True)
    # the client notes in the notebook's metadata what it ran on
    metadata = json.loads(json.dumps(notebook.metadata))
    begun: list[NotebookNode] = []
    client = NotebookClient(
        notebook,
        on_cell_execute=lambda cell, cell_index: begun.append(cell),
        km=kernels.manager(asynchronous=True),
        timeout=CELL_TIMEOUT_S,
        interrupt_on_timeout=False,
        record_timing=False,
        coalesce_streams=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(cwd)}},
    )
    client.owns_km = True  # so that the client also ends the kernel that it was handed
    try:
        client.execute(**kernels.start_options())
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise ValueError(_failure(begun[-1], error)) from error
    notebook.metadata = nbformat.from_dict(metadata)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_canonical(output) for output in cell.outputs]


def _failure(cell: NotebookNode, error: Exception) -> str:
    """Which cell ended the run, and why, in a few lines."""
    if isinstance(error, CellTimeoutError):
        return f"cell {cell.id} took more than {CELL_TIMEOUT_S} s"
    if isinstance(error, DeadKernelError):
        return f"cell {cell.id} ended the kernel"
    raised = next((output for output in cell.outputs if output.output_type == "error"), None)
    text = ANSI.sub("", "\n".join(raised.traceback)) if raised else str(error)
    return f"cell {cell.id} raised\n" + "\n".join(f"    {line}" for line in text.strip().splitlines()[-8:])


def _canonical(output: NotebookNode) -> NotebookNode:
    """An output without what depends on the machine or the moment."""
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    output.pop("transient", None)
    return output


def _unfit(notebook: NotebookNode, verdict: str, path: Path) -> Iterator[str]:
    """What keeps an executed notebook from being stored: wrong verdicts, outputs that will not repeat."""
    expected = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        expected += bool(cell.source.strip())
        if cell.source.strip() and cell.execution_count != expected:
            yield f"{path}: cell {cell.id}: execution count {cell.execution_count}, expected {expected}"
        text = text_of(cell)
        if "check" in cell.metadata and f"{cell.metadata.check} {verdict}" not in text:
            yield f"{path}: cell {cell.id}: shows {text.strip()[:200]!r}, expected '{cell.metadata.check} {verdict}'"
        if set(VOLATILE) & set(cell.metadata.get("tags", [])):
            continue
        for pattern, what in UNREPEATABLE:
            if found := pattern.search(text):
                yield f"{path}: cell {cell.id}: prints {what} ({found[0]!r}), which will not repeat elsewhere"


def _transplant(old: NotebookNode | None, notebook: NotebookNode) -> None:
    """Give the code cells the outputs of the stored product, which must have the same code."""
    if old is None:
        raise ValueError("missing, and --no-run cannot make outputs")
    stored = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.id not in stored or stored[cell.id].source != cell.source:
            raise ValueError(f"cell {cell.id} has changed since the notebook was executed")
        cell.outputs = stored[cell.id].outputs
        cell.execution_count = stored[cell.id].execution_count


def keep_equal_outputs(old: NotebookNode, new: NotebookNode) -> None:
    """Keep stored pictures that look the same, and volatile outputs while all else is unchanged."""
    stored = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    pairs = [(stored[c.id], c) for c in new.cells if c.cell_type == "code" and c.id in stored]
    for before, after in pairs:
        pictures = [o.data["image/png"] for o in before.outputs if "image/png" in o.get("data", {})]
        fresh = [o for o in after.outputs if "image/png" in o.get("data", {})]
        for png, output in zip(pictures, fresh):  # a different number of pictures shows as a difference
            if png != output.data["image/png"] and same_picture(png, output.data["image/png"]):
                output.data["image/png"] = png
    volatile = [(b, a) for b, a in pairs if set(VOLATILE) & set(a.metadata.get("tags", []))]
    fresh_outputs = [after.outputs for _, after in volatile]
    for before, after in volatile:
        after.outputs = before.outputs
    if nbformat.writes(old, version=4) != nbformat.writes(new, version=4):
        for (_, after), outputs in zip(volatile, fresh_outputs, strict=True):
            after.outputs = outputs


def same_picture(left: str, right: str) -> bool:
    """Whether two base64 PNGs show the same picture but for rounding in a few pixels."""
    import numpy as np
    from PIL import Image

    try:
        a, b = (np.asarray(Image.open(io.BytesIO(base64.b64decode(p))).convert("RGBA"), np.int16) for p in (left, right))
    except (OSError, ValueError):
        return False
    if a.shape != b.shape:
        return False
    return float((np.abs(a - b).max(axis=-1) > PIXEL_TOLERANCE).mean()) <= PIXEL_SHARE


def _differences(old: NotebookNode | None, new: NotebookNode) -> list[str]:
    """Which cells of a stored notebook differ from the rebuilt one, and in what."""
    if old is None:
        return ["not a notebook"]
    before, after = ({cell.id: cell for cell in nb.cells} for nb in (old, new))
    lines = [f"cell {name} is no longer in the source" for name in before if name not in after]
    lines += [f"cell {name} is missing" for name in after if name not in before]
    for name in after:
        if name in before and before[name] != after[name]:
            keys = [k for k in ("source", "metadata", "execution_count", "outputs") if before[name].get(k) != after[name].get(k)]
            lines.append(f"cell {name} is stale: its {', '.join(keys) or 'form'} differs")
    if not lines and list(before) != list(after):
        lines.append("the cells stand in another order")
    return lines or ["the metadata or the JSON form differs"]


def _read(path: Path) -> NotebookNode | None:
    """The stored notebook, or None where there is none that can be read."""
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, NotJSONError, nbformat.ValidationError, KeyError, ValueError):
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock: builds of different notebooks may overlap in time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _orphans(root: Path) -> list[Path]:
    """Notebooks in the course's folders that no source makes, but for a learner's own live runs."""
    made = {p for s in source.sources(root) for p in (s.learner, s.answers)}
    folders = (root / "notebooks", root / "labs", root / "solutions")
    found = {p for folder in folders for p in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts}
    return sorted(p for p in found - made if not p.is_relative_to(root / source.LIVE))


def _floor(root: Path, products: list[Product], check: bool, accept_fewer: bool) -> None:
    """Keep the stored number of compared cells of each notebook up to date; it never falls unasked."""
    file = root / FLOOR
    if not file.parent.is_dir():
        return
    with _locked(file.parent):
        stored: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        floor = dict(stored)
        for product in products:
            name = product.path.relative_to(root).as_posix()
            if product.problems:
                continue
            least = stored.get(name, 0)
            if product.compared < least and not accept_fewer:
                product.problems.append(
                    f"{product.path}: {product.compared} cells are compared, {least} were before; "
                    f"where that is meant: pdlab build {product.path.stem.partition('-')[0]} --accept-fewer"
                )
            elif check and name not in stored:
                product.problems.append(f"{product.path}: has no entry in {FLOOR}; run pdlab build")
            else:
                floor[name] = product.compared
        if floor != stored and not check:
            write_whole(file, json.dumps(floor, indent=1, sort_keys=True) + "\n")
