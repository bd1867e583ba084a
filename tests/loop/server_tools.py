"""Tools that the API runs, and what a run says of them."""

from __future__ import annotations

from typing import Any

import eagerstream
from eagerstream.loop import ToolStart
from eagerstream_wire import ServerToolResult, ServerToolUse
from tests.loop.serial import now, running

SEARCH = {"type": "web_search_20250305", "name": "web_search"}

CODE = {"type": "code_execution_20260120", "name": "code_execution"}

MCP = {"type": "mcp_toolset", "mcp_server_name": "pages"}


async def told(client: Any, **options: Any) -> tuple[list[str], Any]:
    """What a run tells of server tools and of turns, and the run."""
    lines: list[str] = []
    async with running(client, **{"tools": [now, SEARCH, MCP], **options}) as run:
        async for event in run:
            match event:
                case ServerToolUse(input=call):
                    lines.append(f"use {call.id} {call.name}")
                case ServerToolResult(tool_use_id=id, call=answered):
                    assert answered is None or answered["id"] == id
                    lines.append(f"result {id} {answered['name'] if answered else 'of nothing'}")
                case ToolStart(call=started):
                    lines.append(f"start {started.id} {started.name}")
                case eagerstream.TurnStop(turn=turn):
                    lines.append(f"turn {turn}")
                case _:
                    pass
    return lines, run
