"""Calls whose inputs tests write themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from tests.streams import block_stop, input_delta, message_delta, tool_start
from tests.support import Heard

from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import Executor, ToolCall
from eagerstream_wire import InputAccumulator

_numbers = count()


class Written:
    """A call, and the pen that writes its input."""

    def __init__(self, name: str, *, limits: Limits = DEFAULT_LIMITS, groups: Any = None, **fields: Any) -> None:
        self._accumulator = InputAccumulator(input_type=GrowingInput, limits=limits)
        self._index = next(_numbers)
        self._accumulator.feed(tool_start(self._index, name, **fields))
        shared = {} if groups is None else groups
        self.call = ToolCall(self._accumulator.inputs[self._index], 1, limits, failed_groups=shared)
        self.progress: list[Any] = []
        self._changed = anyio.Event()
        self.call.listeners = (
            Heard(on_start=lambda _: self._change(), on_progress=lambda _, value: self._change(value)),
        )

    def _change(self, *values: Any) -> None:
        self.progress += values
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait for something that the call tells of."""
        while not is_so():
            await self._changed.wait()

    def write(self, fragment: str) -> None:
        """The model writes."""
        self._accumulator.feed(input_delta(self._index, fragment))

    def lose(self) -> None:
        """A fragment is lost on its way."""
        self._accumulator.feed(input_delta(self._index, "") | {"delta": None})

    def end(self, *, whole: bool = True) -> None:
        """The block is closed, or cut off."""
        if whole:
            self._accumulator.feed(block_stop(self._index))
            self._accumulator.feed(message_delta("tool_use"))
        self._accumulator.close()


def a_call(name: str, raw: str | None = None, /, *, groups: Any = None, **arguments: Any) -> Written:
    """A call whose input has ended: the text, or the arguments as JSON."""
    written = Written(name, groups=groups)
    written.write(json.dumps(arguments, ensure_ascii=False) if raw is None else raw)
    written.end()
    return written


async def answered(executor: Executor, written: Written) -> ToolCall:
    """The call, when it has been executed."""
    with anyio.fail_after(30):
        executor.admit(written.call)
        await executor.execute(written.call)
    return written.call


@asynccontextmanager
async def executing(executor: Executor, *written: Written) -> AsyncIterator[TaskGroup]:
    """Calls that run inside the block, in 30 s at most. They are admitted in order, and executed last first."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for each in written:
                executor.admit(each.call)
            for each in reversed(written):
                tasks.start_soon(executor.execute, each.call)
            yield tasks


async def lines_of(log: Path, count: int) -> list[str]:
    """What tools have noted, when there are so many lines."""
    while True:
        lines = noted(log)
        if len(lines) >= count:
            return lines
        await anyio.sleep(0.005)


def noted(log: Path) -> list[str]:
    """What tools have noted so far."""
    return log.read_text().splitlines() if log.exists() else []


def content(call: ToolCall) -> Any:
    """What the model is told."""
    assert call.result is not None
    return call.result.get("content")
