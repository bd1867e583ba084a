"""`Course`: the course of a conversation without I/O: its requests, what each response means, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from eagerstream_wire import Outcome
from eagerstream_wire._assistant_message import AssistantMessage
from eagerstream_wire._checks import check_count
from eagerstream_wire._history import MAX_BREAKPOINTS, is_prefill, validate_history
from eagerstream_wire._repair import repair_history
from eagerstream_wire._server_tools import server_calls
from eagerstream_wire._settled_messages import notable
from eagerstream_wire._stop_reasons import PAUSES

from ..calls._call_ids import CallIds
from ..calls._callable_tools import callable_tools
from ..calls._policy import BROKEN_OFF, CANCELLED, INTERRUPTED, SUMMARY, Ending, RunStatus, Then, ending_of
from ..calls._turn import Turn
from ..errors import APIError, HistoryError, LimitError, ProtocolError, UsageError
from ..inputs._growing_input import GrowingInput
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._message_stream import checked_messages, request_parameters
from ..streaming._options import check_names, taken
from ..streaming._types import RequestMessage
from ..tools._call import CallHost, CallListener, ToolCall
from ..tools._definition import Tool
from ..tools._executor import Executor
from ..tools._foreign import GivenTool
from ..tools._toolbox import Toolbox
from ._budget import Budget
from ._compaction import Compaction
from ._continuing import Continuing
from ._interruption import Restarts
from ._options import (
    CALL_DEFAULTS,
    LOOP_DEFAULTS,
    ConversationOptions,
    LoopOptions,
    RunOptions,
    check_loop_options,
)
from ._output import RunOutput
from ._requests import GivenTools, Requests, check_parameters
from ._result import RunResult, take_account
from ._steering import IDLE, Steering, When
from ._tool_changes import has_tool_changes


class Course:
    """The history of a conversation, its next request, and its end: `Run` and `Conversation` follow it.

    Args:
        model, max_tokens, messages, tools, output, context, options: As for `Conversation`.

    Raises:
        UsageError, HistoryError: As for `Conversation`.

    Attributes:
        options: Those that decide if and how it continues, each with its value.
        result: The result as of now.
        tools: The tools by name.
        executor: Runs the calls.
        compaction: The summary that is asked for.
        limits: The bounds on responses, inputs and results.
        host: The run, or the conversation, that the calls belong to.
        listeners: Hear of the life of the calls.
    """

    def __init__(
        self,
        *,
        model: str,
        max_tokens: int,
        messages: Sequence[RequestMessage] | RunResult,
        tools: Sequence[GivenTool] = (),
        output: Any = None,
        context: object = None,
        **options: Unpack[ConversationOptions],
    ) -> None:
        given: dict[str, Any] = dict(options)
        check_parameters(given)
        self.limits: Limits = given.pop("limits", DEFAULT_LIMITS)
        if not isinstance(self.limits, Limits):
            raise UsageError(f"limits must be a Limits, not {type(self.limits).__name__}")
        check_count("max_tokens", max_tokens, least=0)
        self.options: LoopOptions = taken(given, LOOP_DEFAULTS)
        check_loop_options(self.options)
        calls = taken(given, CALL_DEFAULTS)
        eager: bool = given.pop("eager", True)
        self.tools: Toolbox
        self.executor: Executor
        self.tools, self.executor = callable_tools(tools, limits=self.limits, context=context, **calls)
        self.result: RunResult = RunResult(RunStatus.RUNNING, None, [])
        self.output: RunOutput = RunOutput(output, given, self.limits, self.result)
        if isinstance(messages, RunResult):
            self.result.container = messages.container
            if messages.stop_reason in PAUSES:  # the API continues it: nothing may follow
                self.result.message = messages.message
            messages = messages.messages
        self.result.messages = checked_messages(messages)  # a list of our own: the caller's must not grow
        self.awaits_reply: bool = False
        """A request was made, and its response was not taken."""
        self.steering: Steering = Steering(self.result)
        self.delivered: Sequence[Mapping[str, Any]] = ()
        """The messages that the last request has for the first time."""
        self._is_prolonged = False  # it would have ended without a message that waits
        self.failure: LimitError | None = None
        """The error to raise after the last turn is closed, so that its calls have their results first."""
        check_names(given, RunOptions)
        parameters = request_parameters(model, max_tokens, tools, given, eager=eager)
        if self.options["repair"]:
            # Before the ids are read, which the repair may change.
            repaired, self.result.repairs = repair_history(self.result.messages, parameters.get("tools", ()))
            self.result.messages = [*repaired]
        runnable = GivenTools(tools, self.tools, calls["executor"], context)
        self._requests = Requests(parameters, self.result, self.output, runnable, self.options, eager=eager)
        self.max_breakpoints = MAX_BREAKPOINTS
        """Maximum number of cache breakpoints in a request."""
        self._turn: Turn | None = None
        self.host: CallHost = CallHost(deps=context)
        self.listeners: tuple[CallListener, ...] = ()
        bounds = self.options
        self.budget: Budget = Budget(bounds["max_total_tokens"], bounds["max_cost"], bounds["price"])
        """The bounds of the run, and the part of them that is used."""
        self._continuing = Continuing(self.options, self.limits, self.result, self.budget)
        self.known_answers: Mapping[str, Callable[[ToolCall], None]] = {}
        """For calls of a response that was restored from a journal, by id: they have run, or must not run again."""
        self.compaction: Compaction = Compaction()
        self._ids = CallIds(self.result.messages)
        # Now, so that the error comes out of the caller's own line, before anything is sent or paid for.
        self._requests.check(may_grow=True)

    @property
    def model(self) -> str:
        """See `Conversation.model`."""
        return self._requests.model

    @property
    def has_inline_tools(self) -> bool:
        """True if blocks of the history change the tools."""
        return self._requests.has_inline_tools

    @property
    def cuts_at_budget(self) -> bool:
        """True if a response ends where its estimate passes the budget."""
        return self.options["on_budget"] == "cut" and self.budget.is_bounded

    @property
    def turns(self) -> int:
        """Number of turns so far, with the current one."""
        return self._continuing.turns

    @property
    def restarts(self) -> Restarts:
        """The interruptions in a row."""
        return self._continuing.restarts

    @property
    def ended(self) -> bool:
        """True if there is nothing more to send. This closes a turn whose calls all have their answers."""
        # Closing may decide the end, and `while not ended: request()` must see it here instead of an error from
        # `request`, if every call was answered by hand (test_the_end_without_results).
        if self._turn is not None and self._turn.ending and all(call.result for call in self._turn.calls):
            self._turn.close()
        self._prolong()
        is_between = not self.awaits_reply and (self._turn is None or self._turn.is_closed)
        if self.result.status is RunStatus.RUNNING and is_between:
            # Before each request, also the first: another run may have used the budget that it shares.
            self._continuing.end_without_budget()
        return self.result.status is not RunStatus.RUNNING

    @property
    def is_idle(self) -> bool:
        """True if it has ended by itself, and goes on if the user says something for that time."""
        return self.result.status in IDLE and self._continuing.has_turns_left

    def _prolong(self) -> None:
        """Continue a conversation that would have ended, if a message waits for that."""
        if self.is_idle and self.steering.prolongs:
            self.result.status, self._is_prolonged = RunStatus.RUNNING, True

    def prepare(self) -> None:
        """Close the turn before, if any, and prepare the next request.

        Raises:
            UsageError, HistoryError: As for `Conversation.request`.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            raise UsageError("the response to the last request has not been taken")
        self.close_turn()
        if self.ended:
            raise UsageError(f"the conversation has ended: {self.result.status.value}")
        if not self.retries:
            self.compaction.begin(is_paused=self.steering.is_paused)
        self.delivered = ()
        if not self.compaction.is_under_way:  # a summary is asked of the history as it is
            # A finished conversation is idle before its first request, too.
            is_idle = self._is_prolonged or (not self._continuing.turns and is_prefill(self.result.messages))
            self.delivered = self.steering.deliver(is_idle=is_idle)
            self._is_prolonged = False
            if self._requests.prepare(self._continuing.turns + (not self.retries)):
                self._history_replaced()
        self.awaits_reply = True
        if self._turn is not None:
            self._turn.is_answered = True

    def say(self, message: str | Mapping[str, Any], when: When = "next_turn") -> None:
        """See `Conversation.say`."""
        self.steering.add(message, when)

    def add_tools(self, *tools: GivenTool) -> None:
        """See `Run.add_tools`."""
        self.steering.change_tools(self._requests.add_tools(tools))

    def remove_tools(self, *tools: GivenTool | str) -> None:
        """See `Run.remove_tools`."""
        self.steering.change_tools(self._requests.remove_tools(tools))

    def leave_inline_tools(self) -> None:
        """Change `tools` in requests from now on: the API has refused blocks of the history that do that."""
        self._requests.leave_inline_tools()
        self.steering.forget_tool_changes()

    def compact(self, instructions: str | None = None) -> None:
        """See `Run.compact`."""
        self._requests.check_compaction(instructions)
        self.compaction.ask(instructions)

    def replace_history(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """See `Conversation.replace_history`."""
        if faults := validate_history(checked := checked_messages(messages)):
            raise HistoryError(faults)
        self._requests.replace_history(checked)
        self._history_replaced()

    def _history_replaced(self) -> None:
        self._ids = CallIds(self.result.messages)
        self.steering.forget_tool_changes()

    def complete_request(self) -> dict[str, Any]:
        """Return the body of the request under way with the complete conversation, and without a thread."""
        body = self._requests.body(self._continuing.retry_max_tokens, most_breakpoints=self.max_breakpoints)
        return self.compaction.request(body) if self.compaction.is_under_way else body

    def request_again(self) -> dict[str, Any]:
        """Return the body of a request that an earlier process has sent. The turn of it is about to begin.

        Raises:
            UsageError, HistoryError: As for `Conversation.request`.
        """
        self._requests.prepare(self._continuing.turns + 1)
        return self.complete_request()

    def begin(self, messages: Sequence[Mapping[str, Any]] | None = None) -> Turn:
        """Return the turn of a request that is about to be sent, or has been.

        Args:
            messages: Those of the request, from this step of the event loop. Default: the history as it is now.
        """
        self.close_turn()
        self.awaits_reply = False
        self.output.begin()
        if not self.retries:
            self._continuing.turns += 1
        self._turn = Turn(
            self._continuing.turns,
            self,
            executor=self.executor,
            limits=self.limits,
            host=self.host,
            listeners=self.listeners,
            server_calls=server_calls(notable(self._requests.history() if messages is None else messages)),
        )
        # A summary calls nothing, and a call of a hostile peer must not run.
        self._turn.is_stopped = self.compaction.is_under_way
        return self._turn

    def make_call(self, turn: Turn, input: GrowingInput, tool: Tool | None) -> ToolCall:
        """Add a call to the turn, for an input that has started or ended."""
        self._ids.take(input, turn.number)
        # Names are shortened to 64 characters, which is the strictest rule. The API has just taken this name in a
        # definition, so it takes it in a call, too (test_a_long_name_of_a_tool_stays).
        if tool is not None and tool.name == input.name:
            input.echo_name = input.name
        call = turn.add(input, tool)
        call.accounts = (self.result.usage, self.result.sub_usage)
        self.result.calls.append(call)
        if self.known_answers and call.id in self.known_answers and call.result is None:
            self.known_answers[call.id](call)
        return call

    def end(self, turn: Turn, message: AssistantMessage, ending: Ending | None = None) -> None:
        """Decide how the conversation continues after the end of a response.

        `turn.ending` says which calls of the turn may still start. They are run, or not, before the turn is closed.

        Args:
            turn: The turn that `begin` returned.
            message: The assistant message.
            ending: The row of the table; None to find it by the stop reason.
        """
        result = self.result
        result.turns += ending is not CANCELLED
        self._take_account(message)
        if self.compaction.is_under_way:
            ending = ending or SUMMARY
        else:
            result.message = message
            self.output.end(message)
        reason = message.get("stop_reason")
        turn.end(message, ending or self.ending_of(turn, reason))
        if turn.ending is not None and turn.ending.then is Then.TRUNCATED:
            # `max_tokens` cut the response, and it is not reported.
            if self.options["on_truncated"] == "raise":
                self.failure = LimitError("max_tokens", self._requests.max_tokens, "the response")
            elif self._continuing.asks_for_more(self._requests.max_tokens):
                self.void(turn)
                turn.discard()
        if not turn.is_discarded:
            self._continuing.decide(turn, reason)

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
        if self.compaction.is_under_way and isinstance(error, APIError) and error.status_code == 400:
            self.end(turn, message)  # the conversation continues without a summary
            return 0.0
        delay_s = self.restarts.delay_s(error)
        if turn.forbids_retry:  # the model would call the same tools again
            self.salvage(turn, message)
        else:
            self._take_account(message)
            self.output.end(message, broken=True)
            self.void(turn)
            turn.discard()
        return delay_s

    def salvage(self, turn: Turn, message: AssistantMessage) -> None:
        """Continue after a response that broke off, alone or with its program, and of which something had begun."""
        self._take_account(message)
        self.output.end(message, broken=True)
        self.result.message = message
        turn.end(message, INTERRUPTED)
        self._continuing.salvaged()

    def _take_account(self, message: AssistantMessage) -> None:
        """Count what a response has used, however it ended."""
        # First, because the user's function may raise: then the end of the run counts the response.
        self.budget.spend(message.get("usage") or {}, str(message.get("model") or self.model))
        take_account(self.result, message)
        self.result.cost = self.budget.cost

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to continue, without the history and the calls, as plain data."""
        counts = {**self._continuing.state(), "budget": self.budget.state()}
        return {**counts, "waiting": self.steering.saved(), "result": self.result.facts()}

    def restore(
        self,
        state: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        calls: Sequence[Mapping[str, Any]],
        waiting: Sequence[Sequence[Any]],
    ) -> None:
        """Continue where another process stopped.

        Args:
            state: As `state` returned it; empty before the first settled turn.
            messages: The history.
            calls: The calls of the settled turns.
            waiting: The messages that were said and not sent.

        Raises:
            UsageError, KeyError, TypeError, ValueError: The data is not what a run has saved.
        """
        if state:
            self.result.take(state["result"], calls)
            self._continuing.restore(state)
            self.budget.restore(state.get("budget") or {})  # absent in what was saved before there were any
            self.result.cost = self.budget.cost
        # Its tools are those that it was given, whatever the history said about those of the earlier process.
        self._requests.replace_history(checked_messages(messages))
        self._continuing.wake()
        self.steering.restore(waiting)
        self._requests.continue_after(self._continuing.turns)
        self._history_replaced()

    def void(self, turn: Turn) -> None:
        """Forget the ids of the turn's calls, none of which is in the history: others may have them."""
        self._ids.free(turn.calls)

    def ending_of(self, turn: Turn, stop_reason: str | None) -> Ending:
        """Return the row of the transition table for a response with this stop reason."""
        return ending_of(stop_reason, on_truncated=self.options["on_truncated"], forbids_retry=turn.forbids_retry)

    def abandon(self, message: AssistantMessage, status: RunStatus) -> None:
        """End the conversation: the current response broke off, or nobody waits for it any more.

        The turn is still to be closed. Calls that run may end before that.
        """
        if self._turn is not None and self._turn.ending is None and not self._turn.is_discarded:
            self._turn.end(message, BROKEN_OFF)
            self._take_account(message)
        # An attempt that brought no content must not hide the last message that had some.
        if message["content"] and not self.compaction.is_under_way:
            self.result.message = message
        self.result.status = status
        self.output.end(self.result.message or {}, broken=True)

    def close_turn(self) -> None:
        """Settle the current turn, if any: the history gets what stays of it."""
        if self._turn is not None:
            self._turn.close()

    @property
    def retries(self) -> bool:
        """True if the last turn was discarded: its request is sent once more."""
        return self._turn is not None and self._turn.is_discarded

    def settled(self, turn: Turn) -> None:
        """Add a settled turn to the history."""
        self.result.cost = self.budget.cost  # with what the runs of its tools have used
        # Before the `TurnStop`, at which the result says if the run continues.
        self._prolong()
        if self.compaction.is_under_way:
            self.void(turn)
            history = self.result.messages
            if summary := self.compaction.end(turn.message, is_complete=turn.ending is SUMMARY):
                self.result.messages, self._ids = [summary], CallIds([summary])
                # The API says in the block which changes of the tools stay in force.
                if has_tool_changes(history) and summary["content"][0].get("tool_changes") is None:
                    self.replace_history([summary])
            return
        # A new list, so that a kept `result.messages` stays the history of its moment.
        self.result.messages = [*self.result.messages, *turn.history]
        if turn.ending is INTERRUPTED:
            # An interruption is no mistake of the tools, so it does not count below. If no call ran after all (an input
            # too large to be checked at once did not fit), nothing stays, and the ids are free again
            # (test_an_id_comes_again_where_nothing_of_it_stayed).
            if not turn.history:
                self.void(turn)
        elif results := [call for call in turn.calls if call.in_history]:
            self._continuing.settled(results)
        self._requests.buffered = {call.name for call in turn.calls if self._asks_for_buffered(call)}

    def _asks_for_buffered(self, call: ToolCall) -> bool:
        """Return True if the input of a call was not JSON, and the next one of its tool should be checked."""
        if call.input.outcome is not Outcome.INVALID or call.repaired is not None:
            return False
        tool = self.tools.find(call.input.block)
        return ((tool and tool.on_invalid) or self.options["on_invalid"]) == "buffer_next"
