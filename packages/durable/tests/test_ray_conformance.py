"""What every executor keeps is kept on a Ray cluster, too: the suite of `packages/durable/tests/workers`, with actors as workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from packages.durable.tests.workers import test_conformance
from packages.durable.tests.workers.places import MakeExecutor

from eagerstream.tools import Executor
from eagerstream_durable.ray import RayExecutor, RayPool

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

globals().update({name: test for name, test in vars(test_conformance).items() if name.startswith("test_")})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # Ray knows no other


@pytest.fixture(scope="module")
async def make(cluster: Any, anyio_backend: str) -> AsyncIterator[MakeExecutor]:
    async with RayPool(workers=2, calls_per_worker=4) as pool:

        def make(tools: Any, **options: Any) -> Executor:
            return RayExecutor(tools, pool=pool, **options)

        yield make
