"""Read rendered files again, take every vLLM command out of them, and ask vLLM's own parser about each.

Nothing is started: the parser runs in the live environment (``parse_worker``), on the words as they
stand in the files, shell variables left as they are.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pdlab.errors import BadInput
from pdlab.live import budget, env

WORKER = Path(__file__).with_name("parse_worker.py")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MODULE = "vllm.entrypoints.openai.api_server"


@dataclass(frozen=True)
class Command:
    """One vLLM server as a file starts it: ``words`` for the parser, ``settings`` in its environment."""

    file: str
    name: str
    words: tuple[str, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """What the parser of ``engine`` said of each command; an error is empty where it took it."""

    engine: str
    errors: tuple[tuple[Command, str], ...]

    @property
    def refused(self) -> list[tuple[Command, str]]:
        """Those that it did not take."""
        return [(command, error) for command, error in self.errors if error]


def commands(files: Mapping[str, str]) -> list[Command]:
    """Every vLLM server in rendered files, whatever their target."""
    found: list[Command] = []
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            found += _in_shell(name, text)
        elif name.endswith(".yaml"):
            for document in yaml.load_all(text, LOADER):
                found += _in_manifest(name, document)
        elif name.endswith(".py"):
            found += _in_python(name, text)
    return found


def verify(files: Mapping[str, str]) -> Outcome:
    """Ask the installed engine; BadInput where there is no live environment to ask."""
    asked = commands(files)
    document = [{"words": command.words, "settings": dict(command.settings)} for command in asked]
    # vLLM makes no parser where it finds no device, and a login node has none.  The commands are the same.
    somewhere = {} if budget.gpus() else {"VLLM_TARGET_DEVICE": "cpu"}
    done = subprocess.run(
        [str(env.python()), "-P", str(WORKER)], input=json.dumps(document), capture_output=True, text=True,
        env=os.environ | {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | somewhere,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BadInput(f"a parser that does not run ({last})", "vLLM's own", str(env.location()), "Run `make live-env`.")
    told = json.loads(done.stdout.splitlines()[-1])
    return Outcome(f"vLLM {told['version']}", tuple(zip(asked, told["errors"], strict=True)))


def _in_shell(file: str, text: str) -> Iterator[Command]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if not line.lstrip().startswith("start "):
            continue
        words = shlex.split(line)
        behind = words[words.index("env") + 1 :] if "env" in words else []
        program = list(itertools.dropwhile(lambda word: "=" in word, behind))
        settings = dict(word.split("=", 1) for word in behind[: len(behind) - len(program)])
        if MODULE in program[:3]:
            yield Command(file, words[1], tuple(program[program.index(MODULE) + 1 :]), settings)
        elif program and program[0].endswith("/bin/vllm"):
            yield Command(file, words[1], tuple(program[2:]), settings)


def _in_manifest(file: str, document: Any) -> Iterator[Command]:
    if document.get("kind") == "Deployment":
        for container in document["spec"]["template"]["spec"]["containers"]:
            if container["command"] == ["vllm", "serve"]:
                settings = {one["name"]: one["value"] for one in container["env"] if "value" in one}
                yield Command(file, document["metadata"]["name"], tuple(container["args"]), settings)
    for application in document.get("applications", ()):
        yield from _in_builder(file, application["args"])


def _in_python(file: str, text: str) -> Iterator[Command]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ARGUMENTS":
            yield from _in_builder(file, ast.literal_eval(node.value))


def _in_builder(file: str, arguments: Mapping[str, Any]) -> Iterator[Command]:
    """Ray Serve LLM's configs: ``engine_kwargs`` are the parser's flags with underscores."""
    named = {"aggregated": one for one in arguments.get("llm_configs", ())}
    named |= {key.removesuffix("_config"): one for key, one in arguments.items() if key.endswith("_config")}
    for name, config in named.items():
        loading = config["model_loading_config"]
        words = [loading["model_source"], "--served-model-name", loading["model_id"]]
        for key, value in config["engine_kwargs"].items():
            flag = "--" + key.replace("_", "-")
            if isinstance(value, bool):
                words.append(flag if value else flag.replace("--", "--no-", 1))
            else:
                words += [flag, json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
        yield Command(file, name, tuple(words), config.get("runtime_env", {}).get("env_vars", {}))
