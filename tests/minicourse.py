"""Courses of a few cells in a temporary folder, for the tests of the build and of the gate."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[1]
CHECK = '''# %%
def check(name, value):
    word = "not attempted" if value is ... else "correct (1 point)." if value == 3 else "not yet"
    print(f"{name} {word}")
'''


def exercise(name: str, answer: str = "3") -> str:
    """The two cells of one exercise, whose right answer is 3."""
    return f'''
# %% exercise="{name}"
# Exercise {name}
x = ...
### BEGIN SOLUTION
x = {answer}
### END SOLUTION

# %% check="{name}"
check("{name}", x)
'''


def write_source(root: Path, name: str, body: str, registered: list[str] | None = None) -> Path:
    """Write one source, and its registry with the given exercise ids."""
    for folder in ("solutions", "data/exercises", "tests"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    source = root / "solutions" / f"{name}.py"
    source.write_text(body, encoding="utf-8")
    if registered is not None:
        entries = "".join(f'  - id: "{one}"\n' for one in registered)
        (root / "data" / "exercises" / f"{name.partition('-')[0]}.yaml").write_text(f"exercises:\n{entries}")
    return source


def cell(code: str, shown: str | None = None, count: int | None = 1, id: str | None = None, tags: tuple[str, ...] = ()) -> nbformat.NotebookNode:
    """A code cell that was stored as printing ``shown``."""
    outputs = [] if shown is None else [new_output("stream", name="stdout", text=shown)]
    made = new_code_cell(code, execution_count=count, outputs=outputs, metadata={"tags": list(tags)} if tags else {})
    if id:
        made.id = id
    return made


def write_notebook(path: Path, *cells: nbformat.NotebookNode) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = new_notebook(cells=list(cells), metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    nbformat.write(notebook, path)


def run_pytest(root: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, str]]]:
    """Run pytest in ``root`` with the project's own options; its result, and the failures of each
    notebook ("notebooks/00-name") by test name."""
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p pdlab.course.nbgate --import-mode=importlib"\n'
    )
    report = root / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    failures: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        found = failures.setdefault(re.sub(r"^(\w+)\.(.+)\.ipynb$", r"\1/\2", case.get("classname", "")), {})
        for bad in [*case.iter("failure"), *case.iter("error")]:
            found[case.get("name", "")] = f"{bad.get('message')}\n{bad.text}"
    return result, failures
