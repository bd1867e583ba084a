"""How a call reaches its tool: one call in, one `tool_result` out, whatever happens in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Protocol

import anyio
import anyio.lowlevel

from ..errors import UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..wire import Outcome
from .call import CallState, ToolCall
from .definition import Group, Tool
from .faults import InputError
from .invoke import invoke
from .response import ToolErrorCode, ToolResponse
from .results import error_response, error_text, response_of
from .toolbox import Toolbox


class Executor(Protocol):
    """Runs calls: in this process, or wherever their tools are.

    It is given every call whose input is finished, valid or not, and those of streaming tools when their input begins.
    It sees to it that each is answered: it tells the call when its tool starts (`call.start()`), how far it is
    (`call.progress(...)`), and how it ended (`call.answer`, `fail`, `refuse` or `refuse_invalid`). `call.id` is unique,
    and is the key by which a remote side can tell a call that it has seen.
    """

    def admit(self, call: ToolCall) -> None:
        """Give the call its place among the others; called in call order, and followed by `execute`.

        A call that need not wait becomes `ADMITTED`: it will run even where the reply then ends badly.
        """
        ...

    async def execute(self, call: ToolCall) -> None:
        """Run the call and answer it; one that has been answered when its turn comes is left alone.

        Cancelling it cancels the tool, and leaves the call without an answer.
        """
        ...


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


class _Place:
    """Where a call waits for its turn: first in its tool's group, then for one of the slots that all share."""

    def __init__(self, slots: _Slots, group: _Slots | None, *, at_once: bool) -> None:
        self._slots = slots
        self._group = group
        self._group_ticket = group.reserve() if group else None
        # A call that waits for its group, its input or an approval does not keep a slot from others.
        self._ticket = slots.reserve() if at_once and self._is_next_of_group else None

    @property
    def _is_next_of_group(self) -> bool:
        return self._group_ticket is None or self._group_ticket.is_set()

    @property
    def is_free(self) -> bool:
        """It is the call's turn."""
        return self._ticket is not None and self._ticket.is_set()

    async def in_group(self) -> None:
        """Wait until no earlier call of the group is left."""
        if self._group_ticket is not None:
            await self._group_ticket.wait()

    async def in_slot(self) -> None:
        """Wait for a slot."""
        if self._ticket is None:
            self._ticket = self._slots.reserve()
        await self._ticket.wait()

    def leave_slot(self) -> None:
        """The tool has ended: others may run."""
        if self._ticket is not None:
            self._slots.give_back(self._ticket)
            self._ticket = None

    def leave(self) -> None:
        """Make room for the next."""
        self.leave_slot()
        if self._group is not None and self._group_ticket is not None:
            self._group.give_back(self._group_ticket)


