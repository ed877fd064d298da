"""Many requests through the router while things break at random, and an account of each of them.

The draw is seeded: which request is cut, which is bad, when prefill is frozen or killed.  How it ends
is not: that depends on the moment.  What must hold however it ends is in ``Account.faultless``.
"""

from __future__ import annotations

import json
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pdlab.documents import read_lines, write_whole
from pdlab.live import provenance
from pdlab.live.faults.scene import Answer, NotInjected, Scene
from pdlab.live.faults.table import GRACE_S, LEASE_S, Say, compare, pair
from pdlab.live.front import log_of, routed
from pdlab.live.serve import Deployment
from pdlab.measure import records

SOAK = "soak.json"
AT_ONCE = 6
SHARE = 0.05
KINDS = ("hang up early", "hang up in the stream", "bad parameters", "foreign transfer parameters", "freeze prefill")
OPTIONS = ("--on-failure", "retry", "--prefill-deadline", "2", "--first-token-deadline", "4")
CHECKED = 25  # every so many healthy answers, the tokens are compared with a healthy server's


@dataclass(frozen=True)
class Ask:
    """One request to come: tokens, and what is done to it (empty: nothing)."""

    number: int
    prompt_tokens: int
    output_tokens: int
    fault: str
    wait_s: float

    @property
    def request_id(self) -> str:
        return f"soak-{self.number}"


@dataclass
class Account:
    """What became of all of them.  ``client`` and ``router`` count outcomes; seconds for times."""

    asked: int
    client: dict[str, int] = field(default_factory=dict)
    router: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    second_attempts: int = 0
    logged_twice: int = 0
    not_logged: int = 0  # other than those whose client left before the router had read them
    wrong_length: int = 0
    checked: int = 0
    wrong_tokens: int = 0
    twice: int = 0
    blocks_free_after_s: float = 0.0
    took_s: float = 0.0

    @property
    def faultless(self) -> bool:
        """Each request was accounted for once, and no answer was too long, too short, or wrong."""
        bad = self.logged_twice + self.not_logged + self.wrong_length + self.wrong_tokens + self.twice
        return bad == 0 and sum(self.client.values()) == self.asked


def schedule(count: int, seed: int) -> list[Ask]:
    """The requests and their faults, the same for the same seed."""
    draw = random.Random(seed)
    return [
        Ask(number, draw.randint(20, 700), draw.randint(4, 24),
            draw.choice(KINDS) if draw.random() < SHARE else "", draw.uniform(0.2, 3.0))
        for number in range(count)
    ]  # fmt: skip


def outcome(answer: Answer, ask: Ask) -> str:
    """One word or two for what the client has in its hands."""
    if answer.finished:
        return "complete"
    if ask.fault.startswith("hang up"):
        return "left"
    if answer.http_status and 400 <= answer.http_status < 500:
        return "refused"
    return "failed" if answer.ended.is_set() else "never ended"


def balance(asks: Iterable[Ask], answers: Mapping[int, Answer], log: Iterable[Mapping[str, Any]]) -> Account:
    """Put what clients hold beside the router's log, request by request."""
    asks, lines = list(asks), list(log)
    account = Account(asked=len(asks))
    seen = Counter(line["request_id"] for line in lines)
    held = {ask.number: outcome(answers[ask.number], ask) for ask in asks}
    account.client = dict(Counter(held.values()))
    account.router = dict(Counter(line["status"] for line in lines))
    account.faults = dict(Counter(ask.fault for ask in asks if ask.fault))
    account.second_attempts = sum(line["attempts"] > 1 for line in lines)
    account.logged_twice = sum(count > 1 for count in seen.values())
    account.not_logged = sum(not seen[ask.request_id] and held[ask.number] != "left" for ask in asks)
    account.wrong_length = sum(
        held[ask.number] == "complete" and len(answers[ask.number].tokens) != ask.output_tokens for ask in asks
    )
    return account


