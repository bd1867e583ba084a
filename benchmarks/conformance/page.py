"""The page of the documentation about the scores, made of `benchmarks/conformance.json`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.results import grid

RESULTS: Final = Path(__file__).parents[1] / "conformance.json"
_KINDS: Final = {
    "sse": "bytes to events",
    "partial_json": "partial JSON",
    "inputs": "inputs of calls",
    "histories": "histories",
    "faults": "faults",
}


def read() -> dict[str, Any]:
    """Return the results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def rendered(results: dict[str, Any]) -> str:
    """Return the table, and a section for each library with its wrong cases, as Markdown."""
    counts = ", ".join(f"{count} {_KINDS[kind]}" for kind, count in results["cases"].items())
    head = f"Measured on {results['date']}, on {sum(results['cases'].values())} cases: {counts}."
    rows = [(_title(peer), *(_cell(peer["scores"][kind]) for kind in _KINDS)) for peer in results["peers"]]
    table = grid(("library", *_KINDS.values()), rows)
    legend = "A cell has the cases that are right, of those that the library supports. It is empty if it supports none."
    return "\n\n".join((head, table, legend, *(part for peer in results["peers"] for part in _section(peer))))


def total(peer: dict[str, Any]) -> str:
    """Return the counts of a library in words."""
    sums = {name: sum(score[name] for score in peer["scores"].values()) for name in ("right", "wrong", "not supported")}
    return ", ".join(f"{count} {name}" for name, count in sums.items())


def _title(peer: dict[str, Any]) -> str:
    return f"{peer['package']} {peer['version']} ({peer['language']})"


def _cell(score: dict[str, int]) -> str:
    asked = score["right"] + score["wrong"]
    return f"{score['right']} of {asked}" if asked else ""


def _section(peer: dict[str, Any]) -> Iterator[str]:
    yield f"## {_title(peer)}"
    aspects = "; ".join(f"{_KINDS[kind]}: {', '.join(names)}" for kind, names in peer["aspects"].items())
    yield f"Measured: {peer['about']}. Compared: {aspects.replace('_', ' ')}. Cases: {total(peer)}."
    if not peer["wrong"]:
        return
    for family, found in peer["wrong"].items():
        names = ", ".join(found["cases"])
        yield (
            f"<details><summary>{len(found['cases'])} wrong in {html.escape(family)}</summary>\n"
            f"<p>{html.escape(names)}</p>\n<p>The first: <code>{html.escape(found['example'])}</code></p>\n</details>"
        )
