"""The registry of exercises: data/exercises/NN.yaml, read and checked.

One file a notebook.  An unknown key, a missing value or an id of another notebook is refused with
the file and the key, so that a slip in a file never becomes a wrong mark.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pdlab.documents import read_yaml
from pdlab.errors import BadInput

Kind = Literal["compute", "implement", "predict", "find", "judge"]
Label = Literal["hypothetical", "published", "simulated", "measured"]

# Names that an expression of the registry may use, and where they live.
_HOMES = {
    "np": "numpy",
    "math": "math",
    "json": "json",
    **{name: f"pdlab.theory.{name}" for name in ("kv", "link", "roofline", "queueing")},
    **{name: f"pdlab.measure.{name}" for name in ("records", "episodes", "slo", "plan")},
    **{name: f"pdlab.live.{name}" for name in ("policy", "prefixes")},
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tolerance(_Strict):
    """How far an answer may lie from the expected value, relatively or in the asked unit."""

    rel: float | None = Field(None, gt=0, lt=1)
    abs: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _one(self) -> Tolerance:
        if (self.rel is None) == (self.abs is None):
            raise ValueError("give either rel or abs")
        return self


class Mistake(_Strict):
    """A wrong answer that people really give, and what it looks like."""

    answer: str  # a Python expression; it may use `expected`
    kind: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    says: str = Field(min_length=10)
    match: Literal["exact", "contains"] | None = None  # default: contains for mappings, exact otherwise

    @field_validator("answer", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if isinstance(value, str) else repr(value)

    @field_validator("says")
    @classmethod
    def _without_prefix(cls, says: str) -> str:
        return re.sub(r"^not yet:\s*", "", says.strip(), flags=re.I)


class Exercise(_Strict):
    """One exercise.  ``expected`` is in ``unit``; labs may replace it by a value of the learner's own run."""

    id: str = Field(pattern=r"^(\d{1,2}|L\d)\.\d{1,2}$")
    kind: Kind
    title: str
    points: int = Field(1, ge=1, le=10)
    unit: str | dict[str, str] = ""  # of the answer, or of each key of a mapping
    expected: Any = None
    tolerance: Tolerance | None = None
    ordered: bool | None = None
    choices: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    synonyms: dict[str, tuple[str, ...]] = {}
    checker: str | None = Field(None, pattern=r"^pdlab(\.\w+)+:\w+$")
    function: str | None = None
    cases: tuple[Any, ...] = ()
    reference: str | None = None
    recompute: str | None = None
    source: str
    label: Label
    why: str = ""
    hints: tuple[str, ...] = Field(min_length=2)
    forms: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    @field_validator("forms", mode="before")
    @classmethod
    def _as_text(cls, forms: Any) -> Any:
        return [form if isinstance(form, str) else repr(form) for form in forms] if isinstance(forms, list) else forms

    @field_validator("choices", mode="before")
    @classmethod
    def _choices_as_text(cls, choices: Any) -> Any:
        """Numbers and an unquoted yes or no may be choices too."""
        if isinstance(choices, dict):
            return {str(key): cls._choices_as_text(value) for key, value in choices.items()}
        if isinstance(choices, list):
            return tuple({True: "yes", False: "no"}[c] if isinstance(c, bool) else str(c) for c in choices)
        return choices

    @model_validator(mode="after")
    def _whole(self) -> Exercise:
        if self.kind == "implement":
            if self.expected is not None:
                raise ValueError("an implement exercise has a reference, no expected value")
            if not (self.function and self.reference) or len(self.cases) < 4:
                raise ValueError("an implement exercise needs function, reference and at least 4 cases")
            if not all(isinstance(case, list | dict) for case in self.cases):
                raise ValueError("each case is a list of arguments or a mapping of keyword arguments")
        elif self.expected is None:
            raise ValueError("expected is missing")
        elif self.function or self.reference or self.cases:
            raise ValueError("function, reference and cases belong to implement exercises")
        return self

    @property
    def notebook(self) -> str:
        return notebook_of(self.id)

    @property
    def is_function(self) -> bool:
        return self.kind == "implement"


class _File(_Strict):
    notebook: str = Field(pattern=r"^(\d{2}|L\d)$")
    exercises: tuple[Exercise, ...]

    @field_validator("notebook", mode="before")
    @classmethod
    def _two_digits(cls, value: Any) -> Any:
        return f"{value:02d}" if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _own_ids(self) -> _File:
        ids = [exercise.id for exercise in self.exercises]
        for name in ids:
            if notebook_of(name) != self.notebook:
                raise ValueError(f"exercise {name} does not belong to notebook {self.notebook}")
            if ids.count(name) > 1:
                raise ValueError(f"exercise {name} is there {ids.count(name)} times")
        return self


def notebook_of(exercise_id: str) -> str:
    """The notebook of an exercise: "2.1" stands in "02", "L1.3" in "L1"."""
    head = exercise_id.partition(".")[0]
    return head if head.startswith("L") else head.zfill(2)


COURSE = "PDLAB_COURSE"  # an environment variable: the folder of another course, for tests


