"""Make ``pytest --nbval notebooks labs solutions`` mean what it says.

nbval compares what a notebook shows with what it showed when it was stored.  Alone it lets a lot
through: a cell that was never run is not compared, so stripped notebooks pass; a dead kernel is
waited for; a folder without notebooks is no failure.  This plugin (``-p pdlab.course.nbgate``, in
pyproject.toml) closes those gaps and ends the run with the number of cells it compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from pdlab.course.stored import NOT_COMPARED_TAGS, compared_cells, is_compared, text_of

CELL_TIMEOUT_S = 60.0
NBVAL_TIMEOUT_S = 2000.0  # nbval's own default: half an hour on a cell that never ends
FLOOR = Path("tests", "compared-cells.json")
LIVE = Path("labs", "live")
FOLDERS = ("notebooks", "labs", "solutions")
COMPARED = "pdlab_compared"
REFUSED = {
    "nbdime": "--nbdime does not work with current nbdime; read the difference that pytest prints",
    "nbval_lax": "--nbval-lax compares marked cells only, and this course marks none; use --nbval",
    "nbval_kernel_name": "--nbval-kernel-name: notebooks run on the Python that runs pytest",
}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that compare less, bound a cell's time, keep a notebook on one xdist worker."""
    for option, why in REFUSED.items():
        if config.getoption(option, None):
            raise pytest.UsageError(why)
    if not config.getoption("nbval", False):
        return
    if config.option.nbval_cell_timeout == NBVAL_TIMEOUT_S:
        config.option.nbval_cell_timeout = CELL_TIMEOUT_S
    if config.getoption("numprocesses", None):
        config.option.dist = "loadscope"  # cells of a notebook share a kernel
        config.option.loadscopereorder = False  # tests/conftest.py puts the long files first
    config.pluginmanager.register(_Count(), "pdlab-nbgate-count")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a learner's own live runs out: nothing stored is to be compared with them."""
    return True if collection_path == config.rootpath / LIVE else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Put the guarded notebook in the place of nbval's."""
    from nbval.plugin import IPyNbFile

    found = yield
    return [_guarded().from_parent(parent, path=file_path) if type(node) is IPyNbFile else node for node in found]


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add one test that fails when notebooks are missing from a folder that was asked for."""
    if not config.getoption("nbval", False):
        return
    collected = {item.path.resolve() for item in items if item.path.suffix == ".ipynb"}
    asked = [Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
    items.append(_Complete.from_parent(session, name="every notebook is there", problems=missing(config.rootpath, asked, collected)))


class _Complete(pytest.Item):
    """Fails with the list of notebooks that should have been collected and were not."""

    def __init__(self, *, problems: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problems = problems

    def runtest(self) -> None:
        if self.problems:
            pytest.fail("\n".join(self.problems), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def missing(root: Path, asked: list[Path], collected: set[Path]) -> list[str]:
    """Notebooks that a source or the stored floor names, in a folder that was asked for, and that are not there."""
    if not collected:
        return ["no notebook was collected: pytest --nbval notebooks labs solutions"]
    from pdlab.course.source import sources

    expected = {path for one in sources(root) for path in (one.learner, one.answers)}
    expected |= {root / name for name in _floor(root)}
    inside = {path for path in expected if any(path.is_relative_to(folder) for folder in asked)}
    problems = [f"{path.relative_to(root)}: not collected; run pdlab build" for path in sorted(inside - collected)]
    empty = [
        folder
        for folder in asked
        if folder.parent == root and folder.name in FOLDERS
        if not any(path.is_relative_to(folder) for path in collected)
        # labs may stand empty as long as there is no source of a lab
        if any(path.is_relative_to(folder) for path in expected) or folder.name != "labs"
    ]
    return problems + [f"{folder.name}/: holds no notebook" for folder in empty]


def _floor(root: Path) -> dict[str, int]:
    file = root / FLOOR
    return json.loads(file.read_text()) if file.exists() else {}


def form_problems(notebook: Any, floor: int | None = None) -> list[str]:
    """What makes a stored notebook worth less as a reference than it looks."""
    from nbval.plugin import comment_markers, metadata_tags

    problems = []
    expected = 0
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        expected += 1
        name = f"cell {cell.get('id', index)}"
        tags = cell.metadata.get("tags", [])
        if cell.execution_count is None:
            problems.append(f"{name} was never run, so nothing of it would be compared")
        elif cell.execution_count != expected:
            problems.append(f"{name} has execution count {cell.execution_count}, expected {expected}: not run top to bottom")
        if "check" in cell.metadata or str(cell.get("id", "")).startswith("check-"):
            if not text_of(cell).strip():
                problems.append(f"{name} checks an exercise and has no stored output")
            if NOT_COMPARED_TAGS & set(tags):
                problems.append(f"{name} checks an exercise and is tagged {', '.join(sorted(NOT_COMPARED_TAGS & set(tags)))}")
        for output in cell.outputs:
            if output.output_type == "error" and not {"raises-exception", "nbval-raises-exception"} & set(tags):
                problems.append(f"{name} was stored with an error: {output.ename}")
        for line in cell.source.splitlines():
            if line.lstrip().startswith("#") and line.strip(" #") in comment_markers:
                problems.append(f"{name} has the marker {line.strip()!r} in its code; use a cell tag")
        problems += [f"{name} has the tag {tag!r}, which nbval does not know" for tag in tags if "nbval" in tag.lower() and tag not in metadata_tags]
    compared = compared_cells(notebook)
    if not compared:
        problems.append("no cell has an output to compare")
    elif floor is not None and compared < floor:
        problems.append(f"{compared} cells would be compared, {floor} were before; where that is meant: pdlab build --accept-fewer")
    return problems


class _StoredForm(pytest.Item):
    """The test of a notebook's stored form; it needs no kernel."""

    def runtest(self) -> None:
        root = self.config.rootpath
        path = self.path.resolve()
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        floors = _floor(root)
        problems = form_problems(self.parent.nb, floors.get(name))
        if name.startswith(FOLDERS) and name not in floors:
            problems.append(f"no entry in {FLOOR}; run pdlab build")
        if problems:
            pytest.fail("\n".join(f"{name or path}: {problem}" for problem in problems), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.name}: {self.name}"


