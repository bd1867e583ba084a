"""Where tools can run: what the suite of `test_conformance` is run over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from eagerstream.tools import Executor, InProcessExecutor
from eagerstream_durable.workers import ProcessExecutor, ProcessPool

MakeExecutor: TypeAlias = Callable[..., Executor]
"""Takes tools and the options that all executors have: `limits`, `max_concurrency`, `circuit_breaker`."""


@asynccontextmanager
async def in_process() -> AsyncIterator[MakeExecutor]:
    """In this process."""
    yield InProcessExecutor


@asynccontextmanager
async def processes() -> AsyncIterator[MakeExecutor]:
    """In a worker process that takes several calls. To start one takes half a second of CPU."""
    async with ProcessPool(1, calls_per_worker=4, preload=["packages.durable.tests.workers.tools"]) as pool:

        def make(tools: Any, **options: Any) -> Executor:
            return ProcessExecutor(tools, pool=pool, **options)

        yield make


PLACES: dict[str, Callable[[], AbstractAsyncContextManager[MakeExecutor]]] = {
    "in process": in_process,
    "processes": processes,
}

each_place = [pytest.param(name, id=name) for name in PLACES]
