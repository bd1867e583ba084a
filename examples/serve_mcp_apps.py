"""Show the app of an MCP tool while the model still writes the tool's input: this is the host, and the MCP server.

Needs: `eagerstream[progress]`, `eagerstream-adapters[mcp]`, and `app-bridge.js`, see the head of serve_mcp_apps.html.

Usage:
    ANTHROPIC_API_KEY=... python serve_mcp_apps.py [PORT]
    eagerstream serve --script -- python serve_mcp_apps.py
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import eagerstream
from eagerstream_adapters.mcp import mcp_tools
from eagerstream_progress import Hub
from eagerstream_progress.mcp_apps import mcp_apps_app, ui_resources

import anyio
import uvicorn
from anthropic import AsyncAnthropic
from mcp import Client
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

hub, folder = Hub(data=True), Path(__file__).parent  # with the structured content of results, for the app
server = MCPServer("charts", log_level="WARNING")


@server.tool(meta={"ui": {"resourceUri": "ui://charts/chart.html"}})
async def draw_chart(title: str, bars: dict[str, float]) -> dict[str, str | float]:
    """Draw a bar chart: a title, and the height of each bar by its label."""
    return {"title": title, "total": sum(bars.values())}


@server.resource("ui://charts/chart.html", mime_type="text/html;profile=mcp-app")
def chart() -> str:
    return (folder / "serve_mcp_apps_chart.html").read_text()


async def main(port: int) -> None:
    async with Client(server) as session, AsyncAnthropic() as client, anyio.create_task_group() as tasks:
        options: Any = {"model": "claude-opus-4-7", "max_tokens": 4096, "tools": await mcp_tools(session)}
        resources = ui_resources(options["tools"])

        async def drive(run: eagerstream.Run) -> None:
            with suppress(eagerstream.EagerStreamError):  # the apps get the reason
                await run

        async def ask(request: Request) -> Response:
            if request.headers.get("origin") not in [f"http://{name}:{port}" for name in ("127.0.0.1", "localhost")]:
                return Response(status_code=403)  # another site must not start runs that you pay for
            question: Any = {"role": "user", "content": (await request.body()).decode()}
            run: eagerstream.Run = eagerstream.run(client, **options, messages=[question])
            tasks.start_soon(drive, run)
            return PlainTextResponse(hub.observe(run).id)

        async def html(request: Request) -> Response:  # as text: as a page of this origin, it would be the host
            [found] = (await session.read_resource(resources[request.query_params["tool"]])).contents
            return PlainTextResponse(found.model_dump()["text"], headers={"x-content-type-options": "nosniff"})

        page, bridge = (FileResponse(folder / name) for name in ("serve_mcp_apps.html", "app-bridge.js"))
        routes = [Route("/", page), Route("/app-bridge.js", bridge), Route("/html", html)]
        routes.append(Route("/ask", ask, methods=["POST"]))
        app = Starlette(routes=[*routes, Mount("/", mcp_apps_app(hub, resources))])
        await uvicorn.Server(uvicorn.Config(app, port=port, timeout_graceful_shutdown=1)).serve()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
