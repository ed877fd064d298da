"""Pools that hand over KV must hold the same model, and the launcher is the one who can see it."""

import pytest

from pdlab.errors import BadInput
from pdlab.live.same_model import identity, same_model

COMMON = {"--model": "/models/tiny", "--revision": "sha256:1", "--dtype": "float32"}


def test_equal_pools_pass():
    """One server, or several that differ in nothing that tells a model, are accepted."""
    same_model({"prefill": identity(COMMON, ())})
    same_model({"prefill": identity(COMMON, ("--max-num-seqs", "4")), "decode": identity(COMMON, ("--dtype", "float32"))})


@pytest.mark.parametrize("arguments", [
    ("--dtype", "bfloat16"), ("--revision=main",), ("--model", "/models/other"), ("--load-format", "dummy"),
    ("--seed", "1", "--quantization", "fp8"), ("--kv-cache-dtype=fp8",),
])  # fmt: skip
def test_another_model_on_one_side_is_refused(arguments):
    """Name, revision, dtype, weights and KV format each count, however they are written; the message names both sides."""
    with pytest.raises(BadInput, match="on decode.*on prefill"):
        same_model({"prefill": identity(COMMON, ()), "decode": identity(COMMON, arguments)})
