"""An MCP server for the tests, as a program of its own: over stdio, or with a port over HTTP on loopback."""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PDF = base64.b64encode(b"%PDF-1.7").decode()

server = MCPServer("tests", log_level="WARNING")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(
    name="files/read.all",
    title="Read all files",
    annotations=ToolAnnotations(read_only_hint=True),
    structured_output=False,
)
async def read_all() -> str:
    return "all"


@server.tool(structured_output=False)
async def slow(path: str, context: Context) -> str:
    """Tell of progress, then wait for long; what happens is written into a file."""
    for step in range(1, 4):
        await context.report_progress(step, 3, f"step {step}")
    await anyio.Path(path).write_text("begun")
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await anyio.Path(path).write_text("cancelled")
        raise
    return "done"


@server.tool(structured_output=False)
async def media() -> list[Any]:
    """All kinds of content."""
    return [
        TextContent(type="text", text="hello"),
        ImageContent(type="image", data=PIXEL, mime_type="image/jpeg"),
        ImageContent(type="image", data="aGk=", mime_type="image/svg+xml"),
        AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text="the text")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///a.pdf", blob=PDF)),
        ResourceLink(type="resource_link", uri="file:///b.txt", name="b", mime_type="text/plain"),
    ]


@server.tool(structured_output=False)
async def fail() -> str:
    """Fail."""
    raise ToolError("no such thing")


@server.tool(structured_output=False)
async def die() -> str:
    """End the server in the middle of the call."""
    os._exit(1)


@server.tool(structured_output=False)
async def swap(context: Context) -> str:
    """Put another tool in the place of this one."""
    server.remove_tool("swap")
    server.add_tool(read_all, name="swapped", structured_output=False)
    await context.session.send_tool_list_changed()
    return "swapped"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
