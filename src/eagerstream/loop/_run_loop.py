"""`RunLoop`: send a request, run tools while the response comes, send their results, until the model stops."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, Literal
from uuid import uuid4

import anyio
import anyio.lowlevel

from .._support.callbacks import call_all
from ..errors import APIError, EagerStreamError, ProtocolError
from ..streaming import EventFeed, FeedEnd, GrowingInput, InputOptions, StreamEvent
from ..streaming._event_buffer import EventBuffer
from ..streaming._reading import Sink, read_reply
from ..transports import Reply
from ..transports._eager_fallback import EagerFallback
from ..wire import InputDelta, MessageAssembler, MessageState, Outcome
from ..wire._assistant_message import AssistantMessage, empty_message
from ..wire._type_variables import OutputT
from ._compaction import Summarize, as_history
from ._conversation import Conversation
from ._events import MessageDelivered, Restarted, RunEvent, TurnStart, TurnStop
from ._interruption import Unwanted, interruption, message_of
from ._keeper import Keeper
from ._marks import CallEvents, RunMarks
from ._message_thread import MessageThread
from ._policy import BROKEN_OFF, CANCELLED, CUT_BY_GUARD, CUT_BY_MESSAGE, Begins
from ._restoring import OpenTurn, answers_of, events_of
from ._result import RunResult, RunStatus
from ._runner import CallRunner
from ._settle import answer
from ._sub_runs import ParentCall
from ._turn import Turn

_log = logging.getLogger(__name__)

# A response keeps 100 at most, but a run may have many responses, and a hostile peer must not fill the memory.
MAX_VIOLATIONS: Final = 1_000
_ONLY_DELTAS: Final = frozenset({InputDelta})
_WARNED_OF: Final = (RunStatus.LIMIT, RunStatus.TRUNCATED, RunStatus.UNKNOWN, RunStatus.ERROR)
_LAST_WORDS_S: Final = 5.0
"""Seconds for which an error waits for tools whose input broke off."""


class RunLoop(EventFeed[RunEvent], Generic[OutputT]):
    """The turns of a run. `Run` adds what its users may ask and do."""

    def __init__(
        self,
        transport: EagerFallback,
        conversation: Conversation,
        inputs: InputOptions,
        events: EventBuffer[RunEvent],
        marks: RunMarks,
        *,
        thread: MessageThread,
        run_id: str | None = None,
    ) -> None:
        super().__init__(events)
        self.id: str = uuid4().hex if run_id is None else run_id
        """The id of the run."""
        self._closers: list[Callable[[], object]] = []
        self.parent: ParentCall | None = None
        """The call of another run whose tool entered this run; None if there is none, and before the run is entered."""
        self._keeper = Keeper()
        self._open_turn: OpenTurn | None = None
        self._transport = transport
        self._conversation = conversation
        self._inputs = inputs
        self._marks = marks
        self._thread = thread
        # The first observer: others ask the marks for the times of the same events. Every run has marks, since they add
        # no CPU that can be measured (0.962 times that of a run without them).
        self.observe(marks)
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
        self._has_ended_itself = False  # what is said from then on changes nothing
        self._is_pausing = False  # before a request
        self._summarize: Summarize | None = None  # before the next request
        self._is_cut_by_message = False  # the last response

    @property
    def result(self) -> RunResult[OutputT]:
        """The result as of now. It is final when the block was left; without an error, when the iteration has ended."""
        return self._conversation.result

    async def _read(self) -> None:
        assert self._tasks is not None  # entered: this runs in one of its tasks
        self._runner = CallRunner(self._conversation.executor, self._tasks.group, deadline=self._tasks.deadline)
        keeper = self._keeper
        try:
            await keeper.take_messages()  # before anything starts: the run may have been cancelled meanwhile
            keeper.start(self._tasks.group)
            if self._open_turn is not None:
                open_turn, self._open_turn = self._open_turn, None
                await self._salvage(open_turn)
            while True:
                await keeper.take_messages()
                if self._is_cancelled:
                    break
                if self._conversation.ended:
                    if not await self._goes_on():
                        self._has_ended_itself = True
                        break
                elif keeper.leaves_here():
                    self._is_cancelled = True
                    break
                else:
                    await self._take_turn()
            await keeper.all_written()
        except Exception as error:
            # The result before the waiting: if the block is left in that time, the result must have the error
            # (test_leaving_while_last_words_are_said).
            self._conversation.abandon(self._message, RunStatus.ERROR)
            self._mark(error)
            await self._hear_last_words()
            raise
        finally:
            keeper.stop()
        # `cancel` raises nothing, not even an error that the run was about to raise (test_cancel_with_a_failure_ahead).
        if keeper.error is not None:
            self._conversation.abandon(self._message, RunStatus.ERROR)
            self._mark(keeper.error)
            raise keeper.error
        if self._is_cancelled and not self._has_ended_itself:
            self._conversation.abandon(self._message, self._given_up)
        elif (failure := self._conversation.failure) is not None:
            self._mark(failure)
            raise failure

    def _mark(self, error: Exception) -> None:
        """Let the error that ends the run carry its result, and the result the error."""
        # The iteration may be far from the code that catches the error, and a saved result from both. The result has
        # plain data, because an exception keeps the frames that raised it, and cannot be saved.
        if isinstance(error, EagerStreamError):
            error.result = self.result
            self.result.error = error.to_dict()
        else:
            self.result.error = {"type": type(error).__name__, "text": str(error)}

    async def _goes_on(self) -> bool:
        """Wait until the consumer has heard the last word, and return True if the user says something to it."""
        conversation = self._conversation
        # A run that nobody reads ends: an observer may wait for that (test_the_list_says_where_somebody_is_asked).
        if conversation.is_idle and self._is_used:
            self._is_pausing = True
            with anyio.CancelScope() as self._scope:
                await self._buffer.asked()
            self._is_pausing = False
        return conversation.is_idle and conversation.steering.prolongs and not self._is_cancelled

    async def _take_turn(self) -> None:
        """Send one request, and run the tools of its response."""
        conversation = self._conversation
        # A scope of its own: `cancel` must end the pause at once, and not this task
        # (test_cancel_while_it_waits_to_ask_again).
        with anyio.CancelScope() as self._scope:
            self._is_pausing = True
            await anyio.sleep_until(self._next_request_at)
        self._is_pausing = False
        if self._summarize is not None and not (self._is_cancelled or conversation.steering.is_paused):
            summarize, self._summarize = self._summarize, None
            with anyio.CancelScope() as self._scope:
                conversation.replace_history(as_history(await summarize(conversation.result.messages)))
        if self._is_cancelled:
            return
        # Before anything is shown of the turn: it may raise, and no `TurnStart` may be without its end. `begin`
        # replaces the turn that `retries` is about.
        conversation.prepare()
        request = conversation.complete_request()
        is_retry = conversation.retries
        turn = self._turn = conversation.begin()
        turn.listener = self._listener()
        # A request that is sent again belongs to the same turn, after its `Restarted` (test_a_retry_is_told).
        if not is_retry:
            self._put(TurnStart(turn.number))
        if conversation.delivered:
            self._put(MessageDelivered(turn.number, conversation.delivered))
        assembler = self._assembler = self._new_assembler()
        self._is_reading, self._starts_tools = True, False
        self._has_response, self._request_id = False, None
        self._is_cut_by_message = False
        # `next_request` may have brought tools with guards, so the question is asked for each turn.
        self._needs_deltas = turn.wants_deltas
        self._set_observers(self._observers)
        scope = self._scope = anyio.CancelScope()
        if self._is_cancelled:
            # By an observer of this turn's start: `cancel` found the scope of the pause, which has ended. Otherwise a
            # request would be paid for (test_cancelled_by_an_observer_of_the_start_of_a_turn).
            scope.cancel()
        error: Exception | None = None
        broken: APIError | ProtocolError | None = None
        try:
            await self._keeper.sending(turn, assembler)
            # Not in a function of its own: each frame around the reading costs every fragment.
            await read_reply(
                self._transport,
                request,
                assembler,
                Sink(self, self._show_sending, self._opened, self._take, self._room, self._marks.ended),
                limits=conversation.limits,
                one_message=True,
                scope=scope,
            )
        except (Unwanted, APIError, ProtocolError) as caught:
            # Faults of the peer and of the network, which asking again may mend. A `LimitError` or a `UsageError` would
            # come again, so it ends the run.
            error = caught
        finally:
            # From here on the violations are in the run's own list, and `violations` must not count them twice.
            self._is_reading = False
            self._violations += assembler.violations[: MAX_VIOLATIONS - len(self._violations)]
            self._violation_count += assembler.violation_count
        try:
            broken = interruption(turn, assembler, error, self._request_id, has_response=self._has_response)
            await self._end_turn(turn, assembler, broken)
        finally:
            # The traceback of the error keeps this frame, and the frame the error: the cycle would keep the run until
            # the garbage collector comes (test_a_result_keeps_no_run).
            error = broken = None

    def _new_assembler(self) -> MessageAssembler[GrowingInput]:
        # With the history: a response may bring the result of a server call that an earlier one has made (test_pairs).
        return MessageAssembler(
            limits=self._conversation.limits,
            input_type=GrowingInput,
            messages=self._conversation.result.messages,
            **self._inputs,
        )

    def _listener(self) -> CallEvents:
        return CallEvents(self._marks, self._put, self.id, closers=self._closers, keeper=self._keeper)

    async def _salvage(self, saved: OpenTurn) -> None:
        """Take the known part of a response whose program ended, and run the calls that may run."""
        conversation = self._conversation
        with anyio.CancelScope() as self._scope:
            conversation.known_answers = await answers_of(saved, conversation.tools, self.id)
        if self._scope.cancelled_caught:
            return  # the turn stays open in the journal
        turn = self._turn = conversation.begin()
        turn.listener = self._listener()
        self._put(TurnStart(turn.number))
        self._marks.salvaging()
        assembler = self._assembler = self._new_assembler()
        self._keeper.salvaging(turn, assembler, saved)
        self._needs_deltas = turn.wants_deltas
        self._set_observers(self._observers)
        with suppress(Unwanted):  # a guard cuts it again
            for event in events_of(saved):
                self._take(assembler.feed(event))
            self._take(assembler.close(cleanly=saved.is_whole))
        conversation.known_answers = {}  # a gateway may use an id again in a later response
        message = message_of(turn, assembler)
        if turn.is_cut:
            conversation.end(turn, message, CUT_BY_GUARD)
        elif saved.is_whole:
            conversation.end(turn, message)
        else:
            conversation.salvage(turn, message)
        await self._settle_turn(turn)

    async def _end_turn(
        self, turn: Turn, assembler: MessageAssembler[GrowingInput], error: APIError | ProtocolError | None
    ) -> None:
        """Wait for the calls of a response that has ended or broken off, and settle the turn.

        Raises:
            APIError, ProtocolError: The response broke off, and the run does not continue.
        """
        conversation = self._conversation
        message = message_of(turn, assembler)
        if self._has_response:
            # After a response that came otherwise than the API sent it, the next request starts another thread.
            is_whole = error is None and not turn.is_cut and assembler.is_intact
            self._thread.answered(message if is_whole else None)
        delay_s = 0.0
        # Cancellation before the error, which it may have caused. A message that was complete by then keeps its own
        # ending. If `interrupt` raises, the turn has no ending yet: `_read` gives it that of a broken response.
        if self._is_cancelled and assembler.state is not MessageState.STOPPED:
            conversation.end(turn, message, CANCELLED)
        elif self._is_cut_by_message and assembler.state is not MessageState.STOPPED:
            error = None  # that of the reading which was given up
            conversation.end(turn, message, CUT_BY_MESSAGE)
        elif error is not None:
            delay_s = conversation.interrupt(turn, message, error)
            # From now, not from the end of the tools: their time is a part of the pause.
            self._next_request_at = anyio.current_time() + delay_s
        else:
            conversation.end(turn, message, CUT_BY_GUARD if turn.is_cut else None)
        if turn.ending is not None:
            self._keeper.responded(turn, message)
        assert self._runner is not None
        if turn.is_discarded:
            # Only idempotent calls have started here. They are cancelled, because with one slot the new call of the
            # same tool would wait for the old one (test_forgotten_calls_give_their_place_back).
            for call in turn.calls:
                self._runner.cancel(call)
            reason = "max_tokens" if error is None else type(error).__name__  # its text may quote what a model wrote
            what = "turn %d of the run %s is sent again in %.1f s: %s (request %s)"
            request_id = getattr(error, "request_id", None) or self._request_id
            _log.warning(what, turn.number, self.id, delay_s, reason, request_id)
            cause: Literal["interrupted", "max_tokens"] = "interrupted" if error else "max_tokens"
            self._put(Restarted(turn.number, cause, error, delay_s, message.get("usage") or {}))
            return
        await self._settle_turn(turn, error)

    async def _settle_turn(self, turn: Turn, error: APIError | ProtocolError | None = None) -> None:
        """Start the calls that may start at the end of a response, wait for all of them, and settle the turn."""
        assert turn.ending is not None
        assert self._runner is not None
        # `cancel` may have come after the end of the message: then the row of its stop reason does not count any more.
        begins = Begins.NONE if self._is_cancelled else turn.ending.begins
        for call in turn.release(begins):
            self._runner.start(call)
        # One after the other is enough: all of them must have their answers before anything is sent.
        for call in turn.calls:
            await call.answered.wait()
        # The results exist, so the next request could be sent: this is the end of the waiting that `won_s` is about.
        self._marks.settle(runs_held=turn.ending.begins is Begins.ALL and not self._is_cancelled)
        # Settled before its event: at a `TurnStop` the result has the whole turn, so that a program can save it there
        # and lose nothing if it dies afterwards (test_saved_at_each_turn).
        self._conversation.close_turn()
        self._keeper.settled(turn)
        # Each call's `ToolStop` before the `TurnStop`. The runner reports only calls that it started; those that were
        # answered without it are reported here (test_each_call_of_a_turn_stops).
        for call in turn.calls:
            self._runner.end(call)
        self._put(TurnStop(turn.number, turn.message, turn.calls, error))

    async def _hear_last_words(self) -> None:
        """Let nothing more start after a failure, and give tools whose input broke off a moment to report their work.

        Other tools have until the block is left, and then the turn is closed.
        """
        # A tool that wrote half a file knows what exists now, and cancelling it at once would lose that. Such tools get
        # `InputInterrupted` and usually end soon. The error waits for no other tool, and for these only a bounded time,
        # because they may hang (test_last_words_after_a_lost_connection).
        if self._turn is not None:
            self._turn.withdraw(BROKEN_OFF.begins)
            with anyio.move_on_after(_LAST_WORDS_S):
                for call in self._turn.calls:
                    if call.input.outcome is Outcome.INCOMPLETE:
                        await call.answered.wait()

    @property
    def _given_up(self) -> RunStatus:
        """The status of a run that does not end by itself."""
        return RunStatus.WAITING if self._keeper.is_leaving else RunStatus.CANCELLED

    @property
    def _message(self) -> AssistantMessage:
        if self._turn is None or self._assembler is None:
            return empty_message()
        return message_of(self._turn, self._assembler)

    def _how_it_ended(self) -> FeedEnd:
        result = self.result
        error = {"type": str(result.error["type"]), "text": str(result.error["text"])} if result.error else None
        return FeedEnd(result.status.value, result.turns, result.usage, error, self._violation_count)

    def _tell_end(self) -> None:
        result = self.result
        if not self._has_told_end and result.status in _WARNED_OF:
            error = result.error or {}
            reason = f"{result.status.value}, {error['type']}" if error else result.status.value
            request_id = error.get("request_id") or self._request_id
            what = "the run %s ended with the status %s after %d turns (last request %s)"
            _log.warning(what, self.id, reason, result.turns, request_id)
        super()._tell_end()

    def _is_idle(self) -> bool:
        return False  # tools may run on after the end, if nobody waits for their results

    def _close(self) -> None:
        # A status alone does not prove that the run ended by itself: it is set at the end of the response, and tools
        # may still have been running when the block was left. So the turn must be closed, too. An error keeps its
        # status.
        is_closed = self._turn is None or self._turn.is_closed
        has_ended = self._has_ended_itself or self._conversation.ended
        if not (has_ended and is_closed) and self.result.status is not RunStatus.ERROR:
            self._conversation.abandon(self._message, self._given_up)
        self._conversation.close_turn()
        # Settling has answered the calls of the last turn. These are of discarded turns, and somebody may wait for
        # them.
        for call in self.result.calls:
            answer(call)
        if self._runner is not None:
            self._runner.close()
            for call in self._turn.calls if self._turn else ():
                self._runner.end(call)
        # No cycle is left, and the result refers to nothing here. Programs keep results for long, and each would keep
        # its client, buffer and executor: 163 objects for a run of two turns, and 99 without them.
        self._runner = self._assembler = self._scope = None
        if self._turn is not None:
            self._turn.listener = None
        call_all(self._closers)

    async def _room(self) -> None:
        """Wait as the feed does. A tool that starts does so before the next read."""
        # The next read takes 62 µs. First consumers see the end of the input, and may cancel; then the tool starts.
        if self._starts_tools and self._runner is not None:
            self._starts_tools = False
            for _ in range(1 if self._runner.wakes_in_order else 2):
                await anyio.lowlevel.checkpoint()
        await super()._room()

    def _opened(self, reply: Reply) -> None:
        self._marks.opened()
        self._has_response, self._request_id = True, reply.request_id
        self._marks.accepted(self._thread, getattr(reply, "sent_bytes", None))

    def _take(self, events: Sequence[StreamEvent]) -> bool:
        """Take the events of a chunk. Calls start in here."""
        turn, runner, assembler = self._turn, self._runner, self._assembler
        assert turn is not None
        assert runner is not None
        assert assembler is not None
        if (reader := self._conversation.output.reader) is not None:
            events = reader.take(events)
        # Nearly all chunks contain only deltas, which decide nothing if no guard looks at them. One set operation in C
        # finds that out for the chunk; matching each event against patterns cost every one of them.
        if not turn.looks_at_deltas and _ONLY_DELTAS.issuperset(map(type, events)):
            return self._put_all(events)
        # The turn decides which events count, then those are handed on, then calls start: observers and consumers get
        # the end of an input before the events of its call.
        step = turn.take(events)
        must_wait = self._put_all(step.events)
        if step.cancelled:
            self._keeper.restarted(turn)
        runner.take(step)
        self._starts_tools = self._starts_tools or bool(step.started)
        # If a guard cuts a message that has come completely, no tokens are left to save, and reading to the end of the
        # body lets the connection be used again. A restart is cut in any case: its message is not wanted.
        if turn.voided is not None or (turn.is_cut and assembler.state is not MessageState.STOPPED):
            raise Unwanted
        return must_wait or self._starts_tools
