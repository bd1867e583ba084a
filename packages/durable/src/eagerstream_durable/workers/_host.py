"""Worker's side of a call: reads the input and runs the tool, as the executor would do in its own process."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import anyio
import anyio.abc

from eagerstream import InputAccumulator, JSONObject, Outcome
from eagerstream._support.cancellation import raise_if_cancelled
from eagerstream._support.json_values import dump_json
from eagerstream.inputs import GrowingInput, InputError
from eagerstream.tools import (
    CallHost,
    CallListener,
    Invoked,
    Tool,
    ToolCall,
    ToolErrorCode,
    error_response,
    error_text,
    invoked,
)

from ._crossing import error_as_bytes, loads, response_as_bytes, to_bytes
from ._messages import (
    Begin,
    Cancel,
    Cancelled,
    End,
    Ended,
    HostLine,
    Interrupt,
    LastWord,
    More,
    Progress,
    Refused,
    Started,
)

_MAX_WAITING: Final = 16
"""Maximum number of progress values that wait to be sent. A further value replaces the newest."""
_THREAD_GRACE_S: Final = 0.2
"""Seconds for a cancelled thread to notice the cancellation: a generator's thread does so between two values."""


async def serve(line: HostLine, tool: Tool) -> None:
    """Run one call of a tool, from its `Begin` to its last message.

    It raises none of the tool's exceptions. Cancelling it cancels the tool, and sends nothing more.
    """
    begin = await line.receive()
    if isinstance(begin, Begin):
        await _Hosted(line, tool, begin).run()
    else:  # the call was cancelled before `Begin` arrived
        await line.send(Cancelled())


class _Input:
    """Input of the call, parsed from the executor's messages."""

    def __init__(self, begin: Begin) -> None:
        self._accumulator = InputAccumulator(limits=begin.limits, input_type=GrowingInput)
        self._index = begin.index
        start = {"type": "content_block_start", "index": begin.index, "content_block": begin.block}
        self._accumulator.feed(start)
        self.growing = self._accumulator.inputs[begin.index]
        self.feed(begin.text)
        if begin.interrupted is not None:
            self.growing.interrupt(begin.interrupted)
        if begin.whole is not None:
            self.end(whole=begin.whole)

    def feed(self, text: str) -> None:
        self._accumulator.feed((self._index, text))

    def end(self, *, whole: bool) -> None:
        if whole:
            self._accumulator.feed({"type": "content_block_stop", "index": self._index})
        self._accumulator.close("tool_use")


class _Hosted(CallListener):
    def __init__(self, line: HostLine, tool: Tool, begin: Begin) -> None:
        self._line = line
        self._tool = tool
        self._input = _Input(begin)
        self._call = ToolCall(self._input.growing, begin.turn, begin.limits, run_id=begin.run_id)
        self._context = begin.context
        self._call.listeners = (self,)
        self._values: deque[Any] = deque()
        self._noted = anyio.Event()
        self._running = anyio.CancelScope()

    async def run(self) -> None:
        last: LastWord | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            tasks.start_soon(self._tell_progress)
            try:
                with self._running:
                    last = await self._said()
            except anyio.get_cancelled_exc_class() as error:
                await raise_if_cancelled(error)
                last = _ended(Invoked(error_response(error), raised=True, error=error), self._call)
            tasks.cancel_scope.cancel()
        if last is None:
            self._call.abandon()
            ended = anyio.Event()
            self._call.after_thread(ended.set)
            with anyio.move_on_after(_THREAD_GRACE_S):
                await ended.wait()
            last = Cancelled(at_work=not ended.is_set())
        for value in self._values:
            await self._line.send(Progress(to_bytes(value)))
        await self._line.send(last)

    async def _said(self) -> LastWord:
        call = self._call
        try:
            if self._context is not None:
                call.host = CallHost(call.run_id, loads(self._context))
            arguments = await self._arguments()
        except InputError as error:
            return Refused(str(error), ToolErrorCode.INVALID_PARAM)
        except Exception as error:  # a validator of the tool's own
            response = error_response(error)
            return Refused(error_text(error), response.code or ToolErrorCode.EXECUTION_ERROR, error_as_bytes(error))
        await self._line.send(Started())
        call.start()
        return _ended(await invoked(self._tool, arguments, call), call)

    async def _arguments(self) -> JSONObject:
        """Return the tool's arguments, as soon as the tool can start, or once the input is complete.

        Raises:
            InputError: The input does not fit.
        """
        tool, input = self._tool, self._input.growing
        if input.outcome is None and tool.is_streaming:
            arguments = await tool.begin(input)
            if arguments is not None:
                return arguments
        await input.ended()
        if tool.accepts_invalid_input and input.outcome is Outcome.INVALID:
            return input.wrapped
        if input.value is None:
            raise InputError(f"Error: {input.error}")
        return tool.check(input.value)

    async def _listen(self) -> None:
        """Process the executor's messages while the tool runs."""
        while True:
            try:
                message = await self._line.receive()
            except EOFError:
                message = Cancel()
            match message:
                case More(text):
                    self._input.feed(text)
                case End(whole):
                    self._input.end(whole=whole)
                case Interrupt(reason):
                    self._input.growing.interrupt(reason)
                case Cancel(unless_begun):
                    if not (unless_begun and self._call.ran):
                        self._running.cancel()
                        return
                case Begin():
                    raise AssertionError("a call begins once")

    def call_progressed(self, _: ToolCall, value: Any) -> None:
        if len(self._values) == _MAX_WAITING:
            self._values.pop()
        self._values.append(value)
        self._noted.set()

    async def _tell_progress(self) -> None:
        while True:
            await self._noted.wait()
            self._noted = anyio.Event()
            while self._values:
                with anyio.CancelScope(shield=True):  # a value taken from the queue must be sent
                    await self._line.send(Progress(to_bytes(self._values.popleft())))


def _ended(said: Invoked, call: ToolCall) -> Ended:
    if said.include_data:
        try:
            dump_json(said.response.data)  # the result needs a JSON form, too; the data that crosses always has one
        except (TypeError, ValueError) as fault:
            said = Invoked(error_response(fault), raised=True, error=fault)
    error = None if said.error is None else error_as_bytes(said.error)
    return Ended(response_as_bytes(said.response), said.raised, error, said.include_data, call.blocked_s)
