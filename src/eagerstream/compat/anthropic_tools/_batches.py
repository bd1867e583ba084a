"""`BatchExecutor`: the calls of one reply run all, or none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio

from ...streaming import GrowingInput
from ...tools import InProcessExecutor, Tool, ToolCall, ToolResponse, tool
from ._arguments import CallCheck
from ._history import result_content


class BatchExecutor:
    """Runs calls in this process, once the reply that they are in has ended, and only where none of them is faulty.

    A call that is admitted waits for `judge`, or until it is answered otherwise, as where its reply breaks off. So no
    call has begun while a reply is still coming, and one that broke off can always be sent for again.

    Args:
        check: Knows the tools, and what is wrong with a call.
    """

    def __init__(self, check: CallCheck) -> None:
        self._check = check
        self._runs = InProcessExecutor(self._without_schema(name, each) for name, each in check.runnable.items())
        self._waiting: dict[GrowingInput, ToolCall] = {}
        self._judged: dict[ToolCall, anyio.Event] = {}

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`: here it has no place yet."""
        self._waiting[call.input] = call
        self._judged[call] = anyio.Event()

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_when, call.answered.wait, tasks.cancel_scope)
                tasks.start_soon(_when, self._judged[call].wait, tasks.cancel_scope)
        finally:
            del self._judged[call]
            self._waiting.pop(call.input, None)
        if call.result is None:
            await self._runs.execute(call)

    def judge(self, inputs: Sequence[GrowingInput], fault: str | None) -> None:
        """A reply has ended: its calls run now, or are answered with what is wrong with the first that is faulty.

        Args:
            inputs: All inputs of the reply.
            fault: See `CallCheck.first_fault`.
        """
        for input in sorted(inputs, key=lambda each: each.index):
            call = self._waiting.pop(input, None)
            if call is None:
                continue
            if fault is not None:
                call.refuse(fault)
            self._judged[call].set()

    def _without_schema(self, name: str, runnable: Tool) -> Tool:
        """The tool for calls that were looked at before: texts of them are converted, which the schema would refuse."""

        async def use(given: Mapping[str, Any], call: ToolCall) -> Any:
            returned = await runnable.invoke(self._check.arguments_of(name, given), call)
            return returned if isinstance(returned, ToolResponse) else result_content(returned)

        return tool(use, definition={"name": name, "input_schema": {"type": "object"}})


async def _when(happens: Callable[[], Awaitable[object]], scope: anyio.CancelScope) -> None:
    await happens()
    scope.cancel()
