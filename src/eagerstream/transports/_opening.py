"""`Opening`: what a transport returns from `open`, in one object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from .._support.cancellation import close_quietly
from ._base import Reply


class Opening(AbstractAsyncContextManager[Reply]):
    """Opens a reply when it is entered, perhaps after several attempts, and closes it when it is left.

    A generator with an `AsyncExitStack` does the same in nine more objects. A run has one such level for each of its
    transports, and the garbage collector visits all of them while the run waits for the model.

    Args:
        send: Sends the request and returns its reply, which it has entered by `enter`.

    Attributes:
        response: The response of a client, to be closed last; None if there is none.
    """

    __slots__ = ("_entered", "_send", "response")

    def __init__(self, send: Callable[[Opening], Awaitable[Reply]]) -> None:
        self._send: Callable[[Opening], Awaitable[Reply]] | None = send
        self._entered: AbstractAsyncContextManager[Reply] | None = None
        self.response: Any = None

    async def enter(self, context: AbstractAsyncContextManager[Reply]) -> Reply:
        """Enter the context of a reply, which this closes."""
        reply = await context.__aenter__()
        self._entered = context
        return reply

    async def __aenter__(self) -> Reply:
        assert self._send is not None
        send, self._send = self._send, None
        try:
            return await send(self)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return None if self._entered is None else await self._entered.__aexit__(kind, error, traceback)
        finally:
            if self.response is not None:
                await close_quietly(self.response)
