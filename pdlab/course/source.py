"""One hand-written source becomes two notebooks: the learner's and the answers'.

A source is a jupytext percent file, ``solutions/NN-name.py`` (labs: ``LN-name.py``).  Whatever stands
between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` is cut for the learner.  The stub lines outside
(``x = ...``, ``def f(a): ...``) stay in the learner's copy and are dropped from the answers' copy.
"""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from pdlab.documents import read_yaml
from pdlab.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]  # the course that this package belongs to
LIVE = Path("labs", "live")  # what a learner's own runs leave there is no part of the course
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
NAME = re.compile(r"(?P<number>\d{2}|L\d)-[a-z0-9-]+$")
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
SHOWS, FOLDED_LINES = re.compile(r"\bshow_(?:figure|table)\("), 10
KEPT_METADATA = ("check", "exercise", "tags")


class SourceError(Exception):
    """A source that cannot become notebooks; the text names file and cell and says what to do."""


@dataclass(frozen=True)
class Source:
    """One source file and the places of its two products, under a course's root folder."""

    root: Path
    name: str  # "02-kv-sizing"

    @property
    def number(self) -> str:
        return self.name.partition("-")[0]

    @property
    def path(self) -> Path:
        return self.root / "solutions" / f"{self.name}.py"

    @property
    def learner(self) -> Path:
        return self.root / ("labs" if self.number.startswith("L") else "notebooks") / f"{self.name}.ipynb"

    @property
    def answers(self) -> Path:
        return self.root / "solutions" / f"{self.name}.ipynb"

    @property
    def registry(self) -> Path:
        return self.root / "data" / "exercises" / f"{self.number}.yaml"


def sources(root: Path) -> list[Source]:
    """Every source of the course under ``root``, notebooks first, then labs."""
    names = (path.stem for path in (root / "solutions").glob("*.py"))
    return [Source(root, name) for name in sorted(filter(NAME.match, names))]


def notebooks(source: Source) -> tuple[NotebookNode, NotebookNode]:
    """The (learner, answers) notebooks of ``source``, not yet executed.

    Raises SourceError, with one line for each thing that is wrong.
    """
    try:
        raw = jupytext.read(source.path, fmt="py:percent")
    except Exception as error:  # jupytext raises many kinds for a file that it cannot read
        raise SourceError(f"{source.path}: not a percent-format source: {error}") from error
    problems: list[str] = []
    learner, answers = [], []
    taken: dict[str, int] = {}
    for cell in raw.cells:
        identity = _cell_id(cell, taken)
        metadata = {key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata}
        if cell.cell_type == "code":
            try:
                pair = split(cell.source)
                _require_stub(cell, pair[0])
            except ValueError as error:
                problems.append(f"{source.path}: cell {identity}: {error}")
                continue
            if _only_shows(cell):
                metadata["jupyter"] = {"source_hidden": True}  # JupyterLab shows three dots that open it
            for cells, text in zip((learner, answers), pair, strict=True):
                cells.append(new_code_cell(text, id=identity, metadata=dict(metadata)))
        else:
            for cells in (learner, answers):
                cells.append(new_markdown_cell(cell.source, id=identity, metadata=dict(metadata)))
    problems += _registry_problems(source, raw)
    if problems:
        raise SourceError("\n".join(problems))
    return tuple(new_notebook(cells=cells, metadata=KERNEL) for cells in (learner, answers))


def split(text: str) -> tuple[str, str]:
    """The (learner's, answers') version of one code cell.  Raises ValueError."""
    outside, inside, answer = [], [], []
    within = False
    for line in text.splitlines():
        marker = line.strip()
        if marker in (BEGIN, END):
            if within == (marker == BEGIN):
                raise ValueError(f"{marker!r} has no partner")
            within = marker == BEGIN
            continue
        (inside if within else outside).append(line)
        answer.append((line, within))
    if within:
        raise ValueError(f"{BEGIN!r} has no partner")
    if not inside:
        return text, text
    learner = "\n".join(outside)
    dropped = _stub_lines(learner)
    kept, number = [], 0
    for line, solution in answer:
        number += not solution
        if solution or number not in dropped:
            kept.append(line)
    return _tidy(learner), _tidy("\n".join(kept))


