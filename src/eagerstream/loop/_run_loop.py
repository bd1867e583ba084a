"""`run`: the loop. Request, run the tools beside the stream, send their results, until a stop reason ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import anyio

from ..errors import EagerStreamError
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._event_buffer import BufferMode, EventBuffer
from ..streaming._event_feed import EventFeed
from ..streaming._growing_input import GrowingInput
from ..streaming._marks import Clock
from ..streaming._observers import FeedEnd
from ..tools._breaker import CircuitBreaker
from ..tools._call import ToolCall
from ..tools._executor import Executor
from ..tools._foreign import ForeignTool
from ..tools._results import NOT_RUN
from ..transports import as_transport
from ..transports._eager_fallback import EagerFallback, EagerForm
from ..wire import INVALID_JSON, Outcome, ParserFactory, PartialJSON
from ..wire._accumulator import check_invalid_key
from ..wire._events import Message
from ._conversation import MAX_CONTINUATIONS, MAX_RESTARTS, RESTART_DELAY_S, BeforeRequest, Conversation
from ._events import Restarted, RunEvent, ToolProgress, ToolStart, ToolStop, TurnStart, TurnStop
from ._latency import RunLatency
from ._marks import RunMarks
from ._policy import BROKEN_OFF, CANCELLED, CUT_BY_GUARD, Begins, OnInterrupt, OnTruncated
from ._reply import IncomingReply
from ._result import RunResult, RunStatus
from ._settle import answer
from ._turn import Turn, execute


def run(
    client: Any,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[Mapping[str, Any]] | RunResult,
    tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
    eager: bool = True,
    eager_fallback: Literal["auto"] | None = "auto",
    executor: Executor | None = None,
    before_request: BeforeRequest | None = None,
    max_turns: int | None = None,
    max_continuations: int = MAX_CONTINUATIONS,
    max_consecutive_tool_errors: int | None = None,
    on_truncated: OnTruncated = "stop",
    max_tokens_cap: int | None = None,
    on_interrupt: OnInterrupt = "resume",
    max_restarts: int = MAX_RESTARTS,
    restart_delay_s: float = RESTART_DELAY_S,
    cache: Literal["auto"] | None = None,
    max_concurrency: int = 16,
    circuit_breaker: CircuitBreaker | None = None,
    limits: Limits = DEFAULT_LIMITS,
    parser: ParserFactory = PartialJSON,
    invalid_key: str = INVALID_JSON,
    buffer: BufferMode = "merge",
    min_interval_s: float = 0.0,
    min_chars: int = 0,
    clock: Clock = time.monotonic,
    **parameters: Any,
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
        eager: As for `stream`.
        eager_fallback: As for `stream`, for each request; `Run.eager` tells.
        before_request: Called before each request, see `BeforeRequest`. It may change the model, the tools,
            `max_tokens`, `system`, `tool_choice` and other parameters of that request. A request that is sent again
            because the response broke off keeps the changes.
        executor: What runs the calls; the tools in this process where it is None. With one, tools whose schema the API
            brings (`bash_20250124`) may be bare definitions: it is to know them.
        max_turns: Replies at most. The calls of the last turn still run and are answered in the history; status
            `LIMIT`. None for no bound.
        max_continuations: How often in a row a reply is gone on from that was paused (status `PAUSED` beyond it), or
            cut and reported (`TRUNCATED`).
        max_consecutive_tool_errors: Turns in a row in which every call failed, at most; status `LIMIT`. The model
            usually mends a call in two or three tries. None for no bound.
        on_truncated: What a reply cut by `max_tokens` leads to. `"stop"`: the run ends. `"retry"`: where nothing of it
            has begun to run, it is sent for once more with twice the tokens; else as `"report"`. `"report"`: the model
            is told which call was cut, gets the results of the others, and goes on; without a call the run ends.
            `"raise"`: it ends with a `LimitError`.
        max_tokens_cap: The most tokens that a retry asks for.
        on_interrupt: What a reply leads to that breaks off: a lost connection, silence, an `error` event, nonsense, no
            end; and a request refused for the time being (429, 529, ...), unless the client retries these itself.
            `"resume"`: where nothing of it has begun to run, the same request is sent again (`Restarted`); where
            something has, running tools finish, the calls that were whole become the turn, and the run goes on with
            their results (`TurnStop` with the `error`). No call runs twice. `"raise"`: the run ends with the error.
        max_restarts: How often in a row it may be interrupted; then the error is raised.
        restart_delay_s: The pause before the first restart, in seconds; doubled each time up to 30 s, less up to half
            of it by chance, and added to what the peer asks for (`retry-after`, up to `Limits.max_retry_after_s`).
        cache: `"auto"` places cache breakpoints that move along with the history, within the API's limit of four.
        max_concurrency: Tools that run at once.
        circuit_breaker: Leaves tools alone for a while that fail again and again; it can be asked how each tool is. A
            call of such a tool is answered with an error at once. None for none.
        clock: Tells the time to `Run.latency`, in seconds; never falling.
        limits, parser, invalid_key, buffer, min_interval_s, min_chars: As for `stream`.
        parameters: As for `stream`. A `tool_choice` that forces a call (`any`, `tool`) holds for the first request;
            after that it is `auto`, or the model could never end its turn.

    Raises:
        UsageError: The client is of the wrong kind, a tool cannot be run, two share a name, or a setting is out of
            range.
        HistoryError: The API would refuse the messages or the tools; see `validate_history`.
    """
    check_invalid_key(invalid_key)
    conversation = Conversation(
        model=model,
        max_tokens=max_tokens,
        messages=messages,
        tools=tools,
        eager=eager,
        executor=executor,
        before_request=before_request,
        max_turns=max_turns,
        max_continuations=max_continuations,
        max_consecutive_tool_errors=max_consecutive_tool_errors,
        on_truncated=on_truncated,
        max_tokens_cap=max_tokens_cap,
        on_interrupt=on_interrupt,
        max_restarts=max_restarts,
        restart_delay_s=restart_delay_s,
        cache=cache,
        limits=limits,
        max_concurrency=max_concurrency,
        circuit_breaker=circuit_breaker,
        **parameters,
    )
    events: EventBuffer[RunEvent] = EventBuffer(
        mode=buffer, min_interval_s=min_interval_s, min_chars=min_chars, maximum=limits.max_waiting_events
    )
    transport = EagerFallback(as_transport(client), client, eager_fallback)
    marks = RunMarks(clock=clock, max_concurrency=max_concurrency)
    return Run(transport, conversation, events, limits=limits, parser=parser, invalid_key=invalid_key, marks=marks)


