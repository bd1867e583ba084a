"""`EarlyCalls`: tools that start while the response is still being written, under somebody else's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, get_args, get_origin
from uuid import uuid4

from eagerstream_wire import (
    INVALID_JSON,
    AssistantMessage,
    InputDelta,
    InputEvent,
    InputFragment,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageEvent,
    MessageStart,
    MessageStop,
    ParserFactory,
    PartialJSON,
    Ping,
    ServerToolUse,
    WireDecoder,
)
from eagerstream_wire._assistant_message import empty_message
from eagerstream_wire._decoding import to_wire_event
from eagerstream_wire._message_inputs import check_invalid_key

from .._support.callbacks import call_all
from .._support.hosted_tasks import HostedTasks
from ..errors import ProtocolError, UsageError
from ..inputs._growing_input import GrowingInput
from ..limits import DEFAULT_LIMITS, Limits
from ..tools._breaker import CircuitBreaker
from ..tools._call import CallHost, CallListener, ToolCall
from ..tools._definition import Tool
from ..tools._executor import Executor
from ..tools._foreign import NO_CONTEXT, ContextT, GivenTool
from ..tools._toolbox import Toolbox
from ._callable_tools import callable_tools
from ._policy import BROKEN_OFF, Begins, Ending, ending_of
from ._runner import CallRunner
from ._turn import Turn

_log = logging.getLogger(__name__)

_Events: TypeAlias = list[InputEvent[GrowingInput]]
_INPUT_EVENTS: Final = (InputDelta, InputStart, InputStop, ServerToolUse)
_OUR_EVENTS: Final = tuple(get_origin(kind) or kind for kind in get_args(MessageEvent))


class EarlyCalls:
    """Runs the calls of responses that somebody else's loop reads, each as early as `run` would.

        async with EarlyCalls(tools) as calls:
            async for event in events_of_the_response:
                calls.feed(event)
            for call in await calls.finish():
                send(call.result)

    It is for agent frameworks, which have requests, a history and a loop of their own. One object serves any number of
    responses, one after the other; `message_start` starts the next. If a response starts anew before it has ended, its
    first part is void: the calls are cancelled. `eagerstream.events(source, calls=calls)` feeds them by itself:
    they are an `Observer` of its stream.

    Leaving the block, or cancellation inside it, cancels the tools that still run. Their calls are answered as
    cancelled.

    Args:
        tools, context: As for `run`.
        executor: Runs the calls. None: the tools run in this process.
        max_concurrency, circuit_breaker: For the executor in this process.
        limits, parser, invalid_key: As for `stream`.
        run_id: Id of the framework's run, not empty. Tools keep state under it, such as the variables of code, for any
            number of `EarlyCalls`. None: the state ends with this object.
        when_over: With `run_id`, takes functions to call at the end of the framework's run, which end that state. None:
            the end is not known, and a tool discards the state that was not used for the longest time.
        on_start: Called with each call whose tool is called.
        on_progress: Called with a call and the progress that its tool reports.
        on_stop: Called with each call that has been answered.

    Raises:
        UsageError: A tool cannot be run, two share a name, an executor does not ask for approval, `run_id` is empty, or
            `when_over` has no `run_id`.
    """

    def __init__(
        self,
        tools: Sequence[GivenTool[ContextT]] = (),
        *,
        context: ContextT = NO_CONTEXT,
        executor: Executor | None = None,
        max_concurrency: int = 16,
        circuit_breaker: CircuitBreaker | None = None,
        limits: Limits = DEFAULT_LIMITS,
        parser: ParserFactory = PartialJSON,
        invalid_key: str = INVALID_JSON,
        run_id: str | None = None,
        when_over: Callable[[Callable[[], object]], object] | None = None,
        on_start: Callable[[ToolCall], object] | None = None,
        on_progress: Callable[[ToolCall, Any], object] | None = None,
        on_stop: Callable[[ToolCall], object] | None = None,
    ) -> None:
        check_invalid_key(invalid_key)
        if run_id == "" or (run_id is None and when_over is not None):
            raise UsageError("run_id must be the id of a run")
        toolbox, self._executor = callable_tools(
            tools,
            executor,
            limits=limits,
            max_concurrency=max_concurrency,
            circuit_breaker=circuit_breaker,
            context=context,
        )
        self._limits = limits
        self._assembler = MessageAssembler(
            parser=parser, limits=limits, input_type=GrowingInput, invalid_key=invalid_key
        )
        self._host = _FrameworkRun(run_id, when_over, context)
        self._listeners = (_Callbacks(on_start, on_progress, on_stop),)
        self._tasks: HostedTasks | None = None
        self._runner: CallRunner | None = None
        self._decoder: WireDecoder | None = None  # of the response whose bytes are fed
        self._message: AssistantMessage | None = None  # of somebody else's events
        self._made = _FrameworkCalls(toolbox, self._assembler)
        self.wants_deltas: bool = toolbox.has_guards
        """See `Observer`: a guard looks at each `InputDelta`."""
        self._failure: Exception | None = None  # for `finish` to raise
        self._told_violations = 0
        self._number = 0
        self._has_begun = False
        self._turn: Turn
        self._begin_turn()

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError("these calls have been entered before")
        self._tasks = HostedTasks("EarlyCalls", self._tasks_ended)
        await self._tasks.__aenter__()
        # A cancelled call does not wait for its input here: the framework may never feed the rest of it.
        self._runner = CallRunner(
            self._executor, self._tasks.group, deadline=self._tasks.deadline, waits_for_input=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        # The inputs end first, so that tools that read them are interrupted and can report their work. That may raise
        # (a callback, an id that comes twice), and the tasks must end all the same. The runner closes last, when no
        # task can answer a call any more.
        try:
            if not self._has_ended:
                self._end_reply(broken=True)
        finally:
            try:
                await self._tasks.leave(error, is_idle=self._runner is not None and self._runner.is_idle)
            finally:
                call_all(self._host.closers)

    def _tasks_ended(self) -> None:
        if self._runner is not None:
            self._runner.close()

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools, as calls have them."""
        return self._made.tools.names

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the current response, or of the last one; in the order of their blocks once it has ended."""
        return self._turn.calls

    @property
    def message(self) -> AssistantMessage:
        """The assistant message so far, from what was fed. The ids of calls are those that came.

        Of the events of `eagerstream.events`, it is the message of the last `MessageStart` or `MessageStop`.
        """
        return self._assembler.message if self._message is None else self._message

    @property
    def violations(self) -> Sequence[str]:
        """The peer's violations of the protocol, in words that quote no model; the first 100."""
        return self._assembler.violations

    def get(self, id: str) -> ToolCall | None:
        """Return the call with this id; None if there is none. Calls of earlier responses are kept while they run.

        A framework that runs tools itself gives them the ids: `await call.answered.wait()`, and `call.response` is the
        tool's answer.
        """
        return self._made.by_id.get(id)

    def cancel(self, id: str) -> None:
        """Cancel the call with this id: it does not start, or its tool is cancelled.

        Do nothing if the call has ended, or if there is none.
        """
        # A framework may refuse a call, or rewrite it after the response. Then its tool must neither continue with the
        # old arguments nor start with them at the end of the response. An answer keeps a call from starting, and the
        # runner cancels a tool that runs.
        call = self._made.by_id.get(id)
        if call is None:
            return
        if not call.ran:
            call.withdraw()
        if self._runner is not None:
            self._runner.cancel(call)

    def feed(self, event: bytes | Mapping[str, Any] | InputFragment | object) -> list[InputEvent[GrowingInput]]:
        """Take a part of a response, and start the calls that may start: a tool runs at the next `await`.

        Args:
            event: A wire event, as for `MessageAssembler.feed`; a piece of the body, as bytes; or an event of
                `eagerstream.events` or `stream`. Do not mix them in one response.

        Returns:
            The events of the inputs that follow from it.

        Raises:
            LimitError: As `MessageAssembler.feed`.
            UsageError: This is no wire event, or the block was not entered.
            ProtocolError: Two calls of a response have the same id, or the bytes are no stream of events.
            Exception: A function that is called about a call has failed in the task of the call.
        """
        # Not `async`: a framework may hand on its events from a plain callback, and waiting here would slow its reader.
        self._check_tasks()
        if isinstance(event, bytes | bytearray | memoryview):
            self._decoder = self._decoder or WireDecoder(
                max_event_bytes=self._limits.max_event_bytes, max_values=self._limits.max_values
            )
            return self._feed_all(self._feed, self._decoder.feed(bytes(event)))
        if isinstance(event, _OUR_EVENTS):
            return self._follow(event)
        if isinstance(event, Ping) or hasattr(event, "output"):
            return []  # the text of an `OutputDelta` was in the event before it
        return self._feed(to_wire_event(event))

    def take(self, events: Sequence[object]) -> None:
        """See `Observer`: a stream that these calls observe feeds them. What `feed` would raise, `finish` raises."""
        try:
            self._feed_all(self.feed, events)
        except Exception as error:
            self._failure = self._failure or error

    def end(self, _: object) -> None:
        """See `Observer`: the stream has ended."""
        if self._tasks is not None and not self._has_ended:
            self._end_reply(broken=True)

    def _feed_all(self, feed: Callable[[Any], _Events], events: Iterable[object]) -> _Events:
        """Feed each event, also those after one that fails, and then raise the first error."""
        found: _Events = []
        failure: Exception | None = None
        for event in events:
            try:
                found += feed(event)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return found

    def _feed(self, data: Mapping[str, Any]) -> _Events:
        if not isinstance(data.get("type"), str):
            raise UsageError("a wire event has a type, for example 'content_block_delta': pass the events as they came")
        is_first, self._has_begun = not self._has_begun, True
        match data:
            # The very first one starts the turn that the constructor made. Without that turn, `finish` before the first
            # event would have nothing to end (test_finish_before_the_first_event).
            case {"type": "message_start"} if not is_first or self._has_ended:
                return self._begin_reply(data)
            case {"type": "message_stop"}:
                return self._end_reply(data)
            case {"type": "content_block_start"} if self._has_ended:
                # Some peers send no `message_start` (test_responses_without_a_beginning).
                self._begin_turn()
            case _:
                pass
        return self._take(self._assembler.feed(data))

    def _follow(self, event: Any) -> _Events:
        """Take an event that somebody else's reader has made, with an input that grows by itself."""
        is_first, self._has_begun = not self._has_begun, True
        if isinstance(event, MessageStart) and (not is_first or self._has_ended):
            events = self._void()
            self._begin_turn()
        else:
            events = self._take([event])
        if isinstance(event, MessageStart | MessageStop):
            self._message = event.message
        if isinstance(event, MessageStop) and not self._has_ended:
            self._end(self._made.ending_of(self._turn, event.stop_reason))
        return events

    async def finish(self) -> list[ToolCall]:
        """Wait until each call of the response has its result, and return the calls in the order of their blocks.

        A response without an end (`message_stop` or a stop reason) counts as broken off: no further call of it starts.
        Cancelling this cancels no tool: it can be called again.

        Raises:
            ProtocolError: As `feed`. Call this again for the calls.
            Exception: As `feed`. All calls have been cancelled then.
        """
        self._check_tasks()
        self._decoder = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        # A stop reason is enough: the calls are complete then, and a framework may not hand on `message_stop`.
        if not self._has_ended:
            self._end_reply(broken=self._assembler.stop_reason is None)
        for call in self._turn.calls:
            await call.answered.wait()
        self._check_tasks()
        return self._turn.calls

    def _check_tasks(self) -> None:
        if self._tasks is None:
            raise UsageError("enter the calls first: async with EarlyCalls(...) as calls")
        if self._tasks.failure is not None:
            raise self._tasks.failure
        if self._tasks.has_ended and not self._tasks.is_left:
            raise UsageError("the tasks of these calls were cancelled, as happens when the event loop ends")

    @property
    def _has_ended(self) -> bool:
        return self._turn.ending is not None

    def _begin_turn(self) -> None:
        self._number += 1
        self._message = None
        self._made.begin(self._runner)
        # A guard cannot cut the response: the connection is the framework's, and it reads on.
        self._turn = Turn(
            self._number,
            self._made,
            executor=self._executor,
            limits=self._limits,
            host=self._host,
            listeners=self._listeners,
            can_be_cut=False,
        )

    def _begin_reply(self, event: Mapping[str, Any]) -> _Events:
        events = self._void()
        self._begin_turn()
        return events + self._take(self._assembler.feed(event))

    def _void(self) -> _Events:
        """Drop a response that has not ended: another one begins."""
        events: _Events = []
        if not self._has_ended:
            # The response starts again. The turn is stopped before its inputs are closed, because the end of an input
            # would start its call. Calls are withdrawn before they are cancelled, because only its answer keeps a call
            # from starting whose task has not run yet.
            assert self._runner is not None
            self._turn.is_stopped = True
            events = self._take(self._assembler.close(cleanly=False))
            self._turn.withdraw(Begins.NONE)
            for call in self._turn.calls:
                # The same ids may come again in the new beginning.
                self._made.by_id.pop(call.id, None)
                if call in self._runner:
                    self._runner.cancel(call)
                else:
                    self._runner.end(call)
        return events

    def _end_reply(self, stop: Mapping[str, Any] | None = None, *, broken: bool = False) -> _Events:
        events = self._take(self._assembler.feed(stop) if stop else self._assembler.close(cleanly=not broken))
        if self._assembler.violation_count > self._told_violations:
            self._told_violations = self._assembler.violation_count
            _log.warning("a response broke the protocol: %s", self._assembler.violations[-1])
        if not self._has_ended:
            ending = BROKEN_OFF if broken else self._made.ending_of(self._turn, self._assembler.stop_reason)
            self._end(ending)
        return events

    def _end(self, ending: Ending) -> None:
        """End the turn: held calls start now, or never."""
        assert self._runner is not None
        # Without content, and never settled: the history is the framework's.
        self._turn.end(empty_message(), ending)
        for call in self._turn.release(ending.begins):
            self._runner.start(call)
        # The runner reports the calls that it started. These were answered without it.
        for call in self._turn.calls:
            if call.result is not None and call not in self._runner:
                self._runner.end(call)

    def _take(self, events: list[MessageEvent[GrowingInput]]) -> _Events:
        assert self._runner is not None
        self._runner.take(self._turn.take(events))
        # Raised after the other calls of the event have started: no call is lost behind a repeated id.
        failure, self._made.failure = self._made.failure, None
        if failure is not None:
            raise failure
        return [event for event in events if isinstance(event, _INPUT_EVENTS)]


