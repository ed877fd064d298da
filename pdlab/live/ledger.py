"""A byte ledger: how many bytes of KV a real transfer moves, by three independent observers.

1. The formula: whole blocks × block size × bytes a token, from the model's config.
2. The connector: vLLM's ``vllm:nixl_bytes_transferred`` on the decode server, before and after.
3. The operating system: bytes over a loopback interface that nobody else uses (``netns``), with
   NIXL forced to TCP.  Over shared memory the same counter shows nearly nothing, and says so.

The three don't see the same thing: the third also sees headers, acknowledgements, HTTP and the
handshake.  Each entry names these and keeps what is left unexplained.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.errors import Failed
from pdlab.live import netns, provenance
from pdlab.live import router_steps as steps
from pdlab.live.microscope import tokens
from pdlab.live.post import post_json
from pdlab.live.serve import Deployment, Server, ServerFailed, Spec
from pdlab.measure import records
from pdlab.theory import kv

PROMPTS = (100, 1000, 2000, 3000)
BLOCK_SIZE = 128
OUTPUT_TOKENS = 8
SEED = 7
TRANSPORTS: dict[str, str | None] = {"shm": None, "tcp": "tcp"}  # name → UCX_TLS
LEDGER = "ledger.json"
HTTP_HEAD_BYTES = 500  # a request's and an answer's head together, to within a hundred bytes
SETTLE_S = 5.0
ANSWER_S = 300.0


class LedgerFailed(Failed):
    """The servers or a transfer failed; what they said stands above."""


def record(out: Path, model: str = "smollm2", prompts: Sequence[int] = PROMPTS) -> dict[str, Any]:
    """Measure in a namespace of its own, write ``ledger.json`` and the run; return the ledger.

    A ledger that is there already is returned as it is.
    """
    if (out / LEDGER).exists():
        return json.loads((out / LEDGER).read_text())
    out.mkdir(parents=True, exist_ok=True)
    if status := netns.run_module("pdlab.live.ledger", str(out), model, *map(str, prompts)):
        raise LedgerFailed(f"the byte ledger could not be measured (status {status})")
    return json.loads((out / LEDGER).read_text())


def expected(config: str | Mapping[str, Any], prompts: Sequence[int], block_size: int) -> dict[str, int]:
    """What the formula says for these prompts: blocks, and bytes in those blocks."""
    shape = kv.from_config(config)
    return {
        "blocks": sum(kv.blocks(count, block_size) for count in prompts),
        "bytes": sum(kv.block_bytes_total(shape, count, block_size) for count in prompts),
    }


def reconcile(entry: Mapping[str, Any]) -> dict[str, int]:
    """Split what the interface counted into what is known and what is left.

    ``payload`` is there only when NIXL went over TCP.
    """
    payload = entry["counter_bytes"] if entry["transport"] == "tcp" else 0
    headers = entry["os_packets"] * netns.TCP_IP_HEADER_BYTES
    known = payload + headers + entry["http_bytes"] + entry["background_bytes"]
    return {
        "payload_bytes": payload,
        "header_bytes": headers,
        "http_bytes": entry["http_bytes"],
        "background_bytes": entry["background_bytes"],
        "unexplained_bytes": entry["os_bytes"] - known,
    }


def _measure(out: Path, model: str, prompts: Sequence[int], own_interface: bool) -> None:
    ledger: dict[str, Any] = {"label": "measured", "block_size": BLOCK_SIZE, "own_interface": own_interface,
                              "prompts": list(prompts), "entries": []}  # fmt: skip
    rows: list[dict[str, Any]] = []
    for transport, ucx_tls in TRANSPORTS.items():
        spec = Spec(model, "disaggregated", block_size=BLOCK_SIZE, kv_cache_bytes=1 << 29, ucx_tls=ucx_tls)
        with Deployment(spec) as deployment:
            print(f"{transport}: {deployment.describe_budget()}", flush=True)
            document = provenance.measured(
                deployment, "pdlab record nixl-bytes", design="disaggregated", cache_state="cold",
                seed=SEED, workload=f"one prompt at a time: {list(prompts)} tokens",
                notes="shm and tcp one after the other; the spec in the summary is the last one's",
            )  # fmt: skip
            config = str(Path(deployment.model.path) / "config.json")
            _transfer(deployment, transport, 300, config)  # the first also shakes hands
            background = _background()
            for count in prompts:
                entry = _transfer(deployment, transport, count, config, background)
                entry["reconciled"] = reconcile(entry)
                ledger["entries"].append(entry)
                rows.append(_row(entry, len(rows)))
    ledger["provenance"] = document
    records.write_run(out, records.table_from_rows(rows), document)
    write_whole(out / LEDGER, json.dumps(ledger, indent=1) + "\n")


def _background() -> float:
    """Bytes a second that cross the interface while no request is on its way."""
    before, started = netns.counters(), time.monotonic()
    time.sleep(2)
    return (netns.counters() - before).bytes / (time.monotonic() - started)


def _transfer(
    deployment: Deployment, transport: str, count: int, config: str, background: float = 0.0
) -> dict[str, Any]:
    """Prefill one prompt, look, decode it, look again."""
    prefill, decode = deployment.prefill[0], deployment.decode[0]
    body = {"model": deployment.model_name, "prompt": tokens(count, f"{SEED} {transport} {count}"),
            "max_tokens": OUTPUT_TOKENS, "temperature": 0, "ignore_eos": True}  # fmt: skip
    sent_ns = time.monotonic_ns()
    answer = post_json(f"{prefill.base_url}/v1/completions", steps.prefill_body(body), ANSWER_S)
    prefilled_ns = time.monotonic_ns()
    pinned = prefill.metrics()
    before, os_before, asked_ns = decode.metrics(), netns.counters(), time.monotonic_ns()
    pull = steps.decode_body(body, steps.transfer_params(answer))
    answer = post_json(f"{decode.base_url}/v1/completions", pull, ANSWER_S)
    ended_ns, os_after = time.monotonic_ns(), netns.counters()
    after = decode.metrics()
    left = _settled_usage(prefill)

    def grown(name: str, **labels: str) -> int:
        return round((after.total(name, **labels) or 0) - (before.total(name, **labels) or 0))

    os_used = os_after - os_before
    formula = expected(config, [count], BLOCK_SIZE)
    return {
        "transport": transport,
        "prompt_tokens": count,
        "blocks": formula["blocks"],
        "formula_bytes": formula["bytes"],
        "counter_before_bytes": round(before.total("vllm:nixl_bytes_transferred_sum") or 0),
        "counter_after_bytes": round(after.total("vllm:nixl_bytes_transferred_sum") or 0),
        "counter_bytes": grown("vllm:nixl_bytes_transferred_sum"),
        "transfers": grown("vllm:nixl_bytes_transferred_count"),
        "descriptors": grown("vllm:nixl_num_descriptors_sum"),
        "transfer_ms": ((after.total("vllm:nixl_xfer_time_seconds_sum") or 0)
                        - (before.total("vllm:nixl_xfer_time_seconds_sum") or 0)) * 1000,
        "external_tokens": grown("vllm:prompt_tokens_by_source_total", source="external_kv_transfer"),
        "computed_tokens": grown("vllm:prompt_tokens_by_source_total", source="local_compute"),
        "prefill_kv_usage_pinned": pinned.total("vllm:kv_cache_usage_perc"),
        "prefill_kv_usage_after": left,
        "os_bytes": os_used.bytes,
        "os_packets": os_used.packets,
        "os_retransmitted": os_used.retransmitted,
        "http_bytes": len(json.dumps(pull)) + len(answer) + HTTP_HEAD_BYTES,
        "background_bytes": round(background * (ended_ns - asked_ns) / 1e9),
        "sent_ns": sent_ns, "prefilled_ns": prefilled_ns, "ended_ns": ended_ns,
    }  # fmt: skip


def _settled_usage(server: Server) -> float | None:
    """The server's KV use (0 to 1) once it has been 0, or after ``SETTLE_S``."""
    until = time.monotonic() + SETTLE_S
    while (usage := server.metrics().total("vllm:kv_cache_usage_perc")) and time.monotonic() < until:
        time.sleep(0.1)
    return usage


def _row(entry: Mapping[str, Any], seq: int) -> dict[str, Any]:
    start = entry["sent_ns"]
    return {
        "request_id": f"{entry['transport']}.{entry['prompt_tokens']}",
        "seq": seq, "status": "ok", "sent_ns": 0, "end_ns": entry["ended_ns"] - start,
        "prompt_tokens": entry["prompt_tokens"], "output_tokens": OUTPUT_TOKENS,
        "requested_output_tokens": OUTPUT_TOKENS, "route": entry["transport"], "stamp_source": "user",
        "stage_ns": {"prefilled": entry["prefilled_ns"] - start},
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """``python -m pdlab.live.ledger OUT MODEL PROMPT…``, in a namespace or not."""
    out, model, *prompts = arguments
    own_interface = netns.begin()
    try:
        _measure(Path(out), model, [int(count) for count in prompts], own_interface)
    except ServerFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
