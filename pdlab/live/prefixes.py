"""Which prompt prefixes each server holds: a real record, kept by the router, in whole blocks.

An engine's prefix cache keeps whole blocks, and a block counts as a hit only when every block
before it does.  So a prompt is named by a chain of hashes, one a full block, each over the whole
prefix up to its end.  A server that has seen a chain holds all of it until it is pushed out, the
longest unused first; the record forgets in the same order, so that it does not promise what the
server can no longer give.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from hashlib import blake2b

from pdlab.errors import BadInput


def block_chain(token_ids: Sequence[int], block_size: int, salt: str = "") -> list[bytes]:
    """Hashes of the full blocks of ``token_ids``; the unfilled tail has none (it is not cached).

    Equal tokens under another ``salt`` (a request's ``cache_salt``) are another prefix, as in the engine.
    """
    if block_size < 1:
        raise BadInput(f"block_size {block_size}", "at least 1 token", "block_chain")
    try:
        ids = array("q", token_ids)
    except (OverflowError, TypeError) as error:
        raise BadInput(f"token ids that are none ({error})", "whole numbers of 64 bits", "prompt") from error
    chain, digest = [], salt.encode(errors="surrogatepass")
    for end in range(block_size, len(ids) + 1, block_size):
        digest = blake2b(digest + ids[end - block_size : end].tobytes(), digest_size=16).digest()
        chain.append(digest)
    return chain


class PrefixRecord:
    """What one server holds, at most ``capacity_blocks`` blocks of ``block_size`` tokens."""

    def __init__(self, block_size: int, capacity_blocks: int) -> None:
        if block_size < 1 or capacity_blocks < 1:
            raise BadInput(f"{capacity_blocks} blocks of {block_size}", "both at least 1", "PrefixRecord")
        self.block_size, self.capacity_blocks = block_size, capacity_blocks
        self._blocks: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matched_tokens(self, chain: Sequence[Hashable]) -> int:
        """Tokens of the longest held prefix of ``chain``; looking changes nothing."""
        held = 0
        for block in chain:
            if block not in self._blocks:
                break
            held += 1
        return held * self.block_size

    def add(self, chain: Sequence[Hashable]) -> None:
        """The server has computed or received this prefix.

        Later blocks are marked older than earlier ones, as engines free a prompt's tail first:
        a prefix without its beginning is of no use.
        """
        for block in reversed(chain):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self.capacity_blocks:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """The server was restarted: it holds nothing."""
        self._blocks.clear()