class _FrameworkCalls:
    """Makes the calls of a framework's responses (`CallMaker`). The history is the framework's.

    Attributes:
        tools: The tools of the calls.
        by_id: The calls of the current response, and those of earlier ones that still run.
        failure: To be raised once the other calls of the event have started.
    """

    def __init__(self, tools: Toolbox, assembler: MessageAssembler[GrowingInput]) -> None:
        self.tools = tools
        self._assembler = assembler
        self.by_id: dict[str, ToolCall] = {}
        self.failure: ProtocolError | None = None
        self._doubles: set[GrowingInput] = set()  # their id is another's, and the error was raised

    def begin(self, runner: CallRunner | None) -> None:
        """Begin a response."""
        self._doubles.clear()
        # Earlier calls stay while they run, because the framework may still ask for them. No others stay: one object
        # may serve any number of responses (test_calls_of_earlier_responses_are_not_kept).
        self.by_id = {id: call for id, call in self.by_id.items() if runner and call in runner}

    def make_call(self, turn: Turn, input: GrowingInput, tool: Tool | None) -> ToolCall | None:
        """See `CallMaker`. The history is the framework's: id and name are echoed as they came, so both are needed."""
        # `run` repairs such a call. Here no stand-in can help: the result would name a call that the framework's
        # history does not have.
        if not all(isinstance(input.block.get(name), str) and input.block[name] for name in ("id", "name")):
            _log.warning("a call without an id or a name is left out: it could not be answered")
            return None
        # This method may run several times for an input: at its start if its tool streams, for its guard, and at its
        # end. The error is raised the first time only (test_an_id_twice_while_tools_run).
        if input in self._doubles:
            return None
        if input.repeats_id:
            self._doubles.add(input)
            what = f"two calls have the id {input.id!r:.80}: their results could not be told apart"
            self.failure = self.failure or ProtocolError(what)
            return None
        # Even an id that the API would refuse: the framework echoes the id that came
        # (test_an_id_that_the_api_would_refuse). The id of an input that another reader made is that of the reader.
        if self._assembler.inputs.get(input.index) is input:
            input.echo_id = input.id
        call = self.by_id[input.id] = turn.add(input, tool)
        return call

    def ending_of(self, _: Turn, stop_reason: str | None) -> Ending:
        """See `CallMaker`."""
        # The framework decides what follows a cut. Here complete calls run, as its loop may want their results, and
        # nothing is sent again.
        return ending_of(stop_reason, on_truncated="report", forbids_retry=True)

    def void(self, turn: Turn) -> None:
        """See `CallMaker`."""

    def settled(self, turn: Turn) -> None:
        """See `CallMaker`."""


