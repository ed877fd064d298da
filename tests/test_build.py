"""``pdlab build``: what it makes of a source, what it refuses, and what ``--check`` sees."""

from __future__ import annotations

import base64
import copy
import io
import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from minicourse import CHECK, cell, exercise, write_source
from nbformat.v4 import new_notebook
from PIL import Image

from pdlab.course import build as building
from pdlab.course import cli, exercises, source
from pdlab.course.build import build
from pdlab.course.stored import compared_cells, conceal

# ── cutting a cell ──────────────────────────────────────────────────────────────────────────

REGION = "### BEGIN SOLUTION\n{}\n### END SOLUTION"


@pytest.mark.parametrize(
    ("stub", "answer"),
    [
        ("x = ...", "x = 3"),
        ("x: int = ...", "x = 3"),
        ("a, b = ..., ...", "a, b = 1, 2"),
        ('verdict = {\n    "adopt": ...,\n}', 'verdict = {"adopt": "no"}'),
        ("def f(a):\n    ...", "def f(a):\n    return a"),
        ('def f(a: tuple[int, ...]) -> int:\n    """Twice a."""\n    return ...', "def f(a):\n    return a[..., 0]"),
        ("f = lambda a: ...", "f = lambda a: a"),
    ],
)
def test_stub_is_the_learners_and_solution_the_answers(stub: str, answer: str) -> None:
    """The learner keeps the stub and nothing of the solution; the answers keep the solution alone."""
    learner, answers = source.split(f"# Exercise 1.1\ny = 2\n{stub}\n{REGION.format(answer)}\n")
    assert learner == f"# Exercise 1.1\ny = 2\n{stub}"
    assert answers == f"# Exercise 1.1\ny = 2\n{answer}"


def test_ellipsis_as_an_index_is_no_stub() -> None:
    """A line such as a[..., 0] stays in both copies."""
    learner, answers = source.split(f"b = a[..., 0]\nx = ...\n{REGION.format('x = 1')}")
    assert learner == "b = a[..., 0]\nx = ..."
    assert answers == "b = a[..., 0]\nx = 1"


def test_cell_without_a_region_is_the_same_in_both() -> None:
    """Only marked regions are cut."""
    assert source.split("x = ...\nprint(x)") == ("x = ...\nprint(x)",) * 2


@pytest.mark.parametrize("text", ["### BEGIN SOLUTION\nx = 1", "x = 1\n### END SOLUTION", REGION.format("### BEGIN SOLUTION")])
def test_unpaired_markers_are_refused(text: str) -> None:
    """A region that does not begin or end is an error, not a leaked solution."""
    with pytest.raises(ValueError, match="has no partner"):
        source.split(text)


# ── reading a source ────────────────────────────────────────────────────────────────────────


def read(root: Path, body: str, registered: list[str]) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode]:
    write_source(root, "02-try", body, registered)
    return source.notebooks(source.Source(root, "02-try"))


def test_ids_are_readable_and_survive_edits_elsewhere(tmp_path: Path) -> None:
    """Exercises get ids that can be read; a new cell changes no other cell's id."""
    body = CHECK + exercise("2.1") + "\n# %%\nprint(1)\n\n# %%\nprint(1)\n"
    before = [c.id for c in read(tmp_path, body, ["2.1"])[0].cells]
    after = [c.id for c in read(tmp_path, "# %% [markdown]\n# New.\n\n" + body, ["2.1"])[0].cells]
    assert before[1:3] == ["ex-2-1", "check-2-1"]
    assert len(set(before)) == len(before)
    assert after[1:] == before


