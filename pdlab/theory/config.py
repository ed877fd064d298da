"""Reading a Hugging Face ``config.json``: what each model family means by its fields.

Only families whose cache is known exactly are listed.  Everything else is refused by name: a
number for a hybrid, recurrent or layer-sharing model would look as good as a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.documents import MOST_BYTES, check_plain, parse_object
from pdlab.errors import BadInput
from pdlab.theory._check import shown, whole

MODELS_DIR = Path(__file__).resolve().parents[2] / "data" / "models"
MAX_LAYERS, MAX_HEADS, MAX_HEAD_DIM = 4096, 4096, 65536

# Families in which each layer keeps K and V for every KV head, and nothing else.
_HEADS_DEFAULT_TO_MHA = {
    "", "codegen", "gpt2", "gpt_neox", "gptj", "llama", "olmo", "olmo2", "opt", "phi", "phi3",
}
# Families whose head_dim is not hidden_size / heads when the file leaves it out.
_DEFAULT_HEAD_DIM_DIFFERS = {"gemma", "gemma2", "gemma3_text", "glm4", "gpt_oss", "qwen3", "qwen3_moe"}
# What transformers' own config class fills in where published files leave a field out.
_CLASS_DEFAULTS = {
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
    "gemma2": {"head_dim": 256}, "gemma": {"head_dim": 256}, "qwen3": {"head_dim": 128},
}
_WINDOW_ON_EVERY_LAYER = {"", "mistral", "mixtral", "phi3", "phimoe", "starcoder2"}
_WINDOW_BEHIND_A_SWITCH = {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl_text", "qwen2_5_vl_text"}
_WINDOW_EVERY_NTH_FULL = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "cohere2": 4}
_CHUNKED = {"llama4_text"}
_NO_WINDOW = {
    "arcee", "codegen", "cohere", "falcon", "gemma", "glm", "glm4", "glm4_moe", "gpt2",
    "gpt_bigcode", "gpt_neox", "gptj", "granite", "granitemoe", "helium", "llama", "olmo", "olmo2",
    "olmoe", "opt", "persimmon", "phi", "qwen3_vl_moe_text",
    "qwen3_vl_text", "smollm3", "stablelm",
}
_MLA = {"deepseek_v2", "deepseek_v3", "kimi_k2"}
_KNOWN = (
    _NO_WINDOW | _WINDOW_ON_EVERY_LAYER | _WINDOW_BEHIND_A_SWITCH | set(_WINDOW_EVERY_NTH_FULL)
    | _CHUNKED | _MLA
)
# What a nested text model is called when its config leaves the name to its parent.
_INNER_TYPE = {
    "gemma3": "gemma3_text", "llama4": "llama4_text", "mistral3": "mistral", "llava": "llama",
    "qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text",
}

# Older families name the same things differently.
_ALIASES = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "hidden_size": ("n_embd", "d_model"),
}

# A key that shows a cache other than K and V per layer, and what it stands for.
_REFUSED_KEYS = {
    "attn_layer_period": "a mix of attention and recurrent layers",
    "attn_type_list": "a mix of attention and linear-attention layers",
    "attn_layer_indices": "a mix of attention and recurrent layers",
    "block_configs": "layers that differ from block to block",
    "compress_ratios": "compressed attention",
    "conv_L_cache": "convolution state",
    "cla_share_factor": "KV shared across layers",
    "cross_attention_layers": "cross-attention to another modality",
    "full_attention_interval": "a mix of full and linear attention",
    "global_head_dim": "head sizes that differ from layer to layer",
    "hybrid_override_pattern": "a mix of attention and recurrent layers",
    "index_head_dim": "a sparse-attention index cache beside the KV",
    "index_n_heads": "a sparse-attention index cache beside the KV",
    "index_topk": "a sparse-attention index cache beside the KV",
    "layers_block_type": "a mix of attention and recurrent layers",
    "linear_attn_config": "linear attention",
    "linear_num_key_heads": "linear attention",
    "linear_num_value_heads": "linear attention",
    "linear_key_head_dim": "linear attention",
    "lru_width": "recurrent state",
    "mamba_d_state": "Mamba state",
    "mamba_expand": "Mamba state",
    "mamba_num_heads": "Mamba state",
    "num_kv_shared_layers": "KV shared across layers",
    "ssm_cfg": "Mamba state",
    "ssm_state_size": "Mamba state",
    "state_size": "recurrent state",
    "time_mix_extra_dim": "RWKV state",
    "use_cla": "KV shared across layers",
}


@dataclass(frozen=True, slots=True)
class ShapeFields:
    """What the cache size needs from a config.  ``windows`` has one entry a layer."""

    name: str
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    window_kind: str
    mla: bool


def load(name: str) -> dict[str, Any]:
    """The shipped config with this short name, e.g. ``llama-3.1-8b``, as a mapping."""
    path = MODELS_DIR / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in MODELS_DIR.glob("*.json")))
        raise BadInput(shown(name), f"one of {known}", "model name")
    return read_config(path)[0]


def find(name_or_path: str) -> Path:
    """The path itself, or the shipped config of that short name where no such file exists."""
    path, shipped = Path(name_or_path), MODELS_DIR / f"{name_or_path}.json"
    try:
        return shipped if not path.exists() and shipped.is_file() else path
    except (OSError, ValueError):  # too long, or a NUL inside: reading it will say so
        return path


def read_config(config: object) -> tuple[dict[str, Any], str]:
    """A config given as a mapping or a path, and the words that say where it came from."""
    if isinstance(config, Mapping):
        return dict(config), "config"
    if not isinstance(config, str | Path):
        raise BadInput(shown(config), "a path or a mapping", "config")
    path, where = Path(config), str(config)
    expected = "a Hugging Face config.json"
    check_plain(path, expected, MOST_BYTES)
    try:
        text = path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise BadInput("a directory", expected, where,
                       "Name the config.json inside it") from None
    except FileNotFoundError:
        raise BadInput("no such file", expected, where) from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"an unreadable file ({type(error).__name__})", expected, where) from None
    return parse_object(text, where, expected), where


def text_model(config: dict[str, Any], where: str) -> tuple[dict[str, Any], str, str]:
    """The part of a config that describes the text model, where it is, and its model type.

    Raises ``BadInput`` by name if the architecture is not one that can be sized exactly.
    """
    outer = _type(config, where)
    inner = config.get("text_config")
    if inner is None:
        family = _INNER_TYPE.get(outer, outer) if "num_hidden_layers" in config else outer
        body = config
    elif isinstance(inner, dict):
        _refuse_other_caches({k: v for k, v in config.items() if k != "text_config"}, outer, where)
        where = f"{where}: text_config"
        family = _type(inner, where) or _INNER_TYPE.get(outer, outer)
        body = inner
    else:
        raise BadInput(shown(inner), "an object", f"{where}: text_config")
    _refuse_other_caches(body, family, where)
    if family not in _KNOWN:
        raise _refusal(f"model_type {family}", "is not a family whose cache pdlab knows", where)
    return _CLASS_DEFAULTS.get(family, {}) | body, where, family


def shape_fields(config: dict[str, Any], where: str = "config") -> ShapeFields:
    """The fields of a config that set the size of its cache, checked one by one."""
    body, where, family = text_model(config, where)
    layers = whole(_need(body, "num_hidden_layers", where), f"{where}: num_hidden_layers",
                   high=MAX_LAYERS)
    query_heads = whole(_need(body, "num_attention_heads", where),
                        f"{where}: num_attention_heads", high=MAX_HEADS)
    name = str(config.get("_name_or_path") or family)
    if family in _MLA or (family == "" and body.get("kv_lora_rank") is not None):
        latent = sum(
            whole(_need(body, key, where), f"{where}: {key}", high=MAX_HEAD_DIM)
            for key in ("kv_lora_rank", "qk_rope_head_dim")
        )
        return ShapeFields(name, layers, query_heads, 1, latent, (None,) * layers, "", mla=True)
    if body.get("kv_lora_rank") is not None:
        raise _refusal(f"model_type {family} with kv_lora_rank",
                       "is not a latent-attention family that pdlab knows", where)
    return ShapeFields(
        name, layers, query_heads, _kv_heads(body, query_heads, family, where),
        _head_dim(body, query_heads, family, where), _windows(body, layers, family, where),
        "chunk" if family in _CHUNKED else "sliding window", mla=False,
    )


def _kv_heads(body: dict[str, Any], query_heads: int, family: str, where: str) -> int:
    if family in {"falcon", "gpt_bigcode"}:
        return _kv_heads_multi_query(body, query_heads, family, where)
    value = body.get("num_key_value_heads")
    if value is None:
        if family not in _HEADS_DEFAULT_TO_MHA:
            raise BadInput("no num_key_value_heads", "the number of KV heads", where)
        return query_heads
    kv_heads = whole(value, f"{where}: num_key_value_heads", high=query_heads)
    if query_heads % kv_heads:
        raise BadInput(f"{kv_heads} KV heads for {query_heads} query heads",
                       "KV heads that divide the query heads", f"{where}: num_key_value_heads")
    return kv_heads


def _kv_heads_multi_query(body: dict[str, Any], query_heads: int, family: str, where: str) -> int:
    """Falcon's and StarCoder's own flags: one KV head, all of them, or num_kv_heads."""
    if family == "falcon" and body.get("new_decoder_architecture") is True:
        return whole(_need(body, "num_kv_heads", where), f"{where}: num_kv_heads", high=query_heads)
    flag = _need(body, "multi_query", where)
    if not isinstance(flag, bool):
        raise BadInput(shown(flag), "true or false", f"{where}: multi_query")
    return 1 if flag else query_heads


def _head_dim(body: dict[str, Any], query_heads: int, family: str, where: str) -> int:
    value = body.get("head_dim")
    if value is not None:
        return whole(value, f"{where}: head_dim", high=MAX_HEAD_DIM)
    if family in _DEFAULT_HEAD_DIM_DIFFERS:
        raise BadInput("no head_dim", f"an explicit head_dim for model_type {family}", where)
    hidden = whole(_need(body, "hidden_size", where), f"{where}: hidden_size", high=10**7)
    if hidden % query_heads:
        raise BadInput(f"hidden_size {hidden} and {query_heads} attention heads",
                       "heads that divide hidden_size, or an explicit head_dim", where)
    return hidden // query_heads


def _windows(body: dict[str, Any], layers: int, family: str, where: str) -> tuple[int | None, ...]:
    """The window of each layer in tokens, None for a layer that keeps everything."""
    window = body.get("sliding_window")
    if window is not None:
        window = whole(window, f"{where}: sliding_window")
    types = body.get("layer_types")
    if types is not None:
        return _windows_from_types(body, types, layers, window, family, where)
    if family in _CHUNKED:
        return _chunked(body, layers, where)
    if family in _WINDOW_BEHIND_A_SWITCH:
        if not _switch(body, where):
            return (None,) * layers
        window = whole(_need(body, "sliding_window", where), f"{where}: sliding_window")
        first = whole(_need(body, "max_window_layers", where), f"{where}: max_window_layers",
                      low=0, high=MAX_LAYERS)
        return tuple(window if layer >= first else None for layer in range(layers))
    if window is None:
        return (None,) * layers
    if family in _NO_WINDOW:
        raise _refusal(f"model_type {family} with sliding_window {window}",
                       "is a family whose code has no window, so its meaning is unclear", where)
    if not _switch(body, where, absent=True):
        return (None,) * layers
    pattern = body.get("sliding_window_pattern", body.get("_sliding_window_pattern"))
    if pattern is None:
        pattern = _WINDOW_EVERY_NTH_FULL.get(family)
    if pattern is None:
        return (window,) * layers
    pattern = whole(pattern, f"{where}: sliding_window_pattern", high=MAX_LAYERS)
    return tuple(None if (layer + 1) % pattern == 0 else window for layer in range(layers))


def _windows_from_types(
    body: dict[str, Any], types: object, layers: int, window: int | None, family: str, where: str
) -> tuple[int | None, ...]:
    at = f"{where}: layer_types"
    if not isinstance(types, list) or len(types) != layers:
        found = f"{len(types)} entries" if isinstance(types, list) else shown(types)
        raise BadInput(found, f"a list of {layers} entries, one a layer", at)
    windows: list[int | None] = []
    for layer, kind in enumerate(types):
        if kind == "full_attention":
            windows.append(None)
        elif kind == "sliding_attention":
            if window is None or not _switch(body, where, absent=True):
                raise BadInput("sliding_attention layers without a window in use",
                               "a positive sliding_window", at)
            windows.append(window)
        elif kind == "chunked_attention" and family in _CHUNKED:
            windows.append(whole(_need(body, "attention_chunk_size", where),
                                 f"{where}: attention_chunk_size"))
        else:
            raise _refusal(f"model_type {family or 'not stated'}, layer {layer} of type {shown(kind)}",
                           "is not attention that keeps K and V for each token", where)
    return tuple(windows)


def _chunked(body: dict[str, Any], layers: int, where: str) -> tuple[int | None, ...]:
    """Llama 4: layers with rotary positions see one chunk, the others everything.

    A chunk's cache is emptied when the next begins; the window here is what it fills at most,
    since that is what has to be provided for.
    """
    chunk = body.get("attention_chunk_size")
    if chunk is None:
        return (None,) * layers
    chunk = whole(chunk, f"{where}: attention_chunk_size")
    rotary = body.get("no_rope_layers") or None  # the field's name says the opposite of its values
    if rotary is None:
        every = whole(body.get("no_rope_layer_interval", 4), f"{where}: no_rope_layer_interval",
                      high=MAX_LAYERS)
        rotary = [int((layer + 1) % every != 0) for layer in range(layers)]
    if not isinstance(rotary, list) or len(rotary) != layers or any(r not in (0, 1) for r in rotary):
        raise BadInput(shown(rotary), f"a list of {layers} zeros and ones", f"{where}: no_rope_layers")
    return tuple(chunk if uses else None for uses in rotary)


def _switch(body: dict[str, Any], where: str, absent: bool = False) -> bool:
    value = body.get("use_sliding_window", absent)
    if not isinstance(value, bool):
        raise BadInput(shown(value), "true or false", f"{where}: use_sliding_window")
    return value


def _refuse_other_caches(body: dict[str, Any], family: str, where: str) -> None:
    """Refuse, by name, a config with a field that means state beyond K and V of its own layers."""
    if body.get("is_encoder_decoder"):
        raise _refusal(f"model_type {family or 'not stated'}",
                       "is an encoder-decoder, which also keeps cross-attention KV", where)
    for key, meaning in _REFUSED_KEYS.items():
        if body.get(key):  # 0, false, null and an empty list switch a feature off
            raise _refusal(f"model_type {family or 'not stated'} with {key}", f"means {meaning}", where)


def _refusal(what: str, why: str, where: str) -> BadInput:
    return BadInput(f"{what}, which {why}", "an architecture that can be sized exactly", where,
                    "Its size is not guessed: ask the engine that serves it")


def _type(config: dict[str, Any], where: str) -> str:
    value = config.get("model_type", "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(shown(value), "a name", f"{where}: model_type")
    return value


def _need(body: dict[str, Any], key: str, where: str) -> object:
    for name in (key, *_ALIASES.get(key, ())):
        if body.get(name) is not None:
            return body[name]
    raise BadInput(f"no {key}", f"the field {key}", where)
