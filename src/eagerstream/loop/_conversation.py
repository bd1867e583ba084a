"""`Conversation`: the loop without I/O. It makes each request, and takes each response.

`run` is this and the tasks around it. If you want to control each step, drive it by hand. The requests are the same:

    conversation = Conversation(model=..., max_tokens=..., tools=[...], messages=[...])
    while not conversation.ended:
        async with eagerstream.stream(client, **conversation.request()) as stream:
            async for event in stream: ...
        turn = conversation.take(stream)
        for call in turn.calls: ...    # look at it; call.answer(...) answers it yourself
        await turn.execute()           # runs those that you have not answered
        turn.results()                 # the blocks that go back
    print(conversation.result.status)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from random import uniform
from typing import Any, Final, Unpack

from ..errors import APIError, LimitError, ProtocolError, UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._growing_input import GrowingInput
from ..streaming._message_stream import MessageStream, checked_messages, request_parameters
from ..streaming._options import check_names, taken
from ..tools._call import ToolCall
from ..tools._executor import Executor
from ..tools._foreign import ForeignTool
from ..tools._history import MAX_BREAKPOINTS
from ..tools._repair import repair_history
from ..tools._toolbox import Toolbox
from ..wire import check_count, encodable
from ..wire._assistant_message import AssistantMessage
from ..wire._echo import stand_in_id
from ..wire._server_tools import server_calls
from ._callable_tools import callable_tools
from ._message_thread import MAX_BREAKPOINTS_OF_THREADS, MessageThread
from ._options import CALL_DEFAULTS, LOOP_DEFAULTS, ConversationOptions, RunOptions, check_loop_options
from ._output import RunOutput
from ._policy import BROKEN_OFF, CANCELLED, INTERRUPTED, Ending, Then, ending_of
from ._requests import OPTIONS_OF_READING, GivenTools, Requests
from ._result import RunResult, RunStatus, add_usage
from ._steering import Steering, When
from ._turn import Turn

_log = logging.getLogger(__name__)

LOST_START: Final = "a call of the response came without its start"
_MAX_RESTART_DELAY_S: Final = 30.0
# Beyond 2 ** 1023 a float overflows: a night without a network would end in an OverflowError
# (test_a_thousand_restarts).
_MAX_DOUBLINGS: Final = 64


class Conversation:
    """The history of a conversation, its next request, and its end.

    Args:
        model, max_tokens: As in the API.
        messages: As in the API, or the result of an earlier run to continue from.
        tools: Functions decorated with `@tool`, tools of other libraries (anything with `to_dict()` and `call()`), and
            definitions of tools that the API itself runs.
        output: As for `run`.
        options: See `ConversationOptions`, and there `LoopOptions`, `CallOptions`, `RequestParameters`. A `tool_choice`
            that forces a call holds for the first request.

    Raises:
        UsageError: A setting is out of range, a tool cannot be run, or two share a name.
        HistoryError: The API would refuse the messages or the tools.

    Attributes:
        result: The result as of now.
        tools: The tools by name.
        executor: Runs the calls.
        limits: The bounds on responses, inputs and results.
    """

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int,
        messages: Sequence[Mapping[str, Any]] | RunResult,
        tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
        output: Any = None,
        **options: Unpack[ConversationOptions],
    ) -> None:
        given: dict[str, Any] = dict(options)
        # Everything that is left over goes into the request. An option of `stream` would be sent to the API, and come
        # back as a 400 about an unknown parameter.
        if misplaced := sorted(given.keys() & OPTIONS_OF_READING):
            raise UsageError(f"{', '.join(misplaced)}: these are options of stream, not of a conversation")
        self.limits: Limits = given.pop("limits", DEFAULT_LIMITS)
        if not isinstance(self.limits, Limits):
            raise UsageError(f"limits must be a Limits, not {type(self.limits).__name__}")
        check_count("max_tokens", max_tokens, least=0)
        if "thread" in given:
            raise UsageError("thread: use the option threads= instead, which keeps the complete conversation here")
        self._options = taken(given, LOOP_DEFAULTS)
        check_loop_options(self._options)
        calls = taken(given, CALL_DEFAULTS)
        eager: bool = given.pop("eager", True)
        self.tools: Toolbox
        self.executor: Executor
        self.tools, self.executor = callable_tools(tools, limits=self.limits, **calls)
        self.result: RunResult = RunResult(RunStatus.RUNNING, None, [])
        self.output: RunOutput = RunOutput(output, given, self.limits, self.result)
        if isinstance(messages, RunResult):
            self.result.container = messages.container
            messages = messages.messages
        # A list of our own: the caller's must not grow with the run (test_the_caller_s_messages_are_not_touched).
        self.result.messages = checked_messages(messages)
        self._awaits_reply = False
        self.steering: Steering = Steering(self.result)
        self.delivered: list[Mapping[str, Any]] = []
        """The messages that the last request has for the first time."""
        self._is_prolonged = False  # it would have ended without a message that waits
        self.failure: LimitError | None = None
        """The error to raise after the last turn is closed, so that its calls have their results first."""
        check_names(given, RunOptions)
        parameters = request_parameters(model, max_tokens, tools, given, eager=eager)
        if self._options["repair"]:
            # Before the ids are read, which the repair may change.
            repaired, self.result.repairs = repair_history(self.result.messages, parameters.get("tools", ()))
            self.result.messages = [*repaired]
        self._requests = Requests(
            parameters,
            self.result,
            self.output,
            GivenTools(tools, self.tools, calls["executor"]),
            self._options,
            eager=eager,
        )
        self._thread = MessageThread() if self._options["threads"] is not None else None
        self.max_breakpoints = MAX_BREAKPOINTS if self._thread is None else MAX_BREAKPOINTS_OF_THREADS
        """Maximum number of cache breakpoints in a request."""
        self._turn: Turn | None = None
        self._turns = 0
        self._continuations = 0
        self._failed_turns = 0
        self._restarts = 0
        self._retry_max_tokens: int | None = None  # of the turn under way, once it is sent again
        self._ids = _call_ids(self.result.messages)
        # Now, so that the error comes out of the caller's own line, before anything is sent or paid for.
        self._requests.check()

    @property
    def model(self) -> str:
        """The model of the run; `next_request` may choose another one for a request."""
        return self._requests.model

    @property
    def _has_ended(self) -> bool:
        return self.result.status is not RunStatus.RUNNING

    @property
    def ended(self) -> bool:
        """True if there is nothing more to send. This closes a turn whose calls all have their answers."""
        # A user who has answered every call by hand need not ask for results. Closing may decide the end, and `while
        # not ended: request()` must see it here instead of an error from `request` (test_the_end_without_results).
        if self._turn is not None and self._turn.ending and all(call.result for call in self._turn.calls):
            self._turn.close()
        self._prolong()
        return self._has_ended

    def _prolong(self) -> None:
        """Continue a conversation that would have ended, if a message waits for that."""
        if self.steering.prolongs and self._turns != self._options["max_turns"]:
            self.result.status, self._is_prolonged = RunStatus.RUNNING, True

    def request(self) -> dict[str, Any]:
        """Close the turn before, if any, and return the body of the next request.

        If its stream breaks off, nothing of the response has run: call this again, and send the result again.

        Raises:
            UsageError: There is nothing more to send, the response to the last request was not taken, or
                `next_request` asks for changes that cannot be made.
            HistoryError: The API would refuse the request.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            raise UsageError("the response to the last request has not been taken")
        self.close_turn()
        if self.ended:
            raise UsageError(f"the conversation has ended: {self.result.status.value}")
        self._deliver()
        if self._requests.prepare(self._turns + (not self.retries)):
            self._ids = _call_ids(self.result.messages)
        self._awaits_reply = True
        if self._turn is not None:
            self._turn.is_answered = True
        if self._thread is None:
            return self.complete_request()
        return dict(self._thread.sent_form(self.complete_request()))

    def say(self, message: str | Mapping[str, Any], when: When = "next_turn") -> None:
        """Add a message of the user to a conversation under way. See `Run.say`; `"now"` means the next request.

        Raises:
            UsageError: The message is not one of the user, or the API would refuse it.
        """
        self.steering.add(message, when)

    def _deliver(self) -> None:
        """Add the messages that are due to the history."""
        self.delivered = self.steering.take(is_idle=self._is_prolonged)
        self._is_prolonged = False
        if self.delivered:
            self.result.messages = [*self.result.messages, *self.delivered]

    def complete_request(self) -> dict[str, Any]:
        """Return the body of the request under way with the complete conversation, and without a thread."""
        return self._requests.body(self._retry_max_tokens, most_breakpoints=self.max_breakpoints)

    def refused(self, error: APIError) -> dict[str, Any] | None:
        """Return the body to send instead of a request that was refused because of its thread; None for other reasons.

        Only with the option `threads`: the API forgets a thread after five minutes, and may refuse it earlier.
        """
        if self._thread is None or not self._thread.takes(error):
            return None
        return dict(self._thread.sent_form(self.complete_request()))

    def take(self, stream: MessageStream) -> Turn:
        """Return the turn of a complete response, if you drive the conversation by hand.

        Raises:
            UsageError: The response was not read to its end, or no request was made for it.
            ProtocolError: The start of a call was lost on the way. Nothing has run: make the request again.
            LimitError: The response was cut, with `on_truncated="raise"`; none of its calls was run.
        """
        # Each mistake is found before `begin`, which counts a turn: after the error the request can be made again.
        if not self._awaits_reply:
            raise UsageError("there is no request that this could be the response to")
        if not stream.is_whole:
            raise UsageError("the stream has not been read to its end: iterate over it, or await stream.finish()")
        if stream.lost_fragments:
            raise ProtocolError(LOST_START)
        if self._thread is not None:
            self._thread.answered(stream.message if stream.is_intact else None)
        turn = self.begin()
        # In the order of the blocks; the inputs are in the order of their starts.
        for index in sorted(stream.inputs):
            if stream.inputs[index].kind == "tool_use":
                self._ask_guard(self.make_call(turn, stream.inputs[index]))
        self.end(turn, stream.message)
        # A turn without calls is not executed, so nothing else would close it.
        if self.failure is not None or not turn.calls:
            turn.close()
        if self.failure is not None:
            raise self.failure
        return turn

    def begin(self) -> Turn:
        """Return the turn of a request that is about to be sent, or has been."""
        self.close_turn()
        self._awaits_reply = False
        self.output.begin()
        if not self.retries:
            self._turns += 1
        self._turn = Turn(
            self._turns,
            self,
            executor=self.executor,
            limits=self.limits,
            server_calls=server_calls(self.result.messages).keys(),
        )
        return self._turn

    def make_call(self, turn: Turn, input: GrowingInput) -> ToolCall:
        """Add a call to the turn, for an input that has started or ended.

        If an earlier turn has a call with the same id (some gateways count from 0 in each response), the history gets
        another id for it: the API refuses an id that comes twice.
        """
        # Only the echo changes: `call.id` stays the peer's, for logs and tools. The seed contains the turn and the
        # index, because several turns may need a stand-in for the same id. A loop, because a stand-in may itself be
        # taken.
        while input.echo_id in self._ids:
            input.echo_id = stand_in_id(f"{input.echo_id} {turn.number} {input.index}", input.kind)
        self._ids.add(input.echo_id)
        tool = self.tools.find(input.block)
        # The name was shortened to 64 characters, the strictest rule. A name that the API has just taken in a
        # definition it takes in a call, too (test_a_long_name_of_a_tool_stays).
        if tool is not None and tool.name == input.name:
            input.echo_name = input.name
        call = turn.add(input)
        call.idempotent = tool is not None and tool.idempotent
        call.accounts = (self.result.usage, self.result.sub_usage)
        self.result.calls.append(call)
        return call

    def _ask_guard(self, call: ToolCall) -> None:
        # For the step-by-step form: nobody could ask the guard while the input was written. A copy of the object, so
        # that a guard that takes keys out of it does not change the echo.
        tool = self.tools.find(call.block)
        if tool is not None and tool.guard is not None and call.input.value is not None:
            reject = tool.rejects({**call.input.value})
            if reject is not None:
                call.reject(reject.reason)

    def end(self, turn: Turn, message: AssistantMessage, ending: Ending | None = None) -> None:
        """Decide how the conversation continues after the end of a response.

        `turn.ending` says which calls of the turn may still start. They are run, or not, before the turn is closed.

        Args:
            turn: The turn that `begin` returned.
            message: The assistant message.
            ending: The row of the table; None to find it by the stop reason.
        """
        result = self.result
        result.message = message
        result.turns += ending is not CANCELLED
        self._take_account(message)
        self.output.end(message)
        reason = message.get("stop_reason")
        turn.end(message, ending or self.ending_of(turn, reason))
        if turn.ending is not None and turn.ending.then is Then.TRUNCATED:
            self._end_truncated(turn)
        if not turn.is_discarded:
            self._decide(turn, reason)

    def interrupt(self, turn: Turn, message: AssistantMessage, error: APIError | ProtocolError) -> float:
        """Decide how the conversation continues after a response that broke off.

        If nothing had started to run, the turn is discarded, and its request must be made again. Otherwise close
        the turn with its complete calls.

        Args:
            turn: The turn that `begin` returned.
            message: The part of the assistant message that had come.
            error: Why it broke off.

        Returns:
            Seconds to wait before the next request.

        Raises:
            APIError, ProtocolError: `error` itself, if the conversation does not continue.
        """
        retry_after_s = 0.0
        if isinstance(error, APIError):
            retry_after_s = max(error.retry_after_s or 0.0, 0.0)
            # A client that retries has already done so. If both retried, the numbers of their attempts would multiply
            # (test_a_client_that_retries_itself). `not <=`, because NaN seconds are over the limit, too.
            if not error.retryable or error.retried or not retry_after_s <= self.limits.max_retry_after_s:
                raise error
        # The count is of interruptions in a row: `_decide` resets it after a complete response. A long run may be
        # interrupted now and then, but a peer that never gets through must not be asked for ever.
        if self._options["on_interrupt"] == "raise" or self._restarts == self._options["max_restarts"]:
            raise error
        longest_s = max(self._options["restart_delay_s"], _MAX_RESTART_DELAY_S)
        delay_s: float = min(self._options["restart_delay_s"] * 2 ** min(self._restarts, _MAX_DOUBLINGS), longest_s)
        self._restarts += 1
        self._take_account(message)
        self.output.end(message, broken=True)
        # If a tool has started, the same request must not be sent again: the model would call the same tools again.
        if turn.forbids_retry:
            self.result.message = message
            self._retry_max_tokens = None
            turn.end(message, INTERRUPTED)
            # `_decide` needs a stop reason, and none came. Of its bounds, only this one is about interrupted turns.
            if turn.number == self._options["max_turns"]:
                self.result.status = RunStatus.LIMIT
        else:
            self.void(turn)
            turn.discard()
        # Spread out, because clients that were interrupted at the same time must not come back at the same time. Only
        # our own delay is spread: a peer must not be asked sooner than it said (test_the_peer_says_how_long).
        return retry_after_s + delay_s * uniform(0.5, 1)

    def void(self, turn: Turn) -> None:
        """Forget the ids of the turn's calls: others may have them."""
        # None of them is in the history, so the next attempt may use the same ids without stand-ins ("retry, the same
        # id again").
        self._ids -= {call.input.echo_id for call in turn.calls}

    def ending_of(self, turn: Turn, stop_reason: str | None) -> Ending:
        """Return the row of the transition table for a response with this stop reason."""
        return ending_of(stop_reason, on_truncated=self._options["on_truncated"], forbids_retry=turn.forbids_retry)

    def abandon(self, message: AssistantMessage, status: RunStatus) -> None:
        """End the conversation: the current response broke off, or nobody waits for it any more.

        The turn is still to be closed. Calls that run may end before that.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            self._turn.end(message, BROKEN_OFF)
            self._take_account(message)
        # An attempt that brought no content must not hide the last message that had some.
        if message["content"]:
            self.result.message = message
        self.result.status = status
        self.output.end(self.result.message or {}, broken=True)

    def _take_account(self, message: AssistantMessage) -> None:
        """Add the usage of a response, and note the container of its code, however the response ended."""
        # A response that is discarded was paid for, too, and its container has the files of the code that ran
        # (test_what_failed_was_paid_for_too).
        add_usage(self.result.usage, message.get("usage") or {})
        container = message.get("container")
        if isinstance(container, str | Mapping) and container:
            self.result.container = encodable(container)

    def close_turn(self) -> None:
        """Settle the current turn, if any, and add the part of it that stays to the history."""
        if self._turn is not None:
            self._turn.close()

    @property
    def retries(self) -> bool:
        """True if the last turn was discarded: its request is sent once more."""
        return self._turn is not None and self._turn.is_discarded

    def _end_truncated(self, turn: Turn) -> None:
        """React to a response that `max_tokens` cut and that is not reported: send it again, raise, or stop."""
        asked = self._requests.max_tokens
        if self._options["on_truncated"] == "raise":
            self.failure = LimitError("max_tokens", asked, "the response")
        elif self._options["on_truncated"] == "retry" and self._retry_max_tokens is None:
            # Once only: a model that does not come to an end would cost twice as much with each attempt. The cap may
            # leave no room for more tokens; then the same request would be cut again.
            more = min(2 * asked, self._options["max_tokens_cap"] or 2 * asked)
            if more > asked:
                self._retry_max_tokens = more
                self.void(turn)
                turn.discard()

    def _decide(self, turn: Turn, reason: str | None) -> None:
        """Decide if the conversation continues after a turn, and set its status if not."""
        ending = turn.ending
        assert ending is not None
        self._retry_max_tokens = None
        self._restarts = 0
        if ending.then is Then.ASK:
            if turn.number == self._options["max_turns"]:
                self.result.status = RunStatus.LIMIT
            return
        # By the blocks that are kept, not by the calls: those before a `fallback` block are left out, and a turn
        # without one call has no results to send (test_only_calls_before_a_fallback).
        kept = turn.kept
        has_results = any(block.get("type") == "tool_use" for block in kept)
        wants_more = ending.then is Then.RESUME or (ending.then is Then.RESULTS and has_results)
        if not wants_more or not kept:
            self.result.status = ending.status
            if reason == "tool_use":
                _log.warning("the response stopped for tools and calls none: the run ends")
            return
        # A pause without client calls, or a reported cut: the model continues by itself, and might for ever. A turn
        # with results is progress, and resets the count.
        is_continuation = not has_results or ending.status is RunStatus.TRUNCATED
        self._continuations = self._continuations + 1 if is_continuation else 0
        if self._continuations > self._options["max_continuations"]:
            self.result.status = ending.status
        elif turn.number == self._options["max_turns"]:
            self.result.status = RunStatus.LIMIT

    def settled(self, turn: Turn) -> None:
        """Add a settled turn to the history."""
        # Before the `TurnStop`, at which the result says if the run continues.
        self._prolong()
        # A new list, so that a kept `result.messages` stays the history of its moment.
        self.result.messages = [*self.result.messages, *turn.history]
        results = [call for call in turn.calls if call.in_history]
        if turn.ending is INTERRUPTED:
            # An interruption is no mistake of the tools, so it does not count below. If no call ran after all (an input
            # too large to be checked at once did not fit), nothing stays, and the ids are free again
            # (test_an_id_comes_again_where_nothing_of_it_stayed).
            if not turn.history:
                self.void(turn)
        elif results:
            self._failed_turns = self._failed_turns + 1 if all(call.is_error for call in results) else 0
            if self._failed_turns == self._options["max_consecutive_tool_errors"] and not self._has_ended:
                self.result.status = RunStatus.LIMIT


def _call_ids(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the calls that the history already has."""
    ids: set[str] = set()
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list | tuple) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                ids.add(str(block.get("id")))
    return ids
