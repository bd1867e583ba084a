"""Serve a page on which a table grows: rows appear while the model writes them, and each complete row is validated.

Needs: the packages starlette and uvicorn.

Usage:
    ANTHROPIC_API_KEY=... python growing_table.py [PORT]
    eagerstream serve --script -- python growing_table.py
"""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import eagerstream
from eagerstream import OutputDelta

import uvicorn
from anthropic import AsyncAnthropic
from pydantic import BaseModel, PositiveInt
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

QUESTION = "The ten largest cities of the world, as a table"


class City(BaseModel):
    name: str
    country: str
    people: PositiveInt


class Table(BaseModel):
    title: str
    rows: list[City]


async def changes(client: AsyncAnthropic) -> AsyncIterator[str]:
    """Yield server-sent events for the page: the rows that are new or have changed. The last row is still written."""
    async with eagerstream.run(
        client, model="claude-opus-4-7", max_tokens=2048, output=Table, messages=[{"role": "user", "content": QUESTION}]
    ) as run:
        first = 0
        async for event in run:
            if isinstance(event, OutputDelta) and event.output.partial:
                rows = event.output.partial.rows or []
                shown = [[row.name, row.country, row.people] for row in rows[first:]]
                yield message(title=event.output.partial.title, first=first, rows=shown, error=event.output.error)
                first = max(0, len(rows) - 1)
    yield message(outcome=run.result.output_outcome, error=run.result.output_error)


def message(**data: object) -> str:
    return f"data: {json.dumps(data)}\n\n"


async def table(request: Request) -> Response:
    """Start a run, and send its table while it grows. If the page is closed, the run is cancelled."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return Response(status_code=403)  # another site must not start runs that you pay for
    return StreamingResponse(changes(request.app.state.client), media_type="text/event-stream")


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    page = FileResponse(Path(__file__).with_suffix(".html"))
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app = Starlette(routes=[Route("/", page), Route("/table", table)], middleware=[hosts])
    app.state.client = AsyncAnthropic()
    uvicorn.run(app, host="127.0.0.1", port=port, timeout_graceful_shutdown=1)