def folder() -> Path:
    """data/exercises of the course: beside this package, else above the current folder.  Raises BadInput."""
    if COURSE in os.environ:
        places = [Path(os.environ[COURSE])]
    else:
        places = [Path(__file__).resolve().parents[2], *(Path.cwd() / "here").parents]
    for place in places:
        if (place / "data" / "exercises").is_dir():
            return place / "data" / "exercises"
    raise BadInput(
        f"no data/exercises in {' or '.join(map(str, places[:2]))}",
        "the course's exercises beside its pdlab package",
        do="Open the notebooks from the course's own folder (make lab does).",
    )


def load(path: Path) -> dict[str, Exercise]:
    """The exercises of one file by id, in order.  Raises BadInput with the file and the key."""
    document = read_yaml(path)
    try:
        file = _File.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(_found(first), _expected(first), f"{path}: {_place(document, first['loc'])}") from error
    if file.notebook != path.stem:
        raise BadInput(f"notebook {file.notebook}", f"notebook {path.stem}, as the file is named", str(path))
    return {exercise.id: exercise for exercise in file.exercises}


def _place(document: Any, loc: tuple[Any, ...]) -> str:
    """A pydantic location with exercise ids instead of positions."""
    parts = [str(part) for part in loc]
    if len(loc) > 1 and loc[0] == "exercises":
        try:
            parts[:2] = [f"exercise {document['exercises'][loc[1]]['id']}"]
        except (LookupError, TypeError):
            parts[:2] = [f"exercise number {loc[1] + 1 if isinstance(loc[1], int) else loc[1]}"]
    return ".".join(parts) or "top level"


def _found(error: Any) -> str:
    return {"extra_forbidden": "an unknown key", "missing": "no such key"}.get(error["type"]) or repr(error["input"])[:80]


def _expected(error: Any) -> str:
    return {"extra_forbidden": "only the keys of an exercise", "missing": "a value"}.get(error["type"]) or error["msg"]


@cache
def _file(path: Path, _changed_ns: int) -> dict[str, Exercise]:
    return load(path)


def registry() -> dict[str, Exercise]:
    """Every exercise of the course by id, notebooks in order, then labs."""
    found: dict[str, Exercise] = {}
    for path in sorted(folder().glob("*.yaml")):
        found |= _file(path, path.stat().st_mtime_ns)
    return found


def find(exercise_id: str) -> Exercise:
    """One exercise; only its own file is read.  Raises BadInput for an unknown id, or one that may be two."""
    as_number, exercise_id = isinstance(exercise_id, float), str(exercise_id).strip()
    path = folder() / f"{notebook_of(exercise_id)}.yaml"
    is_one = len(exercise_id) < 10 and path.is_file()
    known = _file(path, path.stat().st_mtime_ns) if is_one else {}
    if exercise_id not in known:
        raise BadInput(
            f"exercise {exercise_id[:40]!r}", f"one of {', '.join(known)}" if known else "an id such as '2.1'", "check or hint"
        )
    if as_number and f"{exercise_id}0" in known:  # Python reads 2.10 as 2.1
        raise BadInput(
            f"the number {exercise_id}, which is {exercise_id} and {exercise_id}0 in one",
            f'the id in quotes: "{exercise_id}" or "{exercise_id}0"', "check or hint",
        )  # fmt: skip
    return known[exercise_id]


def evaluate(expression: str, where: str, **names: Any) -> Any:
    """The value of a registry expression over numpy and pdlab's own modules.

    A block of statements is allowed too: its value is the last function or variable it defines.
    Raises BadInput when it cannot be evaluated.
    """
    try:
        before, value, used = _compiled(expression, where)
        space = {"__builtins__": __builtins__, "__name__": "registry"} | _namespace(used) | names
        exec(before, space)
        return eval(value, space)
    except Exception as error:
        raise BadInput(f"{expression!r} ({type(error).__name__}: {error})", "a Python expression", where) from error


@lru_cache(maxsize=4096)
def _compiled(expression: str, where: str) -> tuple[CodeType, CodeType, frozenset[str]]:
    """What to run, what gives the value then, and the names that either uses."""
    tree = ast.parse(expression.strip())
    used = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    *before, last = tree.body
    if isinstance(last, ast.Expr):
        return compile(ast.Module(before, []), where, "exec"), compile(ast.Expression(last.value), where, "eval"), used
    name = last.name if isinstance(last, ast.FunctionDef) else last.targets[0].id
    return compile(tree, where, "exec"), compile(name, where, "eval"), used


def _namespace(used: frozenset[str]) -> dict[str, Any]:
    found = {name: importlib.import_module(_HOMES[name]) for name in used & set(_HOMES)}
    if "Fraction" in used:
        found["Fraction"] = Fraction
    if "DATA" in used:
        found["DATA"] = folder().parent
    return found


def reference(exercise: Exercise) -> Any:
    """The function that an implement exercise is compared with."""
    return evaluate(exercise.reference or "", f"exercise {exercise.id}.reference")


