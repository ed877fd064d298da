"""What several commands take: numbers, refused with the one message of everything else, and a prompt's KV."""

from __future__ import annotations

import argparse
from typing import Any

from pdlab import options
from pdlab.errors import BadInput
from pdlab.theory._check import not_negative, positive, whole


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """A model, a length and a precision: what decides how much KV a prompt has."""
    parser.add_argument("config", metavar="CONFIG.json",
                        help="a Hugging Face config.json, or the short name of a shipped one")  # fmt: skip
    parser.add_argument("--tokens", required=True, metavar="N", help="length of the sequence")
    parser.add_argument("--dtype", default="bfloat16", metavar="DTYPE",
                        help="bfloat16 (default) | float16 | float32 | fp8")  # fmt: skip
    parser.add_argument("--fp8-scales", default="none", metavar="WHICH",
                        help="none (default) | per-token-head: one FP32 scale per token, head, K or V")  # fmt: skip


def read_prompt(args: argparse.Namespace) -> tuple[Any, int, dict[str, str]]:
    """(shape, tokens, precision as ``pdlab.theory.kv`` takes it) of ``add_prompt_options``."""
    from pdlab.theory import kv

    shape = kv.from_config(kv.find(args.config))
    tokens = whole_arg(args.tokens, "--tokens", high=kv.MAX_TOKENS)
    return shape, tokens, {"dtype": args.dtype, "fp8_scales": args.fp8_scales}


def whole_arg(text: str, flag: str, *, high: int = 10**9) -> int:
    """The whole number written in ``text``."""
    if not options.WHOLE.fullmatch(text):
        raise BadInput(options.shown(text), f"a whole number from 1 to {high:,}", flag)
    return whole(int(text), flag, high=high)


def positive_arg(text: str, flag: str, unit: str) -> float:
    """The finite number above zero written in ``text``."""
    return positive(_number(text, flag, unit), flag, unit)


def not_negative_arg(text: str, flag: str, unit: str) -> float:
    """The finite number of zero or more written in ``text``."""
    return not_negative(_number(text, flag, unit), flag, unit)


def _number(text: str, flag: str, unit: str) -> float:
    if not options.REAL.fullmatch(text):
        raise BadInput(options.shown(text), f"a finite number in {unit}", flag)
    return float(text)
