"""Make a model folder in Hugging Face format.  Run by the live environment's Python.

    -m pdlab.live.convert tiny OUT         a small Llama of random weights, a tokenizer trained here
    -m pdlab.live.convert gguf FILE OUT    a Llama in GGUF form, dequantised to bfloat16

Nothing is downloaded, and the same input gives the same bytes.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TINY = {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 8192,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5, "initializer_range": 0.15,
}  # fmt: skip
TINY_VOCABULARY = 4096
TINY_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
SYLLABLES = "ka lo mi ne ru sta vel tor pin gra ond esh ul fi bri zan".split()

# GGUF's names for a Llama layer's tensors, and Hugging Face's
LAYER = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
TOP = {
    "token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight",
    "output": "lm_head.weight",
}  # fmt: skip
CONTROL_TOKEN = 3  # a token type of GGUF


def tiny(out: Path) -> None:
    """Random weights from a fixed seed; a byte-level BPE trained on made-up words."""
    rng = random.Random(0)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(6000)]
    text = [" ".join(rng.choices(words, k=12)) for _ in range(6000)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=TINY_VOCABULARY, special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    ))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        model_max_length=TINY["max_position_embeddings"],
    )
    tokenizer.chat_template = TINY_TEMPLATE
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=TINY_VOCABULARY, **TINY))
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


def gguf(source: Path, out: Path) -> None:
    """Weights, config and tokenizer, all out of one GGUF file."""
    reader = GGUFReader(source)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    weights = _weights(reader, fields)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    _config(fields, tied="lm_head.weight" not in weights, out=out)
    _tokenizer(fields).save_pretrained(out)


def _weights(reader: GGUFReader, fields: dict) -> dict[str, torch.Tensor]:
    heads = {"attn_q": fields["llama.attention.head_count"],
             "attn_k": fields["llama.attention.head_count_kv"]}
    found = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        first, *rest = tensor.name.split(".")
        if first == "blk":
            layer, part, _ = rest
            if part in heads:
                values = _unpermute(values, heads[part])
            name = f"model.layers.{layer}.{LAYER[part]}.weight"
        else:
            name = TOP[first]
        found[name] = torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)
    return found


def _unpermute(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undo llama.cpp's order of q and k rows: it pairs the two halves that RoPE turns together."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _config(fields: dict, tied: bool, out: Path) -> None:
    hidden = fields["llama.embedding_length"]
    heads = fields["llama.attention.head_count"]
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"], "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"], "head_dim": hidden // heads,
        "vocab_size": fields["llama.vocab_size"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": round(float(fields["llama.attention.layer_norm_rms_epsilon"]), 8),
        "rope_theta": float(fields["llama.rope.freq_base"]), "attention_bias": False,
        "mlp_bias": False, "tie_word_embeddings": tied, "torch_dtype": "bfloat16", **ends,
    }  # fmt: skip
    (out / "config.json").write_text(json.dumps(config, indent=1))
    (out / "generation_config.json").write_text(json.dumps(ends))


def _tokenizer(fields: dict) -> PreTrainedTokenizerFast:
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN
    ])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<|im_start|>", eos_token="<|im_end|>",
        unk_token="<|endoftext|>", pad_token="<|im_end|>",
        model_max_length=fields["llama.context_length"],
    )
    tokenizer.chat_template = fields["tokenizer.chat_template"]
    return tokenizer


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tiny", out]:
            tiny(Path(out))
        case ["gguf", source, out]:
            gguf(Path(source), Path(out))
        case _:
            sys.exit(__doc__)
