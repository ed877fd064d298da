"""Run the catalogue on live pairs and write down what each fault showed.

After every fault the scene is mended and must be clean: dead servers are started again, stopped ones
go on, and no KV block may stay in use for longer than the lease and a few seconds.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from pdlab.documents import write_whole
from pdlab.errors import BadInput
from pdlab.live import provenance
from pdlab.live.faults.catalogue import CATALOGUE, Fault
from pdlab.live.faults.scene import BlocksLeft, NotInjected, Scene
from pdlab.live.serve import Deployment, Spec, free_ports
from pdlab.measure import records

LEASE_S = 6.0
GRACE_S = 10.0  # after the lease: the engine frees blocks in its next step
BLOCKS = 64  # few, so that stranded prefills fill the cache
TRIES = 3  # a moment can be missed; a fault that was not injected is tried again, and counted
GIVE_UP = 3  # runs of one fault that came to nothing; after that many it is left alone
TINY_BLOCK_BYTES = 2 * 4 * 2 * 32 * 4 * 128  # K and V × layers × KV heads × head_dim × float32 × tokens
MISMATCHED = {"nixl-dtype": ("--dtype", "bfloat16"), "nixl-weights": ("--load-format", "dummy")}
PAIRS = ("nixl", "tcp", "tcp-unchecked", *MISMATCHED, "nixl-recompute")
TABLE = "faults.json"
DEAD = {"dead": 1}
Say = Callable[[str], None]


def pair(name: str, model: str = "tiny") -> Spec:
    """The servers that a fault needs, by the name in its catalogue entry."""
    base = Spec(
        model, design="disaggregated", dtype="float32", block_size=128, max_model_len=4096,
        kv_cache_bytes=BLOCKS * TINY_BLOCK_BYTES,
        ucx_tls="tcp",  # shared memory would be read even from a process that is stopped
    )  # fmt: skip
    if name in ("nixl", "nixl-recompute"):
        return replace(base, connector_config={
            "kv_load_failure_policy": "recompute" if name == "nixl-recompute" else "fail",
            "kv_connector_extra_config": {"kv_lease_duration": LEASE_S},
        })  # fmt: skip
    if name in ("tcp", "tcp-unchecked"):
        extra = {"port": free_ports(1)[0], "lease_s": LEASE_S, "timeout_s": 15, "checksum": name == "tcp"}
        return replace(base, connector="TcpConnector", connector_config={
            "kv_connector_module_path": "pdlab.live.tcpkv.connector",
            "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": extra,
        })  # fmt: skip
    if name in MISMATCHED:
        nixl = pair("nixl", model)
        return replace(nixl, mismatched=True, role_args={"prefill": MISMATCHED[name]})
    raise BadInput(f"a pair named {name!r}", f"one of {', '.join(PAIRS)}")


@dataclass(frozen=True)
class Row:
    """One fault, one run.  Counters are what changed, by server; a server that had died has ``dead``.

    ``blocks_free_after_s`` speaks of the servers in ``looked_at``, those that were alive: a dead
    server's blocks went with it.  ``recovered_after_s`` includes starting dead ones again, and
    ``all_free_after_s`` is when every server, those included, had served and used no block (None in
    runs made before it was looked at).  ``missed`` counts tries that injected nothing.
    """

    fault: str
    injected: str
    client_saw: str
    http_status: int | None
    finished: bool
    attempts: int
    tokens: int
    twice: int
    right: str  # all, none, prefix, or wrong
    blocks_free_after_s: float
    recovered_after_s: float
    processes: int
    missed: int
    counters: dict[str, dict[str, float]]
    facts: dict[str, Any]
    all_free_after_s: float | None = None

    @property
    def looked_at(self) -> list[str]:
        """The servers that were alive when blocks were looked for."""
        return [name for name, changes in self.counters.items() if changes != DEAD]


@dataclass(frozen=True)
class Result:
    """All rows there are now, the runs that were asked for, and why some came to nothing, by fault."""

    rows: list[Row]
    asked: dict[str, int]
    given_up: dict[str, list[str]] = field(default_factory=dict)

    @property
    def short(self) -> dict[str, str]:
        """Faults with fewer runs than asked for, and why."""
        runs = Counter(row.fault for row in self.rows)
        return {
            name: f"{runs[name]} of {count} runs; {len(why)} came to nothing: {why[-1] if why else 'not tried'}"
            for name, count in self.asked.items()
            if runs[name] < count
            for why in [self.given_up.get(name, [])]
        }


def compare(tokens: Sequence[int], reference: Sequence[int]) -> tuple[str, int]:
    """How the tokens received stand to those of a healthy answer, and how many came twice.

    Tokens came twice where what follows a good beginning goes back and repeats a part of it.
    """
    tokens, reference = list(tokens), list(reference)
    if not tokens:
        return "none", 0
    same = next((i for i, pair in enumerate(zip(tokens, reference)) if pair[0] != pair[1]), min(len(tokens), len(reference)))
    if same == len(tokens):
        return ("all" if len(tokens) == len(reference) else "prefix"), 0
    rest = tokens[same:]
    again = 0
    for start in range(same):  # does what follows repeat something that was already sent?
        length = next((i for i, pair in enumerate(zip(rest, reference[start:])) if pair[0] != pair[1]), len(rest))
        length = min(length, len(reference) - start)
        if length >= 3 or length == len(rest):  # shorter agreement is chance
            again = max(again, min(length, same - start))
    return "wrong", again


def run(
    names: Sequence[str] = (),
    repeat: int = 1,
    out: Path | None = None,
    model: str = "tiny",
    say: Say = lambda text: None,
    repeat_kills: int | None = None,
) -> Result:
    """Run faults (default: all), ``repeat`` times each, and write the table and provenance to ``out``.

    Faults that kill a server run ``repeat_kills`` times, where that is given: each has to start it
    again.  What ``out`` holds already is kept and counted, so that an interrupted run goes on.
    A run that came to nothing is counted and the next one is tried, up to ``GIVE_UP`` of one fault.
    """
    unknown = [name for name in names if name not in CATALOGUE]
    if unknown:
        raise BadInput(f"fault {unknown[0]!r}", f"one of: {'; '.join(CATALOGUE)}")
    chosen = [CATALOGUE[name] for name in dict.fromkeys(names)] or list(CATALOGUE.values())
    asked = {one.name: repeat_kills if one.kills and repeat_kills else repeat for one in chosen}
    result = Result(read(out) if out and (out / TABLE).exists() else [], asked)
    there = Counter(row.fault for row in result.rows)
    todo = [one for one in chosen for _ in range(asked[one.name] - there[one.name])]
    todo.sort(key=lambda one: one.kills)  # cheap ones first
    with tempfile.TemporaryDirectory(prefix="pdlab-faults-") as scratch:
        for kind in sorted({one.pair for one in todo}, key=PAIRS.index):
            say(f"starting the pair {kind}")
            with Deployment(pair(kind, model), Path(scratch) / kind) as deployment:
                scene = Scene(deployment, LEASE_S)
                about = provenance.measured(deployment, "pdlab faults", design="disaggregated",
                                            notes=f"lease {LEASE_S:g} s, {BLOCKS} KV blocks")  # fmt: skip
                for one in (one for one in todo if one.pair == kind):
                    _once(scene, one, result, say)
                    if out and result.rows:
                        _write(out, result, about)
    return result


def _once(scene: Scene, one: Fault, result: Result, say: Say) -> None:
    """One more row, or one more reason why there is none.  One fault must not take the others with it."""
    nothing = result.given_up.setdefault(one.name, [])
    if len(nothing) >= GIVE_UP:
        return
    try:
        result.rows.append(observe(scene, one))
        say(f"{one.name}: {result.rows[-1].client_saw}")
    except Exception as error:
        nothing.append(f"{type(error).__name__}: {error}")
        say(f"{one.name}: {'BLOCKS LEFT' if isinstance(error, BlocksLeft) else 'NOT INJECTED'}: {error}")
        _mend(scene)


def _write(out: Path, result: Result, about: dict[str, Any]) -> None:
    """The table, one line a run, and where it comes from."""
    lines = ",\n".join(json.dumps(asdict(row), separators=(",", ":")) for row in result.rows)
    tries = Counter({row.fault: 0 for row in result.rows})
    for row in result.rows:
        tries[row.fault] += row.missed
    document = about | {"summary": about["summary"] | {
        "runs_of_each_fault": dict(Counter(row.fault for row in result.rows)),
        "tries_that_injected_nothing": dict(+tries),
        "runs_that_came_to_nothing": {name: why for name, why in result.given_up.items() if why},
    }}  # fmt: skip
    records.write_provenance(out, document)
    write_whole(out / TABLE, f"[\n{lines}\n]\n")


def read(directory: Path) -> list[Row]:
    """The rows of a recorded run."""
    return [Row(**row) for row in json.loads((directory / TABLE).read_text())]


def record(directory: Path) -> None:
    """What lab L3 measures live: every fault once; goes on where it was interrupted.  Raises NotInjected."""
    if short := run(out=directory, say=lambda text: print(text, flush=True)).short:
        raise NotInjected("; ".join(f"{name}: {why}" for name, why in short.items()))


def observe(scene: Scene, one: Fault) -> Row:
    """One run of one fault, from a clean scene to a clean scene."""
    before_processes = _processes()
    missed = 0
    while True:
        scene.deployment.reset_prefix_caches()
        before = {server.name: scene.counters(server) for server in scene.deployment.servers}
        try:
            seen = one.run(scene)
            break
        except NotInjected:
            missed += 1
            _mend(scene)
            scene.until_free(*scene.deployment.servers, timeout_s=LEASE_S + GRACE_S)
            if missed >= TRIES:
                raise
    broken_s = time.monotonic()
    _thaw(scene)
    scene.until_free(*filter(scene.deployment.alive, scene.deployment.servers), timeout_s=LEASE_S + GRACE_S)
    free_s = time.monotonic() - broken_s
    after = {server.name: _counters(scene, server) for server in scene.deployment.servers}
    dead = _recover(scene, healthy=one.pair not in MISMATCHED)  # mismatched pairs never are
    recovered_s = time.monotonic() - broken_s
    scene.until_free(*scene.deployment.servers, timeout_s=LEASE_S + GRACE_S)
    all_free_s = time.monotonic() - broken_s
    scene.deployment.reset_prefix_caches()  # wrong blocks may be cached under the right names
    reference = scene.reference(seen.prompt, seen.asked) if seen.asked else []
    right, twice = compare(seen.answer.tokens, reference)
    return Row(
        fault=one.name, injected=seen.injected,
        client_saw=seen.answer.saw(), http_status=seen.answer.http_status, finished=seen.answer.finished,
        attempts=seen.attempts, tokens=len(seen.answer.tokens), twice=twice, right=right,
        blocks_free_after_s=round(free_s, 2), recovered_after_s=round(recovered_s, 2),
        processes=_processes() - before_processes, missed=missed,
        counters=_changes(before, after),
        facts=seen.facts | {"client_waited_s": round(seen.answer.ended_s - seen.answer.sent_s, 2)} | ({"dead": dead} if dead else {}),
        all_free_after_s=round(all_free_s, 2),
    )  # fmt: skip


def _counters(scene: Scene, server: Any) -> dict[str, float] | None:
    try:
        return scene.counters(server) if scene.deployment.alive(server) else None
    except OSError:
        return None


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        name: {key: now[key] - was.get(key, 0) for key in now if now[key] != was.get(key, 0)} if now is not None else dict(DEAD)
        for (name, was), now in zip(before.items(), after.values(), strict=True)
    }


def _thaw(scene: Scene) -> None:
    """Let stopped servers go on."""
    for server in filter(scene.deployment.alive, scene.deployment.servers):
        scene.deployment.signal(server, signal.SIGCONT)


def _mend(scene: Scene) -> None:
    """Let stopped servers go on, and start dead ones again."""
    _thaw(scene)
    for server in [server for server in scene.deployment.servers if not scene.deployment.alive(server)]:
        scene.deployment.restart(server)


def _recover(scene: Scene, healthy: bool) -> list[str]:
    """Mend until a request goes through; the servers that were dead.  A server may die a little after the fault."""
    dead: list[str] = []
    for last in (False, False, True):
        dead += [server.name for server in scene.deployment.servers if not scene.deployment.alive(server)]
        _mend(scene)
        try:
            if healthy:
                _healthy(scene)
            return dead
        except (NotInjected, OSError, RuntimeError):
            if last:
                raise
            time.sleep(3)
    raise AssertionError


def _healthy(scene: Scene) -> None:
    """A request over the pair works again, and leaves nothing behind."""
    prompt = scene.prompt(200)
    answer = scene.pull(prompt, scene.prefilled(prompt), 4).wait()
    if not answer.finished:
        raise RuntimeError(f"the pair has not recovered: {answer.saw()}")
    scene.until_free(*scene.deployment.servers, timeout_s=LEASE_S + GRACE_S)


def _processes() -> int:
    """Processes below this one; routers and dead servers must not add up."""
    return len(psutil.Process(os.getpid()).children(recursive=True))


def summary(rows: Sequence[Row]) -> Iterator[list[Any]]:
    """One line a fault over its runs, for a table."""
    for name in dict.fromkeys(row.fault for row in rows):
        mine = [row for row in rows if row.fault == name]
        yield [
            name, len(mine), mine[-1].client_saw, max(row.attempts for row in mine),
            "/".join(dict.fromkeys(row.right for row in mine)), sum(row.twice for row in mine),
            max(row.blocks_free_after_s for row in mine), max(row.recovered_after_s for row in mine),
            sum(row.processes for row in mine), sum(row.missed for row in mine),
        ]  # fmt: skip


HEADERS = ("fault", "runs", "the client saw", "attempts", "tokens right", "twice", "blocks free after s",
           "recovered after s", "processes left", "missed tries")  # fmt: skip
