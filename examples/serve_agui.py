"""Serve an agent to frontends that speak AG-UI: each POST to /agent starts a run and streams its events.

The page sees the poem grow in the state, field by field. The model can also call the page's own tools. If it calls
one, the run ends, and the page sends the result with its next request.

Needs: `eagerstream-progress[agui]`.

Usage:
    ANTHROPIC_API_KEY=... python serve_agui.py [PORT] [MODEL]
    eagerstream serve --script -- python serve_agui.py
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import eagerstream
from eagerstream_progress.agui import agui_app, frontend_tools, messages_of

import anthropic
import uvicorn
from ag_ui.core import RunAgentInput
from starlette.applications import Starlette
from starlette.routing import Route


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write text to a file."""
    return f"wrote {len(lines_of_text)} lines to {filename}"  # writes nothing: any program on this machine may ask


def make_app(model: str) -> Starlette:
    clients: list[Any] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with anthropic.AsyncAnthropic() as client:
            clients.append(client)
            yield

    def start(input: RunAgentInput) -> eagerstream.Run:
        return eagerstream.run(
            clients[0],
            model=model,
            max_tokens=65_536,
            max_turns=10,
            tools=[make_file, *frontend_tools(input)],
            messages=messages_of(input),
        )

    # It answers under the names of loopback. Elsewhere, add `hosts=` with your names.
    return Starlette(routes=[Route("/agent", agui_app(start))], lifespan=lifespan)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    model = sys.argv[2] if len(sys.argv) > 2 else "claude-opus-4-7"
    uvicorn.run(make_app(model), port=port)
