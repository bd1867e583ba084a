"""`count_tokens`: an estimate for the request, and the faults that the API reports for one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from eagerstream._support.bodies import TOKEN_CHARS
from eagerstream.recordings import Chunk, Recording

from ._scripted import dump_json

_COUNTED: Final = ("system", "tools", "messages", "tool_choice", "mcp_servers", "output_config")
_TOKENS_OF_DATA: Final = 1_500
"""Tokens of an image or a document in base64, whatever its size. An image of a million pixels has about as many."""
_NOT_ACCEPTED: Final = (
    *("container", "max_tokens", "metadata", "service_tier", "stop_sequences", "stream"),
    *("temperature", "thread", "top_k", "top_p"),
)
"""Fields of a request for a response that a count does not accept."""


def count_faults(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of fields that a count does not accept, in the API's words."""
    for name in _NOT_ACCEPTED:
        if name in body:
            yield f"{name}: Extra inputs are not permitted"


def count_tokens(body: Mapping[str, Any]) -> int:
    """Return an estimate of the tokens of a request.

    It is the number of characters of the request's fields as JSON without spaces, divided by 4 and rounded up. Each
    image or document in base64 counts as 1,500 tokens. The tokenizer of a model gives other numbers.
    """
    fields = {name: body[name] for name in _COUNTED if body.get(name) is not None}
    files = 0

    def without_data(value: Any) -> Any:
        nonlocal files
        if isinstance(value, list):
            return [without_data(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.get("type") == "base64" and isinstance(value.get("data"), str):
            files += 1
            return {name: each for name, each in value.items() if name != "data"}
        return {name: without_data(each) for name, each in value.items() if name != "cache_control"}

    chars = len(json.dumps(without_data(fields), ensure_ascii=False, separators=(",", ":")))
    return -(-chars // TOKEN_CHARS) + files * _TOKENS_OF_DATA


def count_response(body: Mapping[str, Any]) -> Recording:
    """Return the API's response to a request for a count."""
    tokens = count_tokens(body)
    counts: dict[str, Any] = {"input_tokens": tokens}
    if body.get("context_management") is not None:
        counts["context_management"] = {"original_input_tokens": tokens}
    headers = {"content-type": "application/json"}
    return Recording((Chunk(0.0, dump_json(counts).encode()),), headers=headers)
