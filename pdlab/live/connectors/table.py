"""The stored rows as tables: for the terminal, and for the pages in ``labs/connectors``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdlab.errors import BadInput
from pdlab.live.connectors.measure import OUTPUT_TOKENS, Row

BLOCK = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES = {
    "ExampleConnector": "example", "TcpConnector": "tcp", "NixlConnector": "nixl", "MooncakeConnector": "mooncake",
    "LMCacheConnectorV1": "lmcache", "MultiConnector": "multi",
}  # fmt: skip
HEADERS = ("connector", "version", "device", "ran", "tokens from outside", "bytes moved", "formula", "on the interface",
           "transfer, ms", "first token, ms", "computed instead, ms", "answers equal")  # fmt: skip
FAILURE_HEADERS = ("connector", "what was taken away", "the client saw", "after, s", "right tokens",
                   "from outside", "decode afterwards")  # fmt: skip
RIGHT = {"all": "all", "none": "none", "prefix": "a part", "wrong": "WRONG"}


def summary(row: Row) -> list[str]:
    """One connector's line under ``HEADERS``: sums over its prompts, times of the longest."""
    version = f"{row.library} {row.version}" if row.version else f"{row.library}, not installed"
    ran = "yes" if row.ran else f"no: {row.reason}"
    if not row.requests:
        return [row.connector, version, row.device, ran, *["–"] * (len(HEADERS) - 4)]

    def total(key: str) -> str:
        return f"{sum(one[key] for one in row.requests):,}"

    longest = max(row.requests, key=lambda one: one["prompt_tokens"])
    return [
        row.connector, version, row.device, ran,
        f"{total('external_tokens')} of {total('prompt_tokens')}", total("moved_bytes"), total("formula_bytes"),
        total("os_bytes") if longest["os_bytes"] is not None else "not looked at",
        f"{longest['transfer_ms']:.1f}" if longest["transfer_ms"] is not None else "not told",
        f"{longest['first_token_ms']:,.0f}", f"{longest['local_first_token_ms']:,.0f}",
        f"{sum(one['equal'] for one in row.requests)} of {len(row.requests)}",
    ]  # fmt: skip


def failures(rows: Iterable[Row]) -> list[list[str]]:
    """Lines under ``FAILURE_HEADERS``."""
    return [
        [row.connector, one["injected"], one["client_saw"], f"{one['waited_s']:.2f}", RIGHT[one["right"]],
         "not known" if one["external_tokens"] is None else f"{one['external_tokens']:,}", "alive" if one["decode_alive"] else "dead"]
        for row in rows for one in row.failures
    ]  # fmt: skip


def holds(row: Row) -> bool:
    """Whether a connector that ran did what it promises: tokens and bytes to the unit, and equal answers."""
    return row.ran and bool(row.requests) and all(
        one["moved_bytes"] == one["formula_bytes"] > 0 and one["equal"]
        and one["external_tokens"] > 0 and one["external_tokens"] + one["computed_tokens"] == one["prompt_tokens"]
        and one["local_computed_tokens"] == one["prompt_tokens"]
        for one in row.requests
    )  # fmt: skip


# ── pages ───────────────────────────────────────────────────────────────────────────────────


def markdown(headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(headers), "|" + "---|" * len(headers), *map(line, lines)])


def label(provenance: Mapping[str, Any]) -> str:
    """Where the numbers come from, in one line."""
    machine = provenance["machine"]
    return f"*{provenance['label']} (recorded {provenance['date'][:10]} on {machine['cores']} cores, {machine['cpu']})*"


def blocks(rows: Sequence[Row], provenance: Mapping[str, Any]) -> dict[str, str]:
    """Every generated part of the pages, by the name that stands in its marker."""
    source = label(provenance)
    found = {
        "table": markdown(HEADERS, [[f"[{cells[0]}]({PAGES[cells[0]]}.md)", *cells[1:]] for cells in map(summary, rows)]) + f"\n\n{source}",
        "failures": markdown(FAILURE_HEADERS, failures(rows)) + f"\n\n{source}",
    }
    for row in rows:
        settings = "".join(f"{role}:\n\n```json\n{json.dumps(config, indent=1)}\n```\n\n" for role, config in row.config.items())
        if row.environment:
            settings += "both, in the environment: " + " ".join(f"`{name}={value}`" for name, value in row.environment.items()) + "\n\n"
        found[f"{row.connector} config"] = settings.rstrip()
        found[f"{row.connector} measured"] = f"{_measured(row)}\n\n{source}"
    return found


def _measured(row: Row) -> str:
    why = "" if row.ran else f"Its log says:\n\n```\n{row.reason}\n```"
    if not row.requests:
        return why
    headers = ("prompt (tokens)", "from outside", "computed by decode", "bytes moved", "formula (bytes)", "on the interface (bytes)",
               "transfer (ms)", "first token (ms)", "computed instead (ms)", f"{OUTPUT_TOKENS} tokens equal")  # fmt: skip
    lines = [
        [f"{one['prompt_tokens']:,}", f"{one['external_tokens']:,}", f"{one['computed_tokens']:,}", f"{one['moved_bytes']:,}",
         f"{one['formula_bytes']:,}", "not looked at" if one["os_bytes"] is None else f"{one['os_bytes']:,}",
         "not told" if one["transfer_ms"] is None else f"{one['transfer_ms']:.1f}", f"{one['first_token_ms']:,.0f}",
         f"{one['local_first_token_ms']:,.0f}", "yes" if one["equal"] else "NO"]
        for one in row.requests
    ]  # fmt: skip
    parts = [why, markdown(headers, lines)]
    if row.counter:
        parts.append(f"Bytes moved: {row.counter}.")
    if row.failures:
        parts.append(markdown(FAILURE_HEADERS[1:], [cells[1:] for cells in failures([row])]))
    return "\n\n".join(filter(None, parts))


def fill(page: str, parts: Mapping[str, str], where: str) -> str:
    """A page with its generated parts made again; BadInput for a marker that nothing is made for."""
    def put(found: re.Match[str]) -> str:
        if found[2] not in parts:
            raise BadInput(f"a part named {found[2]!r}", f"one of {', '.join(parts)}", where)
        return f"{found[1]}{parts[found[2]]}\n{found[3]}"

    return BLOCK.sub(put, page)


def write(folder: Path, parts: Mapping[str, str], changed: Callable[[Path], None] = lambda path: None) -> None:
    """Make the generated parts of all pages again; a page that is right already is not touched."""
    for path in sorted(folder.glob("*.md")):
        old = path.read_text()
        new = fill(old, parts, str(path))
        if new != old:
            path.write_text(new)
            changed(path)
