"""The running event loop, whichever library it belongs to."""

from __future__ import annotations

import asyncio
from typing import Any


def event_loop() -> Any:
    """Return the running event loop: asyncio's object or trio's token."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def is_asyncio(loop: object) -> bool:
    """Return True for a result of `event_loop` that is of asyncio, with uvloop or without."""
    return isinstance(loop, asyncio.AbstractEventLoop)


def has_ended(loop: object) -> bool:
    """Return True if a result of `event_loop` is closed; False if it is not or cannot tell, as a token of trio."""
    return isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed()
