"""`heartbeating`: signs of life of an activity, also while nothing happens in its run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from temporalio import activity

_BEATS: Final = 4  # in each heartbeat timeout


@asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Send heartbeats of this activity until the block is left. Without a heartbeat timeout, it sends none.

    Temporal starts another attempt if the process or its event loop stops. Cancelling the block ends the heartbeats.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    task = asyncio.create_task(_beat(timeout.total_seconds() / _BEATS))
    try:
        yield
    finally:
        task.cancel()


async def _beat(interval_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(interval_s)
