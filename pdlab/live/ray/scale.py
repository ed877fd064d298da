"""Prefill scaled apart from decode on a running pair, and what Serve starts, keeps and restarts.

Three changes of one serve file, each by ``serve run``, while a client asks once a second: one more
prefill replica, written beside the application; back again; and the same wish once more, this time
written into the builder's arguments.  The model is ``tiny``: on two cores this shows a mechanism
and no speed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.live import models, provenance
from pdlab.live.microscope import tokens
from pdlab.live.ray import deploy, env, prove, render
from pdlab.measure import records

SETTLE_S, PAUSE_S, LONG_S = 300.0, 1.0, 60.0
SCALE = "scale.json"


class _Watch:
    """A client that asks once a second, and a look at the replicas' processes twice as often."""

    def __init__(self, up: deploy.Application) -> None:
        self.up, self.t0 = up, time.monotonic()
        self.asked: list[dict[str, Any]] = []
        self.seen: dict[int, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._ask, self._look)]

    def __enter__(self) -> _Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def now_s(self) -> float:
        return round(time.monotonic() - self.t0, 1)

    def _ask(self) -> None:
        while not self._stop.wait(PAUSE_S):
            at_s = self.now_s()
            answer = prove.client_saw(self.up.url, self.up.model.name, tokens(300, f"scale {len(self.asked)}"), LONG_S)
            self.asked.append({"at_s": at_s, "took_s": round(self.now_s() - at_s, 1), "client_saw": answer})

    def _look(self) -> None:
        while not self._stop.wait(PAUSE_S / 2):
            running = self.up.replicas()
            for pid, title in running.items():
                self.seen.setdefault(pid, {"replica": title, "from_s": self.now_s(), "to_s": None})
            for pid, one in self.seen.items():
                if pid not in running and one["to_s"] is None:
                    one["to_s"] = self.now_s()


def record(out: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Carry it out and write it, with its provenance, to ``out``; what is there already is returned."""
    if (out / SCALE).exists():
        return json.loads((out / SCALE).read_text())
    plan, model = prove.plan(), models.get("tiny")
    pair = plan.deployments.disaggregated
    wider = plan.model_copy(update={"deployments": plan.deployments.model_copy(
        update={"disaggregated": pair.model_copy(update={"prefill_replicas": 2})})})  # fmt: skip
    began = provenance.now()
    with deploy.Application(plan, "disaggregated", model, file=True, spare_cpus=1) as up:
        say(f"up by serve run in {up.up_s:.0f} s")
        prove.ask(up.url, model.name, tokens(300, "scale first"))
        changes = [
            ("prefill 1 to 2, beside the application", up.document({"prefill": 2}), 2),
            ("prefill 2 to 1, beside the application", up.document({"prefill": 1}), 1),
            ("prefill 1 to 2, in the builder's arguments", up.document(plan=wider), 2),
        ]
        with _Watch(up) as watch:
            time.sleep(5 * PAUSE_S)
            steps = []
            for what, document, wanted in changes:
                before, at_s = set(up.replicas()), watch.now_s()
                up.update(document)
                settled = _settled(up, wanted)
                took_s = round(watch.now_s() - at_s, 1)
                time.sleep(8 * PAUSE_S)  # some requests more on what there is now
                after = set(up.replicas())
                steps.append({"change": what, "at_s": at_s, "settled": settled, "took_s": took_s,
                              "kept": sorted(before & after), "started": sorted(after - before),
                              "stopped": sorted(before - after), "until_s": watch.now_s()})  # fmt: skip
                say(f"{what}: {took_s} s, {len(before & after)} kept, {len(after - before)} started, {len(before - after)} stopped")
        found = {
            "label": "measured", "up_s": round(up.up_s, 1),
            "file": render.document(plan, "disaggregated", model.name, replicas={"prefill": 2}),
            "steps": steps,
            "replicas": {str(pid): one for pid, one in watch.seen.items()}, "asked": watch.asked,
            "states": [{"at_s": round(one.pop("monotonic_ns") / 1e9 - watch.t0, 1), **one} for one in up.states()],
        }  # fmt: skip
    about = provenance.measured(
        None, "pdlab ray --scale", cache_state=None, workload="one prompt of 300 tokens a second",
        notes=f"begun {began}; three changes of one serve file, by serve run", summary={"model": {"name": model.name}},
    )  # fmt: skip
    about["versions"] = env.versions()
    records.write_provenance(out, about)
    write_whole(out / SCALE, json.dumps(found, indent=1) + "\n")
    return found


def _settled(up: deploy.Application, prefill: int) -> bool:
    """Wait until Serve says that all is healthy with that many prefill replicas, and nothing else stops or starts."""
    asked, until = time.monotonic_ns(), time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        time.sleep(PAUSE_S / 2)
        last = up.states()[-1]
        counts = [one["replicas"] for one in last["deployments"].values()]
        pools = [one["replicas"] for name, one in last["deployments"].items() if name.startswith("Prefill:")]
        if (last["monotonic_ns"] > asked and last["application"] == "RUNNING" and all(set(one) == {"RUNNING"} for one in counts)
                and [one["RUNNING"] for one in pools] == [prefill]):  # fmt: skip
            return True
    return False