def _guarded() -> type:
    """The notebook collector, made once.  nbval is imported late: pytest wants to load it itself first."""
    global _guarded_class
    if _guarded_class is None:
        _guarded_class = _make_guarded()
    return _guarded_class


_guarded_class: type | None = None


def _make_guarded() -> type:
    from nbval.kernel import RunningKernel
    from nbval.plugin import IPyNbFile

    from pdlab.course import channels, kernels

    class Kernel(RunningKernel):
        """nbval's kernel, started in the course's fixed environment and seen when it dies."""

        def __init__(self, cwd: Path, startup_timeout: float) -> None:
            self.km = kernels.manager()
            self.km.start_kernel(cwd=str(cwd), **kernels.start_options())
            self.kc = self.km.client()
            self.kc.start_channels()
            self.kc.wait_for_ready(timeout=startup_timeout)
            self._ensure_iopub_up()

        def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
            """Wait in steps of a second, so that a dead kernel ends the cell at once.

            nbval's own formats every message for a log that nobody keeps: a tenth of a run.
            """
            deadline = time.monotonic() + (timeout if timeout is not None else CELL_TIMEOUT_S)
            while True:
                try:
                    return channels.message(self.kc, stream, max(0.0, min(1.0, deadline - time.monotonic())))
                except Empty:
                    if not self.is_alive():
                        raise RuntimeError("the kernel ended while this cell ran") from None
                    if time.monotonic() >= deadline:
                        raise

    class Notebook(IPyNbFile):
        """One notebook: first the test of its stored form, then nbval's test of each cell."""

        def setup(self) -> None:
            self.setup_sanitize_files()

        @property
        def kernel(self) -> Kernel:
            if self._kernel is None:
                self._kernel = Kernel(self.path.parent, self.config.option.nbval_kernel_startup_timeout)
            return self._kernel

        _kernel: Kernel | None = None

        def collect(self) -> Iterator[pytest.Item]:
            try:
                cells = list(super().collect())
            except Exception as error:
                raise self.CollectError(f"{self.path}: not a notebook that can be read: {error}") from error
            yield _StoredForm.from_parent(self, name="stored form")
            yield from cells

        def teardown(self) -> None:
            if self._kernel is not None and self._kernel.is_alive():
                self._kernel.stop()

    return Notebook


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note on the report, which also crosses xdist, that this cell has something to compare."""
    cell = getattr(item, "cell", None)
    if cell is not None and is_compared(cell):
        item.user_properties.append((COMPARED, item.path.name))


class _Count:
    """Counts compared cells from the reports, in the process that prints the summary."""

    def __init__(self) -> None:
        self.cells = 0
        self.notebooks: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and COMPARED in dict(report.user_properties) and not report.skipped:
            self.cells += 1
            self.notebooks.add(report.nodeid.partition("::")[0])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(f"compared {self.cells} cells in {len(self.notebooks)} notebooks")
