"""The command line: what no command may do, whatever it is given."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from pdlab import options
from pdlab.course import cli

KV = ["kv", "llama-3.1-70b", "--tokens", "10"]
LONG = "/tmp/" + "a" * 300


@pytest.mark.parametrize(
    "argv",
    [
        ["analyze", "@"], ["compare", "@", "@"], ["compare", "@", "x", "--single", "@"], ["plan", "check", "@"], ["trace", "@"],
        ["analyze", "x", "--plan", "@"], ["kv", "@", "--tokens", "1"], ["plan", "render", "@", "--target", "local"],
        ["load", "http://127.0.0.1:9", "--model", "m", "--out", "@"], ["sweep", "@", "--out", "@"],
        ["attach", "@", "--design", "aggregated", "--url", "http://127.0.0.1:9", "--out", "@"],
        ["serve", "@", "--design", "aggregated"], ["simulate", "@", "--out", "@"],
        ["router", "--worker", "http://127.0.0.1:9", "--log", "@"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [LONG, "a\0b", "\udcff", ""])
def test_a_path_that_cannot_be_is_one_message(argv, path, capsys, tmp_path, monkeypatch):
    """A name too long, with a null character, of bytes that are no text, or empty: a short message, exit status 2."""
    monkeypatch.chdir(tmp_path)
    if argv[0] in ("load", "router") and path in ("\udcff", ""):
        pytest.skip("a name that can be used, or the current folder")
    assert cli.main([path if word == "@" else word for word in argv]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"pdlab {argv[0]}: ") and len(said) < 700


def test_a_name_cannot_move_the_cursor(capsys):
    """What stands in a file's name is shown, not obeyed."""
    assert cli.main(["analyze", "no\x1b[2J\r\u202e.jsonl"]) == 2
    assert r"no\x1b[2J\r\u202e.jsonl: found nothing" in capsys.readouterr().err


def test_an_os_error_is_one_message(monkeypatch, capsys, tmp_path):
    """A folder that may not be searched is bad input; a disk that is full is a failure."""
    for error, status, words in (
        (PermissionError(13, "Permission denied", str(tmp_path)), 2, f"{tmp_path}: found Permission denied"),
        (OSError(28, "No space left on device", "x"), 1, "x: No space left on device"),
        (OSError(104, "Connection reset by peer"), 1, "Connection reset by peer"),
    ):
        monkeypatch.setattr("pdlab.course.commands.kv.run", _raising(error))
        assert cli.main(KV) == status
        assert words in capsys.readouterr().err


def _raising(error):
    def run(args):
        raise error

    return run


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_output_that_cannot_be_written_is_said(json):
    """A full disk under the output: one message, exit status 1."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "pdlab.course.cli", *KV, *json], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "pdlab kv: the output could not be written: No space left on device\n")


def test_a_closed_output_is_said():
    """Started with its standard output closed: one message, exit status 1, no traceback."""
    words = " ".join([sys.executable, "-m", "pdlab.course.cli", *KV])
    done = subprocess.run(["sh", "-c", f"{words} <&- >&-"], capture_output=True, text=True)
    said = "pdlab kv: the output could not be written: standard output is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_a_current_folder_that_is_gone_is_said(monkeypatch, capsys, tmp_path):
    """Its name is told, and exit status 2."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr("pdlab.course.commands.kv.run", lambda args: os.getcwd())
    try:
        assert cli.main(KV) == 2
    finally:
        os.chdir(tmp_path)
    assert "the current folder: found none (it was removed)" in capsys.readouterr().err


