"""Changes of the tools of a conversation that are blocks of its history, which keeps the prompt cache.

The API hashes `tools` before everything else, so another list of tools is a miss of the cache for the complete
conversation. With the beta `inline-tools-2026-09-15`, a `system` message behind the last user message can carry
`tool_addition` and `tool_removal` blocks instead, and `tools` stays as it was.

Source: the API's page on mid-conversation system messages and tool changes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eagerstream_wire._settled_messages import notable

from ..errors import APIError, UsageError
from ..limits import Limits
from ..transports import Reply, RequestBody, Transport
from ..transports._base import with_betas
from ..transports._memory import ClientMemory
from ..transports._opening import Opening
from ._compaction import COMPACTION_BETA, has_summary
from ._resending import ResendingTransport

_log = logging.getLogger(__name__)

INLINE_TOOLS_BETA: Final = "inline-tools-2026-09-15"
_MCP_BETA: Final = "mcp-client-2026-09-15"
_ADDITION: Final = "tool_addition"
_REMOVAL: Final = "tool_removal"
_REFUSES_BLOCKS: Final = re.compile(rf"{_ADDITION}|{_REMOVAL}|tool_definition|{INLINE_TOOLS_BETA}|\brole\b|'system'")
"""A platform or a model that knows no such blocks names the block, the beta, or the role of the message."""

_models_without: ClientMemory[set[tuple[str, str]]] = ClientMemory(set)


def addition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block that gives the model a tool."""
    return {"type": _ADDITION, "tool": {"type": "tool_definition", "definition": definition}}


def removal(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block that takes a tool from the model.

    Raises:
        UsageError: The tool has no name by which it could be removed.
    """
    if isinstance(name := definition.get("name"), str):
        return {"type": _REMOVAL, "tool": {"type": "tool_reference", "name": name}}
    if isinstance(server := definition.get("mcp_server_name"), str):
        return {"type": _REMOVAL, "tool": {"type": "mcp_toolset_reference", "server_name": server}}
    raise UsageError(f"a tool of type {definition.get('type')!r:.80} has no name, and cannot be removed")


def tool_key(definition: Mapping[str, Any]) -> str:
    """Return the name of a tool; a toolset has none, and is known by its server or its type."""
    return str(definition.get("name") or definition.get("mcp_server_name") or definition.get("type"))


def _changes(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the blocks of a message that change the tools."""
    content = message.get("content")
    if message.get("role") != "system" or not isinstance(content, list | tuple):
        return []
    return [block for block in content if isinstance(block, Mapping) and block.get("type") in (_ADDITION, _REMOVAL)]


def has_tool_changes(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a message changes the tools."""
    return any(map(_changes, notable(messages)))


def without_tool_changes(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages without the blocks that change the tools."""
    kept: list[Mapping[str, Any]] = []
    for message in messages:
        if changes := _changes(message):
            content = [block for block in message["content"] if block not in changes]
            message = {**message, "content": content}
            if not content:
                continue
        kept.append(message)
    return kept


def without_inline_tools(request: RequestBody) -> dict[str, Any]:
    """Return a request whose `tools` are those at the end of its messages, which change them no more."""
    tools = {tool_key(definition): definition for definition in request.get("tools") or ()}
    known = dict(tools)
    for message in request["messages"]:
        for block in _changes(message):
            tool = block.get("tool") or {}
            definition = tool.get("definition")
            key = tool_key(tool if definition is None else definition)
            if block["type"] == _REMOVAL:
                tools.pop(str(tool.get("name") or tool.get("server_name")), None)
            elif definition is not None:
                tools[key] = known[key] = definition
            elif key in known:
                tools[key] = known[key]
    body = {**request, "messages": without_tool_changes(request["messages"]), "tools": list(tools.values())}
    if not tools:  # the API refuses a `tool_choice` without tools
        body = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    return body


def betas_of(request: RequestBody) -> list[str]:
    """Return the betas without which the API refuses a request for what its messages contain, or for a summary."""
    messages = request["messages"]
    changes = [block for message in notable(messages) for block in _changes(message)]
    betas = [INLINE_TOOLS_BETA] if changes else []
    definitions = [(block.get("tool") or {}).get("definition") or {} for block in changes]
    if any(definition.get("type") == "mcp_toolset" for definition in definitions):
        betas.append(_MCP_BETA)
    return [*betas, COMPACTION_BETA] if "compaction" in request or has_summary(messages) else betas


def refuses_inline_tools(error: APIError) -> bool:
    """Return True if a request was refused because its messages change the tools."""
    codes = ("tool_name_conflict", "tool_reference_unresolved", "available_tools_limit_exceeded")
    return error.status_code == 400 and (error.error_code in codes or bool(_REFUSES_BLOCKS.search(error.reason)))


class InlineToolsTransport(ResendingTransport):
    """Sends the requests of a run with the betas of their messages, and without inline tools where these are refused.

    Args:
        transport: Sends the requests.
        client: The user's object: what it refuses is remembered for it.
        refused: Called once the API has refused changes of the tools in messages.
    """

    def __init__(self, transport: Transport, client: object, refused: Callable[[], None]) -> None:
        super().__init__(transport)
        self._without = _models_without.of(client)
        self._address = str(getattr(client, "base_url", ""))
        self._refused = refused

    async def _enter(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        has_changes = has_tool_changes(request["messages"])
        model = (self._address, str(request.get("model")))
        if has_changes and model in self._without:
            self._refused()
            return await self._send(without_inline_tools(request), limits, opening)
        try:
            return await self._send(request, limits, opening)
        except APIError as error:
            if not has_changes or not refuses_inline_tools(error):
                raise
            code, request_id = error.error_code, error.request_id
        reply = await self._send(without_inline_tools(request), limits, opening)
        # Only now: the request may have been refused for another reason, which the second error names.
        self._refused()
        if code is None:
            self._without.add(model)
            what = "the API takes no changes of tools in messages of this model, so `tools` is changed (request %s)"

            _log.warning(what, request_id)
        return reply

    async def _send(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        sent = with_betas(request, betas_of(request), self.default_betas)
        return await opening.enter(self._transport.open(sent, limits))
