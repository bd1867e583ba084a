"""langchain-core: `parse_partial_json`, with which it reads the chunks of tool calls. It raises if a text is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.utils.json import parse_partial_json

from .reading import WrongTextError, by_prefix


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    return {"steps": [{"value": step["value"]} for step in by_prefix(fragments, _read)]}


def _read(text: str) -> Any:
    try:
        value = parse_partial_json(text)
    except ValueError as error:
        raise WrongTextError from error
    if value is None and text.strip() != "null":
        raise WrongTextError  # a mismatched bracket gives None
    return value
