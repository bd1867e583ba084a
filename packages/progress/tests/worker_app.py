"""An application that `uvicorn --workers` starts several times: each process has runs, and shows those of all.

Each run takes a while: one call, whose input is written slowly, and for which somebody is asked.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import LocalAPI

import eagerstream
from eagerstream import Run, tool
from eagerstream_progress import Hub
from eagerstream_progress.redis import RedisRelay
from eagerstream_progress.web import web_app
from eagerstream_testing import reply, text

TOKEN = "a-token-that-only-the-test-knows"
FRAGMENTS = int(os.environ.get("RUN_FRAGMENTS", "100"))
PAUSE_S = 0.1


def words(count: int = FRAGMENTS) -> str:
    """The parameter of each call."""
    return " ".join(map(str, range(count)))


def slow_call() -> list[Any]:
    pieces: list[Any] = [message_start(), tool_start(0, "save"), input_delta(0, '{"content": "')]
    for number in range(FRAGMENTS):
        pieces += [PAUSE_S, input_delta(0, f"{' ' if number else ''}{number}")]
    return [*pieces, input_delta(0, '"}'), block_stop(0), message_delta("tool_use"), MESSAGE_STOP]


def app() -> Starlette:
    """Return the application."""
    hub = Hub(relay=RedisRelay(os.environ["REDIS_URL"], secret=TOKEN))
    running: set[asyncio.Task[None]] = set()

    @tool(approve=hub.approve)
    async def save(content: str) -> str:
        """Save a text."""
        return f"saved {len(content)} characters"

    async def finish(run: Run) -> None:
        async with run:
            await run.finish()

    async def start(request: Request) -> JSONResponse:
        """Start as many runs as are asked for."""
        ids = []
        for _ in range(int(request.query_params["count"])):
            run = eagerstream.run(LocalAPI(slow_call(), reply(text("Done."))).anthropic(), tools=[save], **REQUEST)
            ids.append(hub.observe(run).id)
            task = asyncio.create_task(finish(run))
            running.add(task)
            task.add_done_callback(running.discard)
        return JSONResponse({"pid": os.getpid(), "runs": ids})

    async def pid(_: Request) -> JSONResponse:
        return JSONResponse(os.getpid())

    routes = [Route("/start", start, methods=["POST"]), Route("/pid", pid), Mount("/watch", web_app(hub, token=TOKEN))]
    return Starlette(routes=routes)
