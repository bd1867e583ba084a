"""Hold many runs in one process, run their tools in others, and show them on a page.

A client POSTs {"question": "..."} to /runs and reads records. If it reads slowly, only its own run slows down. If it
leaves, its run ends. A client too many gets a 503.

Needs: the extra `web`, and `ray` for --ray.

Usage:
    ANTHROPIC_API_KEY=... python gateway.py [PORT [RUNS]] [--ray]
    eagerstream serve --script -- python gateway.py
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import eagerstream
from eagerstream.integrations.ray import RayPool
from eagerstream.progress import Hub
from eagerstream.progress.gateway import RunSlots, gateway_app
from eagerstream.progress.web import serve
from eagerstream.workers import ProcessPool, RemoteExecutor

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Mount

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
hub = Hub()
held: dict[str, Any] = {}  # what lives as long as the server


@eagerstream.tool(idempotent=True)
def count_primes(below: int) -> int:
    """Count the primes below a number."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below))


def start(asked: Mapping[str, Any]) -> eagerstream.Run:
    question = [{"role": "user", "content": str(asked.get("question", ""))}]
    executor = RemoteExecutor([count_primes], pool=held["pool"])  # of each run its own: workers are shared fairly
    options: dict[str, Any] = {"model": "claude-opus-4-7", "max_tokens": 4096, "max_turns": 10, "buffer": "wait"}
    return eagerstream.run(held["api"], tools=[count_primes], executor=executor, messages=question, **options)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    api = eagerstream.HTTPTransport(base_url=URL, api_key=os.environ["ANTHROPIC_API_KEY"])
    made: Any = (RayPool if "--ray" in sys.argv else ProcessPool)(workers=2, preload=[count_primes])
    async with made as pool, api, serve(hub) as page:
        held.update(pool=pool, api=api)
        print("watch at", page.url, flush=True)
        yield


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--ray"]
    port, runs = map(int, (*given, *("8000", "1000")[len(given) :]))
    app = Starlette(routes=[Mount("/", gateway_app(start, slots=RunSlots(runs), hub=hub))], lifespan=lifespan)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=5)
