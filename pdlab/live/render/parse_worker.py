"""Run by the live environment's Python: put commands through vLLM's own argument parser.

Takes a JSON list of {"words", "settings"} on stdin; gives {"version", "errors"} on the last line of
stdout, an empty error where the parser took the command and vLLM knows every VLLM_ setting.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys


def main() -> None:
    import vllm.envs

    try:
        from vllm.entrypoints.common.cli_args import make_arg_parser, validate_parsed_serve_args
    except ModuleNotFoundError:  # before 0.33
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.version import __version__

    known = vllm.envs.environment_variables
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    errors = []
    for asked in json.load(sys.stdin):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                validate_parsed_serve_args(parser.parse_args(asked["words"]))
        except SystemExit:
            errors.append((said.getvalue().strip().splitlines() or ["refused"])[-1])
        except Exception as error:  # whatever a check of the engine's raises is its answer
            errors.append(f"{type(error).__name__}: {error}")
        else:
            unknown = [name for name in asked["settings"] if name.startswith("VLLM_") and name not in known]
            errors.append(f"unknown settings: {', '.join(unknown)}" if unknown else "")
    print(json.dumps({"version": __version__, "errors": errors}))


if __name__ == "__main__":
    main()
