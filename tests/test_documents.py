"""Documents that somebody else wrote end in one message, whatever is wrong with them."""

from __future__ import annotations

import os
import time

import pytest

from pdlab.course import cli
from pdlab.documents import parse_json, parse_yaml, read_yaml
from pdlab.errors import BadInput

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(7)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("? [a, b]\n: 1", "a list as a key"), ("? {a: b}\n: 1", "a dict as a key"),
        ("a:\n  b: 2026-13-45", "line 2: found '2026-13-45', expected what YAML calls timestamp"),
        ("a: 2026-01-01 25:61:61", "timestamp"), ("a: !!int abc", "int"), ("a: !!int ''", "int"),
        ("a: !!float abc", "float"), ("a: !!bool abc", "bool"), ("a: !!timestamp abc", "timestamp"),
        ("a: " + "9" * 5000, "found '9999"), ("[" * 3000, "nesting"), ("a: {" * 2000, "levels of nesting"),
        (LAUGHS, r"line 2: found the alias \*a"), ("&a [*a]", r"the alias \*a"), ("a: !!python/object:os.system x", "YAML"),
        ("a: 1\na: 2", "line 2: found key 'a' a second time"), ("a: [", "YAML"), ("a: 1\n---\nb: 2", "YAML"),
        ("a: \0", "YAML"), ("a: \ud800", "YAML"), ("<<: {a: 1}", "YAML"), ("? !!set {[a]: 1}\n: 1", "YAML|a set"),
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_used_is_refused(text, words):
    """Each is one BadInput that names the file, at once."""
    began = time.perf_counter()
    with pytest.raises(BadInput, match=words) as caught:
        parse_yaml(text, "f.yaml")
    assert caught.value.where.startswith("f.yaml") and time.perf_counter() - began < 2


def test_a_plan_file_is_read_by_it(tmp_path, capsys):
    """The command on such a file: exit status 2, one short line."""
    for text in (LAUGHS, "[" * 3000, "comparison: 2026-13-45", "comparison: " + "9" * 5000, "comparison: 0x" + "f" * 9000,
                 "0x" + "f" * 9000 + ": 1", "comparison: " + "x" * 9000):  # fmt: skip
        (tmp_path / "p.yaml").write_text(text)
        assert cli.main(["plan", "check", str(tmp_path / "p.yaml")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and len(said) < 400 and "p.yaml" in said


def test_plain_yaml_is_read(tmp_path):
    """Numbers, text, dates, lists and mappings come through, a byte order mark or not."""
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: [1, 2.5, x]\nb: {c: true, d: null, e: 2026-01-02}\n")
    document = read_yaml(tmp_path / "f.yaml")
    assert document["a"] == [1, 2.5, "x"] and document["b"]["c"] is True and document["b"]["e"].day == 2
    (tmp_path / "f.yaml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(BadInput, match="a readable YAML file"):
        read_yaml(tmp_path / "f.yaml")


@pytest.mark.parametrize(
    "argv",
    [["plan", "check", "@"], ["kv", "@", "--tokens", "1"], ["trace", "@"], ["doctor", "--engines", "@"], ["analyze", "@"],
     ["analyze", "@.parquet"], ["analyze", "run"], ["analyze", "told"]],
    ids=" ".join,
)  # fmt: skip
def test_a_pipe_is_not_waited_for(argv, tmp_path, monkeypatch, capsys):
    """Where a file is expected, a pipe or a device is refused; reading it might never end."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "told"):
        (tmp_path / name).mkdir()
    (tmp_path / "told" / "records.jsonl").touch()
    for name in ("@", "@.parquet", "run/records.jsonl", "told/provenance.json"):
        os.mkfifo(tmp_path / name)
    assert cli.main(argv) == 2
    assert "found no plain file, expected" in capsys.readouterr().err


def test_a_document_of_a_gigabyte_is_not_read(tmp_path):
    """Its size is told."""
    with (tmp_path / "f.yaml").open("wb") as out:
        out.truncate(10**9)
    with pytest.raises(BadInput, match="f.yaml: found 1,000,000,000 bytes"):
        read_yaml(tmp_path / "f.yaml")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{", b"\xff", ""])
def test_json_that_cannot_be_used_is_refused(text):
    """Too many brackets or digits are refused like broken JSON."""
    with pytest.raises(BadInput, match="f.json: found .*, expected one JSON document"):
        parse_json(text, "f.json")