@pytest.mark.parametrize(
    ("body", "registered", "message"),
    [
        (CHECK + exercise("2.1"), [], "exercise 2.1 has no entry in"),
        (CHECK + exercise("2.1"), ["2.1", "2.2"], "exercise 2.2 is not in"),
        (CHECK + exercise("2.1").partition("# %% check")[0], ["2.1"], "exercise 2.1 has no cell"),
        (CHECK + exercise("2.1") * 2, ["2.1"], "stands there 2 times"),
        (CHECK + exercise("2.1").replace('check("2.1"', 'check("2.7"'), ["2.1"], "has to call check('2.1'"),
        (CHECK + exercise("2.1").replace("# Exercise 2.1\n", ""), ["2.1"], "first line of the answer cell"),
        (CHECK + exercise("2.1").replace("x = ...\n", ""), ["2.1"], "leaves the learner no '...'"),
        (CHECK + exercise("2.1").replace("### BEGIN SOLUTION\n", "").replace("### END SOLUTION\n", ""), ["2.1"], "has no '### BEGIN"),
        (CHECK + exercise("2.1").partition("# %% exercise")[0] + '\n# %% check="2.1"\ncheck("2.1", 1)\n', [], "check 2.1 has no exercise"),
    ],
)
def test_source_and_registry_have_to_agree(tmp_path: Path, body: str, registered: list[str], message: str) -> None:
    """An exercise without entry, check, stub or solution, or the reverse, is an error that names it."""
    with pytest.raises(source.SourceError) as error:
        read(tmp_path, body, registered)
    assert message in str(error.value)


# ── building: one course, built once ────────────────────────────────────────────────────────

