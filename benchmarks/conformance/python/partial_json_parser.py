"""partial-json-parser: a parser of prefixes. Its two errors tell a text that is cut from one that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partial_json_parser import MalformedJSON, PartialJSON, loads
from partial_json_parser.options import Allow

from .reading import WrongTextError, by_prefix


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    steps = by_prefix(fragments, _read)
    return {"steps": [{"value": step["value"]} for step in steps], "outcome": _outcome("".join(fragments))}


def _read(text: str) -> Any:
    try:
        return loads(text, Allow.ALL)
    except Exception as error:  # PartialJSON if there is nothing to show yet, MalformedJSON, AssertionError, IndexError
        raise WrongTextError from error


def _outcome(text: str) -> str:
    try:
        loads(text, Allow(0))
    except MalformedJSON as error:
        return "incomplete" if isinstance(error, PartialJSON) else "invalid"
    except ValueError:
        return "invalid"
    return "valid"
