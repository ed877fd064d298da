"""Dynamo's own router on our grid: what it decides, compared with our copy of its rule.

The frontend and its conditional-disaggregation router are the real ones (``make dynamo``).  The
two workers behind them are Dynamo's mockers: simulated engines that keep real block tables and
report real cache events, but compute nothing.  So the *decisions* are measured, and no time is.

Each point of the grid has tokens of its own.  Where a prefix is to be cached, a primer goes
first that begins with it; the router then says itself how much it takes for cached, and our
rule is asked with that number.

The router learns what decode holds from the decode worker's cache events, or, with
``--router-predicted-ttl-secs``, from its own record of what it sent there.  A mocker in decode mode
sends no events.  So the first setting, as shipped, shows what a router does that is not told: it
takes nothing for cached, and every prompt leaves.  The others let it keep its own record.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.errors import BadInput
from pdlab.live import LOOPBACK, dynamo_log, env, keeper, netns, policy, provenance
from pdlab.live.post import post_json
from pdlab.live.serve import ServerFailed, free_ports, wait_ready
from pdlab.measure import records

DECISIONS = "decisions.json"
MODEL = "no-weights"
BLOCK_TOKENS = 16
CONTEXT_TOKENS = 16_384
WORDS = 4096
SEED = 8
READY_S, SETTLE_S = 120.0, 0.5


@dataclass(frozen=True, slots=True)
class Setting:
    """The router's two thresholds, and how long it believes its own record of routed blocks (or not at all)."""

    eff_isl_threshold: int = 2048
    eff_isl_ratio_threshold: float = 0.7
    predicted_ttl_s: int | None = 120


# Untold, as shipped, as lab L4 has it, and the far end of the ratio.
SETTINGS = (Setting(predicted_ttl_s=None), Setting(), Setting(512), Setting(2048, 1.0))

# (prompt tokens, tokens of it cached on decode); cached lengths are whole blocks.
GRID = (
    (1, 0), (15, 0), (320, 0), (320, 256), (96, 96),
    (2047, 0), (2048, 0), (2049, 0),
    (4095, 2048), (4096, 2048), (4097, 2048),  # 2,047, 2,048 and 2,049 missing
    (1599, 480), (1600, 480), (1601, 480),  # a share just below 0.7, exactly 0.7, just above
    (991, 480), (992, 480), (993, 480),  # 511, 512 and 513 missing
    (2900, 864), (2900, 880),
    (8192, 7168), (8192, 0),
)  # fmt: skip

# These bind or advertise.  The workers' event sockets have no such setting and bind every address
# there is, which is why the servers run in a network namespace that has loopback and nothing else.
HOSTS = dict.fromkeys(
    ("DYN_TCP_RPC_HOST", "DYN_EVENT_PLANE_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_SYSTEM_HOST"),
    LOOPBACK,
)
LOG_LEVELS = "info,dynamo_llm::kv_router::prefill_router=debug"


# ── servers ─────────────────────────────────────────────────────────────────────────────────


def _model(folder: Path) -> Path:
    """A model folder without weights: a config, and a tokenizer of one token a word."""
    folder.mkdir()
    vocabulary = {f"w{number}": number for number in range(WORDS)}
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": WORDS,
            "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
            "max_position_embeddings": CONTEXT_TOKENS, "bos_token_id": 0, "eos_token_id": 1,
            "torch_dtype": "bfloat16",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w0", "eos_token": "w1",
            "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
        },
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
            "decoder": None, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
        },
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


