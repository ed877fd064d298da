"""Refuse to start pools that hold different models under one name.

The connectors' handshake compares name, dtype and shapes.  It does not see the weights: a prefill
pool of another revision hands over well-formed KV of another model, and decode answers wrongly with
HTTP 200.  So the one who starts the servers has to look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdlab.errors import BadInput

# What says, on a server's command line, which weights it holds and what its KV means.
TELLING = ("--model", "--revision", "--hf-overrides", "--load-format", "--quantization", "--dtype", "--kv-cache-dtype")


def identity(common: Mapping[str, str | None], arguments: Sequence[str]) -> dict[str, str | None]:
    """What a server holds: ``common`` for all, overridden by its own ``arguments`` (``--key value`` or ``--key=value``)."""
    found = dict(common)
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for key, value in zip(words, words[1:]):
        if key in TELLING:
            found[key] = value
    return found


def same_model(servers: Mapping[str, Mapping[str, str | None]]) -> None:
    """Raise BadInput unless all servers (by name, each with its ``identity``) hold the same model."""
    first, *others = servers.items()
    for name, held in others:
        for key in dict.fromkeys((*first[1], *held)):
            if held.get(key) != first[1].get(key):
                raise BadInput(
                    f"{key} {held.get(key)} on {name}, {first[1].get(key)} on {first[0]}",
                    "the same model, revision and dtype in every pool that hands over KV",
                    do="Start all servers from one folder, or pin one revision for all.",
                )
