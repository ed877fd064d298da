"""Runs of ``pdlab record`` on the learner's own machine, in place of the recorded ones of labs L1 and L4.

``PDLAB_RUN_L1`` and ``PDLAB_RUN_L4`` name them.  The text and the sums of both labs are about one model in
blocks of one size, and about one set of messages or requests: a folder with others is refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pdlab.course.own import PLAN, VARIABLE, named_folder
from pdlab.documents import parse_json
from pdlab.errors import BadInput
from pdlab.live import ledger, link_record, routing
from pdlab.live.sweep import SERVER_METRICS
from pdlab.measure import plan as plans
from pdlab.measure import records

LINK, BOOKS = "link", "nixl-bytes"  # lab L1's two runs, by their names in `pdlab record`
MODEL, BLOCK_SIZE = "smollm2", ledger.BLOCK_SIZE


def own_link(lab: str) -> Path | None:
    """The folder that ``$PDLAB_RUN_<lab>`` names, with ``link`` and ``nixl-bytes`` in it; None where it names none.

    Raises BadInput for one that ``pdlab record link`` and ``pdlab record nixl-bytes`` have not filled, for
    other messages, transfers, model or block size than the lab's, and for an interface that others used, too.
    """
    if (named := named_folder(lab)) is None:
        return None
    where, folder = named
    do = f"Fill it: `pdlab record WHAT --out {folder}/WHAT`, for {LINK} and for {BOOKS}; or unset {VARIABLE}{lab}."
    link, books = folder / LINK / link_record.LINK, folder / BOOKS / ledger.LEDGER
    if missing := [str(path.relative_to(folder)) for path in (link, books) if not path.is_file()]:
        raise BadInput(f"no {' and no '.join(missing)}", f"a folder with {LINK} and {BOOKS}, as `pdlab record` makes them", where, do)
    about = [_measured(path.parent) for path in (link, books)]
    timed, book = (parse_json(path.read_bytes(), str(path)) for path in (link, books))
    try:
        sizes = {name: tuple(sorted({message[0] for message in part["messages"]})) for name, part in timed["transports"].items()}
        moved = [(one["transport"], one["prompt_tokens"]) for one in book["entries"]]
        model, alone = about[1]["summary"]["model"]["name"], book["own_interface"]
        block_size = book["block_size"]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadInput(f"a document without {error}", "what `pdlab record` writes", where, do) from error
    if sizes != dict.fromkeys(ledger.TRANSPORTS, link_record.SIZES):
        raise BadInput("other messages", f"{len(link_record.SIZES)} sizes over {' and '.join(ledger.TRANSPORTS)}", str(link), do)
    if moved != [(transport, tokens) for transport in ledger.TRANSPORTS for tokens in ledger.PROMPTS]:
        raise BadInput("other transfers", f"prompts of {ledger.PROMPTS} tokens over each transport", str(books), do)
    _of_the_lab(model, block_size, str(books))
    if not alone:
        raise BadInput("bytes of an interface that others used as well", "a network namespace of its own", str(books),
                       f"Record {BOOKS} as root, or where user namespaces are allowed.")  # fmt: skip
    return folder


def own_routing(lab: str) -> Path | None:
    """The routing run that ``$PDLAB_RUN_<lab>`` names; None where it names none.

    Raises BadInput for a folder that is none of ``pdlab record routing``, lacks a run of it, or has another
    model, block size or trace than the lab's.
    """
    if (named := named_folder(lab)) is None:
        return None
    where, folder = named
    if not (folder / PLAN).is_file() or not (folder / records.SWEEP).is_file():
        raise BadInput("no routing run", f"a folder of `pdlab record routing`, with {PLAN} and {records.SWEEP}", where,
                       f"Name its --out, or unset {VARIABLE}{lab} for the recorded run.")  # fmt: skip
    plan, trace = plans.load(folder / PLAN), plans.load(routing.PLAN).comparison.workload_trace
    _of_the_lab(plan.live.model if plan.live else None, plan.live.block_size if plan.live else None, where)
    if plan.comparison.workload_trace != trace:
        raise BadInput(f"requests of {plan.comparison.workload_trace}", trace, where, "The lab's text is about those.")
    cases = [case.name for case in routing.cases(plan)]
    files = {name: (records.PROVENANCE, routing.DECISIONS, SERVER_METRICS) for name in cases}
    files |= {f"{routing.ALONE}/{rule}": (records.PROVENANCE,) for rule in routing.ALONE_RULES}
    missing = [f"{name}/{file}" for name, wanted in files.items() for file in wanted if not (folder / name / file).is_file()]
    if missing:
        raise BadInput(f"no {', '.join(missing)}", "a run under each rule, of two replicas, and of requests that are alone", where,
                       "Let `pdlab record routing` come to its end.")  # fmt: skip
    for name in files:
        _measured(folder / name)
    return folder


def _measured(run: Path) -> dict[str, Any]:
    path = run / records.PROVENANCE
    about = parse_json(path.read_bytes(), str(path)) if path.is_file() else None
    if not isinstance(about, dict) or about.get("label") != "measured":
        raise BadInput(f"a run that is {about.get('label') if isinstance(about, dict) else 'of no known kind'}", "one that was measured", str(run))
    return about


def _of_the_lab(model: str | None, block_size: int | None, where: str) -> None:
    """BadInput for another model or block size than those that the labs compute with."""
    if (model, block_size) != (MODEL, BLOCK_SIZE):
        raise BadInput(f"model {model} in blocks of {block_size} tokens", f"{MODEL} in blocks of {BLOCK_SIZE}", where,
                       "The lab's text and sums are about those.")  # fmt: skip
