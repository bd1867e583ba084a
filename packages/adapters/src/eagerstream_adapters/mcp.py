"""Tools of MCP servers, with progress and results of every kind (extra `mcp`).

::

    async with Client(StdioServerParameters(command="my-server")) as client:
        async with eagerstream.run(..., tools=await mcp_tools(client)) as run:
            ...

`run` also accepts the MCP helper of the anthropic package as it is: `async_mcp_tool(tool, session)`, from version 0.84
on, and with mcp 2 from 0.120.2 on. Use `mcp_tools` if you need one of these, which that helper does not have:

- progress as `ToolProgress`, and structured content as `ToolResponse.data`
- results with audio, links to resources or other content without a block in the API. They become text; there, the
  call fails, and its text is lost.
- names that the API accepts, and all pages of the list
- the server's hints as `read_only` and `idempotent`
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, Unpack

import anyio
import anyio.to_thread

from eagerstream import Block
from eagerstream._support.inspecting import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, TooMuchError, check_size
from eagerstream._support.terms import IN_DEFINITION, text_block
from eagerstream.errors import MissingExtraError, ProtocolError, UsageError
from eagerstream.tools import (
    ForeignDefinition,
    RunningCall,
    Tool,
    ToolErrorCode,
    ToolOptions,
    ToolResponse,
    block_of_bytes,
    document_text,
)

try:
    from mcp import MCPError
    from mcp.types import PaginatedRequestParams
except ImportError as _error:  # mcp 1 has other names
    raise MissingExtraError("mcp", "mcp", package="eagerstream-adapters") from _error

MAX_TOOLS: Final = 1_000
"""Maximum number of tools of one server. A longer list counts as endless."""

MAX_SCHEMAS_CHARS: Final = 1_000_000
"""Maximum total size of the schemas of one server. Checking this much takes about 0.5 s, in a thread."""

_MAX_META_CHARS: Final = 16_384
"""Maximum size of the `_meta` of a tool. A larger one is left out."""

_MAX_NAME_CHARS: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARS: Final = 8

_CODES: Final = {
    -32000: ToolErrorCode.NETWORK_ERROR,  # connection closed
    -32001: ToolErrorCode.TIMEOUT,
    -32601: ToolErrorCode.NOT_FOUND,
    -32602: ToolErrorCode.INVALID_PARAM,
}
"""Error codes of JSON-RPC and MCP, and the codes used here."""


async def mcp_tools(
    session: Any, *, prefix: str = "", only: Collection[str] | None = None, **options: Unpack[ToolOptions]
) -> list[Tool]:
    """Return the tools of a connected MCP server, in its order.

    The list is a snapshot. If the server reports a change, call this again and pass the new list to the next run. A
    call of a tool that no longer exists gets the server's error. If a run or a time limit cancels a call, the request
    at the server is cancelled too.

    Inputs are checked against the server's schemas in bounded time. Checks that might be slow are skipped, for example
    patterns that Python might match slowly. The server makes those checks anyway.

    Cancelling this cancels the request. While the schemas are checked in a thread, cancellation waits for that thread.

    Args:
        session: `mcp.Client` or `mcp.ClientSession`. Keep it open while the tools are used. A `Client` also answers
            requests that a server makes during a call. Its `read_timeout_seconds` bounds the time for the list.
        prefix: Text before each name, to separate the tools of several servers.
        only: The server's names of the tools to return. `None` returns all.
        options: Options for each of the tools, as for `@tool`. If `read_only` or `idempotent` is missing, it comes from
            the server's hints. Pass `False` if you do not trust the server. `name`, `description` and `definition` come
            from the server.

    Returns:
        One `Tool` per tool of the server, without those that are only for its app (MCP Apps). Characters that the API
        does not accept in a name become `_`. `Tool.meta` has the server's `_meta`.

    Raises:
        UsageError: A tool has an unusable schema or option, or the schemas are too large. Also raised if the server has
            no tool of a name in `only`.
        ProtocolError: The server's list does not end.
        mcp.MCPError: The server refused the request or closed the connection.
    """
    listed = await _listed(getattr(session, "session", session))
    if only is not None:
        if missing := sorted(set(only) - {tool.name for tool in listed}):
            raise UsageError(f"the MCP server has no tool {', '.join(map(repr, missing))}")
        listed = [tool for tool in listed if tool.name in only]
    listed = [tool for tool in listed if _is_for_model(tool)]
    given = [prefix + tool.name for tool in listed]
    # MCP also allows names that the API does not accept, for example with dots and slashes.
    names = [_NOT_IN_NAMES.sub("_", name) for name in given]
    for number, (name, original) in enumerate(zip(names, given, strict=True)):
        if len(name) > _MAX_NAME_CHARS or not name or (name != original and names.count(name) > 1):
            digest = hashlib.sha256(original.encode()).hexdigest()[:_DIGEST_CHARS]
            names[number] = f"{name[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"

    def make() -> list[Tool]:
        _check_size(listed)
        return [_tool(session, tool, name, options) for tool, name in zip(listed, names, strict=True)]

    return await anyio.to_thread.run_sync(make)


async def _listed(session: Any) -> list[Any]:
    """Return the tools of all pages of the list."""
    tools: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor is not None else None)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in seen or len(tools) > MAX_TOOLS or not page.tools:
            raise ProtocolError(f"the list of the MCP server's tools does not end: {len(tools)} so far")
        seen.add(cursor)


def _check_size(listed: list[Any]) -> None:
    """Check the total size of the schemas before any other code inspects them."""
    left = MAX_SCHEMAS_CHARS
    for tool in listed:
        try:
            left -= check_size(tool.input_schema, max_chars=min(left, MAX_SCHEMA_CHARS), max_depth=MAX_SCHEMA_DEPTH)
        except TooMuchError as error:
            together = f", of {MAX_SCHEMAS_CHARS:,} for all tools" if left < MAX_SCHEMA_CHARS else ""
            raise UsageError(f"the schema of the tool {tool.name!r:.80} is too large: {error}{together}") from error


def _tool(session: Any, listed: Any, name: str, given: ToolOptions) -> Tool:
    """Return one of the server's tools as a `Tool`."""
    hints = listed.annotations
    options: dict[str, Any] = {
        "read_only": bool(hints and hints.read_only_hint),
        "idempotent": bool(hints and (hints.read_only_hint or hints.idempotent_hint)),
        **given,
    }
    definition = ForeignDefinition(name=name, input_schema=listed.input_schema)
    if description := listed.description or listed.title or (hints and hints.title):
        definition["description"] = description
    definition |= {field: value for field in IN_DEFINITION if (value := options.pop(field, None)) is not None}

    async def call_tool(input: dict[str, Any], call: RunningCall | None) -> ToolResponse:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if call is not None:
                await call.progress({"progress": progress, "total": total, "message": message})

        try:
            return to_response(await session.call_tool(listed.name, input, progress_callback=tell))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            return ToolResponse.error(ToolErrorCode.NETWORK_ERROR, "the connection to the MCP server is gone")
        except MCPError as error:
            return ToolResponse.error(_CODES.get(error.code, ToolErrorCode.EXECUTION_ERROR), error.message)

    made = Tool(call_tool, definition=definition, **options)
    with suppress(TooMuchError):  # no input is checked against it, so one that is too large is only left out
        check_size(listed.output_schema, max_chars=MAX_SCHEMA_CHARS, max_depth=MAX_SCHEMA_DEPTH)
        made.output_schema = listed.output_schema
    with suppress(TooMuchError):
        check_size(listed.meta, max_chars=_MAX_META_CHARS, max_depth=MAX_SCHEMA_DEPTH)
        made.meta = dict(listed.meta or {})
    return made


