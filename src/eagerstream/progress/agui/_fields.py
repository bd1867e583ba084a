"""Fields of AG-UI events other than text: metadata, errors, usage. Each is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ._content import MAX_EVENT_CHARS

METADATA_KEY: Final = "eagerstream"
"""Key for data that AG-UI has no field for, in the metadata of events, messages and calls."""

_MAX_COUNT: Final = 2**53 - 1  # the largest exact integer in JavaScript


def with_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata field of an event, a message or a call. Empty if there is no metadata."""
    return {"metadata": {METADATA_KEY: bounded(metadata)}} if metadata else {}


def omission(record: Mapping[str, Any]) -> str:
    """Return the text that replaces a text that is no longer kept."""
    chars = record.get("omitted_chars")
    return f"[{chars:,} characters are no longer kept]" if chars else ""


def bounded(value: Any) -> Any:
    """Return `value`, or a note in its place if it is too large for an event."""
    chars = len(json.dumps(value))
    return value if chars <= MAX_EVENT_CHARS else {"leftOut": f"{chars:,} characters"}


def token_usage(usage: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """Return the API's token counts in AG-UI's form. The total input includes tokens that a cache read or wrote."""

    def count(name: str) -> int:
        value = usage.get(name)
        return value if type(value) is int and 0 <= value <= _MAX_COUNT else 0

    read, written = count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    inputs = min(count("input_tokens") + read + written, _MAX_COUNT)
    outputs = count("output_tokens")
    if not inputs and not outputs:
        return {}
    tokens: dict[str, Any] = {"provider": "anthropic", **({"model": model} if model else {})}
    tokens |= {"inputTokens": inputs, "outputTokens": outputs, "totalTokens": min(inputs + outputs, _MAX_COUNT)}
    return tokens | {"cachedInputTokens": read, "cacheWriteInputTokens": written}
