"""`run`: the loop. Send a request, run tools while the response comes, send their results, until the model stops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

import anyio
import anyio.lowlevel

from ..errors import APIError, EagerStreamError, ProtocolError, StreamInterrupted
from ..streaming import EventFeed, FeedEnd, GrowingInput, InputOptions, StreamEvent
from ..streaming._event_buffer import EventBuffer
from ..streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS, buffer_for, taken
from ..streaming._reading import read_reply
from ..tools._call import CallListener, ToolCall
from ..tools._foreign import ForeignTool
from ..transports import Reply, RequestBody, as_transport
from ..transports._eager_fallback import EagerFallback, EagerForm
from ..wire import InputDelta, MessageAssembler, MessageState, Outcome
from ..wire._accumulator import check_invalid_key
from ..wire._events import Message
from ._conversation import LOST_START, Conversation
from ._events import Restarted, RunEvent, ToolProgress, ToolStart, ToolStop, TurnStart, TurnStop
from ._latency import RunLatency
from ._marks import RunMarks
from ._options import CALL_DEFAULTS, RunOptions
from ._policy import BROKEN_OFF, CANCELLED, CUT_BY_GUARD, Begins
from ._result import RunResult, RunStatus
from ._runner import CallRunner
from ._settle import answer
from ._turn import Turn


def run(
    client: Any,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[Mapping[str, Any]] | RunResult,
    tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
    **options: Unpack[RunOptions],
) -> Run:
    """Run a conversation until the model stops asking for tools.

        async with eagerstream.run(client, tools=[get_weather], model=..., max_tokens=..., messages=[...]) as run:
            async for event in run:
                ...
        print(run.result.status, run.result.messages)

    A call starts at the end of its own content block, beside the others, while the reply goes on; earlier where its
    tool has streaming parameters, later where it says `start="message"` or wants approval. Each call gets exactly one
    result; calls whose input is not JSON are answered with an `INVALID_JSON` error without being run.

    Args:
        client: As for `stream`.
        model, max_tokens: As in the API.
        messages: As in the API, or the result of an earlier run, to go on from: its history and its container.
        tools: Functions decorated with `@tool`, tools of other libraries (anything with `to_dict()` and `call()`: those
            of the anthropic package, its helpers for MCP servers), and definitions of tools that the API runs, see
            `eagerstream.builtin.server_tools`.
        options: See `RunOptions`: those of the loop (`LoopOptions`), of its calls (`CallOptions`), of inputs and events
            (`InputOptions`, `FeedOptions`), and everything else that the API takes (`RequestParameters`). A
            `tool_choice` that forces a call (`any`, `tool`) holds for the first request; after that it is `auto`, or
            the model could never end its turn.

    Raises:
        UsageError: The client is of the wrong kind, a tool cannot be run, two share a name, or a setting is out of
            range.
        HistoryError: The API would refuse the messages or the tools; see `validate_history`.
    """
    rest: dict[str, Any] = dict(options)
    inputs, feed = taken(rest, INPUT_DEFAULTS), taken(rest, FEED_DEFAULTS)
    check_invalid_key(inputs["invalid_key"])
    conversation = Conversation(model=model, max_tokens=max_tokens, messages=messages, tools=tools, **rest)
    transport = EagerFallback(as_transport(client), client, feed["eager_fallback"])
    marks = RunMarks(clock=feed["clock"], max_concurrency=rest.get("max_concurrency", CALL_DEFAULTS["max_concurrency"]))
    return Run(transport, conversation, inputs, buffer_for(feed, conversation.limits), marks)


_MAX_VIOLATIONS: Final = 1_000


_ONLY_DELTAS: Final = frozenset({InputDelta})


class _Unwanted(Exception):
    """Not an error: the rest of the response is not wanted."""


_LAST_WORDS_S: Final = 5.0
"""How long an error waits for tools whose input broke off."""


class Run(EventFeed[RunEvent], CallListener):
    """What `run` gives: an async context manager, and an async iterator over `RunEvent`s.

    The iteration (or `finish`) raises what `MessageStream` raises; `result` is there all the same, and is the error's
    `result`, too. Leaving the block early, or after an error, cancels the reply and the tools, except those with
    `on_cancel="finish"`, which it waits for; the history keeps what was done. `cancel` does the same from within, and
    keeps a call whose input was being written.
    """

    def __init__(
        self,
        transport: EagerFallback,
        conversation: Conversation,
        inputs: InputOptions,
        events: EventBuffer[RunEvent],
        marks: RunMarks,
    ) -> None:
        super().__init__(events)
        self._transport = transport
        self._conversation = conversation
        self._inputs = inputs
        self._marks = marks
        self.observe(marks)  # the first: others may ask it
        self._violations: list[str] = []  # of earlier responses
        self._violation_count = 0
        self._assembler: MessageAssembler[GrowingInput] | None = None  # of the last response
        self._is_reading = False  # that response
        self._has_response = False  # to the last request
        self._request_id: str | None = None  # of that response
        self._scope: anyio.CancelScope | None = None  # of the pause before a request, or of the reading
        self._turn: Turn | None = None
        self._runner: CallRunner | None = None
        self._starts_tools = False  # the reader gives way to tools that are about to start
        self._next_request_at = -math.inf
        self._is_cancelled = False

    @property
    def result(self) -> RunResult:
        """As of now; final once the block was left, and where nothing failed, once the iteration has ended."""
        return self._conversation.result

    @property
    def client(self) -> object:
        """What the requests are sent with, as it was given."""
        return self._transport.client

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._conversation.model

    @property
    def turn(self) -> int:
        """The number of the turn under way, or of the last one; 0 before the first."""
        return self._turn.number if self._turn is not None else 0

    @property
    def violations(self) -> Sequence[str]:
        """The violations of the protocol by the peer so far, in words that quote no model; the first 1,000."""
        under_way = self._assembler.violations if self._assembler is not None and self._is_reading else ()
        return [*self._violations, *under_way][:_MAX_VIOLATIONS]

    @property
    def eager(self) -> EagerForm | None:
        """As `MessageStream.eager`, of the last request that was accepted."""
        return self._transport.eager

    @property
    def marks(self) -> RunMarks:
        """When what happened, as it is taken down; see `latency` for what follows from it."""
        return self._marks

    @property
    def latency(self) -> RunLatency:
        """When what happened, as of now: times to the first fragment, field and tool, gaps, what was won, JSON."""
        return RunLatency(self._marks, model=self.model, eager=self.eager, status=self.result.status.value)

    def cancel(self) -> None:
        """End the run: status `CANCELLED`, nothing is raised, and what is left of it still comes as events.

        The connection is closed, and tools are cancelled, except those with `on_cancel="finish"`. The history keeps the
        reply up to its last call, also one whose input was being written: it is echoed as `{"INVALID_JSON": raw}`, and
        answered as cut off. From the event loop only; does nothing once the run has ended.
        """
        if self._is_cancelled or self._ended.is_set():
            return
        self._is_cancelled = True
        if self._turn is not None:
            self._turn.is_stopped = True
            if self._turn.ending is not None:
                self._turn.withdraw(Begins.NONE)
        if self._scope is not None:
            self._scope.cancel()
        if self._runner is not None:
            self._runner.stop()

    async def _read(self) -> None:
        assert self._tasks is not None  # entered: this runs in one of its tasks
        self._runner = CallRunner(self._conversation.executor, self._tasks)
        try:
            while not (self._conversation.ended or self._is_cancelled):
                await self._take_turn()
        except Exception as error:
            self._conversation.abandon(self._message, RunStatus.ERROR)
            self._mark(error)
            await self._hear_last_words()
            raise
        if self._is_cancelled:
            self._conversation.abandon(self._message, RunStatus.CANCELLED)
        elif (failure := self._conversation.failure) is not None:
            self._mark(failure)
            raise failure

    def _mark(self, error: Exception) -> None:
        """The run ends with this error: each tells of the other."""
        if isinstance(error, EagerStreamError):
            error.result = self.result
            self.result.error = error.to_dict()
        else:
            self.result.error = {"type": type(error).__name__, "text": str(error)}

    async def _take_turn(self) -> None:
        """One request and its tools."""
        conversation = self._conversation
        with anyio.CancelScope() as self._scope:
            await anyio.sleep_until(self._next_request_at)
        if self._is_cancelled:
            return
        request = conversation.request()
        is_retry = conversation.retries
        turn = self._turn = conversation.begin()
        turn.listener = self
        if not is_retry:
            self.put(TurnStart(turn.number))
        assembler = MessageAssembler(
            limits=conversation.limits,
            input_type=GrowingInput,
            messages=conversation.result.messages,
            **self._inputs,
        )
        self._assembler, self._is_reading, self._starts_tools = assembler, True, False
        self._has_response, self._request_id = False, None
        self._needs_deltas = turn.wants_deltas
        self._set_observers(self._observers)
        scope = self._scope = anyio.CancelScope()
        if self._is_cancelled:  # by an observer of this turn's start
            scope.cancel()
        error: Exception | None = None
        try:
            # Not in a function of its own: each frame around the reading costs every fragment.
            await read_reply(
                self._transport,
                request,
                assembler,
                self,
                limits=conversation.limits,
                one_message=True,
                scope=scope,
            )
        except (_Unwanted, APIError, ProtocolError) as caught:
            error = caught
        finally:
            self._is_reading = False
            self._violations += assembler.violations[: _MAX_VIOLATIONS - len(self._violations)]
            self._violation_count += assembler.violation_count
        try:
            await self._end_turn(turn, assembler, self._interruption(turn, assembler, error))
        finally:
            error = None  # its traceback keeps this frame, and a cycle would keep the run

    def _interruption(
        self, turn: Turn, assembler: MessageAssembler[GrowingInput], error: Exception | None
    ) -> APIError | ProtocolError | None:
        """The error with which the response broke off; None if it did not.

        Raises:
            ProtocolError: The body was no stream of events: asking again is of no use.
        """
        match error:
            case _Unwanted() if turn.voided is not None:
                what = "the peer began its reply anew"
                return StreamInterrupted(what, request_id=self._request_id, message=turn.voided)
            case ProtocolError() if not self._has_response:
                raise error
            case APIError() | ProtocolError():
                return error
            case _:
                return ProtocolError(LOST_START) if assembler.lost_fragments and not turn.is_stopped else None

    async def _end_turn(
        self, turn: Turn, assembler: MessageAssembler[GrowingInput], error: APIError | ProtocolError | None
    ) -> None:
        """The response has ended, or broke off: wait for its calls, and settle the turn."""
        conversation = self._conversation
        message = _message_of(turn, assembler)
        delay_s = 0.0
        if self._is_cancelled and assembler.state is not MessageState.STOPPED:
            conversation.end(turn, message, CANCELLED)
        elif error is not None:
            delay_s = conversation.interrupt(turn, message, error)
            self._next_request_at = anyio.current_time() + delay_s
        else:
            conversation.end(turn, message, CUT_BY_GUARD if turn.is_cut else None)
        assert self._runner is not None
        if turn.is_discarded:
            for call in turn.calls:
                self._runner.cancel(call)
            self.put(Restarted(turn.number, "interrupted" if error else "max_tokens", error, delay_s))
            return
        assert turn.ending is not None
        begins = Begins.NONE if self._is_cancelled else turn.ending.begins
        for call in turn.release(begins):
            self._runner.start(call)
        for call in turn.calls:
            await call.answered.wait()
        self._marks.settle(runs_held=turn.ending.begins is Begins.ALL and not self._is_cancelled)
        conversation.close_turn()
        for call in turn.calls:
            self._runner.end(call)  # also those that never started
        self.put(TurnStop(turn.number, turn.message, turn.calls, error))

    async def _hear_last_words(self) -> None:
        """Something failed: nothing more begins. What runs has until the block is left, and then the turn is closed.

        Tools that were reading their input have a moment to say what they did.
        """
        if self._turn is not None:
            self._turn.withdraw(BROKEN_OFF.begins)
            with anyio.move_on_after(_LAST_WORDS_S):
                for call in self._turn.calls:
                    if call.input.outcome is Outcome.INCOMPLETE:
                        await call.answered.wait()

    @property
    def _message(self) -> Message:
        if self._turn is None or self._assembler is None:
            return {"role": "assistant", "content": []}
        return _message_of(self._turn, self._assembler)

    def _how_it_ended(self) -> FeedEnd:
        result = self.result
        error = {"type": str(result.error["type"]), "text": str(result.error["text"])} if result.error else None
        return FeedEnd(result.status.value, result.turns, result.usage, error, self._violation_count)

    def _close(self) -> None:
        is_closed = self._turn is None or self._turn.is_closed
        if not (self._conversation.ended and is_closed) and self.result.status is not RunStatus.ERROR:
            self._conversation.abandon(self._message, RunStatus.CANCELLED)
        self._conversation.close_turn()  # its tools have been cancelled by now
        for call in self.result.calls:
            answer(call)  # also those of turns that were discarded
        if self._runner is not None:
            self._runner.close()
            for call in self._turn.calls if self._turn else ():
                self._runner.end(call)
        # No cycle is left: whoever keeps the result keeps nothing else.
        self._runner = self._assembler = self._scope = None
        if self._turn is not None:
            self._turn.listener = None

    # --- `CallListener` -----------------------------------------------------------------------------------------------

    def call_admitted(self, call: ToolCall) -> None:
        """See `CallListener`."""
        self._marks.admit(call, self._conversation.tools.find(call.block))

    def call_started(self, call: ToolCall) -> None:
        """See `CallListener`."""
        self.put(ToolStart(call))

    def call_progressed(self, call: ToolCall, value: Any) -> None:
        """See `CallListener`."""
        self.put(ToolProgress(call, value))

    def call_ended(self, call: ToolCall) -> None:
        """See `CallListener`."""
        self.put(ToolStop(call))

    # --- `Sink` -------------------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """See `Sink.room`. A tool that starts does so before the next read."""
        if self._starts_tools:
            self._starts_tools = False
            await anyio.lowlevel.checkpoint()  # whoever sees the end of the input may yet cancel the run
            await anyio.lowlevel.checkpoint()  # the tool starts
        await super().room()

    def sending(self, request: RequestBody) -> None:
        """See `Sink.sending`."""
        self.show_sending(request)

    def opened(self, reply: Reply) -> None:
        """See `Sink.opened`."""
        self._marks.opened()
        self._has_response, self._request_id = True, reply.request_id

    def take(self, events: list[StreamEvent]) -> bool:
        """See `Sink.take`; calls start in here."""
        turn, runner, assembler = self._turn, self._runner, self._assembler
        assert turn is not None
        assert runner is not None
        assert assembler is not None
        if not turn.looks_at_deltas and _ONLY_DELTAS.issuperset(map(type, events)):  # nearly all events of a stream
            return self.put_all(events)
        step = turn.take(events)
        must_wait = self.put_all(step.events)
        if step.follows:
            runner.take(step)
            self._starts_tools = self._starts_tools or bool(step.started)
        # Of a message that is whole there is nothing left to save.
        if turn.voided is not None or (turn.is_cut and assembler.state is not MessageState.STOPPED):
            raise _Unwanted
        return must_wait or self._starts_tools

    def ended(self) -> None:
        """See `Sink.ended`."""
        self._marks.ended()


def _message_of(turn: Turn, assembler: MessageAssembler[GrowingInput]) -> Message:
    """The assistant message as far as it has come and counts."""
    return assembler.message if turn.voided is None else assembler.voided or turn.voided