def test_a_reader_that_has_gone_away_is_no_fault():
    """A pipe closed by its reader: nothing said, exit status 0."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        done = subprocess.run([sys.executable, "-m", "pdlab.course.cli", *KV], stdout=gone, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


NEVER = ("nan", "inf", "-inf", "1e999", "9" * 5000, "²", "１２", "1_000", "0x10", "", "x", "1 2")


ELSEWHERE = ("router",)  # its options stand with the router, which is also started without the command line


def numeric_options():
    """(command words, action) of every option that takes a number, as the real parser has them."""
    queue = [((), cli.parser())]
    for words, parser in queue:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                queue += [((*words, name), sub) for name, sub in action.choices.items() if name not in ELSEWHERE]
            elif action.type in (int, float) or getattr(action.type, "__module__", "") == options.__name__:
                yield pytest.param(action, id=" ".join((*words, action.option_strings[0])))


@pytest.mark.parametrize("action", list(numeric_options()))
def test_every_number_has_its_range(action):
    """No option takes what is no number of plain digits, a negative one, or one without an end."""
    assert action.type not in (int, float), "a type of pdlab.options says what is expected"
    zero = action.dest in ("warmup", "seed", "port")
    for text in (*NEVER, "-1", "1e300", "9" * 20, *(() if zero else ("0", "0.0"))):
        with pytest.raises(argparse.ArgumentTypeError, match="found .*, expected a (whole )?number (from|above) .* to .*") as caught:
            action.type(text)
        assert len(str(caught.value)) < 160
    if action.default is not None:
        assert action.type(str(action.default)) == action.default
    if zero:
        assert action.type("0") == 0


def test_the_options_are_found():
    """The table above holds every command that takes numbers."""
    ids = {param.id.partition(" --")[0] for param in numeric_options()}
    assert ids >= {"load", "link", "trace", "faults", "grade", "sweep", "serve", "attach", "plan render"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["doctor", "--out", "x"], "found --out, expected --cores"),
        (["doctor", "--cores", "--engines"], "expected one of the two"),
        (["faults", "--list", "x"], "found 'x' with --list"),
        (["connectors", "--pages", "nixl"], "found 'nixl' with --pages"),
        (["load", "http://127.0.0.1:9", "--out", "x", "--rate", "1e-300"], "--rate: found '1e-300', expected a number from 1e-06 to"),
        (["load", "http://127.0.0.1:9", "--out", "x", "--requests", "-3"], "--requests: found '-3', expected a whole number from 1 to"),
        (["load", "http://127.0.0.1:9", "--out", "x", "--deadline", "nan"], "expected a number above 0 to 86,400 seconds"),
        (["link", "--sizes", "²,64K"], "whole bytes"), (["link", "--sizes", "9" * 5000], "whole bytes"),
        (["link", "--sizes", "4K,,"], "whole bytes"), (["kv", "llama-3.1-70b", "--tokens", "9" * 5000], "a whole number"),
        (["nothing"], "invalid choice"), (["load"], "required"),
    ],
)  # fmt: skip
def test_a_bad_option_is_one_message(argv, words, capsys):
    """Exit status 2 and what was expected."""
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert words in said and len(said) < 1000


@pytest.mark.parametrize("option", [["--out", ""], ["--out="]])
def test_an_empty_option_is_not_the_current_folder(option, capsys, tmp_path, monkeypatch):
    """A variable of the shell that is not set does not fill the folder in which one stands."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["load", "http://127.0.0.1:9", "--model", "m", *option]) == 2
    assert "--out: found an empty word, expected a value" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argv", [["doctor", "--cores"], ["faults"], ["connectors"], ["dynamo"], ["ray"], ["record", "link"], ["sweep", "p.yaml"]])
def test_where_results_go_is_looked_at_before_any_work(argv, capsys, tmp_path, monkeypatch):
    """Twenty seconds of measuring are not lost to a file that stands in the way."""
    (tmp_path / "file").touch()
    (tmp_path / "loose").symlink_to("nowhere")
    monkeypatch.setattr(f"pdlab.course.commands.{argv[0]}.run", lambda args: pytest.fail("it began"))
    for out, why in (("file", "a file"), ("file/x", "is a file"), ("loose", "a link to nowhere")):
        assert cli.main([*argv, "--out", str(tmp_path / out)]) == 2
        said = capsys.readouterr().err
        assert f"{why}), expected a folder that can be written" in said and said.count("\n") == 1


def test_help_is_exit_status_0(capsys):
    """Asking for help is no fault."""
    assert cli.main(["load", "--help"]) == 0
    assert "--rate RPS" in capsys.readouterr().out
