"""What events of AG-UI say beside their text: metadata, errors, usage; each within bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ._content import MAX_EVENT_CHARS

METADATA_KEY: Final = "eagerstream"
"""What AG-UI has no field for is in the metadata of events, and so of messages and calls, under this key."""

_MAX_COUNT: Final = 2**53 - 1  # that JavaScript can count to


def with_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """The field of an event, a message or a call that has our metadata, where there is some."""
    return {"metadata": {METADATA_KEY: bounded(metadata)}} if metadata else {}


def omission(record: Mapping[str, Any]) -> str:
    """What stands where a text is no longer kept."""
    chars = record.get("omitted_chars")
    return f"[{chars:,} characters are no longer kept]" if chars else ""


def bounded(value: Any) -> Any:
    """`value`, or in its place that it was too large for an event."""
    chars = len(json.dumps(value))
    return value if chars <= MAX_EVENT_CHARS else {"leftOut": f"{chars:,} characters"}


def token_usage(usage: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """What the API counted, as AG-UI counts: the total of the input is with what was read from a cache or written."""

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
