"""`RunDriver`: send a request, run tools while the response comes, send their results, until the model stops."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

import anyio
import anyio.lowlevel

from eagerstream_wire import MessageAssembler, Outcome
from eagerstream_wire._assistant_message import AssistantMessage, empty_message

from .._support.callbacks import call_all
from .._support.hosted_tasks import HostedTasks
from ..calls._policy import BROKEN_OFF, CANCELLED, CUT_BY_BUDGET, CUT_BY_GUARD, CUT_BY_MESSAGE, Begins, RunStatus
from ..calls._runner import CallRunner
from ..calls._settle import answer
from ..calls._turn import Turn
from ..errors import APIError, ProtocolError, UsageError
from ..inputs import GrowingInput
from ..streaming import FeedEnd
from ..streaming._delivery import Delivery
from ..streaming._options import InputOptions
from ..streaming._reading import read_reply
from ..transports import RequestBody
from ..transports._eager_fallback import EagerFallback
from ._compaction import Summarize, as_history
from ._continued_inputs import ContinuedInputs
from ._course import Course
from ._events import MessageDelivered, Restarted, RunEvent, TurnStart, TurnStop
from ._interruption import Unwanted, interruption
from ._keeper import Keeper
from ._marks import CallEvents, RunMarks
from ._message_thread import MessageThread
from ._restoring import OpenTurn, answers_of, events_of
from ._result import give_result
from ._turn_exchange import TurnExchange

_log = logging.getLogger(__name__)

# A response keeps 100 at most, but a run may have many responses, and a hostile peer must not fill the memory.
_MAX_VIOLATIONS: Final = 1_000
_WARNED_OF: Final = (RunStatus.LIMIT, RunStatus.TRUNCATED, RunStatus.UNKNOWN, RunStatus.ERROR)
_LAST_WORDS_S: Final = 5.0
"""Seconds for which an error waits for tools whose input broke off."""


class RunDriver:
    """The turns of a run: the driver of its feed.

    Attributes:
        id: The id of the run.
        course: The history, the tools, and the requests.
        transport: Sends the requests.
        marks: The times.
        keeper: Writes the steps into a journal, if there is one.
        open_turn: The turn that an earlier process left, until it is salvaged.
        turn: The turn under way, or the last one; None before the first.
        summarize: Writes a summary in place of the history before the next request, if it is set.
    """

    is_idle = False
    """Tools may run on after the end, if nobody waits for their results."""

    def __init__(
        self,
        run_id: str,
        transport: EagerFallback,
        course: Course,
        *,
        inputs: InputOptions,
        delivery: Delivery[RunEvent],
        marks: RunMarks,
        thread: MessageThread,
        continued: ContinuedInputs | None,
    ) -> None:
        self.id = run_id
        self.course = course
        self.transport = transport
        self.marks = marks
        self.keeper: Keeper = Keeper(run_id)
        self.open_turn: OpenTurn | None = None
        self.turn: Turn | None = None
        self.summarize: Summarize | None = None
        self._inputs = inputs
        self._delivery = delivery
        self._thread = thread
        self._continued = continued
        self._violations: Sequence[str] = ()  # of earlier responses
        self._violation_count = 0
        self._exchange: TurnExchange | None = None  # the last one
        self._runner: CallRunner | None = None
        self._pause: anyio.CancelScope | None = None  # before a request or at the last word; a message may end it
        self._scope: anyio.CancelScope | None = None  # of other work between responses
        self._next_request_at = -math.inf
        self._is_cancelled = False
        self._has_ended_itself = False  # what is said from then on changes nothing

    @property
    def violations(self) -> Sequence[str]:
        """See `Run`."""
        exchange = self._exchange
        under_way = exchange.assembler.violations if exchange is not None and exchange.is_reading else ()
        return [*self._violations, *under_way][:_MAX_VIOLATIONS]

    @property
    def idle_s(self) -> float | None:
        """See `EventFeed`."""
        return None if self._exchange is None else self._exchange.idle_s

    # --- from outside -------------------------------------------------------------------------------------------------

    def heed(self, when: str) -> None:
        """End what a message does not wait for: the response under way, a pause, or the waiting at the last word."""
        course = self.course
        if self._is_cancelled:
            return
        if self._pause is not None:
            if when == "now" or (when == "when_idle" and course.is_idle):
                self._pause.cancel()
        elif self._exchange is not None and when == "now" and not course.compaction.is_under_way:
            self._exchange.cut_for_message()

    def cancel(self) -> None:
        """See `Run`."""
        # Not the scope of the task group: its cancellation would take the reader with it, which has yet to settle the
        # turn and to hand out its last events.
        if self._is_cancelled:
            return
        self._is_cancelled = True
        if self.turn is not None:
            # Calls later in the current chunk must not start, either (test_cancel_from_a_guard).
            self.turn.is_stopped = True
            if self.turn.ending is not None:
                # The response has ended, so `end` does not come again: calls that wait for a slot are answered here.
                self.turn.withdraw(Begins.NONE)
        for scope in (self._pause, self._scope, self._exchange.scope if self._exchange is not None else None):
            if scope is not None:
                scope.cancel()
        # The task of a call may exist without having started its tool: it must not (test_nothing_begins_after_cancel).
        if self._runner is not None:
            self._runner.stop()

    def cancel_call(self, id: str, reason: str) -> None:
        """See `Run`."""
        exchange = self._exchange
        call = None
        if self.turn is not None and exchange is not None:
            call = self.turn.call_with(id, exchange.assembler.inputs.values())
        if call is None or self._runner is None:
            raise UsageError(f"the turn under way has no call {id!r:.80}")
        # First the answer: it keeps a call from starting whose task has not run yet.
        call.cancel(f"Cancelled: {reason}" if reason else "Cancelled by the user.")
        self._runner.cancel(call)

    # --- turns --------------------------------------------------------------------------------------------------------

    async def read(self, tasks: HostedTasks) -> None:
        """See `Driver`."""
        self._runner = CallRunner(self.course.executor, tasks.group, deadline=tasks.deadline)
        keeper = self.keeper
        keeper.deps, keeper.budget, self.course.host = self.course.host.deps, self.course.budget, keeper
        # Without a journal there is nothing to keep: two calls fewer on the way to a tool.
        self.course.listeners = (
            self.marks,
            *([keeper] if keeper.keeps else []),
            CallEvents(self._delivery, keeper.leaves),
        )
        try:
            await keeper.take_messages()  # before anything starts: the run may have been cancelled meanwhile
            keeper.start(tasks.group)
            if self.open_turn is not None:
                open_turn, self.open_turn = self.open_turn, None
                await self._salvage(open_turn)
            while True:
                await keeper.take_messages()
                if self._is_cancelled:
                    break
                if self.course.ended:
                    if not await self._goes_on():
                        self._has_ended_itself = True
                        break
                elif keeper.leaves_here():
                    self._is_cancelled = True
                    break
                elif (exchange := await self._next_exchange()) is not None:
                    await self._take_turn(exchange)
            await keeper.all_written()
        except Exception as error:
            # The result before the waiting: if the block is left in that time, the result must have the error
            # (test_leaving_while_last_words_are_said).
            self.course.abandon(self._message, RunStatus.ERROR)
            give_result(error, self.course.result)
            await self._hear_last_words()
            raise
        finally:
            keeper.stop()
        # `cancel` raises nothing, not even an error that the run was about to raise (test_cancel_with_a_failure_ahead).
        if keeper.error is not None:
            self.course.abandon(self._message, RunStatus.ERROR)
            give_result(keeper.error, self.course.result)
            raise keeper.error
        if self._is_cancelled and not self._has_ended_itself:
            self.course.abandon(self._message, self._given_up)
        elif (failure := self.course.failure) is not None:
            give_result(failure, self.course.result)
            raise failure

    async def _goes_on(self) -> bool:
        """Wait until the consumer has heard the last word, and return True if the user says something to it."""
        course = self.course
        # A run that nobody reads ends: an observer may wait for that (test_the_list_says_where_somebody_is_asked).
        if course.is_idle and self._delivery.is_used:
            with anyio.CancelScope() as self._pause:
                await self._delivery.buffer.asked()
            self._pause = None
        return course.is_idle and course.steering.prolongs and not self._is_cancelled

    async def _next_exchange(self) -> TurnExchange | None:
        """Prepare the next turn and its request. Return None if the run was cancelled meanwhile."""
        course = self.course
        # A scope of its own: `cancel` must end the pause at once, and not this task
        # (test_cancel_while_it_waits_to_ask_again).
        with anyio.CancelScope() as self._pause:
            await anyio.sleep_until(self._next_request_at)
        self._pause = None
        if self.summarize is not None and not (self._is_cancelled or course.steering.is_paused):
            summarize, self.summarize = self.summarize, None
            with anyio.CancelScope() as self._scope:
                course.replace_history(as_history(await summarize(course.result.messages)))
        if self._is_cancelled:
            return None
        # Before anything is shown of the turn: it may raise, and no `TurnStart` may be without its end. `begin`
        # replaces the turn that `retries` is about.
        course.prepare()
        request = course.complete_request()
        is_retry = course.retries
        turn = self.turn = self.course.begin(request["messages"])
        # A request that is sent again belongs to the same turn, after its `Restarted` (test_a_retry_is_told).
        if not is_retry:
            self._delivery.put(TurnStart(turn.number))
        if course.delivered:
            self._delivery.put(MessageDelivered(turn.number, course.delivered))
        return self._new_exchange(turn, request)

    async def _take_turn(self, exchange: TurnExchange, saved: OpenTurn | None = None) -> None:
        """Send one request, and run the tools of its response.

        Args:
            exchange: The request.
            saved: The part of the response that an earlier process has read, if one has.
        """
        course, turn = self.course, exchange.turn
        self._exchange = exchange
        if self._is_cancelled:
            # By an observer of this turn's start: `cancel` found the scope of the pause, which has ended. Otherwise a
            # request would be paid for (test_cancelled_by_an_observer_of_the_start_of_a_turn).
            exchange.scope.cancel()
        error: Exception | None = None
        broken: APIError | ProtocolError | None = None
        exchange.is_reading = True
        try:
            if saved is None:
                await self.keeper.sending(turn, exchange.assembler)
            else:
                self.keeper.salvaging(turn, exchange.assembler, saved)
            # Not in a function of its own: each frame around the reading costs every fragment.
            await read_reply(self.transport, exchange, limits=course.limits, one_message=True, scope=exchange.scope)
        except (Unwanted, APIError, ProtocolError) as caught:
            # Faults of the peer and of the network, which asking again may mend. A `LimitError` or a `UsageError` would
            # come again, so it ends the run.
            error = caught
        finally:
            # From here on the violations are in the run's own list, and `violations` must not count them twice.
            exchange.is_reading = False
            course.known_answers = {}  # a gateway may use an id again in a later response
            assembler = exchange.assembler
            self._violations = (*self._violations, *assembler.violations)[:_MAX_VIOLATIONS]
            self._violation_count += assembler.violation_count
        try:
            broken = interruption(turn, assembler, error, exchange.request_id, has_response=exchange.has_response)
            await self._end_turn(exchange, broken)
        finally:
            # The traceback of the error keeps this frame, and the frame the error: the cycle would keep the run until
            # the garbage collector comes (test_a_result_keeps_no_run).
            error = broken = None

    def _new_exchange(self, turn: Turn, request: RequestBody) -> TurnExchange:
        # With the history: a response may bring the result of a server call that an earlier one has made (test_pairs).
        assembler = MessageAssembler(
            limits=self.course.limits,
            input_type=GrowingInput,
            messages=self.course.result.messages,
            **self._inputs,
        )
        # `next_request` may have brought tools with guards, so the question is asked for each turn.
        self._delivery.set_reader(needs_deltas=turn.wants_deltas)
        assert self._runner is not None
        exchange = TurnExchange(
            self._delivery,
            request,
            assembler,
            self.marks,
            turn=turn,
            runner=self._runner,
            keeper=self.keeper,
            thread=self._thread,
            output=self.course.output.reader,
            budget=self.course.budget if self.course.cuts_at_budget else None,
        )
        if self._continued is not None:
            self._continued.exchange = exchange
        return exchange

    async def _salvage(self, saved: OpenTurn) -> None:
        """Take the known part of a response whose program ended, and run the calls that may run."""
        course = self.course
        with anyio.CancelScope() as self._scope:
            course.known_answers = await answers_of(saved, course.tools, course.host)
        if self._scope.cancelled_caught:
            return  # the turn stays open in the journal
        # A call that has its answer needs no more of its input.
        continues = self._continued is not None and saved.is_cut and saved.last_id not in course.known_answers
        request = course.request_again() if continues else {}
        turn = self.turn = self.course.begin()
        self._delivery.put(TurnStart(turn.number))
        exchange = self._new_exchange(turn, request)
        if self._continued is not None and continues:
            self._continued.saved = [*events_of(saved)]
            await self._take_turn(exchange, saved)
            return
        self._exchange = exchange
        self.marks.salvaging()
        assembler = exchange.assembler
        self.keeper.salvaging(turn, assembler, saved)
        with suppress(Unwanted):  # a guard cuts it again
            for event in events_of(saved):
                exchange.take(assembler.feed(event))
            exchange.take(assembler.close(cleanly=saved.is_whole))
        course.known_answers = {}
        message = exchange.message
        if turn.is_cut:
            course.end(turn, message, CUT_BY_GUARD)
        elif saved.is_whole:
            course.end(turn, message)
        else:
            course.salvage(turn, message)
        await self._settle_turn(turn)

    async def _end_turn(self, exchange: TurnExchange, error: APIError | ProtocolError | None) -> None:
        """Wait for the calls of a response that has ended or broken off, and settle the turn.

        Raises:
            APIError, ProtocolError: The response broke off, and the run does not continue.
        """
        course, turn, message = self.course, exchange.turn, exchange.message
        if exchange.has_response:
            # After a response that came otherwise than the API sent it, the next request starts another thread.
            is_whole = error is None and not turn.is_cut and exchange.assembler.is_intact
            self._thread.answered(message if is_whole else None)
        delay_s = 0.0
        # Cancellation before the error, which it may have caused. A message that was complete by then keeps its own
        # ending. If `interrupt` raises, the turn has no ending yet: `_read` gives it that of a broken response.
        if self._is_cancelled and not exchange.is_whole:
            course.end(turn, message, CANCELLED)
        elif exchange.is_cut_by_message and not exchange.is_whole:
            error = None  # that of the reading which was given up
            course.end(turn, message, CUT_BY_MESSAGE)
        elif error is not None:
            delay_s = course.interrupt(turn, message, error)
            # From now, not from the end of the tools: their time is a part of the pause.
            self._next_request_at = anyio.current_time() + delay_s
        elif exchange.is_cut_by_budget and not exchange.is_whole:
            course.end(turn, message, CUT_BY_BUDGET)
        else:
            course.end(turn, message, CUT_BY_GUARD if turn.is_cut else None)
        if turn.ending is not None:
            self.keeper.responded(turn, message)
        assert self._runner is not None
        if turn.is_discarded:
            # Only idempotent calls have started here. They are cancelled, because with one slot the new call of the
            # same tool would wait for the old one (test_forgotten_calls_give_their_place_back).
            for call in turn.calls:
                self._runner.cancel(call)
            reason = "max_tokens" if error is None else type(error).__name__  # its text may quote what a model wrote
            what = "turn %d of the run %s is sent again in %.1f s: %s (request %s)"
            request_id = getattr(error, "request_id", None) or exchange.request_id
            _log.warning(what, turn.number, self.id, delay_s, reason, request_id)
            cause: Literal["interrupted", "max_tokens"] = "interrupted" if error else "max_tokens"
            self._delivery.put(Restarted(turn.number, cause, error, delay_s, message.get("usage") or {}))
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
        self.marks.settle(runs_held=turn.ending.begins is Begins.ALL and not self._is_cancelled)
        # Settled before its event: at a `TurnStop` the result has the whole turn, so that a program can save it there
        # and lose nothing if it dies afterwards (test_saved_at_each_turn).
        self.course.close_turn()
        self.keeper.settled(turn)
        # Each call's `ToolStop` before the `TurnStop`. The runner reports only calls that it started; those that were
        # answered without it are reported here (test_each_call_of_a_turn_stops).
        for call in turn.calls:
            self._runner.end(call)
        if not any(map(self.keeper.leaves, turn.calls)):  # else another process stops it
            self._delivery.put(TurnStop(turn.number, turn.message, turn.calls, error))

    async def _hear_last_words(self) -> None:
        """Let nothing more start after a failure, and give tools whose input broke off a moment to report their work.

        Other tools have until the block is left, and then the turn is closed.
        """
        # A tool that wrote half a file knows what exists now, and cancelling it at once would lose that. Such tools get
        # `InputInterrupted` and usually end soon. The error waits for no other tool, and for these only a bounded time,
        # because they may hang (test_last_words_after_a_lost_connection).
        if self.turn is not None:
            self.turn.withdraw(BROKEN_OFF.begins)
            with anyio.move_on_after(_LAST_WORDS_S):
                for call in self.turn.calls:
                    if call.input.outcome is Outcome.INCOMPLETE:
                        await call.answered.wait()

    @property
    def _given_up(self) -> RunStatus:
        """The status of a run that does not end by itself."""
        return RunStatus.WAITING if self.keeper.is_leaving else RunStatus.CANCELLED

    @property
    def _message(self) -> AssistantMessage:
        return empty_message() if self._exchange is None else self._exchange.message

    def ended(self, _: BaseException | None, /) -> FeedEnd:
        """See `Driver`."""
        result = self.course.result
        error = result.error or {}
        if result.status in _WARNED_OF:
            why = error["type"] if error else result.limit
            reason = f"{result.status.value}, {why}" if why else result.status.value
            request_id = error.get("request_id") or (self._exchange and self._exchange.request_id)
            what = "the run %s ended with the status %s after %d turns (last request %s)"
            _log.warning(what, self.id, reason, result.turns, request_id)
        told = {name: str(error[name]) for name in ("type", "text")} if error else None
        counts = result.turns, result.usage, told, self._violation_count
        return FeedEnd(result.status.value, *counts, limit=result.limit, cost=result.cost)

    def close(self) -> None:
        """See `Driver`."""
        # A status alone does not prove that the run ended by itself: it is set at the end of the response, and tools
        # may still have been running when the block was left. So the turn must be closed, too. An error keeps its
        # status.
        is_closed = self.turn is None or self.turn.is_closed
        has_ended = self._has_ended_itself or self.course.ended
        if not (has_ended and is_closed) and self.course.result.status is not RunStatus.ERROR:
            self.course.abandon(self._message, self._given_up)
        self.course.close_turn()
        # Settling has answered the calls of the last turn. These are of discarded turns, and somebody may wait for
        # them.
        for call in self.course.result.calls:
            answer(call)
        if self._runner is not None:
            self._runner.close()
            for call in self.turn.calls if self.turn else ():
                self._runner.end(call)
        # No cycle is left, and the result refers to nothing here. Programs keep results for long, and each would keep
        # its client, buffer and executor: 163 objects for a run of two turns, and 99 without them.
        self._runner = self._scope = None
        if self.turn is not None:
            self.turn.listeners = ()
        call_all(self.keeper.closers)
