"""Start the tools of an MCP server while the response is being written; the server is this program.

Needs: `eagerstream-adapters[mcp]`.

Usage:
    ANTHROPIC_API_KEY=... python mcp_tools.py [MODEL]
    eagerstream serve --script -- python mcp_tools.py
"""

import sys

import eagerstream
from eagerstream import ToolProgress, ToolStart, ToolStop, printable
from eagerstream_adapters.mcp import mcp_tools

import anyio
from anthropic import AsyncAnthropic
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("weather", log_level="WARNING")


@server.tool()
async def get_weather(city: str, context: Context) -> str:
    """Current weather in a city."""
    for step in ("asking the station", "reading the answer"):
        await context.report_progress(1, message=step)
    return f"{city}: 15 degrees"


async def main(model: str) -> None:
    question = "What is the weather in Oslo, Vienna and Lima?"
    program = StdioServerParameters(command=sys.executable, args=[__file__, "--serve"])
    async with (
        Client(program) as session,
        AsyncAnthropic() as client,
        eagerstream.run(
            client,
            model=model,
            max_tokens=1024,
            max_turns=10,
            tools=await mcp_tools(session, timeout_s=30),
            messages=[{"role": "user", "content": question}],
        ) as run,
    ):
        async for event in run:
            match event:
                case ToolStart(call=call):
                    print(f"--- {call.name} begins: {call.input.value}")
                case ToolProgress(call=call, value=value):
                    print(f"    {call.input.value}: {printable(value['message'])}")
                case ToolStop(call=call):
                    print(f"--- {printable(str((call.result or {}).get('content')))}")
    print(run.result.status, run.result.usage)


if __name__ == "__main__":
    if "--serve" in sys.argv:
        server.run()
    else:
        anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