def _stub_lines(text: str) -> set[int]:
    """The 1-based line numbers of the stubs among the top-level statements of ``text``."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"without its solution the cell is no Python: {error.msg}, line {error.lineno}") from error
    lines: set[int] = set()
    for statement in filter(_is_stub, tree.body):
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        lines.update(range(first, statement.end_lineno + 1))
    return lines


def _is_stub(statement: ast.stmt) -> bool:
    """An assignment with ``...`` in its value, or a function or class that ends in ``...``."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        return _has_ellipsis(statement.value)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        last = statement.body[-1]
        return isinstance(last, ast.Expr | ast.Return) and last.value is not None and _has_ellipsis(last.value)
    return False


def _has_ellipsis(node: ast.AST) -> bool:
    """Whether ``...`` stands in an expression, other than as an index (``a[..., 0]``)."""
    if isinstance(node, ast.Subscript):
        return _has_ellipsis(node.value)
    if isinstance(node, ast.Constant):
        return node.value is Ellipsis
    return any(map(_has_ellipsis, ast.iter_child_nodes(node)))


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _require_stub(cell: NotebookNode, learner: str) -> None:
    name = cell.metadata.get("exercise")
    if name is None:
        return
    if not cell.source.startswith(f"# Exercise {name}\n"):
        raise ValueError(f"the first line of the answer cell has to be '# Exercise {name}'")
    if BEGIN not in cell.source:
        raise ValueError(f"exercise {name} has no {BEGIN!r} … {END!r}")
    if not _stub_lines(learner):
        raise ValueError(f"exercise {name} leaves the learner no '...' to replace")


def _only_shows(cell: NotebookNode) -> bool:
    """Whether a long cell is there for the figure or table that it draws, and its code is not the lesson."""
    asked = "exercise" in cell.metadata or "check" in cell.metadata or "predict(" in cell.source
    return not asked and bool(SHOWS.search(cell.source)) and cell.source.count("\n") >= FOLDED_LINES - 1


def _cell_id(cell: NotebookNode, taken: dict[str, int]) -> str:
    """A readable id for exercises; for other cells one that changes only with the cell itself."""
    for key, prefix in (("exercise", "ex"), ("check", "check")):
        if key in cell.metadata:
            base = f"{prefix}-{str(cell.metadata[key]).replace('.', '-')}"
            break
    else:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:10]
        base = f"{'code' if cell.cell_type == 'code' else 'text'}-{digest}"
    taken[base] = taken.get(base, 0) + 1
    return base if taken[base] == 1 else f"{base}-{taken[base]}"


def _registry_problems(source: Source, raw: NotebookNode) -> list[str]:
    """Exercises, checks and registry entries have to be the same ids, each once and in order."""
    in_source = [str(c.metadata.exercise) for c in raw.cells if "exercise" in c.metadata]
    checks = [str(c.metadata.check) for c in raw.cells if "check" in c.metadata]
    problems = [
        f"{source.path}: exercise {name} stands there {in_source.count(name)} times"
        for name in sorted(set(in_source))
        if in_source.count(name) > 1
    ]
    problems += [
        f'{source.path}: exercise {name} has no cell \'# %% check="{name}"\'' for name in in_source if name not in checks
    ]
    problems += [f"{source.path}: check {name} has no exercise" for name in checks if name not in in_source]
    problems += [
        f"{source.path}: the cell check-{str(c.metadata.check).replace('.', '-')} has to call check({c.metadata.check!r}, …)"
        for c in raw.cells
        if "check" in c.metadata and not re.search(rf"\bcheck\(\s*[\"']{re.escape(str(c.metadata.check))}[\"']", c.source)
    ]
    try:
        registered = _registered(source.registry)
    except (BadInput, TypeError, KeyError, AttributeError) as error:
        return [*problems, f"{source.registry}: cannot be read: {error}"]
    problems += [
        f"{source.path}: exercise {name} has no entry in {source.registry}" for name in in_source if name not in registered
    ]
    problems += [f"{source.registry}: exercise {name} is not in {source.path}" for name in registered if name not in in_source]
    return problems


def _registered(path: Path) -> list[str]:
    if not path.exists():
        return []
    document = read_yaml(path) or {}
    return [str(entry["id"]) for entry in document.get("exercises") or []]
