"""jiter: `from_json` with partial strings, for each prefix. The strict reading gives the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jiter import from_json

from .reading import WrongTextError, by_prefix

lacks = ["lone_surrogates"]  # its strings are those of Rust


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    steps = by_prefix(fragments, _read)
    return {"steps": [{"value": step["value"]} for step in steps], "outcome": _outcome("".join(fragments))}


def _read(text: str) -> Any:
    try:
        return from_json(text.encode("utf-8", "surrogatepass"), partial_mode="trailing-strings")
    except ValueError as error:
        raise WrongTextError from error


def _outcome(text: str) -> str:
    try:
        from_json(text.encode("utf-8", "surrogatepass"), allow_inf_nan=False)
    except ValueError as error:
        return "incomplete" if str(error).startswith("EOF") else "invalid"
    return "valid"
