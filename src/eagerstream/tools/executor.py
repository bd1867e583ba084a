"""How a call reaches its tool: one call in, one `tool_result` out, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import anyio

from ..errors import ToolError
from ..growing import GrowingInput
from ..limits import DEFAULT_LIMITS, Limits
from ..wire import Outcome
from ..wire.events import Block
from .definition import Tool
from .results import content_of, error_text, invalid_result, tool_result
from .schema import InputError


class CallState(Enum):
    """The life of a call, in order; a call that is never run ends in `ANSWERED` without having been `RUNNING`."""

    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"


@dataclass(slots=True, eq=False)
class ToolCall:
    """One `tool_use` block and what became of it.

    Attributes:
        input: The call's input, finished.
        turn: Number of the turn that it belongs to, from 1.
        ran: The tool's function was called.
        result: The `tool_result` block; None until there is one.
    """

    input: GrowingInput
    turn: int
    state: CallState = CallState.WAITING
    ran: bool = False
    result: Block | None = field(default=None, repr=False)  # may hold what does not belong in a log
    answered: anyio.Event = field(default_factory=anyio.Event, repr=False)

    @property
    def id(self) -> str:
        """The API's id of the call."""
        return self.input.id

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.input.name

    @property
    def is_error(self) -> bool:
        """The call was answered with an error."""
        return bool(self.result and self.result.get("is_error"))

    def answer(self, result: Block) -> None:
        """Settle the call; the first answer counts."""
        if self.result is None:
            self.result = result
            self.state = CallState.ANSWERED
            self.answered.set()


class InProcessExecutor:
    """Runs tools as tasks on the event loop of the run.

    Args:
        tools: By name.
        limits: `tool_timeout_s` bounds each call.
        max_concurrency: Tools that run at once; further calls wait their turn, in call order.
    """

    def __init__(
        self, tools: Mapping[str, Tool], *, limits: Limits = DEFAULT_LIMITS, max_concurrency: int = 16
    ) -> None:
        self._tools = tools
        self._timeout_s = limits.tool_timeout_s
        self._limiter = anyio.CapacityLimiter(max_concurrency)

    async def execute(self, call: ToolCall, *, started: Callable[[], object] = lambda: None) -> None:
        """Run the call's tool and answer the call; `started` is called when the tool is about to run.

        An input that is not valid, an unknown tool, arguments that do not fit, a time-out and an exception are
        answered with an error result. Cancelling it cancels the tool and leaves the call without an answer.
        """
        call.answer(await self._result(call, started))

    async def _result(self, call: ToolCall, started: Callable[[], object]) -> Block:
        if call.input.outcome is not Outcome.VALID or call.input.value is None:
            return invalid_result(call.input)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            text = f"Error: Tool '{call.name}' not found. Available tools: {known}"
            return tool_result(call.id, text, is_error=True)
        try:
            arguments = tool.check(call.input.value)
        except InputError as error:
            return tool_result(call.id, str(error), is_error=True)
        async with self._limiter:
            call.state = CallState.RUNNING
            call.ran = True
            started()
            try:
                with anyio.fail_after(self._timeout_s):
                    return tool_result(call.id, content_of(await tool(**arguments)))
            except ToolError as error:
                return tool_result(call.id, str(error), is_error=True)
            except TimeoutError as error:
                text = str(error) or f"the tool did not finish within {self._timeout_s:g} seconds"
                return tool_result(call.id, f"TimeoutError: {text}", is_error=True)
            except Exception as error:
                return tool_result(call.id, error_text(error), is_error=True)