class _FrameworkRun(CallHost):
    """The run of a framework."""

    def __init__(
        self, run_id: str | None, when_over: Callable[[Callable[[], object]], object] | None, deps: object
    ) -> None:
        super().__init__(uuid4().hex if run_id is None else run_id, deps)
        self.closers: list[Callable[[], object]] = []
        self._when_over = self.closers.append if run_id is None else when_over

    def when_over(self, callback: Callable[[], object]) -> None:
        """See `CallHost`."""
        if self._when_over is not None:
            self._when_over(callback)


class _Callbacks(CallListener):
    """Tells the functions of the user what happens to the calls."""

    def __init__(
        self,
        on_start: Callable[[ToolCall], object] | None,
        on_progress: Callable[[ToolCall, Any], object] | None,
        on_stop: Callable[[ToolCall], object] | None,
    ) -> None:
        self._on_start = on_start
        self._on_progress = on_progress
        self._on_stop = on_stop

    def call_started(self, call: ToolCall) -> None:
        """See `CallListener`."""
        if self._on_start is not None:
            self._on_start(call)

    def call_progressed(self, call: ToolCall, value: Any, /) -> None:
        """See `CallListener`."""
        if self._on_progress is not None:
            self._on_progress(call, value)

    def call_ended(self, call: ToolCall) -> None:
        """See `CallListener`."""
        if self._on_stop is not None:
            self._on_stop(call)
