"""The ``pdlab`` command.  Each subcommand is one module in ``pdlab.course.commands``."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import pkgutil
import sys
from pathlib import Path
from typing import NoReturn

from pdlab.course import commands
from pdlab.course.output import printable
from pdlab.errors import BadInput, Failed

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
NAMES_AT_FAULT = {  # another path would have done; a full disk or a broken one is no bad input
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM,
    errno.EROFS, errno.ENXIO, errno.EINVAL, errno.ENOTEMPTY, errno.EXDEV,
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """One message, as for all bad input; the usage only where words are missing or too many."""

    def error(self, message: str) -> NoReturn:
        if not message.startswith("argument "):
            self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"{self.prog}: {message.removeprefix('argument ')}\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line.  A command module has ``add(subparsers)``; it sets ``run``."""
    top = _Parser(prog="pdlab", description="Tools of the prefill/decode workbook.")
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in sorted(m.name for m in pkgutil.iter_modules(commands.__path__)):
        importlib.import_module(f"{commands.__name__}.{module}").add(sub)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 a gate or the work itself failed, 2 bad input; one message and no traceback."""
    silent = _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    try:
        args = parser().parse_args(argv)
    except SystemExit as ended:  # so argparse ends, after --help too
        return int(ended.code or OK)
    try:
        _check_names(args)
        _check_empty(sys.argv[1:] if argv is None else argv)
        if getattr(args, "out", None) is not None and not getattr(args, "check", False):
            _check_out(Path(args.out))
        status = args.run(args) or OK
        sys.stdout.flush()  # at exit it would be too late to say that it failed
        return _say(args, "the output could not be written: standard output is closed", FAILED) if silent else status
    except BadInput as error:
        return _say(args, error, BAD_INPUT)
    except Failed as error:
        return _say(args, error, FAILED)
    except KeyboardInterrupt:
        return _say(args, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe has gone away: nothing to report
        _drop_output()
        return OK
    except OSError as error:
        why = error.strerror or error
        if error.filename is None and _output_fails():
            _drop_output()
            return _say(args, f"the output could not be written: {why}", FAILED)
        if error.filename is None and error.errno == errno.ENOENT and _folder_is_gone():
            return _say(args, BadInput("none (it was removed)", "one that is there", "the current folder"), BAD_INPUT)
        if error.filename is not None and error.errno in NAMES_AT_FAULT:
            return _say(args, BadInput(f"{why}", "a path that can be used", _shown(error.filename)), BAD_INPUT)
        # a write that fails for want of room does not say where it was
        place = error.filename if error.filename is not None or error.errno != errno.ENOSPC else getattr(args, "out", None)
        about = "" if place is None else f"{_shown(place)}: "
        return _say(args, f"{about}{why}", FAILED)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _open_what_is_closed() -> bool:
    """Put /dev/null where a standard stream is closed; whether standard output was.

    Else the next file that is opened would take its number, and what is printed would go there.
    """
    closed = []
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
            closed.append(name)
    return "stdout" in closed


def _say(args: argparse.Namespace, what: object, status: int) -> int:
    print(f"pdlab {args.command}: {printable(what)}", file=sys.stderr)
    return status


def _check_names(args: argparse.Namespace) -> None:
    """No system call takes a text with a null character, and each would say so in another way."""
    for name, value in vars(args).items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | Path) and "\0" in str(one):
                raise BadInput("a null character", "text without one", name.replace("_", "-"))


def _check_empty(words: list[str]) -> None:
    """A variable of the shell that is not set leaves an empty word, which as a path is the current folder."""
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("-") and not word or word.startswith("--") and word.endswith("="):
            raise BadInput("an empty word", "a value", (word or before).rstrip("="), "Is a variable not set?")


def _check_out(out: Path) -> None:
    """Before any work is done: what comes of it can be written there."""
    try:
        place = next(one for one in (out, *out.absolute().parents) if os.path.lexists(one))
        why = "" if place.is_dir() else "a link to nowhere" if not place.exists() else "a file" if place == out else f"{place} is a file"
        why = why or ("" if os.access(place, os.W_OK | os.X_OK) else "Permission denied")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise BadInput(f"{_shown(out)} ({why})", "a folder that can be written", "--out")


def _shown(path: object) -> str:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
    return text if len(text) <= 120 else f"{text[:80]}… ({len(text)} characters)"


def _output_fails() -> bool:
    """Whether it is standard output that takes nothing more: an error of a write does not say of what."""
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, or Python would complain of it again at exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # a standard output that is no file
        pass


if __name__ == "__main__":
    sys.exit(main())