@contextlib.contextmanager
def _servers(setting: Setting, folder: Path) -> Iterator[tuple[str, Path]]:
    """Frontend, prefill mocker and decode mocker; gives the base address and the frontend's log."""
    port = free_ports(1)[0]
    config = {"policy": "isl_bounding", "eff_isl_threshold": setting.eff_isl_threshold,
              "eff_isl_ratio_threshold": setting.eff_isl_ratio_threshold}
    remember = ["--router-predicted-ttl-secs", str(setting.predicted_ttl_s)] if setting.predicted_ttl_s else []
    mocker = ["dynamo.mocker", "--model-path", str(_model(folder / "model")), "--model-name", MODEL,
              "--block-size", str(BLOCK_TOKENS)]  # fmt: skip
    commands = {
        "frontend": ["dynamo.frontend", "--http-host", LOOPBACK, "--http-port", str(port),
                     "--router-mode", "kv", "--router-conditional-disagg",
                     "--router-conditional-disagg-config", json.dumps(config), *remember],
        "prefill": [*mocker, "--disaggregation-mode", "prefill"],
        "decode": [*mocker, "--disaggregation-mode", "decode"],
    }  # fmt: skip
    settings = HOSTS | {
        "DYN_FILE_KV": str(folder / "discovery"), "DYN_LOG": LOG_LEVELS, "DYN_LOGGING_JSONL": "1",
        "HF_HUB_OFFLINE": "1", "PYTHONSAFEPATH": "1",
    }  # fmt: skip
    held: dict[str, subprocess.Popen[str]] = {}
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("w") as log:
                held[name] = subprocess.Popen(
                    [sys.executable, "-I", "-S", keeper.__file__, "", "--", str(env.DYNAMO.python()), "-m", *command,
                     "--discovery-backend", "file"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    env=os.environ | settings, start_new_session=True,
                )  # fmt: skip
        base_url, log = f"http://{LOOPBACK}:{port}", folder / "frontend.log"
        _wait_ready(base_url, log, held)
        yield base_url, log
    finally:
        for process in held.values():  # each keeper ends its server, by its own process id
            process.stdin.close()
        for process in held.values():
            process.wait()


def _wait_ready(base_url: str, log: Path, held: dict[str, subprocess.Popen[str]]) -> None:
    """Until a request is answered and its conditional decision is in the log: both pools are known."""
    said = "nothing"

    def decides() -> bool:
        nonlocal said
        try:
            request_id = _ask(base_url, ["w2"] * 40)
        except OSError as error:
            said = str(error)
            return False
        said = "an answer, but no decision in its log"
        return _logged(log, request_id, wait_s=1.0) is not None

    def ended(name: str) -> str:
        return f"its log ends:\n{log.with_name(f'{name}.log').read_text(errors='replace')[-1000:]}"

    wait_ready(
        decides, held, time.monotonic() + READY_S,
        lambda: f"Dynamo was not ready after {READY_S:.0f} s; the last try brought {said}", ended, every_s=0.5,
    )  # fmt: skip


def _ask(base_url: str, words: Sequence[str]) -> str:
    """Send one prompt, wait for its end, and give the request's id as the router logs it."""
    body = {"model": MODEL, "prompt": " ".join(words), "max_tokens": 1}
    return json.loads(post_json(f"{base_url}/v1/completions", body))["id"].removeprefix("cmpl-")


def _logged(log: Path, request_id: str, wait_s: float = 5.0) -> dynamo_log.Logged | None:
    """The decision on one request, or None if it failed or none came."""
    deadline = time.monotonic() + wait_s
    while True:
        decisions, failures = dynamo_log.read(log.read_text(errors="replace").splitlines())
        if request_id in decisions or request_id in failures or time.monotonic() > deadline:
            return decisions.get(request_id)
        time.sleep(0.05)


# ── the grid ────────────────────────────────────────────────────────────────────────────────


def run(setting: Setting) -> list[dict[str, Any]]:
    """Send the grid through Dynamo with one setting; one row a request, primers included."""
    if not (apart := netns.prefix()):
        raise BadInput("no right to make a network namespace", "root, or user namespaces (unshare --net)",
                       "pdlab dynamo", "Dynamo's workers would listen on every address of this machine.")  # fmt: skip
    child = subprocess.Popen(
        [*apart, sys.executable, "-m", "pdlab.live.dynamo", json.dumps(asdict(setting))],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child:
        try:
            text = child.communicate()[0]
        except BaseException:
            child.terminate()  # its keepers see their pipes close and end the servers
            raise
    answer = json.loads(text) if text else {"failed": f"the run ended with status {child.returncode}"}
    if "failed" in answer:
        raise ServerFailed(answer["failed"])
    return answer["requests"]


def _main(setting: str) -> None:
    """One setting, inside the namespace: rows, or what failed, as JSON on standard output."""
    netns.raise_loopback()
    try:
        if (names := [name for _, name in socket.if_nameindex()]) != ["lo"]:
            raise ServerFailed(f"the network namespace has {', '.join(names)}, not loopback alone")
        answer: dict[str, Any] = {"requests": _send(Setting(**json.loads(setting)))}
    except ServerFailed as error:
        answer = {"failed": str(error)}
    print(json.dumps(answer))


def _send(setting: Setting) -> list[dict[str, Any]]:
    draw = random.Random(SEED)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="pdlab-dynamo-") as work:
        with _servers(setting, Path(work)) as (base_url, log):
            for prompt_tokens, cached in GRID:
                words = [f"w{draw.randrange(2, WORDS)}" for _ in range(prompt_tokens)]
                if cached:
                    rows.append(_row(base_url, log, "primer", 0, [*words[:cached], "w2"]))
                    time.sleep(SETTLE_S)  # the workers report their new blocks meanwhile
                rows.append(_row(base_url, log, "grid", cached, words))
    return rows


def _row(base_url: str, log: Path, kind: str, primed: int, words: Sequence[str]) -> dict[str, Any]:
    logged = _logged(log, _ask(base_url, words))
    row: dict[str, Any] = {"kind": kind, "sent_tokens": len(words), "primed_tokens": primed}
    if logged is None:
        return row | {"decision": None}
    return row | {
        "prompt_tokens": logged.prompt_tokens, "uncached_tokens": logged.uncached_tokens,
        "cached_on_decode_tokens": logged.cached_on_decode_tokens, "decision": logged.side,
    }  # fmt: skip


def differences(document: dict[str, Any]) -> list[str]:
    """Where our rule says otherwise than the router did, one line each; undecided counts too."""
    found = []
    for part in document["settings"]:
        rule = policy.dynamo(part["eff_isl_threshold"], part["eff_isl_ratio_threshold"])
        for row in part["requests"]:
            if row["decision"] is None:
                found.append(f"{row['sent_tokens']} tokens: the router made no decision")
                continue
            ours = rule(policy.Ask(row["prompt_tokens"], row["cached_on_decode_tokens"]))
            if ours.side != row["decision"]:
                found.append(f"{row['prompt_tokens']} tokens, {row['cached_on_decode_tokens']} cached: "
                             f"Dynamo {row['decision']}, ours {ours.side} ({ours.reason})")  # fmt: skip
    return found


def record(out: Path, settings: Sequence[Setting] = SETTINGS) -> dict[str, Any]:
    """Run every setting and write ``decisions.json`` and ``provenance.json`` into ``out``."""
    env.DYNAMO.python()  # say that it is missing before anything else can fail
    document = {
        "decisions": "measured", "engines": "simulated (dynamo.mocker)", "block_tokens": BLOCK_TOKENS,
        "settings": [asdict(setting) | {"requests": run(setting)} for setting in settings],
    }  # fmt: skip
    about = records.provenance(
        label="measured", source="pdlab dynamo", design="disaggregated", seed=SEED,
        workload=f"one request at a time: {len(GRID)} prompts with each of {len(settings)} settings",
        machine=provenance.machine(), versions=env.DYNAMO.versions(), date=provenance.now(), commit=provenance.commit(),
        notes="Decisions of Dynamo's router, measured; its workers are mockers (simulated engines): "
              "no time in this run says anything about a server.",
    )  # fmt: skip
    records.write_provenance(out, about)
    write_whole(out / DECISIONS, _text(document))
    return document


def _text(document: dict[str, Any]) -> str:
    """JSON with one request a line, so that a change of one decision is one line of a diff."""
    text = json.dumps(document | {"settings": None}, indent=1)
    parts = []
    for part in document["settings"]:
        rows = ",\n   ".join(json.dumps(row) for row in part["requests"])
        head = json.dumps({key: value for key, value in part.items() if key != "requests"})[1:-1]
        parts.append(f"  {{{head}, \"requests\": [\n   {rows}\n  ]}}")
    return text.replace('"settings": null', '"settings": [\n' + ",\n".join(parts) + "\n ]") + "\n"


def read(directory: Path) -> dict[str, Any]:
    """A recorded run's decisions."""
    return json.loads((directory / DECISIONS).read_text())


if __name__ == "__main__":
    _main(*sys.argv[1:])