def _is_for_model(listed: Any) -> bool:
    """Return False for a tool that only the server's app may call (MCP Apps): the model must not see it."""
    ui = (listed.meta or {}).get("ui")
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return not isinstance(visibility, list) or "model" in visibility


def to_response(result: Any) -> ToolResponse:
    """Return the result of an MCP tool (`CallToolResult`) as a response.

    Structured content becomes `data` (`{"output": ...}` if it is not an object). If there is no other content, it also
    becomes the text.
    """
    structured = result.structured_content
    data = structured if isinstance(structured, Mapping) else {} if structured is None else {"output": structured}
    blocks = [_block(content) for content in result.content]
    if not blocks and structured is not None:
        blocks = [text_block(json.dumps(structured, ensure_ascii=False))]
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    media = [block for block in blocks if block["type"] != "text"]
    if result.is_error:
        return ToolResponse.error(ToolErrorCode.EXECUTION_ERROR, text, data=data, content=media)
    return ToolResponse.success("" if media else text, data, content=blocks if media else [])


def _block(content: Any) -> Block:
    """Return content as a block of the API, or as text if the API has no such block."""
    match content.type:
        case "text":
            return text_block(content.text)
        case "image" | "audio":
            return _of_bytes(content.data, content.mime_type, f"{content.type} {content.mime_type}")
        case "resource_link":
            said = [content.name, content.title, content.mime_type, content.description]
            return text_block(f"[resource {content.uri}: {', '.join(part for part in said if part)}]")
        case "resource":
            resource = content.resource
            if (text := getattr(resource, "text", None)) is not None:
                return document_text(text, title=str(resource.uri))
            return _of_bytes(resource.blob, resource.mime_type or "", f"resource {resource.uri} {resource.mime_type}")
        case kind:
            return text_block(f"[content of the type {kind}]")


def _of_bytes(encoded: str, media_type: str, what: str) -> Block:
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        return text_block(f"[{what}, which is not base64]")
    if media_type.startswith("text/"):
        return document_text(data.decode(errors="replace"), title=what)
    # Use the type of the bytes, not the declared type: a server may declare a PNG as a JPEG, and the API refuses that.
    return block_of_bytes(data) or text_block(f"[{what}, {len(data)} bytes]")