PICTURE = """
# %%
import matplotlib.pyplot as plt
plt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()

# %% tags=["nbval-ignore-output"]
import time; print(time.perf_counter())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, building.Product]]:
    """A course with one sound source and one of each kind that cannot be built."""
    root = tmp_path_factory.mktemp("course")
    write_source(root, "00-good", CHECK + exercise("0.1") + PICTURE, ["0.1"])
    write_source(root, "01-raises", CHECK + exercise("1.1") + "\n# %%\ndef f():\n    return 1 / 0\n\nf()\n", ["1.1"])
    write_source(root, "02-wrong", CHECK + exercise("2.1", answer="4"), ["2.1"])
    write_source(root, "03-given", CHECK + exercise("3.1").replace("x = ...", "x = 3; y = ..."), ["3.1"])
    write_source(root, "04-address", CHECK + exercise("4.1") + "\n# %%\nprint(object())\n", ["4.1"])
    write_source(root, "L1-dies", CHECK + exercise("L1.1") + "\n# %%\nimport os\nos._exit(1)\n\n# %%\nprint(1)\n", ["L1.1"])
    products = build(root, [])
    return root, {p.path.relative_to(root).as_posix(): p for p in products}


def test_good_source_makes_two_executed_notebooks(built) -> None:
    """Learner: every check is not attempted; answers: every check is correct; counts run 1 … n."""
    root, products = built
    for name, verdict in (("notebooks/00-good.ipynb", "0.1 not attempted"), ("solutions/00-good.ipynb", "0.1 correct")):
        assert products[name].state == "written"
        notebook = nbformat.read(root / name, as_version=4)
        code = [c for c in notebook.cells if c.cell_type == "code"]
        assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
        assert verdict in code[2].outputs[0].text
        assert set(notebook.metadata) == {"kernelspec", "language_info"}
        assert "image/png" in code[3].outputs[0].data
    assert "SOLUTION" not in (root / "notebooks/00-good.ipynb").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("notebooks/01-raises.ipynb", "ZeroDivisionError: division by zero"),
        ("solutions/02-wrong.ipynb", "cell check-2-1: shows '2.1 not yet', expected '2.1 correct'"),
        ("notebooks/03-given.ipynb", "cell check-3-1: shows '3.1 correct (1 point).', expected '3.1 not attempted'"),
        ("solutions/04-address.ipynb", "prints a memory address"),
        ("labs/L1-dies.ipynb", "ended the kernel"),
    ],
)
def test_notebook_that_cannot_be_stored_says_why(built, name: str, message: str) -> None:
    """An error, a wrong verdict, an unrepeatable output, a dead kernel: nothing is written, the cell is named."""
    root, products = built
    assert products[name].state == "failed"
    assert message in products[name].problems[0]
    assert "cell " in products[name].problems[0]
    assert not (root / name).exists()


def test_rebuild_changes_no_byte_and_check_is_green(built) -> None:
    """Without a change, a second build and --check leave every byte, though one cell prints the time."""
    root, _ = built
    before = {p: p.read_bytes() for p in root.rglob("*.ipynb")}
    assert {p.state for p in build(root, ["0"])} == {"unchanged"}
    checked = build(root, ["00"], check=True)
    assert [p.problems for p in checked] == [[], []]
    assert {p: p.read_bytes() for p in root.rglob("*.ipynb")} == before


def test_floor_holds_each_built_notebook(built) -> None:
    """The build stores how many cells of each notebook are compared; volatile cells do not count."""
    root, _ = built
    floor = json.loads((root / building.FLOOR).read_text())
    assert {name: count for name, count in floor.items() if "00" in name} == {
        "notebooks/00-good.ipynb": 2,
        "solutions/00-good.ipynb": 2,
    }


@pytest.fixture
def course(built, tmp_path: Path) -> Path:
    """A copy of the built course that a test may change, with the sound source alone."""
    root, _ = built
    for path in root.rglob("*"):
        if path.is_file() and "00" in path.name:
            copied = tmp_path / path.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
    (tmp_path / "tests").mkdir()
    (tmp_path / building.FLOOR).write_text(json.dumps({f"{f}/00-good.ipynb": 2 for f in ("notebooks", "solutions")}))
    return tmp_path


def problems(root: Path, **options: bool) -> list[str]:
    return [problem.replace(f"{root}/", "") for p in build(root, [], run=False, **options) for problem in p.problems]


def test_sound_copy_has_no_problem(course: Path) -> None:
    """The stored notebooks are current without a run."""
    assert problems(course, check=True) == []


def test_check_names_stale_missing_and_orphan_products(course: Path) -> None:
    """Each product that is not current is named, with the cell where there is one."""
    one = course / "solutions" / "00-good.py"
    one.write_text(one.read_text().replace('print(f"{name} {word}")', 'print(f"{name}  {word}")'))
    (course / "solutions" / "00-good.ipynb").unlink()
    (course / "notebooks" / "07-gone.ipynb").write_text("{}")
    found = "\n".join(problems(course, check=True))
    assert "notebooks/00-good.ipynb: cell code-" in found and "has changed since" in found
    assert "solutions/00-good.ipynb: missing" in found
    assert "notebooks/07-gone.ipynb: has no source" in found


def test_check_names_a_cell_edited_by_hand(course: Path) -> None:
    """A notebook changed outside the build is stale at that cell."""
    path = course / "notebooks" / "00-good.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].metadata["collapsed"] = True
    nbformat.write(notebook, path)
    assert problems(course, check=True) == ["notebooks/00-good.ipynb: cell check-0-1 is stale: its metadata differs"]


def test_prose_is_rebuilt_without_a_run(course: Path) -> None:
    """--no-run takes new prose and keeps the stored outputs."""
    one = course / "solutions" / "00-good.py"
    one.write_text("# %% [markdown]\n# A new paragraph.\n\n" + one.read_text())
    assert problems(course) == []
    notebook = nbformat.read(course / "notebooks" / "00-good.ipynb", as_version=4)
    assert notebook.cells[0].source == "A new paragraph."
    assert "0.1 not attempted" in notebook.cells[3].outputs[0].text


def test_fewer_compared_cells_have_to_be_accepted(course: Path) -> None:
    """The stored count never falls unasked."""
    floor = course / building.FLOOR
    floor.write_text(json.dumps({"notebooks/00-good.ipynb": 3, "solutions/00-good.ipynb": 2}))
    assert "2 cells are compared, 3 were before" in problems(course)[0]
    assert problems(course, accept_fewer=True) == []
    assert json.loads(floor.read_text())["notebooks/00-good.ipynb"] == 2


# ── pictures and volatile outputs ───────────────────────────────────────────────────────────


def png(pixels: np.ndarray, **options: int) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", **options)
    return base64.b64encode(buffer.getvalue()).decode()


def test_same_pixels_in_other_bytes_are_the_same_picture() -> None:
    """Another compression, or rounding in the last bits, is no change; a moved line is."""
    pixels = np.full((100, 100, 3), 255, np.uint8)
    pixels[50] = 0
    rounded = pixels.copy()
    rounded[50] = 3
    moved = np.roll(pixels, 1, axis=0)
    assert png(pixels, compress_level=1) != png(pixels, compress_level=9)
    assert building.same_picture(png(pixels, compress_level=1), png(pixels, compress_level=9))
    assert building.same_picture(png(pixels), png(rounded))
    assert not building.same_picture(png(pixels), png(moved))
    assert not building.same_picture(png(pixels), png(pixels[:99]))
    assert not building.same_picture(png(pixels), "bm8=")


def test_volatile_output_is_renewed_with_the_rest(course: Path) -> None:
    """A time that was printed is kept while nothing else changed, and replaced when something did."""
    old = nbformat.read(course / "notebooks" / "00-good.ipynb", as_version=4)
    new = copy.deepcopy(old)
    new.cells[-1].outputs[0].text = "another time\n"
    building.keep_equal_outputs(old, new)
    assert new == old
    new.cells[-1].outputs[0].text = "another time\n"
    new.cells[2].outputs[0].text = "another result\n"
    building.keep_equal_outputs(old, new)
    assert new.cells[-1].outputs[0].text == "another time\n"


# ── the command ─────────────────────────────────────────────────────────────────────────────


def test_unknown_notebook_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """A number that no source has ends with status 2 and one line that lists the known ones."""
    assert cli.main(["build", "77"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "found '77', expected a notebook's number" in error


def test_stored_notebooks_are_what_their_sources_make(capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell of every stored notebook is its source's, in canonical form; nbval compares the outputs."""
    status = cli.main(["build", "--check", "--no-run", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [problem for p in document["products"] for problem in p["problems"]] == []
    assert document["ok"] is True and status == 0
    assert {p["path"].partition("/")[0] for p in document["products"]} >= {"notebooks", "solutions"}


def test_a_revealing_cell_is_stored_without_its_output() -> None:
    """What answers an exercise is not stored in the learner's copy, and nbval runs the cell without comparing it."""
    notebook = new_notebook(cells=[cell("print(8.29)", "8.29\n", tags=("reveals",)), cell("print(1)", "1\n", count=2)])
    conceal(notebook)
    assert [len(one.outputs) for one in notebook.cells] == [0, 1]
    assert compared_cells(notebook) == 1 and notebook.cells[0].execution_count == 1


def test_no_printed_line_answers_an_exercise_above_it() -> None:
    """In the learners' copies nothing that a cell printed after an exercise holds its number, unless it stood there before."""
    held_back, looked_at = 0, 0
    for one in source.sources(source.ROOT):
        registered, before, open_numbers = exercises.load(one.registry), "", {}
        for place in nbformat.read(one.learner, 4).cells:
            printed = "".join(output.text for output in place.get("outputs", []) if output.output_type == "stream")
            for number, name in open_numbers.items():
                assert not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", printed), f"{one.name}: {place.id} shows {name}"
            held_back += "reveals" in place.metadata.get("tags", [])
            before += place.source + printed
            asked = registered.get(str(place.metadata.get("exercise", "")))
            if asked and isinstance(asked.expected, int | float) and abs(asked.expected) > 2 and asked.kind == "compute":
                numbers = {f"{asked.expected:,}", f"{asked.expected:.4g}", f"{asked.expected:,.2f}"}
                open_numbers |= {number: asked.id for number in numbers if len(number) > 3 and number not in before}
                looked_at += 1
    assert held_back >= 5 and looked_at >= 15
