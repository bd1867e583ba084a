"""The application of a gateway with several processes, as a user would write it; a tool of it asks a person."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import eagerstream
from eagerstream.progress import Hub
from eagerstream.progress.gateway import RunSlots, gateway_app
from eagerstream.progress.web import web_app

hub = Hub()
api = eagerstream.HTTPTransport(base_url=os.environ["ANTHROPIC_BASE_URL"], api_key="simulated")


@eagerstream.tool(approve=hub.approve, approve_timeout_s=60)
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def start(asked: Mapping[str, Any]) -> eagerstream.Run:
    question = [{"role": "user", "content": asked["question"]}]
    return eagerstream.run(
        api, model="m", max_tokens=1, max_turns=9, tools=[delete_file], buffer="wait", messages=question
    )


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    async with api:
        yield


async def tell_process(request: Request) -> JSONResponse:
    return JSONResponse({"pid": os.getpid(), "client": request.client and request.client.host})


def make() -> Starlette:
    """A factory, which the command accepts as well."""
    return app


def fails_to_load() -> Starlette:
    """A factory that fails in the processes of the workers."""
    if multiprocessing.parent_process() is not None:
        raise RuntimeError("there is no database")
    return app


def fails_at_times() -> Starlette:
    """A factory that fails while a file exists, and notes each failure there."""
    path = Path(os.environ["FAILURES"])
    if path.exists():
        with path.open("a") as file:
            file.write("x")
        raise RuntimeError("there is no database")
    return app


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    """An application whose start fails."""
    assert scope["type"] == "lifespan"
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "there is no database"})


app = Starlette(
    routes=[
        Route("/process", tell_process),
        Route("/process/{run}", tell_process),
        Mount("/watch", web_app(hub, token="token-of-the-tests")),
        Mount("/", gateway_app(start, slots=RunSlots(1_000), hub=hub)),
    ],
    lifespan=lifespan,
)
