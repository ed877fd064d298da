"""A course of one notebook and four exercises, and learners' copies of it, for the grader's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from pdlab.course import exercises
from pdlab.course.feedback import Feedback

REGISTRY = """
notebook: "02"
exercises:
  - id: "2.1"
    kind: compute
    title: Bytes for one token
    unit: B
    expected: 327680
    recompute: kv.bytes_per_token(kv.uniform(layers=80, kv_heads=8, head_dim=128))
    source: derived
    label: hypothetical
    why: The number that all others are made of.
    hints: ["Look at the units.", "Which term is missing?"]
    mistakes:
      - {answer: "163840", kind: k-without-v, says: "that is K alone; each layer keeps V as well"}
  - id: "2.2"
    kind: implement
    title: KV bytes of any model
    points: 2
    function: kv_bytes
    cases: [[80, 8, 128, 2000], [32, 8, 128, 4096], [1, 1, 1, 1], [24, 3, 64, 0]]
    reference: "lambda layers, heads, dim, tokens: 2 * layers * heads * dim * 2 * tokens"
    source: derived
    label: hypothetical
    hints: ["Look at the units.", "Which term is missing?"]
    mistakes:
      - {answer: "lambda l, h, d, t: l * h * d * 2 * t", kind: k-without-v, says: "that is K alone; each layer keeps V as well"}
  - id: "2.3"
    kind: predict
    title: Which latency
    expected: itl
    choices: [ttft, itl, neither]
    source: derived
    label: hypothetical
    hints: ["Who streams the first token?", "What comes after it?"]
  - id: "2.4"
    kind: judge
    title: A verdict
    points: 3
    expected: {adopt: false, kib: 320}
    source: derived
    label: hypothetical
    hints: ["What is shown?", "What is not?"]
"""

ANSWERS = {
    "2.1": "bytes_per_token = 2 * 80 * 8 * 128 * 2",
    "2.2": "def kv_bytes(layers, heads, dim, tokens):\n    return 2 * layers * heads * dim * 2 * tokens",
    "2.3": 'latency = "itl"',
    "2.4": 'verdict = {"adopt": False, "kib": bytes_per_token / 1024}',
}
STUBS = {
    "2.1": "bytes_per_token = ...",
    "2.2": "def kv_bytes(layers, heads, dim, tokens): ...",
    "2.3": "latency = ...",
    "2.4": 'verdict = {"adopt": ..., "kib": ...}',
}
CHECKED = {"2.1": "bytes_per_token", "2.2": "kv_bytes", "2.3": "latency", "2.4": "verdict"}


def write_course(root: Path) -> None:
    """The course's registry and answers notebook under ``root``."""
    (root / "data" / "exercises").mkdir(parents=True)
    (root / "data" / "exercises" / "02.yaml").write_text(REGISTRY, encoding="utf-8")
    (root / "data" / "models").mkdir()
    (root / "data" / "models" / "tiny.json").write_text('{"layers": 2}')
    (root / "solutions").mkdir()
    registry = exercises.load(root / "data" / "exercises" / "02.yaml")
    cells = [new_markdown_cell("# Sizing", id="text-1"), given("from pdlab.course import *", "code-1")]
    cells.append(given("print(open('../data/models/tiny.json').read())", "code-2", '{"layers": 2}\n'))
    cells.append(given('guess = 7\npredict("2.a", guess)', "code-3", "2.a guess kept: 7. Never marked; guesses() shows it again.\n"))
    for name, source in ANSWERS.items():
        right = Feedback(name, "correct", says=registry[name].why, points=registry[name].points)
        shown = new_output("display_data", {"text/plain": right.text, "text/html": right.html})
        cells.append(new_code_cell(f"# Exercise {name}\n{source}", id=f"ex-{ident(name)}", metadata={"exercise": name}, execution_count=1))
        check = f'check("{name}", {CHECKED[name]})'
        cells.append(new_code_cell(check, id=f"check-{ident(name)}", metadata={"check": name}, outputs=[shown], execution_count=1))
    cells.append(given("print(6 * 7)", "code-4", "42\n"))
    nbformat.write(new_notebook(cells=cells), root / "solutions" / "02-mini.ipynb")


def given(source: str, name: str, shown: str = "") -> nbformat.NotebookNode:
    outputs = [new_output("stream", name="stdout", text=shown)] if shown else []
    return new_code_cell(source, id=name, outputs=outputs, execution_count=1)


def ident(exercise: str) -> str:
    return exercise.replace(".", "-")


def learner(root: Path, path: Path, answers: dict[str, str], change: Callable[[list], None] = lambda cells: None) -> Path:
    """Write a learner's copy with these answers (stubs for the rest), changed by ``change``."""
    book = nbformat.read(root / "solutions" / "02-mini.ipynb", as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if name := cell.metadata.get("exercise"):
            cell.source = f"# Exercise {name}\n{answers.get(name, STUBS[name])}"
    change(book.cells)
    path.write_text(json.dumps(book), encoding="utf-8")
    return path
