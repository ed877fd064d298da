"""Notebook 09's repaired plan: what it must do, and which repairs only look like one."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pdlab.course import exercises
from pdlab.course.finding import Finding
from pdlab.documents import read_yaml
from pdlab.errors import BadInput
from pdlab.live.policy import Ask, Rule, rule_from_name
from pdlab.measure import plan

# name, prompt tokens, tokens of it that decode holds, side it should take
PROMPTS = (
    ("short, cold", 300, 0, "local"),
    ("long, mostly cached", 3_000, 2_816, "local"),
    ("long, cold", 3_000, 0, "remote"),
)
MAY_CHANGE = {"deployments.disaggregated.routing", "live.max_num_batched_tokens"}


def proposed() -> dict[str, Any]:
    """The plan as it came with the proposal."""
    path = exercises.folder().parent / "plans" / "proposal-disaggregate-everything.yaml"
    return read_yaml(path)


def apply(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The proposed plan with dotted paths set to new values.  Raises BadInput for an unknown path."""
    document = copy.deepcopy(proposed())
    for path, value in changes.items():
        *parents, last = str(path).split(".")
        node: Any = document
        for name in parents:
            node = node.get(name) if isinstance(node, dict) else None
        if not isinstance(node, dict) or last not in node:
            raise BadInput(f"the path {path!r}", "a path such as live.max_num_batched_tokens", "changes")
        node[last] = list(value) if isinstance(value, tuple) else value
    return document


def judge(changes: object) -> Finding:
    """Whether ``changes`` mends the proposed plan in its two faults and nowhere else."""
    if not isinstance(changes, Mapping):
        return Finding(False, "not-a-mapping", f"changes map a path to a value; this is a {type(changes).__name__}")
    try:
        checked = plan.from_dict(apply(changes), "the repaired plan")
        rule = rule_from_name(checked.deployments.disaggregated.routing)
    except BadInput as error:
        return Finding(False, "refused-by-check", str(error))
    others = sorted(set(map(str, changes)) - MAY_CHANGE)
    if others:
        return Finding(False, "gates-moved", f"{others[0]} was changed too; a plan with other terms is another proposal")
    for name, prompt, cached, side in PROMPTS:
        decision = rule(Ask(prompt, cached))
        if decision.side != side:
            says = f"a prompt that is {name} ({prompt:,} tokens, {cached:,} of them on decode) goes {decision.side}: {decision.reason}"
            return Finding(False, _routing_kind(rule), says)
    if len(set(checked.live.max_num_batched_tokens)) < 2:
        return Finding(False, "untuned-baseline", "one chunk size leaves nothing to tune over: the opponent stays as it came")
    longest = checked.live.max_model_len
    if min(checked.live.max_num_batched_tokens) >= longest:
        says = f"every one of these sizes holds the longest prompt that the plan allows ({longest:,} tokens), so none is ever cut"
        return Finding(False, "untuned-baseline", says)
    return Finding(True)


def _routing_kind(rule: Rule) -> str:
    sides = {rule(Ask(prompt, cached)).remote for _, prompt, cached, _ in PROMPTS}
    if sides == {True}:
        return "all-remote"
    return "all-local" if sides == {False} else "other-prompts-remote"


def try_out(changes: Mapping[str, Any]) -> None:
    """Write the repaired plan to a file, read it as the tools do, and print where it sends three prompts."""
    if any(value is ... for value in changes.values()):
        print("no repaired plan yet")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repaired.yaml"
        try:
            path.write_text(yaml.safe_dump(apply(changes), sort_keys=False), encoding="utf-8")
            checked = plan.load(path)
            rule = rule_from_name(checked.deployments.disaggregated.routing)
        except (BadInput, yaml.YAMLError) as error:
            print(f"plan check: refused. {str(error).replace(folder + '/', '')}")
            return
    print(f"plan check: accepted, {checked.budget} {checked.budget_unit}s on each side")
    print(f"chunk sizes to tune aggregation over: {', '.join(map(str, checked.live.max_num_batched_tokens))}")
    for name, prompt, cached, _ in PROMPTS:
        decision = rule(Ask(prompt, cached))
        print(f"{name:20} {prompt:5,} tokens, {cached:5,} on decode: {decision.side:6}  ({decision.reason})")
