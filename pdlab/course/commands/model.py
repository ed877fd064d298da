"""``pdlab model``: get a model for the live servers."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("model", help="get a model for the live servers")
    actions = p.add_subparsers(dest="action", required=True, metavar="ACTION")
    get = actions.add_parser("get", help="make, download or check a model; print where it is")
    get.add_argument("name", help="tiny, smollm2, a folder, or a Hugging Face id such as org/name")
    add_json_flag(get)
    get.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Exit status 2 where the name means nothing or the download is not what it should be."""
    from dataclasses import asdict

    from pdlab.live import models

    model = models.fetch(args.name)
    if args.json:
        print_json(asdict(model))
    else:
        print(f"{model.name}: {model.path}\nrevision {model.revision}")
