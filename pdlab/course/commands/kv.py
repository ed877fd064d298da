"""``pdlab kv``: the bytes of KV that a model keeps, from its config.json."""

from __future__ import annotations

import argparse


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    from pdlab.course.arguments import add_prompt_options
    from pdlab.course.output import add_json_flag

    p = sub.add_parser("kv", help="size the KV cache of a model from its config.json")
    add_prompt_options(p)
    p.add_argument("--tp", default="1", metavar="N", help="tensor-parallel ranks (default 1)")
    p.add_argument("--block-size", default="16", metavar="B",
                   help="token slots of one cache block (default 16)")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the sizes; BadInput for anything that cannot be sized."""
    from pdlab.course.arguments import read_prompt, whole_arg
    from pdlab.course.output import print_json, print_table
    from pdlab.theory import kv

    shape, tokens, how = read_prompt(args)
    tp = whole_arg(args.tp, "--tp", high=65536)
    block = whole_arg(args.block_size, "--block-size", high=10**6)
    size = kv.kv_bytes(shape, tokens, **how)
    document = {
        "model": shape.name,
        "attention": shape.attention,
        "layers": shape.layers,
        "tokens": tokens,
        **how,
        "bytes_per_token": kv.bytes_per_token(shape, **how),
        "kv_bytes": size,
        "kv_mib": size / 2**20,
        "tp": tp,
        "per_rank_bytes": kv.per_rank_bytes(shape, tokens, tp, **how),
        "block_size": block,
        "blocks": kv.blocks_held(shape, tokens, block),
        "block_bytes_total": kv.block_bytes_total(shape, tokens, block, **how),
        "label": "hypothetical",
    }
    if args.json:
        print_json(document)
        return
    print(f"{shape.name}, {tokens:,} tokens ({document['label']}: arithmetic from the config)")
    print_table(
        [
            ("attention", shape.attention, ""),
            ("bytes a token", f"{document['bytes_per_token']:,}", "B"),
            ("KV, whole model", f"{size:,}", "B"),
            ("", f"{document['kv_mib']:,.4f}", "MiB"),
            (f"KV on each of {tp} rank{'s' if tp > 1 else ''}", f"{document['per_rank_bytes']:,}", "B"),
            (f"blocks of {block} tokens", f"{document['blocks']:,}", ""),
            ("KV in whole blocks", f"{document['block_bytes_total']:,}", "B"),
        ],
        ("what", "size", "unit"),
    )
