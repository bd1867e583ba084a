"""Clients for older programs: the default model, and a client that is made when it is first needed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from ._sync import SyncLoop

DEFAULT_MODEL: Final = "claude-sonnet-4-6"
_MODEL_VARIABLE: Final = "ANTHROPIC_MODEL"


def default_model() -> str:
    """Return the model in `ANTHROPIC_MODEL`, or a current one."""
    return os.environ.get(_MODEL_VARIABLE) or DEFAULT_MODEL


class KeptClient:
    """The client of an object with synchronous and asynchronous calls.

    A connection belongs to one event loop. All synchronous calls share a loop, and therefore one client. Each
    asynchronous call gets a client of its own.

    Attributes:
        client: The client of synchronous calls; `None` until one needs it.
    """

    def __init__(self) -> None:
        self.client: Any = None
        self._loop: SyncLoop | None = None

    def opened(
        self, given: Any, make: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> AbstractAsyncContextManager[Any]:
        """Return a client for one call, as a context manager: the given one, which stays open, or one that is made."""
        loop = SyncLoop.current()
        if given is not None:
            if loop is not None:
                loop.close_at_exit(given)
            return nullcontext(given)
        if loop is None:
            return make()
        if self.client is None or self._loop is not loop:
            self.client, self._loop = make(), loop
            loop.close_at_exit(self.client)
            weakref.finalize(self, loop.close_soon, self.client).atexit = False
        return nullcontext(self.client)
