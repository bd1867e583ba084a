"""The form of the files of vectors: one line for each step of a case, in ASCII."""

from __future__ import annotations

import json
from math import isinf
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[2] / "conformance"
_EXACT: Final = 2**53


def portable(value: Any) -> Any:
    """Return a value in which no reader of JSON changes a number: `{"$number": "1e400"}` in place of infinity."""
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    if isinstance(value, float) and isinf(value):
        return {"$number": "1e400" if value > 0 else "-1e400"}
    if isinstance(value, int) and abs(value) > _EXACT:
        return {"$number": str(value)}
    return value


def written(kind: str, cases: list[dict[str, Any]]) -> str:
    """Return the text of the file of one kind."""
    lines = []
    for case in cases:
        members = [f'"{key}": {_dumped(item)}' for key, item in case.items() if key != "steps"]
        if "steps" in case:
            steps = ",\n  ".join(_dumped(step) for step in case["steps"])
            members.insert(2, f'"steps": [\n  {steps}]')
        lines.append("{" + ",\n ".join(members) + "}")
    head = f'{{"$schema": "schema.json", "kind": "{kind}", "version": 1, "cases": [\n'
    return head + ",\n".join(lines) + "\n]}\n"


def _dumped(item: Any) -> str:
    return json.dumps(portable(item), allow_nan=False)
