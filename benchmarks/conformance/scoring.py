"""Run the adapter of one library over all cases: `python -m benchmarks.conformance.scoring PLACE_IN_PEERS`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from packages.wire.conformance.run import KINDS, judged, number

from .peers import PEERS, Peer
from .questions import answers

VECTORS: Final = Path(__file__).parents[2] / "packages/wire/conformance"
_EXAMPLE_CHARS: Final = 240


def scores(peer: Peer) -> dict[str, Any]:
    """Return the counts of cases by kind, the wrong cases by family with one difference each, and some answers.

    A case is right if all aspects that the library has are right, and wrong if one of them is wrong. An
    error in one case does not make the library have aspects that it never answers.
    """
    os.environ.update(peer.environment)
    adapter = importlib.import_module(peer.module)
    counts: dict[str, dict[str, int]] = {}
    wrong: dict[str, dict[str, Any]] = {}
    aspects: dict[str, list[str]] = {}
    for kind in KINDS:
        verdicts = {case["id"]: judged(adapter, kind, case, strict=False) for case in cases(kind)}
        aspects[kind] = sorted({name for found in verdicts.values() for name, (right, _) in found.items() if right})
        counts[kind] = {"right": 0, "wrong": 0, "not supported": 0}
        for case_id, found in verdicts.items():
            asked = {name: found[name] for name in aspects[kind] if name in found and found[name][0] is not None}
            missed = {name: difference for name, (right, difference) in asked.items() if not right}
            counts[kind]["wrong" if missed else "right" if asked else "not supported"] += 1
            if missed:
                family, _, name = case_id.rpartition("/")
                aspect, difference = next(iter(missed.items()))
                example = f"{name}: {aspect} {difference}"
                entry = wrong.setdefault(family, {"cases": [], "example": _shortened(example)})
                entry["cases"].append(name)
    return {
        "aspects": {kind: names for kind, names in aspects.items() if names},
        "scores": counts,
        "wrong": wrong,
        "answers": answers(adapter.partial_json) if hasattr(adapter, "partial_json") else {},
    }


def cases(kind: str) -> list[dict[str, Any]]:
    """Return the cases of a kind."""
    found: list[dict[str, Any]] = json.loads((VECTORS / f"{kind}.json").read_bytes(), object_hook=number)["cases"]
    return found


def _shortened(text: str) -> str:
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _EXAMPLE_CHARS else f"{text[:_EXAMPLE_CHARS]}..."


if __name__ == "__main__":
    print(json.dumps(scores(PEERS[int(sys.argv[1])])))