class InProcessExecutor:
    """Runs tools in this process: `async` ones as tasks on the event loop, plain ones in threads.

    Args:
        tools: Each with a name of its own.
        limits: `tool_timeout_s` bounds each call, unless its tool says otherwise.
        max_concurrency: Tools that run at once; further calls wait their turn, in the order of `admit`.

    Raises:
        UsageError: Two tools share a name, or `max_concurrency` is less than 1.
    """

    def __init__(
        self, tools: Toolbox | Iterable[Tool] = (), *, limits: Limits = DEFAULT_LIMITS, max_concurrency: int = 16
    ) -> None:
        if max_concurrency < 1:
            raise UsageError(f"max_concurrency must be at least 1, not {max_concurrency}")
        self._tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self._limits = limits
        self._slots = _Slots(max_concurrency)
        self._groups: dict[str, _Slots] = {}
        self._failed: dict[tuple[str, int], str] = {}  # by group and turn: the tool whose call failed first
        self._places: dict[ToolCall, _Place] = {}

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`."""
        place = self._places[call] = self._place(call)
        if place.is_free:
            call.state = CallState.ADMITTED

    def _place(self, call: ToolCall) -> _Place:
        tool = self._find(call)
        group = tool.group if tool else None
        at_once = tool is not None and tool.approve is None and call.input.outcome is Outcome.VALID
        return _Place(self._slots, self._groups.setdefault(group.name, _Slots(1)) if group else None, at_once=at_once)

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`.

        An input that is not valid, an unknown tool, arguments that do not fit, a time-out and an exception are
        answered with an error result.
        """
        place = self._places.pop(call, None) or self._place(call)
        tool = self._find(call)
        group = tool.group if tool else None
        try:
            await place.in_group()
            if call.result is None:
                await self._execute_in_turn(call, tool, group, place)
        except Exception as error:
            call.fail(error)
        except anyio.get_cancelled_exc_class() as error:
            # Where it is the run that is cancelled, this passes it on. Else the tool came by it on its own (on asyncio
            # whoever awaits a cancelled task does), and it is a failure like any other.
            await anyio.lowlevel.checkpoint_if_cancelled()
            call.fail(error)
        finally:
            if group and call.is_error:
                self._failed.setdefault((group.name, call.turn), call.name)
            place.leave()

    async def _execute_in_turn(self, call: ToolCall, tool: Tool | None, group: Group | None, place: _Place) -> None:
        failed = self._failed.get((group.name, call.turn)) if group and group.stop_on_error else None
        if group and failed is not None:
            call.refuse(group.skipped.replace("{name}", failed))
            return
        early = await tool.begin(call.input) if tool is not None and tool.is_streaming else None
        if early is None:
            await call.input.finished()
        is_early = early is not None and call.input.outcome is None
        arguments = early if is_early else self._arguments(call, tool)
        if arguments is None or tool is None or call.result is not None or not await _approved(call, tool):
            return
        await place.in_slot()
        if is_early and call.input.outcome is not None:  # it was whole before its turn came: nothing need be risked
            is_early = False
            arguments = self._arguments(call, tool)
        if arguments is None or call.result is not None:
            return
        if is_early:
            await self._run_early(call, tool, arguments, place)
        else:
            await self._run(call, tool, arguments)

    def _arguments(self, call: ToolCall, tool: Tool | None) -> dict[str, object] | None:
        """What the tool is called with; None where the call was answered without it."""
        accepts = tool is not None and tool.accepts_invalid_input and call.input.outcome is Outcome.INVALID
        if accepts:
            return call.input.wrapped
        if call.input.outcome is not Outcome.VALID or call.input.value is None:
            call.refuse_invalid()
            return None
        if tool is None:
            known = ", ".join(self._tools.names) or "none"
            text = f"Error: Tool '{call.name}' not found. Available tools: {known}"
            call.refuse(text, code=ToolErrorCode.NOT_FOUND)
            return None
        try:
            return tool.check(call.input.value)
        except InputError as error:
            call.refuse(str(error), code=ToolErrorCode.INVALID_PARAM)
            return None

    async def _run(self, call: ToolCall, tool: Tool, arguments: dict[str, object]) -> None:
        timeout_s = self._timeout_s(tool)
        call.start()
        with anyio.move_on_after(timeout_s) as scope:
            try:
                returned = await tool.invoke(arguments, call)
                call.answer(returned, include_data=tool.include_data)
            except Exception as error:
                call.fail(error, include_data=tool.include_data)
        if scope.cancelled_caught:
            _refuse_late(call, timeout_s)

    async def _run_early(self, call: ToolCall, tool: Tool, arguments: dict[str, object], place: _Place) -> None:
        """Run a tool whose input is still written; the time that it has counts from the end of the input."""
        timeout_s = self._timeout_s(tool)
        call.start()
        response = ToolResponse.success("")
        raised = False
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_limit_from_the_end, call, scope, timeout_s)
                try:
                    response = response_of(await tool.invoke(arguments, call))
                except Exception as error:
                    response, raised = error_response(error), True
                place.leave_slot()
                # Whether what it was given is what the model meant shows only when the input is whole.
                await call.input.finished()
                tasks.cancel_scope.cancel()
        if scope.cancelled_caught:
            _refuse_late(call, timeout_s)
            return
        fault = tool.fault_of(call.input)
        if call.rejected is None and fault is None and call.input.outcome is Outcome.VALID:
            call.settle(response, raised=raised, include_data=tool.include_data)
        else:
            call.end_early(response, raised=raised, fault=fault)

    def _timeout_s(self, tool: Tool) -> float:
        return self._limits.tool_timeout_s if tool.timeout_s is None else tool.timeout_s

    def _find(self, call: ToolCall) -> Tool | None:
        return self._tools.find(call.block)


async def _limit_from_the_end(call: ToolCall, scope: anyio.CancelScope, timeout_s: float) -> None:
    await call.input.finished()
    scope.deadline = anyio.current_time() + timeout_s


def _refuse_late(call: ToolCall, timeout_s: float) -> None:
    text = f"TimeoutError: the tool did not finish within {timeout_s:g} seconds"
    call.refuse(text, code=ToolErrorCode.TIMEOUT)


async def _approved(call: ToolCall, tool: Tool) -> bool:
    """Ask whether the call may run; one that may not is answered."""
    if tool.approve is None:
        return True
    answer: object = f"Not executed: nobody approved the call within {tool.approve_timeout_s:g} seconds."
    with anyio.move_on_after(tool.approve_timeout_s):
        try:
            answer = await invoke(partial(tool.approve, call), None)
        except Exception as error:
            answer = f"Not executed: the call could not be approved: {error_text(error)}"
    if answer is True:
        return call.result is None
    refused = answer if isinstance(answer, str) and answer else "Not executed: the call was not approved."
    call.refuse(refused, code=ToolErrorCode.PERMISSION_DENIED)
    return False
