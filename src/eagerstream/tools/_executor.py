"""Execution of calls: one call in, one `tool_result` out, for every course of events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from eagerstream_wire import INVALID_JSON, JSONObject, Outcome, ToolInput
from eagerstream_wire._checks import check_count
from eagerstream_wire._values import values_in

from .._support.cancellation import raise_if_cancelled
from .._support.slots import Slots
from .._support.terms import CANCELLED_TEXT
from ..inputs._faults import InputError
from ..limits import DEFAULT_LIMITS, Limits
from ._approval import approve
from ._breaker import CircuitBreaker
from ._call import CallState, Invoked, ToolCall
from ._definition import Tool
from ._options import Group
from ._response import ToolErrorCode, ToolResponse, error_response, response_of
from ._toolbox import Toolbox


class Executor(Protocol):
    """Runs calls: in this process, or in the processes of their tools.

    It gets every call when its input is finished, valid or not, and the calls of streaming tools when their input
    starts. It must have each call answered: it reports the start of the tool (`call.start()`), its progress
    (`call.progress(...)`) and its end (`call.answer`, `fail` or `refuse`).
    `call.input.echo_id` is unique in a conversation: a remote side can recognize a repeated call by it. `call.id` comes
    from the peer, and may come again in another response.

    The executor must follow the tool's options for running (`approve`, `group`, `timeout_s`, the number of concurrent
    calls). An executor that asks for approval declares it by an attribute `asks_approval = True`. Others are refused
    tools that require approval.

    If the run has a journal, a call counts as begun once `execute` is called. An executor that hands every call on to
    an `InProcessExecutor` declares `passes_gate = True`: the call then counts as begun right before its tool is called.

    An executor whose tools run in other processes says at the start of a run if they cannot have its context there, by
    a method `fault_of_context(context, tools) -> str | None`.
    """

    def admit(self, call: ToolCall) -> None:
        """Give the call its place among the others. Called in call order, and followed by `execute`.

        A call that need not wait becomes `ADMITTED`: it will run even if the response then ends badly.
        """
        ...

    async def execute(self, call: ToolCall) -> None:
        """Run the call and answer it. If the call was answered before its turn, do nothing.

        Cancelling this cancels the tool, and leaves the call without an answer.
        """
        ...


A = TypeVar("A")
R = TypeVar("R")

_MAX_NAME_CHARS: Final = 128
_QUICK_CHARS: Final = 16 * 1024
"""Inputs up to this length are checked on the event loop, in well under 1 ms; larger ones in a thread."""
_QUICK_VALUES: Final = 1_000
"""The same for an input that came complete, without a text."""


@dataclass(slots=True)
class _Admission:
    """A call on its way to its tool.

    Attributes:
        tool: The tool; None if no tool has the call's name.
        group: The group of the tool.
        arguments: The arguments; None until the input is checked.
        is_early: True if the arguments come from an input that is still being written.
    """

    tool: Tool | None
    group: Group | None
    arguments: JSONObject | None = None
    is_early: bool = False


_Phase: TypeAlias = Callable[[ToolCall, _Admission], Awaitable[None]]


class InProcessExecutor:
    """Runs tools in this process: `async` ones as tasks on the event loop, plain ones in threads.

    Args:
        tools: The tools, with distinct names.
        limits: `tool_timeout_s` bounds each call, unless its tool has its own time limit.
        max_concurrency: Maximum number of concurrent tools. Further calls wait, in the order of `admit`.
        circuit_breaker: Stops the calls of tools that failed too often; none by default.

    Raises:
        UsageError: Two tools share a name, or `max_concurrency` is less than 1.
    """

    asks_approval: Final = True
    passes_gate: Final = True

    def __init__(
        self,
        tools: Toolbox | Iterable[Tool] = (),
        *,
        limits: Limits = DEFAULT_LIMITS,
        max_concurrency: int = 16,
        circuit_breaker: CircuitBreaker | None = None,
    ) -> None:
        check_count("max_concurrency", max_concurrency)
        self._tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self._limits = limits
        self._breaker = circuit_breaker
        self._slots = Slots(max_concurrency)
        self._groups: dict[str, Slots] = {}
        self._admissions: dict[ToolCall, _Admission] = {}

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`. A call that needs no tool is answered here."""
        tool = self._tools.find(call.input.block)  # its own, not `call.tool`: others may have the same names
        group = tool.group if tool else None
        admission = self._admissions[call] = _Admission(tool, group)
        if self._breaker is not None:
            self._refuse_if_open(call, tool, self._breaker)
        is_checked = False
        if call.result is None and call.input.outcome is not None:
            if not 0 < call.input.chars <= _QUICK_CHARS and _is_large(call.input):  # its arguments are checked later
                is_checked = call.input.outcome is Outcome.VALID
            else:
                admission.arguments = self._arguments(call, tool)
                is_checked = admission.arguments is not None
        is_next = True
        if group is not None:
            _note_failure(call, group)
            is_next = self._groups.setdefault(group.name, Slots(1)).enter(call)
        # A call that waits for its group, its input or an approval takes no slot from others.
        if is_checked and is_next and tool is not None and tool.approve is None and self._slots.enter(call):
            call.state = CallState.ADMITTED

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`.

        An invalid input, an unknown tool, arguments that do not fit, a time-out and an exception are answered with an
        error result. Cancelling this cancels the tool and gives back its slot.
        """
        if call not in self._admissions:
            self.admit(call)
        admission = self._admissions.pop(call)
        group = admission.group
        try:
            # Most calls wait for nothing: their tools start without a step through phases that have nothing to do.
            phases: tuple[_Phase, ...] = self._wait_for_slot, self._run_tool
            if group is not None or admission.arguments is None or call.state is not CallState.ADMITTED:
                phases = self._wait_for_group, self._read_arguments, self._ask_approval, *phases
            for phase in phases:
                await phase(call, admission)
                if self._breaker is not None:
                    self._refuse_if_open(call, admission.tool, self._breaker)
                if call.result is not None:
                    break
        except (Exception, SystemExit) as error:
            call.fail(error)
        except anyio.get_cancelled_exc_class() as error:
            await raise_if_cancelled(error)
            call.fail(error)  # the tool caused it itself: a failure like any other
        finally:
            call.abandon()
            self._record(call, admission.tool)
            self._slots.leave(call)
            if group is not None:
                _note_failure(call, group)
                # If it was abandoned in a thread that is still at work, the next call of the group waits for that.
                call.after_thread(partial(self._groups[group.name].leave, call))

    # --- the phases of a call; a phase may answer it, and the next ones are then skipped ----------------------------

    async def _wait_for_group(self, call: ToolCall, admission: _Admission) -> None:
        """Wait for the earlier calls of the group; if one of them failed, the call may have to be skipped."""
        group = admission.group
        if group is None:
            return
        await self._groups[group.name].wait(call)
        failed = call.failed_groups.get(group.name) if group.stop_on_error else None
        if failed is not None and failed.input.index < call.input.index:
            call.refuse(group.skipped.replace("{name}", failed.name))

    async def _read_arguments(self, call: ToolCall, admission: _Admission) -> None:
        """Get the arguments: from the complete input, or as much as a streaming tool needs to start."""
        tool = admission.tool
        if admission.arguments is not None:
            return
        if tool is not None and tool.is_streaming and tool.approve is None:
            admission.arguments = await tool.begin(call.input)
            admission.is_early = admission.arguments is not None and call.input.outcome is None
        if not admission.is_early:
            await call.input.ended()
            admission.arguments = await self._arguments_in_time(call, tool)

    async def _ask_approval(self, call: ToolCall, admission: _Admission) -> None:
        if admission.tool is not None and admission.tool.approve is not None:
            await approve(call, admission.tool, admission.tool.approve)

    async def _wait_for_slot(self, call: ToolCall, admission: _Admission) -> None:
        await self._slots.wait(call)
        if admission.is_early and call.input.outcome is not None:
            # The input was complete before the call's turn: no risk is needed.
            admission.is_early = False
            admission.arguments = await self._arguments_in_time(call, admission.tool)

    async def _run_tool(self, call: ToolCall, admission: _Admission) -> None:
        tool, arguments = admission.tool, admission.arguments
        assert tool is not None  # else the call was answered
        assert arguments is not None
        shield = tool.on_cancel == "finish"  # its time limit bounds it
        if not admission.is_early:
            await self._run(call, tool, arguments, shield=shield)
            return
        with anyio.CancelScope() as kept:
            await self._run_early(call, tool, arguments, kept if shield else None)

    async def _arguments_in_time(self, call: ToolCall, tool: Tool | None) -> JSONObject | None:
        """Do the same as `_arguments`. A large input is checked in a thread, for at most the tool's time limit."""
        if tool is None or not _is_large(call.input) or (call.input.value is None and tool.repair is None):
            return self._arguments(call, tool)
        timeout_s = self._timeout_s(tool)
        told = f"Error: the input could not be checked within {timeout_s:g} seconds"
        with anyio.move_on_after(timeout_s):
            try:
                value = call.input.value
                if value is None:
                    value = self._take_repaired(call, tool, await _in_thread_if_large(call, tool.repaired, call.input))
                return None if value is None else await _in_thread_if_large(call, tool.check, value)
            except InputError as error:
                told = str(error)
        call.refuse(told, code=ToolErrorCode.INVALID_PARAM)
        return None

    def _arguments(self, call: ToolCall, tool: Tool | None) -> JSONObject | None:
        """Return the tool's arguments; None if the call was answered without the tool."""
        accepts = tool is not None and tool.accepts_invalid_input and call.input.outcome is Outcome.INVALID
        if accepts and not call.input.is_damaged:
            return {INVALID_JSON: call.input.raw}  # for any key that the model sees: this is the parameter's name
        value = call.input.value  # None unless it is valid
        if value is None and tool is not None and tool.repair is not None:
            value = self._take_repaired(call, tool, tool.repaired(call.input))
        elif value is None:
            call.refuse()
        if value is None:
            return None
        if tool is None:
            name = call.name if len(call.name) <= _MAX_NAME_CHARS else f"{call.name[:_MAX_NAME_CHARS]}..."
            known = ", ".join(self._tools.names) or "none"
            call.refuse(f"Error: Tool '{name}' not found. Available tools: {known}", code=ToolErrorCode.NOT_FOUND)
            return None
        try:
            return tool.check(value)
        except InputError as error:
            call.refuse(str(error), code=ToolErrorCode.INVALID_PARAM)
        except Exception as error:  # a validator of the tool's own
            call.fail(error)
        return None

    def _take_repaired(self, call: ToolCall, tool: Tool, repaired: JSONObject | None) -> JSONObject | None:
        """Let the call have a repaired input; return None if there is none, or if the guard rejects it."""
        if repaired is None:
            call.refuse()
            return None
        call.repaired = repaired
        reject = tool.rejects({**repaired})  # it has seen the input until its fault
        if reject is not None:
            call.reject(reject.reason)
            return None
        return repaired

    async def _invoke(self, tool: Tool, arguments: JSONObject, call: ToolCall, begin: Callable[[], object]) -> Invoked:
        """Call the tool. Executors for tools in other processes override only this step.

        Args:
            tool: The tool to call.
            arguments: Its arguments.
            call: Receives its progress.
            begin: Must be called at the moment of the tool's call: the call has started, and its time runs.

        Raises:
            Exception: The tool was not reached, or the outcome is unknown.
        """
        begin()
        return await invoked(tool, arguments, call)

    async def _run(self, call: ToolCall, tool: Tool, arguments: JSONObject, *, shield: bool) -> None:
        timeout_s = self._timeout_s(tool)
        with anyio.CancelScope() as scope:

            def begin() -> None:
                call.start()
                if shield:
                    scope.shield = True
                scope.deadline = anyio.current_time() + timeout_s

            try:
                if (gate := call.host.gate) is not None:
                    await gate(call)
                    if call.result is not None:
                        return
                said = await self._invoke(tool, arguments, call, begin)
                _end(call, said)
            except (Exception, SystemExit) as error:
                call.fail(error, include_data=tool.include_data)
        if scope.cancelled_caught:
            _refuse_late(call, timeout_s)

    async def _run_early(
        self, call: ToolCall, tool: Tool, arguments: JSONObject, kept: anyio.CancelScope | None
    ) -> None:
        """Run a tool whose input is still being written. Its time limit counts from the end of the input.

        Args:
            call: The call.
            tool: Its tool.
            arguments: The arguments known so far.
            kept: The scope around this, if a cancellation from outside must not reach a started tool; None otherwise.
        """
        timeout_s = self._timeout_s(tool)
        begun = anyio.Event()

        def begin() -> None:
            call.start()
            if kept is not None:
                kept.shield = True
            begun.set()

        async def limit_from_the_end() -> None:
            await begun.wait()
            await call.input.ended()
            scope.deadline = anyio.current_time() + timeout_s

        said: Invoked | None = None
        try:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(limit_from_the_end)
                    try:
                        if (gate := call.host.gate) is not None:
                            await gate(call)
                            if call.result is not None:
                                tasks.cancel_scope.cancel()
                                return
                        said = await self._invoke(tool, arguments, call, begin)
                    except (Exception, SystemExit) as error:
                        said = Invoked(error_response(error), raised=True, error=error)
                    call.error = said.error
                    self._slots.leave(call)  # others may run
                    # Only the complete input shows whether the arguments are the ones that the model meant.
                    await call.input.ended()
                    tasks.cancel_scope.cancel()
            if said is None:
                _refuse_late(call, timeout_s)
                return
            fault = await _in_thread_if_large(call, tool.fault_of, call.input)
        except anyio.get_cancelled_exc_class():
            if said is not None:  # its work is done, and must not be lost
                is_large = call.input.outcome is None or _is_large(call.input)
                _end_early(call, said, fault=CANCELLED_TEXT if is_large else tool.fault_of(call.input))
            raise
        _end_early(call, said, fault=fault)

    def _refuse_if_open(self, call: ToolCall, tool: Tool | None, breaker: CircuitBreaker) -> None:
        """Answer a call whose circuit is open. Checked again after each wait, because other calls may have failed."""
        if tool is None or call.result is not None:
            return
        refusal = breaker.refusal(tool.name)
        if refusal is not None:
            call.end(Invoked(refusal))

    def _record(self, call: ToolCall, tool: Tool | None) -> None:
        """Count the tool's own results, but not those caused by its input, a guard or a cancellation."""
        if self._breaker is None or tool is None or not call.ran or call.response is None:
            return
        is_right = call.input.outcome is Outcome.VALID or tool.accepts_invalid_input
        if is_right and call.input.interrupted is None:
            self._breaker.record(tool.name, call.response)

    def _timeout_s(self, tool: Tool) -> float:
        return self._limits.tool_timeout_s if tool.timeout_s is None else tool.timeout_s


def _end_early(call: ToolCall, said: Invoked, *, fault: str | None) -> None:
    """Answer a call whose tool had started before its input was complete. Its result counts if the input is right."""
    is_right = call.input.interrupted is None and fault is None and call.input.outcome is Outcome.VALID
    _end(call, said, fault=fault, is_unsure=call.ran and not is_right)  # a tool that did not start has its reason


def _end(call: ToolCall, said: Invoked, *, fault: str | None = None, is_unsure: bool = False) -> None:
    try:
        call.end(said, fault=fault, is_unsure=is_unsure)
    except Exception as error:  # the API would not accept its content
        call.fail(error, include_data=said.include_data)


async def _in_thread_if_large(call: ToolCall, look: Callable[[A], R], at: A) -> R:
    """Read an input without blocking the event loop for long."""
    if not _is_large(call.input):
        return look(at)
    return await anyio.to_thread.run_sync(look, at, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))


def _is_large(input: ToolInput) -> bool:
    """Return True if checking an input takes more than about a millisecond."""
    if input.chars:
        return input.chars > _QUICK_CHARS
    return values_in(input.partial, _QUICK_VALUES) > _QUICK_VALUES


def _note_failure(call: ToolCall, group: Group) -> None:
    """Record the first failed call of the group, in call order: a call can fail before its turn comes."""
    if call.is_error and call.state is not CallState.WITHDRAWN:
        failed = call.failed_groups.get(group.name, call)
        call.failed_groups[group.name] = min(failed, call, key=lambda each: each.input.index)


def _refuse_late(call: ToolCall, timeout_s: float) -> None:
    text = f"TimeoutError: the tool did not finish within {timeout_s:g} seconds"
    call.refuse_unfinished(text, code=ToolErrorCode.TIMEOUT)


async def invoked(tool: Tool, arguments: JSONObject, call: ToolCall) -> Invoked:
    """Call a tool's function with checked arguments. Only cancellation is raised."""
    try:
        returned = await tool.invoke(arguments, call)
        is_response = isinstance(returned, ToolResponse)  # the data of anything else is its text
        return Invoked(response_of(returned), include_data=tool.include_data and is_response)
    except (Exception, SystemExit) as error:
        return Invoked(error_response(error), raised=True, error=error, include_data=tool.include_data)
