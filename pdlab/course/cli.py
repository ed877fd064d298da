"""The ``pdlab`` command.  Each subcommand is one module in ``pdlab.course.commands``."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys

from pdlab.course import commands
from pdlab.errors import BadInput, Failed

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def parser() -> argparse.ArgumentParser:
    """The whole command line.  A command module has ``add(subparsers)``; it sets ``run``."""
    top = argparse.ArgumentParser(prog="pdlab", description="Tools of the prefill/decode workbook.")
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in sorted(m.name for m in pkgutil.iter_modules(commands.__path__)):
        importlib.import_module(f"{commands.__name__}.{module}").add(sub)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 a gate or the work itself failed, 2 bad input; one message and no traceback."""
    args = parser().parse_args(argv)
    try:
        return args.run(args) or OK
    except BadInput as error:
        print(f"pdlab {args.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except Failed as error:
        print(f"pdlab {args.command}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"pdlab {args.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has gone away: nothing to report
        return OK


if __name__ == "__main__":
    sys.exit(main())
