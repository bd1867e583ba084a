"""MCP tools: the anthropic package's tool runner with its MCP helpers, compared with a run of ours with early calls.

The server is another program, over stdio. Its tool over an array takes the complete array, as MCP requires. Only the
earlier start of the calls saves time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anthropic import AsyncAnthropic
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer

import eagerstream
from eagerstream import MessageStop
from eagerstream_adapters.mcp import mcp_tools

from ..served import served
from . import HEAD, TOOL_S, Course, compare, row, scenario

REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "Write about the weather."}],
}
CALLS = 4

server = MCPServer("benchmark", log_level="WARNING")


@server.tool(structured_output=False)
async def get_weather(city: str, context: Context) -> str:
    """Weather in a city."""
    await context.report_progress(1)
    await anyio.sleep(TOOL_S)
    return f"{city}: 15 degrees"


@server.tool(structured_output=False)
async def write(lines: list[str], context: Context) -> str:
    """Write lines."""
    await context.report_progress(1)
    return f"wrote {len(lines)} lines"


class _Noted:
    """A session that notes the times when a call is sent and when the last result arrives."""

    def __init__(self, session: Any, course: Course) -> None:
        self.session = session.session  # lists the tools
        self._client = session
        self._course = course
        self._answered = 0

    async def call_tool(self, name: str, arguments: Any, **options: Any) -> Any:
        self._course.note("effect")
        result = await self._client.call_tool(name, arguments, **options)
        self._answered += 1
        if self._answered == CALLS:
            self._course.note("results")
        return result


async def alone(client: AsyncAnthropic, session: Any, course: Course, *, eagerly: bool = False) -> None:
    """Stream `tool_runner`. It runs the calls when a message is complete, or earlier with `eagerly`."""
    noted: Any = _Noted(session, course)
    listed = (await session.session.list_tools()).tools
    course.started_s = Course().started_s
    runner = client.beta.messages.tool_runner(
        tools=[async_mcp_tool(tool, noted) for tool in listed],
        stream=True,
        thread=False,
        run_tools_eagerly=eagerly,
        **REQUEST,
    )
    async for stream in runner:
        async for _ in stream:
            pass
        if (await stream.get_final_message()).stop_reason == "tool_use":
            course.note("last byte")
    course.note("end")


async def early(client: AsyncAnthropic, session: Any, course: Course) -> None:
    """Run eagerstream. Each call starts at the end of its input."""
    tools = await mcp_tools(_Noted(session, course))
    course.started_s = Course().started_s
    async with eagerstream.run(client, tools=tools, **REQUEST) as run:
        async for event in run:
            if isinstance(event, MessageStop) and not any(name == "last byte" for name, _ in course.events):
                course.note("last byte")
    course.note("end")


@asynccontextmanager
async def sides(url: str, *, eagerly: bool = False) -> AsyncIterator[tuple[Any, Any]]:
    """Yield both sides, with one client and one session."""
    arguments = ["-m", "benchmarks.frameworks.mcp", "--serve"]
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = StdioServerParameters(command=sys.executable, args=arguments, env=env)
    async with Client(program) as session, AsyncAnthropic(base_url=url, api_key="any") as client:
        yield partial(alone, client, session, eagerly=eagerly), partial(early, client, session)


async def main(url: str) -> None:
    """Measure both sides, and print the table."""
    print(HEAD)
    for eagerly, name in ((False, "mcp, tool_runner of anthropic"), (True, "mcp, the same with run_tools_eagerly")):
        async with sides(url, eagerly=eagerly) as both:
            print(row(name, await compare(*both, repeats=3)))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        server.run()
    else:
        with served(scenario) as address:
            anyio.run(main, address)
