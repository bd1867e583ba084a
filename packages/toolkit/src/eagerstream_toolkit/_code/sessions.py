"""`CodeSessions`: the interpreters of a tool, one for each run that uses it."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio

from eagerstream.tools import RunningCall

from .sandbox import CodeFunction, CodeSandbox, CodeSession

_MAX_SESSIONS: Final = 64
"""Maximum number of runs whose variables are kept. The one that was used least recently loses them."""


class HeldSession:
    """The interpreter of one run, started when it is needed.

    Attributes:
        lock: Held by the call that uses it.
        was_lost: True if there was an interpreter, and it ended after the last call that used it.
        bound_names: The names that its code has bound, as far as `EarlyCodeCalls` knows.
    """

    def __init__(self, sandbox: CodeSandbox, functions: Sequence[CodeFunction]) -> None:
        self._sandbox = sandbox
        self._functions = functions
        self._session: CodeSession | None = None
        self.lock = anyio.Lock()
        self.was_lost = False
        self.bound_names: set[str] = set()

    async def get(self) -> CodeSession:
        """Return the interpreter, started if there is none. Cancelling this leaves none.

        Raises:
            ToolError: It could not be started.
        """
        if self._session is not None and self._session.has_ended:
            self.close()
            self.was_lost = True
        if self._session is None:
            self._session = await self._sandbox.open(self._functions)
        return self._session

    def close(self) -> None:
        """End the interpreter. A later call starts a new one."""
        self.bound_names.clear()
        session, self._session = self._session, None
        if session is not None:
            session.close()


class CodeSessions:
    """The interpreters of all runs that use a tool."""

    def __init__(self, sandbox: CodeSandbox, functions: Sequence[CodeFunction]) -> None:
        self._sandbox = sandbox
        self._functions = functions
        self._held: OrderedDict[str, HeldSession] = OrderedDict()

    def of(self, call: RunningCall) -> HeldSession:
        """Return the interpreter of the call's run. A call outside of any run gets a new one: close it afterwards."""
        run_id = call.run_id
        if not run_id:
            return HeldSession(self._sandbox, self._functions)
        if run_id not in self._held:
            while len(self._held) >= _MAX_SESSIONS:
                free = (each for each, held in self._held.items() if not held.lock.statistics().locked)
                if (oldest := next(free, None)) is None:
                    break  # calls use them all
                self.close(oldest)
            self._held[run_id] = HeldSession(self._sandbox, self._functions)
            call.when_over(partial(_close, weakref.ref(self), run_id))
        self._held.move_to_end(run_id)
        return self._held[run_id]

    def close(self, run_id: str) -> None:
        """End the interpreter of a run; nothing if there is none."""
        if (held := self._held.pop(run_id, None)) is not None:
            held.close()

    def close_all(self, owner: int | None = None) -> None:
        """End all interpreters, unless this process was forked from their owner."""
        held, self._held = self._held, OrderedDict()
        if owner is None or os.getpid() == owner:
            for each in held.values():
                each.close()


def _close(reference: weakref.ref[CodeSessions], run_id: str) -> None:
    """End the interpreter of a run. A run that held the sessions themselves would keep their tool alive."""
    if (sessions := reference()) is not None:
        sessions.close(run_id)
