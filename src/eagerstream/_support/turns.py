"""Turns of the event loop."""

from __future__ import annotations

import asyncio

import anyio


def wakes_in_order() -> bool:
    """Return True if tasks run in the order in which they were woken: asyncio does that, trio shuffles them."""
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError
