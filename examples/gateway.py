"""Hold many runs in one process, run their tools in others, and show them on a page.

A client POSTs {"question": "..."} to /runs and reads records. If it reads slowly, only its own run slows down. If it
leaves, its run ends. If all places for runs are taken, it gets a 503.

Needs: `eagerstream[durable,progress]`, and `eagerstream-durable[ray]` if RAY is set.

Usage:
    ANTHROPIC_API_KEY=... [RUNS=1000] [RAY=1] uvicorn gateway:app --timeout-graceful-shutdown 5
    eagerstream serve --script -- uvicorn gateway:app --timeout-graceful-shutdown 5
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import eagerstream
from eagerstream_durable.ray import RayPool
from eagerstream_durable.workers import ProcessPool, RemoteExecutor
from eagerstream_progress import Hub
from eagerstream_progress.gateway import RunSlots, gateway_app
from eagerstream_progress.web import serve

from starlette.applications import Starlette
from starlette.routing import Mount

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
hub = Hub()
held: dict[str, Any] = {}  # the pool and the transport, while the server runs


@eagerstream.tool(idempotent=True)
def count_primes(below: int) -> int:
    """Count the primes below a number."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below))


def start(asked: Mapping[str, Any]) -> eagerstream.Run:
    return eagerstream.run(
        held["api"],
        model="claude-opus-4-7",
        max_tokens=4096,
        max_turns=10,
        buffer="wait",
        tools=[count_primes],
        executor=RemoteExecutor([count_primes], pool=held["pool"]),  # one for each run: runs share the workers fairly
        messages=[{"role": "user", "content": str(asked.get("question", ""))}],
    )


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    api = eagerstream.HTTPTransport(base_url=URL, api_key=os.environ["ANTHROPIC_API_KEY"])
    pool_class: Any = RayPool if "RAY" in os.environ else ProcessPool
    async with pool_class(workers=2, preload=[count_primes]) as pool, api, serve(hub) as page:
        held.update(pool=pool, api=api)
        print("watch at", page.url, flush=True)
        yield


slots = RunSlots(int(os.environ.get("RUNS", "1000")))
app = Starlette(routes=[Mount("/", gateway_app(start, slots=slots, hub=hub))], lifespan=lifespan)
