"""How many bytes of keys and values a model keeps.

One rule carries the module: every layer keeps, for each token, ``copies`` vectors of
``head_dim`` elements for each of its KV heads.  Ordinary attention keeps two (K and V);
multi-head latent attention (MLA) keeps one latent that stands for both.  A layer with a
window keeps at most ``window`` tokens.  All sizes are payload bytes, exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdlab.errors import BadInput
from pdlab.theory._check import shown, whole
from pdlab.theory.config import MODELS_DIR, find, load, read_config, shape_fields

__all__ = [
    "DTYPE_BYTES", "FP8_SCALES", "MAX_TOKENS", "MODELS_DIR", "KvShape", "LayerGroup",
    "block_bytes_total", "blocks", "blocks_held", "bytes_per_token", "find", "from_config",
    "heads_per_rank", "kv_bytes", "load", "per_rank_bytes", "saturates_at", "uniform",
]

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}
FP8_SCALES = ("none", "per-token-head")
SCALE_BYTES = 4  # one FP32 scale factor
MAX_TOKENS = 10**9


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that keep the same thing: ``copies`` × ``heads`` × ``head_dim`` elements a token."""

    layers: int
    heads: int
    head_dim: int
    copies: int = 2
    window: int | None = None

    def stored(self, tokens: int) -> int:
        """Tokens each of these layers still keeps when the sequence has ``tokens``."""
        return tokens if self.window is None else min(tokens, self.window)


@dataclass(frozen=True, slots=True)
class KvShape:
    """What a model keeps for a token, layer group by layer group."""

    groups: tuple[LayerGroup, ...]
    kind: str  # "MHA" | "GQA" | "MQA" | "MLA" | "not stated"
    query_heads: int | None = None
    name: str = ""
    window_kind: str = "sliding window"

    @property
    def layers(self) -> int:
        """Number of attention layers."""
        return sum(group.layers for group in self.groups)

    @property
    def attention(self) -> str:
        """The kind of attention, and its windows if it has any, in words."""
        windowed = [group for group in self.groups if group.window is not None]
        parts = [
            f"{self.window_kind} {g.window} on {'all' if g.layers == self.layers else f'{g.layers} of'} "
            f"{self.layers} layers"
            for g in windowed
        ]
        return ", ".join([self.kind, *parts])


def uniform(
    layers: int, kv_heads: int, head_dim: int, query_heads: int | None = None,
    window: int | None = None,
) -> KvShape:
    """A shape whose layers are all alike, for arithmetic on a model that does not exist.

    ``window`` caps the tokens that each layer keeps.  Raises ``BadInput`` on absurd values.
    """
    group = LayerGroup(
        whole(layers, "layers", high=4096),
        whole(kv_heads, "kv_heads", high=4096),
        whole(head_dim, "head_dim", high=65536),
        window=None if window is None else whole(window, "window"),
    )
    return KvShape((group,), _kind(group.heads, query_heads), query_heads)


def from_config(config: object) -> KvShape:
    """The shape of a Hugging Face ``config.json``, given as a path or as the parsed mapping.

    Raises ``BadInput`` for a file that is not such a config, for missing or absurd fields, and,
    by name, for an architecture whose cache this module cannot size exactly.
    """
    fields = shape_fields(*read_config(config))
    if fields.mla:
        return KvShape(
            (LayerGroup(fields.layers, 1, fields.head_dim, copies=1),), "MLA",
            fields.query_heads, fields.name,
        )
    windows = list(fields.windows)
    groups = tuple(  # full layers first, then each window in order of size
        LayerGroup(windows.count(window), fields.kv_heads, fields.head_dim, window=window)
        for window in sorted(set(windows), key=lambda w: (w is not None, w or 0))
    )
    kind = _kind(fields.kv_heads, fields.query_heads)
    return KvShape(groups, kind, fields.query_heads, fields.name, fields.window_kind)


def kv_bytes(
    shape: KvShape, tokens: int, dtype: str = "bfloat16", fp8_scales: str = "none"
) -> int:
    """Bytes of KV that ``tokens`` tokens of one sequence occupy, whole model, all ranks as one.

    ``fp8_scales="per-token-head"`` adds one FP32 scale per token, KV head, and K or V.
    Where a layer has a window the count stops growing at the window.
    """
    tokens = whole(tokens, "tokens", low=0, high=MAX_TOKENS)
    return sum(
        group.layers * group.stored(tokens) * group.heads * _head_bytes(shape, group, dtype, fp8_scales)
        for group in shape.groups
    )