_MAX_VIOLATIONS: Final = 1_000

_LAST_WORDS_S: Final = 5.0
"""How long an error waits for tools whose input broke off."""


class Run(EventFeed[RunEvent]):
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
        events: EventBuffer[RunEvent],
        *,
        limits: Limits,
        parser: ParserFactory,
        invalid_key: str,
        marks: RunMarks,
    ) -> None:
        super().__init__(events)
        self._transport = transport
        self._conversation = conversation
        self._limits = limits
        self._parser = parser
        self._invalid_key = invalid_key
        self._marks = marks
        self._violations: list[str] = []
        self._violation_count = 0
        self._reading: IncomingReply | None = None  # whose violations are not among them yet
        self._turn: Turn | None = None
        self._reply: IncomingReply | None = None
        self._pause: anyio.CancelScope | None = None  # before a request is sent again
        self._running: dict[ToolCall, anyio.CancelScope] = {}
        self._expected: dict[GrowingInput, ToolCall | None] = {}  # for whose ends tasks wait, and what they then run
        self._stopped: set[ToolCall] = set()  # whose end was told
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
        under_way = self._reading.violations if self._reading is not None else ()
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
        if self._turn is not None and self._turn.ending is not None:
            self._turn.withdraw(Begins.NONE)
        if self._pause is not None:
            self._pause.cancel()
        if self._reply is not None:
            self._reply.stop()
        self._give_up(self._running)

    def _give_up(self, calls: Iterable[ToolCall]) -> None:
        """Nobody wants the results of these calls: cancel those that run."""
        for call in calls:
            if call in self._running:
                self._running[call].cancel()

    async def _read(self) -> None:
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
        with anyio.CancelScope() as self._pause:
            await anyio.sleep_until(self._next_request_at)
        if self._is_cancelled:
            return
        request = conversation.request()
        is_retry = conversation.retries
        turn = self._turn = conversation.begin()
        if not is_retry:
            self.put(TurnStart(turn.number))
        reply = self._reply = IncomingReply(
            turn,
            conversation,
            self,
            expect=self._expect,
            admit=self._admit,
            give_up=self._give_up,
            parser=self._parser,
            limits=self._limits,
            invalid_key=self._invalid_key,
            clock=self._marks.clock,
        )
        self._marks.begin(turn.number, reply.marks)
        self._reading = reply
        try:
            error = await reply.read(self._transport, request)
        finally:
            self._reading = None
            self._violations += reply.violations[: _MAX_VIOLATIONS - len(self._violations)]
            self._violation_count += reply.violation_count
        delay_s = 0.0
        if self._is_cancelled and not reply.is_whole:
            conversation.end(turn, reply.message, CANCELLED)
        elif error is not None:
            delay_s = conversation.interrupt(turn, reply.message, error)
            self._next_request_at = anyio.current_time() + delay_s
        else:
            conversation.end(turn, reply.message, CUT_BY_GUARD if reply.is_cut else None)
        if turn.is_discarded:
            self._marks.discard()
            self._give_up(turn.calls)
            self.put(Restarted(turn.number, "interrupted" if error else "max_tokens", error, delay_s))
            return
        await self._wait_for_calls(turn, reply.held)
        assert turn.ending is not None
        self._marks.settle(runs_held=turn.ending.begins is Begins.ALL and not self._is_cancelled)
        conversation.close_turn()
        for call in turn.calls:
            self._tell_stop(call)  # also of those that never began
        self.put(TurnStop(turn.number, turn.message, turn.calls, error))

    async def _wait_for_calls(self, turn: Turn, held: Sequence[ToolCall]) -> None:
        """Until each call that may run has its result; those that were held begin now, or never."""
        assert turn.ending is not None
        begins = Begins.NONE if self._is_cancelled else turn.ending.begins
        turn.withdraw(begins)
        for call in held:
            if call.result is None and begins is Begins.ALL:
                self._admit(call)
            else:
                call.withdraw(NOT_RUN)
        for call in turn.calls:
            await call.answered.wait()

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
        return self._reply.message if self._reply else {"role": "assistant", "content": []}

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
            call.let_go()
        for call in self._turn.calls if self._turn else ():
            self._tell_stop(call)
        self._reply = None  # which holds this run

    def _expect(self, input: GrowingInput) -> None:
        """A call is likely to begin at the end of this input: the task that is to run it is there by then."""
        assert self._tasks is not None  # entered: this runs in one of its tasks
        self._expected[input] = None
        self._tasks.start_soon(self._execute_expected, input)

    async def _execute_expected(self, input: GrowingInput) -> None:
        try:
            await input.settled()
        finally:
            call = self._expected.pop(input)
            if call is not None:  # where this is cancelled, too: the call gives its place back
                await self._execute(call)
            del self  # as in `_execute`

    def _admit(self, call: ToolCall) -> None:
        call.on_start = self._on_start
        call.on_progress = self._on_progress
        self._marks.admit(call, self._conversation.tools.find(call.block))
        self._conversation.executor.admit(call)
        if call.input in self._expected:
            self._expected[call.input] = call
        else:
            assert self._tasks is not None  # entered: this runs in one of its tasks
            self._tasks.start_soon(self._execute, call)

    def _on_start(self, call: ToolCall) -> None:
        self._marks.start(call)
        self.put(ToolStart(call))

    def _on_progress(self, call: ToolCall, value: Any) -> None:
        self._marks.progress(call)
        self.put(ToolProgress(call, value))

    async def _execute(self, call: ToolCall) -> None:
        if self._is_cancelled:  # since it was admitted: it must not begin, and gives its place back
            await call.input.settled()
            answer(call)
        with anyio.CancelScope() as self._running[call]:
            try:
                await execute(self._conversation.executor, call)
            finally:
                del self._running[call]
        if call.result is None:  # it was cancelled
            await call.input.settled()
            answer(call)
        self._tell_stop(call)
        # The call keeps its tool's error, and the error keeps frames. From Python 3.12 on,
        # a frame keeps its callers, too: a result would keep the run.
        del self

    def _tell_stop(self, call: ToolCall) -> None:
        if call not in self._stopped:
            self._stopped.add(call)
            self._marks.end(call)
            self.put(ToolStop(call))
