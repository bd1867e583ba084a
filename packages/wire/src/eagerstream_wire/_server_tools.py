"""Calls that the API runs itself, and their results: their block types, and the errors in results.

A result names its call by `tool_use_id`. The two are usually in one response. If a response is paused, or also calls
tools of the client, the result may come at the start of the next one.

Sources: the API's guides to server tools and to the MCP connector, and the anthropic package's types of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from ._values import as_mapping, mapping_in

SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")  # not a set: a peer may send a list as the type of a block
"""The block types of calls that the API runs, or has an MCP server run. The client never answers them."""

ServerToolErrorCode: TypeAlias = Literal[
    "content_too_large",
    "execution_time_exceeded",
    "file_not_found",
    "invalid_input",  # an older spelling of the next one
    "invalid_tool_input",
    "max_uses_exceeded",
    "model_not_found",
    "output_file_too_large",
    "overloaded",
    "prompt_too_long",
    "query_too_long",
    "request_too_large",
    "too_many_requests",
    "unavailable",
    "unsupported_content_type",
    "url_not_accessible",
    "url_not_allowed",
    "url_not_in_prior_context",
    "url_too_long",
]
"""The known error codes of all server tools together. The API may send others."""


def is_server_result(kind: object) -> bool:
    """Return True if a block of this type is the result of a call that the API ran.

    All kinds known today end in `_tool_result`. A list of them would lose the results of the next server tool.
    """
    return isinstance(kind, str) and kind.endswith("_tool_result")


def call_kind(result_kind: str) -> str:
    """Return the block type of the calls that results of this type answer."""
    return "mcp_tool_use" if result_kind == "mcp_tool_result" else "server_tool_use"


def is_error_result(block: Mapping[str, Any]) -> bool:
    """Return True if the call failed: by `is_error` (MCP), or by an error as the content (all others)."""
    kind = mapping_in(block, "content").get("type")
    return block.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))


def error_code_of(block: Mapping[str, Any]) -> str | None:
    """Return the `error_code` of a failed result; None if the call succeeded, and for MCP servers, which use a text."""
    code = mapping_in(block, "content").get("error_code") if is_error_result(block) else None
    return code if isinstance(code, str) else None


def server_calls(messages: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the calls in a history that the API runs, by their ids."""
    return {
        str(block.get("id", "")): block
        for message in messages
        for block in _blocks(message)
        if block.get("type") in SERVER_CALLS
    }


def _blocks(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    for block in map(as_mapping, content) if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping):
            yield block
