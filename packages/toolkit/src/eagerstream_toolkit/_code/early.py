"""`EarlyCodeCalls`: calls of read-only tools that start before the code reaches them."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from eagerstream import JSON
from eagerstream.tools import Tool

from .literal_calls import LiteralCall, calls_in, key_of
from .sandbox import CodeCallError
from .signatures import parameters_of
from .statements import Statement

MAX_EARLY: Final = 16
"""Maximum number of early calls that run at a time."""


@dataclass(slots=True, eq=False)
class _Started:
    """A call that has started and that the code has not reached.

    Attributes:
        call: The call.
        scope: Cancels it.
        ended: Set when it has ended.
        values: Its result, as the only item; empty if there is none.
        error: The reason why it has none.
    """

    call: LiteralCall
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    values: list[JSON] = field(default_factory=list, repr=False)
    error: Exception | None = None


class EarlyCodeCalls:
    """The early calls of one call of `run_code`. All calls of its code go through `call`.

    A call starts when its statement is complete, if its tool is `read_only` and has no `approve`, and its arguments are
    literals. If the code then makes an equal call, it gets the result, or the error. A start serves one call.

    The code never sees a result that a call of its own could have changed:

    - If the code calls a tool that is not read-only, all started calls are cancelled, and their results dropped. The
      code's own calls run again when it makes them.
    - While such a tool runs, no call starts early. If one fails or is cancelled, it may still have an effect: no call
      starts early any more.
    - While a call of the code runs, no equal one starts early.

    To waste few calls, a call also waits for the end of an earlier statement that names a tool that is not read-only.

    It cannot see other changes: those that the code makes without a tool, and those of other programs. For them, a
    result may be as old as its statement.

    Args:
        make: Makes a call, and returns its result. Cancelling it cancels the call.
        rebound: The names that the code of this session has bound. Names are added.
    """

    def __init__(
        self,
        make: Callable[[str, Mapping[str, JSON]], Awaitable[JSON]],
        tools: Mapping[str, Tool],
        tasks: TaskGroup,
        *,
        rebound: set[str],
        max_calls: int,
    ) -> None:
        self._make = make
        self._tasks = tasks
        self._rebound = rebound
        self._left = max_calls
        self._writing = {name for name, tool in tools.items() if not tool.read_only}
        # Somebody who is asked to approve a call expects that it is made. `start="message"` asks for a late start.
        self._reading = {
            name: parameters_of(tool)
            for name, tool in tools.items()
            if tool.read_only and tool.approve is None and tool.start == "input"
        }
        self._waiting: list[tuple[Statement, LiteralCall]] = []
        self._started: dict[str, _Started] = {}
        self._dropped: Counter[tuple[str, str]] = Counter()
        """Calls that were cancelled by a write, by name and key."""
        self._made: Counter[str] = Counter()
        """The code's own calls that run, by key."""
        self._running = 0
        self._writes = 0
        """Number of calls that may be changing something."""
        self._may_write: deque[Statement] = deque()
        """Statements that name a writing tool, and have not ended."""
        self._is_over = False

    def see(self, statement: Statement) -> None:
        """Take a complete statement, in order, and start its calls. Does not block."""
        room = max(0, self._left - len(self._waiting))
        found = calls_in(statement.source, self._reading, self._writing, self._rebound, max_calls=room)
        self._rebound |= found.rebound
        self._waiting += [(statement, call) for call in found.literal]
        self._start()
        if found.may_write:
            self._may_write.append(statement)

    def ended(self, statement: Statement) -> None:
        """Take the end of a statement: its calls that still wait were not reached."""
        self._waiting = [each for each in self._waiting if each[0].line > statement.line]
        while self._may_write and self._may_write[0].line <= statement.line:
            self._may_write.popleft()
        self._start()

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """Make a call for the code, or return the result of the equal call that has started. Cancelling cancels it.

        Raises:
            CodeCallError: The call failed.
        """
        if name in self._writing:
            return await self._write(name, arguments)
        key = key_of(name, arguments)
        if key is None:
            return await self._make(name, arguments)
        started = self._started.pop(key, None)
        if started is None:  # it may have been dropped, or still wait
            if self._dropped[name, key]:
                self._dropped[name, key] -= 1
            elif (waiting := next((each for each in self._waiting if each[1].key == key), None)) is not None:
                self._waiting.remove(waiting)
        self._made[key] += 1
        try:
            return await (self._make(name, arguments) if started is None else _result(started))
        finally:
            self._made[key] -= 1
            self._start()

    def stop(self) -> Counter[str]:
        """Cancel the calls that the code has not reached, and return their number by name. Nothing starts any more."""
        self._is_over = True
        unreached = Counter(each.call.name for each in self._started.values())
        for (name, _), number in self._dropped.items():
            unreached[name] += number
        self._cancel_started()
        return +unreached

    async def _write(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        for each in self._started.values():
            self._dropped[each.call.name, each.call.key] += 1
        self._cancel_started()
        self._writes += 1
        result = await self._make(name, arguments)
        self._writes -= 1  # not after a failure: then it may still be going on
        self._start()
        return result

    def _start(self) -> None:
        """Start the calls that may start now."""
        if self._is_over:
            return
        first_write = self._may_write[0].line if self._may_write else math.inf
        waiting, self._waiting = self._waiting, []
        for statement, call in waiting:
            can_start = self._running < MAX_EARLY and self._left > 0 and not self._writes
            if not can_start or first_write < statement.line or call.key in self._started or self._made[call.key]:
                self._waiting.append((statement, call))
                continue
            self._left -= 1
            self._running += 1
            started = self._started[call.key] = _Started(call)
            self._tasks.start_soon(self._run, started)

    async def _run(self, started: _Started) -> None:
        try:
            with started.scope:
                await anyio.lowlevel.checkpoint_if_cancelled()
                started.values.append(await self._make(started.call.name, started.call.arguments))
        except anyio.get_cancelled_exc_class():
            self._is_over = True  # all tasks are being cancelled, not this call alone
            raise
        except Exception as error:  # the code gets it if it makes this call
            started.error = error
        finally:
            started.ended.set()
            self._running -= 1
            self._start()

    def _cancel_started(self) -> None:
        for each in self._started.values():
            each.scope.cancel()
        self._started.clear()


async def _result(started: _Started) -> JSON:
    """Wait for the result of a call that the code has reached. Cancelling cancels the call.

    Raises:
        CodeCallError: The call failed.
    """
    try:
        await started.ended.wait()
    finally:
        if not started.ended.is_set():
            started.scope.cancel()
    if not started.values:
        raise started.error or CodeCallError("the call was cancelled")
    return started.values[0]
