"""`ToolWorker`: an async actor on the cluster that serves calls concurrently.

This module does not import ray; Ray makes an actor of the class. Messages are pickled here, because Ray's own pickling
of small objects costs an event loop a third more per call.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable

from eagerstream.tools import Tool, ToolErrorCode, error_text

from ..workers._crossing import dumps, error_as_bytes, loads
from ..workers._host import serve
from ..workers._messages import Cancelled, Ended, FromWorker, Progress, Refused, ToWorker
from ..workers._references import tool_of

_MAX_UNHEARD = 16
"""Maximum number of messages of a call that wait to be fetched. Beyond it, progress waits, and newer values replace
older ones."""
_UNKNOWN_S = 60.0
"""Seconds to wait for the start of a call after another of its messages."""
_MAX_TOOLS = 256
"""Maximum number of tools that a worker keeps."""


class ToolWorker:
    """Server of calls. Each call has a key. Its messages have numbers, because Ray may deliver them in any order."""

    def __init__(self) -> None:
        self._calls: dict[str, _HostedCall] = {}
        self._tools: dict[bytes, Tool] = {}

    async def ready(self, preload: Iterable[bytes]) -> int:
        """Load the tools of `preload`, and return the worker's process id."""
        for reference in preload:
            await self._tool(reference)
        return os.getpid()

    async def forever(self) -> None:
        """Never return. A caller that waits for this learns at once that the worker is gone."""
        await asyncio.Event().wait()

    async def begin(self, key: str, reference: bytes, message: bytes) -> bytes:
        """Start a call, and return the same as `hear`."""
        call = self._call(key)
        call.take(0, loads(message))
        call.task = asyncio.create_task(self._serve(call, reference))
        return await self.hear(key)

    async def tell(self, key: str, number: int, message: bytes) -> None:
        """Take message `number` of a call."""
        if key not in self._calls:  # it arrives before the start or after the end of the call
            asyncio.get_running_loop().call_later(_UNKNOWN_S, self._forget_unbegun, key)
        self._call(key).take(number, loads(message))

    async def hear(self, key: str) -> bytes:
        """Return a call's messages since the last `hear`, as a pickled list. Wait until there is one."""
        call = self._calls[key]
        said = await call.said()
        if isinstance(said[-1], Refused | Ended | Cancelled):
            del self._calls[key]
        return dumps(said)

    def _call(self, key: str) -> _HostedCall:
        return self._calls.setdefault(key, _HostedCall())

    def _forget_unbegun(self, key: str) -> None:
        if key in self._calls and self._calls[key].task is None:
            del self._calls[key]

    async def _serve(self, call: _HostedCall, reference: bytes) -> None:
        try:
            tool = await self._tool(reference)
        except Exception as error:  # the import can raise anything
            text = f"Error: the worker cannot load this tool: {error_text(error)}"
            await call.send(Refused(text, ToolErrorCode.INTERNAL_ERROR, error_as_bytes(error)))
            return
        await serve(call, tool)

    async def _tool(self, reference: bytes) -> Tool:
        tool = self._tools.get(reference)
        if tool is None:
            made = await asyncio.to_thread(tool_of, reference)
            tool = self._tools.setdefault(reference, made)
            while len(self._tools) > _MAX_TOOLS:
                del self._tools[next(iter(self._tools))]
        return tool


class _HostedCall:
    """`HostLine` of a call: received messages that are not read yet, and sent messages that are not fetched yet."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None  # a reference, because the event loop keeps none
        self._told: dict[int, ToWorker] = {}
        self._next = 0
        self._unheard: deque[FromWorker] = deque()
        self._changed = asyncio.Event()

    def take(self, number: int, message: ToWorker) -> None:
        self._told[number] = message
        self._change()

    async def said(self) -> list[FromWorker]:
        while not self._unheard:
            await self._changed.wait()
        await asyncio.sleep(0)  # a tool that does not wait ends in the same step: this saves one fetch
        said = list(self._unheard)
        self._unheard.clear()
        self._change()
        return said

    async def send(self, message: FromWorker) -> None:
        while isinstance(message, Progress) and len(self._unheard) >= _MAX_UNHEARD:
            await self._changed.wait()
        self._unheard.append(message)
        self._change()

    async def receive(self) -> ToWorker:
        while self._next not in self._told:
            await self._changed.wait()
        message = self._told.pop(self._next)
        self._next += 1
        return message

    def _change(self) -> None:
        """Wake all waiters. Each of them checks its own condition."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