def run(count: int = 1000, seed: int = 5, kills: int = 3, out: Path | None = None, say: Say = lambda text: None) -> Account:
    """Send ``count`` requests through a pair of ``tiny`` in retry mode, kill prefill ``kills`` times on the way."""
    asks = schedule(count, seed)
    with (
        tempfile.TemporaryDirectory(prefix="pdlab-soak-") as scratch,
        Deployment(pair("nixl"), Path(scratch)) as deployment,
    ):
        scene = Scene(deployment, LEASE_S)
        about = provenance.measured(deployment, "pdlab faults --soak", design="disaggregated", seed=seed)
        soaking = _Soak(scene)
        start = time.monotonic()
        size = -(-count // (kills + 1))
        for first in range(0, count, size):
            part = asks[first : first + size]
            last = first + size >= count
            with routed(deployment, *OPTIONS) as url, ThreadPoolExecutor(AT_ONCE) as pool:
                early = len(part) if last else len(part) * 4 // 5
                done = [pool.submit(soaking.ask, url, ask) for ask in part[:early]]
                if not last:  # in the middle of the traffic
                    soaking.wait_for(done, early // 2)
                    with soaking.prefill_lock:
                        deployment.kill(scene.prefill)
                done += [pool.submit(soaking.ask, url, ask) for ask in part[early:]]
                for one in done:
                    one.result()
            if not last:
                deployment.restart(scene.prefill)
            say(f"{min(first + size, count)} of {count} asked")
        took_s = time.monotonic() - start
        log = read_lines(log_of(deployment))
        account = balance(asks, soaking.answers, log)
        account.kills, account.took_s = kills, round(took_s, 1)
        account.blocks_free_after_s = round(scene.until_free(*deployment.servers, timeout_s=LEASE_S + GRACE_S), 1)
        deployment.reset_prefix_caches()
        soaking.compare(asks, account)
    if out:
        records.write_provenance(out, about)
        write_whole(out / SOAK, json.dumps(asdict(account), indent=1) + "\n")
    return account


class _Soak:
    """What the clients share: their answers, and whose turn it is to hurt prefill."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.answers: dict[int, Answer] = {}
        self.prompts: dict[int, list[int]] = {}
        self.prefill_lock = threading.Lock()

    @staticmethod
    def wait_for(done: list[Any], count: int) -> None:
        for one in done[:count]:
            one.result()

    def ask(self, url: str, ask: Ask) -> None:
        """One client, and what happens to it or around it."""
        prompt = self.prompts[ask.number] = self.scene.prompt(ask.prompt_tokens)
        extra: dict[str, Any] = {}
        if ask.fault == "bad parameters":
            extra["temperature"] = -1
        if ask.fault == "foreign transfer parameters":
            extra["kv_transfer_params"] = {"do_remote_prefill": True, "remote_block_ids": [[1]], "remote_engine_id": "x"}
        if ask.fault == "freeze prefill":
            self._freeze(ask.wait_s)
        answer = self.answers[ask.number] = self.scene.send(
            url, self.scene.body(prompt, ask.output_tokens, **extra), ask.request_id
        )
        if ask.fault == "hang up early":
            answer.ended.wait(ask.wait_s / 50)
            self.scene.hang_up(answer)
        if ask.fault == "hang up in the stream":
            while not answer.tokens and not answer.ended.wait(0.002):
                pass
            self.scene.hang_up(answer)
        answer.ended.wait(60)

    def _freeze(self, seconds: float) -> None:
        def thaw() -> None:
            with self.prefill_lock:
                if not (self.scene.deployment.alive(server) and server is self.scene.prefill):
                    return  # killed already
                self.scene.deployment.signal(server, signal.SIGSTOP)
                time.sleep(seconds)
                self.scene.deployment.signal(server, signal.SIGCONT)

        server = self.scene.prefill
        threading.Thread(target=thaw, daemon=True).start()

    def compare(self, asks: list[Ask], account: Account) -> None:
        """Compare a sample of the complete answers with what decode computes alone, in peace."""
        whole = [ask for ask in asks if self.answers[ask.number].finished]
        for ask in whole[::CHECKED]:
            reference = self.scene.reference(self.prompts[ask.number], ask.output_tokens)
            if not reference:
                raise NotInjected("no answer in peace")
            right, twice = compare(self.answers[ask.number].tokens, reference)
            account.checked += 1
            account.wrong_tokens += right != "all"
            account.twice += twice
