"""How a call reaches its tool: one call in, one `tool_result` out, whatever happens in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import anyio
import anyio.lowlevel

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


class _Slots:
    """So many at once, first come, first served. Whoever reserves first runs first, whichever task starts first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    def reserve(self) -> anyio.Event:
        """A ticket: set when it is its holder's turn. Each is to be given back."""
        ticket = anyio.Event()
        if self._free:
            self._free -= 1
            ticket.set()
        else:
            self._waiting.append(ticket)
        return ticket

    def give_back(self, ticket: anyio.Event) -> None:
        """The holder is done, or does not want its turn any more."""
        if not ticket.is_set():
            self._waiting.remove(ticket)
        elif self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class InProcessExecutor:
    """Runs tools as tasks on the event loop of the run.

    Args:
        tools: By name.
        limits: `tool_timeout_s` bounds each call.
        max_concurrency: Tools that run at once; further calls wait their turn, in the order of `admit`.
    """

    def __init__(
        self, tools: Mapping[str, Tool], *, limits: Limits = DEFAULT_LIMITS, max_concurrency: int = 16
    ) -> None:
        self._tools = tools
        self._timeout_s = limits.tool_timeout_s
        self._slots = _Slots(max_concurrency)
        self._tickets: dict[ToolCall, anyio.Event] = {}

    def admit(self, call: ToolCall) -> None:
        """Give the call its place in the queue; `execute` must follow."""
        self._tickets[call] = self._slots.reserve()

    async def execute(self, call: ToolCall, *, started: Callable[[], object] = lambda: None) -> None:
        """Run the call's tool and answer the call; `started` is called when the tool is about to run.

        An input that is not valid, an unknown tool, arguments that do not fit, a time-out and an exception are
        answered with an error result. Cancelling it cancels the tool and leaves the call without an answer.
        """
        ticket = self._tickets.pop(call, None) or self._slots.reserve()
        try:
            await ticket.wait()
            result = await self._result(call, started)
        except Exception as error:
            result = tool_result(call.id, error_text(error), is_error=True)
        except anyio.get_cancelled_exc_class() as error:
            # Where it is the run that is cancelled, this passes it on. Else the tool came by it on its own (on asyncio
            # whoever awaits a cancelled task does), and it is a failure like any other.
            await anyio.lowlevel.checkpoint_if_cancelled()
            result = tool_result(call.id, error_text(error), is_error=True)
        finally:
            self._slots.give_back(ticket)
        call.answer(result)

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
            call.state = CallState.RUNNING
            call.ran = True
            started()
            with anyio.move_on_after(self._timeout_s):
                return tool_result(call.id, content_of(await tool(**arguments)))
            text = f"TimeoutError: the tool did not finish within {self._timeout_s:g} seconds"
            return tool_result(call.id, text, is_error=True)
        except (InputError, ToolError) as error:
            return tool_result(call.id, str(error), is_error=True)
