"""Make ``schema.json``: what Kubernetes 1.37 says of the six kinds of object that pdlab renders.

The public schemas (from Kubernetes' own OpenAPI document, made strict) come with the package
kubernetes-validate 1.37.0 (Apache-2.0): 17,000 files and 111 MB for all kinds of 13 versions.  The
tests need one version and six kinds, so those are kept here, without their descriptions:

    pip install --no-deps --target DIR kubernetes-validate==1.37.0
    python tests/kubernetes/make_schema.py DIR
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KINDS = ("deployment-apps-v1", "service-v1", "job-batch-v1", "persistentvolumeclaim-v1", "configmap-v1", "networkpolicy-networking-v1")
SCHEMAS = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
DEFINITIONS = "/api/_definitions.json"


def bare(node: Any) -> Any:
    """Without descriptions, and with references into this one document."""
    if isinstance(node, list):
        return [bare(one) for one in node]
    if not isinstance(node, dict):
        return node
    kept = {key: bare(value) for key, value in node.items() if not (key == "description" and isinstance(value, str))}
    if "$ref" in kept:
        kept["$ref"] = kept["$ref"].replace(DEFINITIONS, "")
    return kept


def names(node: Any) -> set[str]:
    """The definitions that a schema refers to."""
    if isinstance(node, list):
        return set().union(*map(names, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*map(names, node.values()))


def main(folder: Path) -> None:
    schemas = folder / SCHEMAS
    kinds = {name: bare(json.loads((schemas / f"{name}.json").read_text())) for name in KINDS}
    every = json.loads((schemas / "_definitions.json").read_text())["$defs"]
    kept: dict[str, Any] = {}
    waiting = names(list(kinds.values()))
    while waiting:
        name = waiting.pop()
        kept[name] = bare(every[name])
        waiting |= names(kept[name]) - kept.keys()
    source = "kubernetes-validate 1.37.0, v1.37.0-local-strict (Apache-2.0)"
    document = {"source": source, "kinds": kinds, "$defs": dict(sorted(kept.items()))}
    Path(__file__).with_name("schema.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
