"""FLOPs, bytes and arithmetic intensity of prefill and decode, and which side of a roofline.

What is counted: the matrix products of every layer and of the output head, attention's two
products per query-key pair, the weights read once per pass, KV written and (in decode) read.
What is left out: activations, softmax, norms and every inefficiency.  So a time from here is a
floor.  Prefill computes logits for the last position of each prompt only, as serving does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pdlab.documents import read_yaml
from pdlab.errors import BadInput
from pdlab.theory import kv
from pdlab.theory._check import shown, whole
from pdlab.theory.config import read_config, shape_fields, text_model

__all__ = [
    "Device", "Work", "bound", "decode", "decode_turns_compute_bound_at", "device", "devices",
    "floor_ms", "parameters", "prefill", "weight_bytes",
]

DEVICES_FILE = Path(__file__).resolve().parents[2] / "data" / "devices.yaml"
# Families whose every matrix is known here.  ``gated`` MLPs have three matrices, others two.
_GATED = {"": True, "llama": True, "mistral": True, "qwen2": True, "qwen3": True, "phi3": True,
          "gemma": True, "gemma3_text": True, "opt": False}
_TIED_BY_DEFAULT = {"gemma", "gemma3_text", "opt"}
_QKV_BIAS = {"qwen2", "opt"}


@dataclass(frozen=True, slots=True)
class Device:
    """Published peaks of one device: dense BF16 FLOP/s, memory bytes/s, memory bytes."""

    name: str
    peak_flops: float
    bandwidth_bytes_s: float
    memory_bytes: float
    source: str
    label: str

    @property
    def ridge(self) -> float:
        """FLOP per byte at which compute and memory take equally long."""
        return self.peak_flops / self.bandwidth_bytes_s


@dataclass(frozen=True, slots=True)
class Work:
    """One forward pass: floating-point operations and bytes of memory traffic."""

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Parameters by role: in the layers' products, in the output head, everything (unique)."""

    layer_products: int
    head_product: int
    total: int


def devices() -> dict[str, Device]:
    """The device table of ``data/devices.yaml`` by short name."""
    return dict(_devices())


def device(name: str) -> Device:
    """One device by its short name, e.g. ``h100-sxm``; ``BadInput`` lists the names."""
    table = _devices()
    if name not in table:
        raise BadInput(shown(name), f"one of {', '.join(table)}", "device")
    return table[name]


def parameters(model_config: object) -> int:
    """Number of weights, tied embeddings counted once; ``BadInput`` for a family not covered."""
    return _matrices(model_config).total


def weight_bytes(model_config: object, dtype: str = "bfloat16") -> int:
    """Bytes of one copy of the weights."""
    return parameters(model_config) * _element(dtype)


def prefill(
    model_config: object, batch: int, tokens: int, dtype: str = "bfloat16"
) -> Work:
    """Work to prefill ``batch`` prompts of ``tokens`` tokens in one pass.

    Attention is causal: position i looks at i + 1 keys, or at its window's worth.
    """
    batch, tokens = whole(batch, "batch", high=10**7), whole(tokens, "tokens")
    matrices = _matrices(model_config)
    pairs, pair_flops, shape = _attention(model_config, lambda w: _causal_pairs(tokens, w))
    flops = 2 * batch * (tokens * matrices.layer_products + matrices.head_product)
    flops += batch * pairs * pair_flops
    traffic = _read_weights(matrices, dtype) + batch * kv.kv_bytes(shape, tokens, dtype)
    return Work(float(flops), float(traffic))


def decode(
    model_config: object, batch: int, context_tokens: int, dtype: str = "bfloat16"
) -> Work:
    """Work of one decode step: one new token for each of ``batch`` sequences.

    ``context_tokens`` counts the new token too: its KV is written, the others' is read.
    """
    batch = whole(batch, "batch", high=10**7)
    context_tokens = whole(context_tokens, "context_tokens")
    matrices = _matrices(model_config)
    pairs, pair_flops, shape = _attention(
        model_config, lambda w: context_tokens if w is None else min(context_tokens, w)
    )
    flops = batch * (2 * (matrices.layer_products + matrices.head_product) + pairs * pair_flops)
    traffic = _read_weights(matrices, dtype) + batch * kv.kv_bytes(shape, context_tokens, dtype)
    return Work(float(flops), float(traffic))


def bound(work: Work, on: Device) -> str:
    """``"compute"`` or ``"memory"``: which of the two takes longer on this device's roofline."""
    return "compute" if work.intensity >= on.ridge else "memory"


def floor_ms(work: Work, on: Device) -> float:
    """The longer of compute time and memory time at published peaks, in milliseconds."""
    return max(work.flops / on.peak_flops, work.bytes / on.bandwidth_bytes_s) * 1000


def decode_turns_compute_bound_at(
    model_config: object, context_tokens: int, on: Device, limit: int = 65536
) -> int | None:
    """The smallest decode batch that is compute-bound, or None if there is none up to ``limit``.

    Weights are shared by the batch and KV is not, so with long contexts there may be none.
    """
    def compute_bound(batch: int) -> bool:
        return bound(decode(model_config, batch, context_tokens), on) == "compute"

    low, high = 1, whole(limit, "limit", high=10**7)
    if not compute_bound(high):
        return None
    while low < high:  # intensity grows with the batch, so one boundary
        middle = (low + high) // 2
        low, high = (low, middle) if compute_bound(middle) else (middle + 1, high)
    return low


def _attention(model_config: object, pairs_of) -> tuple[int, int, kv.KvShape]:
    """Query-key pairs summed over layers, FLOPs of one pair over all heads, and the KV shape."""
    shape = kv.from_config(model_config)
    pairs = sum(group.layers * pairs_of(group.window) for group in shape.groups)
    head_dim = shape.groups[0].head_dim
    return pairs, 4 * shape.query_heads * head_dim, shape


def _causal_pairs(tokens: int, window: int | None) -> int:
    reach = tokens if window is None else min(tokens, window)
    return reach * (reach + 1) // 2 + (tokens - reach) * reach


def _matrices(model_config: object) -> _Matrices:
    config, where = read_config(model_config)
    body, inner, family = text_model(config, where)
    if family not in _GATED or body.get("num_local_experts") or body.get("num_experts"):
        raise BadInput(f"model_type {family}", f"a dense model: {', '.join(filter(None, _GATED))}",
                       inner, "pdlab sizes this model's KV, not its FLOPs")
    fields = shape_fields(config, where)
    hidden = _size(body, "hidden_size", inner)
    middle = _size(body, "ffn_dim" if family == "opt" else "intermediate_size", inner)
    vocabulary = _size(body, "vocab_size", inner)
    query, kv_width = fields.query_heads * fields.head_dim, fields.kv_heads * fields.head_dim
    products = hidden * (2 * query + 2 * kv_width) + (3 if _GATED[family] else 2) * hidden * middle
    head = vocabulary * hidden
    tied = body.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    tied = family in _TIED_BY_DEFAULT if tied is None else tied
    small = fields.layers * _small_per_layer(family, hidden, middle, query, kv_width, fields.head_dim)
    small += 2 * hidden if family == "opt" else hidden  # the last norm
    if family == "opt":  # learned positions; two rows are padding
        small += hidden * (_size(body, "max_position_embeddings", inner) + 2)
    return _Matrices(fields.layers * products, head,
                     fields.layers * products + (1 if tied else 2) * head + small)


def _small_per_layer(
    family: str, hidden: int, middle: int, query: int, kv_width: int, head_dim: int
) -> int:
    """Norms and biases of one layer: too small to time, needed to count weights exactly."""
    if family == "opt":
        return 4 * hidden + (query + 2 * kv_width + hidden) + middle + hidden
    count = (4 if family == "gemma3_text" else 2) * hidden
    if family in _QKV_BIAS:
        count += query + 2 * kv_width
    if family in {"qwen3", "gemma3_text"}:
        count += 2 * head_dim
    return count


def _read_weights(matrices: _Matrices, dtype: str) -> int:
    """Bytes of the matrices that a pass reads; an embedding lookup reads a few rows only."""
    return (matrices.layer_products + matrices.head_product) * _element(dtype)


def _element(dtype: str) -> int:
    if dtype not in kv.DTYPE_BYTES:
        raise BadInput(shown(dtype), " | ".join(kv.DTYPE_BYTES), "dtype")
    return kv.DTYPE_BYTES[dtype]


def _size(body: dict, key: str, where: str) -> int:
    if body.get(key) is None:
        raise BadInput(f"no {key}", f"the field {key}", where)
    return whole(body[key], f"{where}: {key}", high=10**8)


@cache
def _devices() -> dict[str, Device]:
    rows = read_yaml(DEVICES_FILE)["devices"]
    return {
        key: Device(row["name"], float(row["peak_bf16_flops"]), float(row["bandwidth_bytes_s"]),
                    float(row["memory_bytes"]), row["source"], row["label"])
        for key, row in rows.items()
    }
