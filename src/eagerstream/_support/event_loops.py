"""The running event loop, whichever library it belongs to, and calls to it from other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final

_LOOK_S: Final = 0.5


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


def soon_of_loop() -> Callable[[Callable[[], object]], object]:
    """Return a function by which a thread runs a callback on this event loop, without waiting for it.

    Waiting, as `anyio.from_thread` does, would never end in a thread that outlives its loop.
    """
    return _soon_of(event_loop())


def _soon_of(loop: Any) -> Callable[[Callable[[], object]], object]:
    soon: Callable[[Callable[[], object]], object] = (
        loop.call_soon_threadsafe if is_asyncio(loop) else loop.run_sync_soon
    )
    return soon


class LoopThread:
    """The event loop that runs here, for calls from any thread."""

    __slots__ = ("_loop", "_thread")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._loop = event_loop()

    @property
    def is_here(self) -> bool:
        """True in the thread of the loop."""
        return threading.get_ident() == self._thread

    def do_soon(self, act: Callable[[], object]) -> None:
        """Call `act` on the loop: at once if this is its thread, else soon. Do nothing if the loop has ended."""
        if self.is_here:
            act()
        else:
            with suppress(RuntimeError):
                _soon_of(self._loop)(act)

    def do(self, act: Callable[[], object], *, is_over: Callable[[], object]) -> bool:
        """Call `act` on the loop, and wait for it. Raise what it raises.

        Args:
            act: The function.
            is_over: Asked twice a second: nobody does this any more, because what it is about has ended.

        Returns:
            False if it was over before, or if the loop has ended. A loop drops what it was given when it ends.
        """
        if self.is_here:
            act()
            return True
        done: Future[None] = Future()

        def do() -> None:
            try:
                act()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        try:
            _soon_of(self._loop)(do)
        except RuntimeError:
            return False
        while not wait([done], _LOOK_S).done:
            if is_over():
                return False
        done.result()
        return True
