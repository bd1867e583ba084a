"""Calls that a framework makes itself, and replies of which no more can begin early."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..loop import EarlyCalls
from ..tools import ToolCall
from .tool_call_chunks import ToolCallChunks

_log = logging.getLogger(__name__)


def tell_nobody(*_: object) -> None:
    """Ignore the arguments: the default of `on_start`, `on_progress` and `on_stop`."""


def feed_call(feed: Callable[[Mapping[str, Any]], Any], id: str | None, name: str, arguments: object) -> None:
    """Feed a reply that consists of one complete call. Its arguments are JSON, or an object."""
    chunks = ToolCallChunks(feed)
    chunks.piece(id=id, name=name, arguments=arguments)
    chunks.end("tool_use")


async def run_call(calls: EarlyCalls, id: str | None, name: str, arguments: object) -> ToolCall:
    """Run one complete call, and return it with its result. Cancelling this cancels the tool."""
    async with calls:
        feed_call(calls.feed, id, name, arguments)
        [call] = await calls.finish()
    return call


def void_reply(calls: EarlyCalls, error: Exception) -> None:
    """Cancel the calls of a reply that cannot be read on, and log it. Its tools would wait for their inputs forever."""
    _log.warning("nothing more of this reply begins early: %s", error)
    calls.feed({"type": "message_start", "message": {"role": "assistant", "content": []}})