def bytes_per_token(
    shape: KvShape, dtype: str = "bfloat16", fp8_scales: str = "none", tp: int = 1
) -> int:
    """Bytes that one more token adds while no window caps it; of one rank where ``tp`` > 1."""
    return per_rank_bytes(shape, 1, tp, dtype, fp8_scales)


def per_rank_bytes(
    shape: KvShape, tokens: int, tp: int, dtype: str = "bfloat16", fp8_scales: str = "none"
) -> int:
    """Bytes of KV on each of ``tp`` tensor-parallel ranks.

    KV heads are dealt out to the ranks; with fewer heads than ranks each head is kept on
    several, and an MLA latent is kept whole on every rank.  Raises ``BadInput`` when ``tp``
    does not divide the heads.
    """
    tokens = whole(tokens, "tokens", low=0, high=MAX_TOKENS)
    return sum(
        group.layers * group.stored(tokens) * heads_per_rank(shape, group.heads, tp)
        * _head_bytes(shape, group, dtype, fp8_scales)
        for group in shape.groups
    )


def heads_per_rank(shape: KvShape, kv_heads: int, tp: int) -> int:
    """KV heads that each rank keeps: a share, or one replicated head, or MLA's whole latent."""
    tp = whole(tp, "tp", high=65536)
    if shape.query_heads is not None and shape.query_heads % tp:
        raise BadInput(f"tp {tp}", f"a divisor of the {shape.query_heads} query heads", "tp")
    if shape.kind == "MLA":
        return kv_heads
    if tp <= kv_heads:
        if kv_heads % tp:
            raise BadInput(f"tp {tp}", f"a divisor of the {kv_heads} KV heads", "tp")
        return kv_heads // tp
    if tp % kv_heads:
        raise BadInput(f"tp {tp}", f"a multiple of the {kv_heads} KV heads, to replicate them", "tp")
    return 1


def blocks(tokens: int, block_size: int) -> int:
    """Whole blocks of ``block_size`` token slots that hold ``tokens`` tokens."""
    tokens = whole(tokens, "tokens", low=0, high=MAX_TOKENS)
    return -(-tokens // whole(block_size, "block_size", high=10**6))


def block_bytes_total(
    shape: KvShape, tokens: int, block_size: int, dtype: str = "bfloat16",
    fp8_scales: str = "none",
) -> int:
    """Bytes of the whole blocks that hold ``tokens`` tokens, whole model.

    A windowed layer is charged for the blocks its window fills; an engine may hold one block
    more for a while, when a window straddles a block boundary.
    """
    tokens = whole(tokens, "tokens", low=0, high=MAX_TOKENS)
    return sum(
        group.layers * blocks(group.stored(tokens), block_size) * block_size * group.heads
        * _head_bytes(shape, group, dtype, fp8_scales)
        for group in shape.groups
    )


def blocks_held(shape: KvShape, tokens: int, block_size: int) -> int:
    """Blocks of the layers that hold most: the whole length, or less if every layer is windowed."""
    return max(blocks(group.stored(tokens), block_size) for group in shape.groups)


def saturates_at(shape: KvShape) -> int | None:
    """The length in tokens from which the total no longer grows; None if it always grows."""
    windows = [group.window for group in shape.groups]
    return None if None in windows else max(windows)


def _head_bytes(shape: KvShape, group: LayerGroup, dtype: str, fp8_scales: str) -> int:
    """Bytes of one token, one layer, one KV head."""
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise BadInput(shown(dtype), " | ".join(DTYPE_BYTES), "dtype")
    if fp8_scales not in FP8_SCALES:
        raise BadInput(shown(fp8_scales), " | ".join(FP8_SCALES), "fp8_scales")
    payload = group.copies * group.head_dim * DTYPE_BYTES[dtype]
    if fp8_scales == "none":
        return payload
    if dtype != "fp8":
        raise BadInput(f"fp8_scales {fp8_scales} with dtype {dtype}", "scales only with dtype fp8",
                       "fp8_scales")
    if shape.kind == "MLA":
        raise BadInput("fp8_scales per-token-head for MLA", "none: a latent has no K and V heads",
                       "fp8_scales", "Look up the layout of the kernel that you use")
    return payload + group.copies * SCALE_BYTES


def _kind(kv_heads: int, query_heads: int | None) -> str:
    """MHA, GQA or MQA from the two head counts."""
    if query_heads is None:
        return "MQA" if kv_heads == 1 else "not stated"
    query_heads = whole(query_heads, "query_heads", high=65536)
    if query_heads % kv_heads:
        raise BadInput(f"{query_heads} query heads on {kv_heads} KV heads",
                       "query heads that are a multiple of the KV heads", "num_key_value_heads")
    if kv_heads == query_heads:
        return "MHA"
    return "MQA" if kv_heads == 1 else "GQA"
