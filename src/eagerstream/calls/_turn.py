"""`Turn`: one response of the model and its calls, without I/O. It takes events and returns a `Step` to carry out.

A `Turn` awaits nothing, reads no clock and starts no task. It decides when each call may start, how a guard's answer
counts, and how each call ends with the response. `CallRunner` carries that out. So `test_every_order.py` can try every
order of the events of two calls on this class alone, up to 10,000 orders a turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from eagerstream_wire import (
    BlockStart,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    Outcome,
    TextDelta,
    ThinkingDelta,
)
from eagerstream_wire._assistant_message import AssistantMessage, Block, blocks_of, empty_message
from eagerstream_wire._block_rules import text_block
from eagerstream_wire._events import Message

from ..errors import UsageError
from ..inputs import GrowingInput
from ..limits import Limits
from ..tools._call import CallHost, CallListener, CallState, ToolCall
from ..tools._definition import Tool
from ..tools._executor import Executor
from ..tools._results import REPEATED
from ..tools._toolbox import Toolbox
from ._policy import Begins, Ending
from ._settle import kept_blocks, settle, taken_over, without_result

DELTAS: Final = frozenset({InputDelta, TextDelta, ThinkingDelta})
"""Types of events that decide nothing, unless a guard looks at the input. Nearly all events are of them."""


class CallMaker(Protocol):
    """The owner of a turn: it makes the calls, and knows which ids the history already has."""

    # `run` and the step-by-step form repair ids and keep a history. `EarlyCalls` has neither, and leaves out calls that
    # it cannot answer. One protocol instead of a callback for each difference: there were ten, eight of them no-ops.

    @property
    def tools(self) -> Toolbox:
        """The tools of the calls."""
        ...

    def make_call(self, turn: Turn, input: GrowingInput, tool: Tool | None) -> ToolCall | None:
        """Make the call of an input and add it to the turn; return None if the call could not be answered."""
        ...

    def ending_of(self, turn: Turn, stop_reason: str | None) -> Ending:
        """Return the `Ending` of a turn whose response has this stop reason."""
        ...

    def void(self, turn: Turn) -> None:
        """Forget the calls of the turn: others may have their ids."""
        ...

    def settled(self, turn: Turn) -> None:
        """Take over `turn.history` of a turn that was closed."""
        ...


@dataclass(slots=True)
class Step:
    """The consequences of some events, for the owner of the turn to carry out.

    Attributes:
        events: Those that count, to be handed on.
        expected: Inputs at whose end a call will probably start.
        started: Calls that start now.
        cancelled: Calls whose results nobody wants any more.
    """

    # A value, and not a runner that the turn would call: a turn without tasks can be tried in every order, and the
    # three owners of turns carry out a step in the order that fits them.

    events: list[Any]
    expected: list[GrowingInput] = field(default_factory=list)
    started: list[ToolCall] = field(default_factory=list)
    cancelled: list[ToolCall] = field(default_factory=list)


class Turn:
    """One response of the model and its calls.

    A call starts at the end of its own input. If its tool has streaming parameters, the call starts with its input. If
    the call has to wait for the end of the message, it is held. Guards are asked while inputs grow.

    Attributes:
        number: From 1.
        message: The assistant message; empty until the response has ended.
        calls: The client's calls, in the order of their blocks once the response has ended.
        held: Calls that wait for the end of the message.
        ending: The row of the transition table for the end of the response; None until it has ended.
        history: The messages that the turn adds to the conversation; empty until it is closed.
        is_closed: Nothing can be answered any more.
        is_discarded: Its request is sent again, and nothing of it stays.
        is_answered: Its results are in a request, or have a text behind them already.
        is_stopped: No further call may start.
        is_cut: The rest of the response is not wanted: a guard said so, or the peer restarted it after a call had run.
        voided: The message before that restart.
        host: The run, or the framework, that the calls belong to.
        listeners: Hear of the life of the calls.
        executor: Gives the calls their places, and runs them.
        server_calls: Ids of the API's own calls in the history before.
    """

    def __init__(
        self,
        number: int,
        maker: CallMaker,
        *,
        executor: Executor,
        limits: Limits,
        host: CallHost,
        listeners: tuple[CallListener, ...] = (),
        server_calls: Collection[str] = (),
        can_be_cut: bool = True,
    ) -> None:
        self.number = number
        self.message: AssistantMessage = empty_message()
        self.calls: list[ToolCall] = []
        # Dicts as sets, here and below: the garbage collector visits each empty set, and no empty dict.
        self.held: dict[ToolCall, None] = {}
        self.ending: Ending | None = None
        self.history: Sequence[Message] = ()
        self.is_closed: bool = False
        self.is_discarded: bool = False
        self.is_answered: bool = False
        self.is_stopped = False
        self.is_cut: bool = False
        self.voided: AssistantMessage | None = None
        self.host = host
        self.listeners = listeners
        self.wants_deltas: bool = maker.tools.has_guards
        """A guard may want to look at each `InputDelta`."""
        self.looks_at_deltas: bool = False
        """It does now, or the rest of the response does not count. Else `take` returns `InputDelta`s as they are."""
        # Two flags: the reader has to know before the first fragment if deltas must be made at all. While no input has
        # a guard, `TurnExchange` hands chunks with only deltas past this class, and those are nearly all chunks.
        self._maker: CallMaker | None = maker  # until it is closed: no cycle is left
        self._tools = maker.tools
        self.executor = executor
        self._limits = limits
        # The conversation has the turn, too. `close` and `discard` break the cycle, so that a run goes away with its
        # last reference: of 500 runs at once, 520 were alive at most, and 632 when only the garbage collector removed
        # them.
        self.server_calls = server_calls
        self._can_be_cut = can_be_cut  # by a guard; else the owner reads on, whatever it says
        # By input, not by id or index: a peer may use both twice.
        self._by_input: dict[GrowingInput, ToolCall] = {}
        self._guarded: dict[GrowingInput, Tool] = {}
        # The state of a call does not say this: one that waits for its group has been started, and is `WAITING`.
        self._started: dict[ToolCall, None] = {}
        self._held_groups: dict[str, None] = {}
        # Shared by the calls, and not kept in the executor: one executor may serve several runs, and a failure in one
        # of them must not stop a group in another (test_an_executor_of_two_runs).
        self._failed_groups: dict[str, ToolCall] = {}

    @property
    def kept(self) -> list[Block]:
        """The blocks of the response that stay in the history, known from its end on."""
        assert self.ending is not None
        return kept_blocks(self.message, self.calls, self.ending.keeps, server_calls=self.server_calls)

    @property
    def forbids_retry(self) -> bool:
        """True if a call that must not run twice has started to run, or is about to."""
        # Admitted calls count, because their tasks may call the tool before the same request is sent again. A call that
        # waits for a slot or a group forbids nothing: it is withdrawn.
        return any(call.has_begun and not call.idempotent for call in self.calls)

    # --- while the response comes -------------------------------------------------------------------------------------

    def take(self, events: Sequence[Any]) -> Step:
        """Take events of the response, and return their consequences."""
        step = Step([])
        for event in events:
            if self.is_cut:
                # Nothing after the cut counts, although its events may be in the same chunk. Only the end of an input
                # is reported if the input has a call: consumers show it as growing until then.
                if isinstance(event, InputStop) and event.input in self._by_input:
                    step.events.append(event)
            elif isinstance(event, MessageStart) and event.voided is not None and self.forbids_retry:
                # A gateway tried again after an error upstream. The new beginning has new ids, so its calls would do
                # the work of the started ones a second time. The event is not handed on: nothing may be forgotten
                # (test_a_restarted_reply_after_a_call_has_run).
                self.is_cut = self.looks_at_deltas = True
                self.voided = event.voided
            else:
                step.events.append(event)
                if self._guarded or type(event) not in DELTAS:  # nearly all are
                    self._take(event, step)
        return step

    def _take(self, event: Any, step: Step) -> None:
        match event:
            # Of the calls only `tool_use`: the API runs those of the other kinds itself.
            case InputDelta(input=input):
                if input in self._guarded:
                    self._ask_guard(input)
            case InputStart(input=input) if input.kind == "tool_use":
                self._take_start(input, step)
            case InputStop(input=input) if input.kind == "tool_use":
                # The guard first: an input that came complete with its start has had no delta, and the call may start
                # in the next line. That of the tool as it is now, which may have replaced another one meanwhile
                # (test_a_guard_that_comes_while_the_input_is_written).
                tool = self._tools.find(input.block)
                if tool is not None and tool.guard is not None and input.interrupted is None:
                    self._guarded[input] = tool
                if input in self._guarded:
                    self._ask_guard(input)
                call = self._by_input.get(input)
                if call is not None and input.interrupted is None:
                    return  # its tool streams: it has started
                call = call or self._make(input, tool)
                # A rejected call goes on to the executor, although it is answered: it counts as a failure of its group,
                # and the runner reports its end. If the input was cut off, the executor answers the call.
                if call is None or call in self._started or self.is_stopped:
                    return
                if tool is not None and self._must_wait(tool) and input.outcome is Outcome.VALID:
                    # Not given to the executor yet, where it would take a slot from calls that may start now. A call
                    # whose input is not valid need not wait, because its tool does not run.
                    self.held[call] = None
                    if tool.group is not None:
                        self._held_groups[tool.group.name] = None
                else:
                    self._start(call, step)
            case MessageStart(restarted=True):
                self._restart(step)
            case MessageStop(stop_reason=reason):
                # Now, not in `end`: a peer may hold the body open after the message, and a call that waits for a slot
                # would start in that time (test_nothing_begins_after_the_end).
                assert self._maker is not None
                self.withdraw(self._maker.ending_of(self, reason).begins)
            case BlockStart(block={"type": "fallback"}):
                # Another model takes over. The API's guide: drop the client calls before this block, which may be cut
                # off. So no further one starts, and their failures do not stop a group of the new model's calls.
                self.withdraw(Begins.NONE)
                self._failed_groups = {}
            case _:
                pass

    def _take_start(self, input: GrowingInput, step: Step) -> None:
        tool = self._tools.find(input.block)
        if self.is_stopped or tool is None:
            return  # a call of an unknown tool is answered at its end, like any other that cannot run
        # Before the returns below: a held call is guarded, too.
        if tool.guard is not None:
            self._guarded[input] = tool
            self.looks_at_deltas = True
        if self._must_wait(tool):
            return
        if not tool.is_streaming:
            # A task is prepared, so that the tool starts sooner once the input ends: to start one then took 53 of the
            # 440 µs from the end of an input to its tool. The call itself is made when its outcome is known.
            step.expected.append(input)
        elif input.error is not None:
            # A fragment lost before its block, or an `input` that is no object: such a call is only answered, at its
            # end. A streaming tool would start its work for nothing.
            return
        elif (call := self._make(input, tool)) is not None:
            # Nobody can approve an input that is not written yet. With approval the call waits for its end, but it has
            # its place in its group from now on (test_approval_is_for_the_whole_input).
            call.streams = tool.approve is None
            self._start(call, step)

    def _must_wait(self, tool: Tool) -> bool:
        """Return True if a call must wait for the message: its tool says so, or an earlier call of its group does."""
        # The calls of a group run in call order, and one behind a held call would overtake it
        # (test_a_group_with_a_held_call).
        return tool.start == "message" or (tool.group is not None and tool.group.name in self._held_groups)

    def _start(self, call: ToolCall, step: Step) -> None:
        self._started[call] = None
        # Admitted here, not when its task runs. A later event of the same chunk may be a restart or a stop reason, and
        # then the answer to "has anything started?" must be right. Also, trio runs the tasks of a turn in random order,
        # and places have to be given in call order.
        if self.admit(call):
            step.started.append(call)

    def admit(self, call: ToolCall) -> bool:
        """Give a call its place. Return False if the executor failed to: the call is answered, and must not start."""
        # Before the executor: the time that a call waits counts from here, and `admit` may answer the call.
        for listener in call.listeners:
            listener.call_admitted(call)
        try:
            self.executor.admit(call)
        except Exception as error:
            # The executor is the user's. Its fault costs this call, not the response that is being read
            # (test_an_executor_that_fails_to_admit_a_call).
            call.fail(error)
            return False
        return True

    def _ask_guard(self, input: GrowingInput) -> None:
        """Ask the tool's guard, if it has one, about the input so far, and answer a call that it rejects."""
        if input.outcome is Outcome.INVALID:
            return
        tool = self._guarded[input]
        reject = tool.rejects(input.partial)
        if reject is None:
            return
        # The call has its answer, so the guard is asked no more.
        del self._guarded[input]
        self.looks_at_deltas = self.is_cut or bool(self._guarded)
        call = self._by_input.get(input) or self._make(input, tool)
        if call is not None:
            call.reject(reject.reason)
            # `EarlyCalls` does not own the connection, so it cannot cut: the framework reads on, and its history has
            # the calls after the rejected one.
            self.is_cut = reject.cut and self._can_be_cut
            self.looks_at_deltas = self.looks_at_deltas or self.is_cut

    def _restart(self, step: Step) -> None:
        """Void all calls: the peer starts its response again, and nothing has run that must not run twice."""
        # The owner forgets the ids while `calls` still has them, because the new beginning may use them again.
        # `ADMITTED` leaves the idempotent calls alone that run or are about to: the runner cancels those that run, and
        # their answers then say so.
        self.held.clear()
        self._held_groups.clear()
        step.cancelled.extend(self.calls)
        for call in step.started:  # in the same chunk: no tool runs yet, and the call only gives its place back
            call.withdraw()
        assert self._maker is not None
        self._maker.void(self)
        self.withdraw(Begins.ADMITTED)
        self.calls.clear()
        self._by_input.clear()
        self._failed_groups = {}  # a new one: the void calls keep theirs, and may fail after this

    def _make(self, input: GrowingInput, tool: Tool | None) -> ToolCall | None:
        assert self._maker is not None
        return self._maker.make_call(self, input, tool)

    def add(self, input: GrowingInput, tool: Tool | None = None) -> ToolCall:
        """Add the call of a tool. If an earlier one of the response has its id, refuse it: it may be the same call."""
        call = ToolCall(input, self.number, self._limits, failed_groups=self._failed_groups)
        call.host = self.host
        call.listeners = self.listeners
        call.run_id = self.host.run_id or ""
        call.tool = tool
        call.idempotent = tool is not None and tool.idempotent
        self.calls.append(call)
        self._by_input[input] = call
        if input.repeats_id:
            # To run it might do the same work twice. It stays in the history under a stand-in id, with this error, so
            # that a model that meant two calls can repeat the second (test_a_repeated_id_is_one_behaviour).
            call.refuse(REPEATED)
        return call

    def call_with(self, id: str, inputs: Iterable[GrowingInput]) -> ToolCall | None:
        """Return the call with this id, also if its input is still being written; None if there is none.

        Args:
            id: The id, as it came.
            inputs: Those of the response under way.
        """
        for call in self.calls:
            if call.id == id:
                return call
        for input in inputs:
            if input.id == id and input.kind == "tool_use" and not self.is_closed:
                return self._make(input, self._tools.find(input.block))
        return None

    def withdraw(self, begins: Begins) -> None:
        """Answer the calls that may not start any more, so that they do not."""
        for call in self.calls:
            if call.ran:
                continue  # its tool has had its effect, so its own answer counts
            # A call on streaming parameters whose input is complete counts as admitted. Its task was started with the
            # input, and it depends on the cut of the bytes how far that task has come.
            is_held = call.state is CallState.WAITING and not (call.streams and call.input.outcome is Outcome.VALID)
            waits = begins is Begins.NONE or (begins is Begins.ADMITTED and is_held)
            if call.input.outcome is Outcome.INCOMPLETE or (waits and call.input.outcome is not Outcome.VALID):
                # Its input is wrong whatever the ending is, so the model gets its own text back instead of `NOT_RUN`.
                call.refuse()
            elif waits:
                call.withdraw()

    # --- when it has ended --------------------------------------------------------------------------------------------

    def end(self, message: AssistantMessage, ending: Ending) -> None:
        """Take the message and the ending of a response that has ended, or broke off."""
        self.message = message
        self.ending = ending
        # Calls are added at the ends of their inputs, or at their starts if they stream. Results go back in the order
        # of the blocks, and inputs may interleave.
        self.calls.sort(key=lambda call: call.input.index)
        content = blocks_of(message)
        given_up = {block.get("id") for block in content[: taken_over(content)]}
        for call in self.calls:
            if call.input.echo_id in given_up:
                # For the step-by-step form, which has seen no `fallback` event: its calls must not run, either, and
                # their failures must not stop a group of the model that took over.
                call.failed_groups = {}
                if not call.ran:
                    call.withdraw()

    def release(self, begins: Begins) -> list[ToolCall]:
        """Return the held calls that start now, after the end of the message; answer the others."""
        # Before the admission below: a call that is answered must not be given a place.
        self.withdraw(begins)
        if begins is Begins.ALL:
            return [call for call in self.held if call.result is None and self.admit(call)]
        for call in self.held:
            call.withdraw()
        return []

    def discard(self) -> None:
        """Answer all calls and keep nothing of the turn: its request is sent once more."""
        # The calls are answered all the same: `RunResult.calls` keeps them, and somebody may wait for one.
        self.is_closed = self.is_discarded = True
        self._maker = None
        self.withdraw(Begins.NONE)

    def close(self) -> None:
        """Settle the turn: afterwards, `history` has the part of it that stays. Does nothing the second time."""
        if not self.is_closed:
            assert self.ending is not None
            self.is_closed = True
            self.history = settle(self.message, self.calls, self.ending.keeps, server_calls=self.server_calls)
            maker, self._maker = self._maker, None
            if maker is not None:
                maker.settled(self)

    # --- step by step -------------------------------------------------------------------------------------------------

    def take_up(self) -> list[ToolCall]:
        """Return the calls that nobody runs yet. The caller must admit and run each of them, or put it back."""
        # In the step-by-step form nothing is admitted before the end of the response. So a row that lets only admitted
        # calls run lets none of these run.
        if self.ending is not None and self.ending.begins is not Begins.ALL:
            self.withdraw(Begins.NONE)
        own = [call for call in self.calls if call not in self._started]
        self._started.update(dict.fromkeys(own))
        return own

    def put_back(self, calls: Sequence[ToolCall]) -> None:
        """Let those of these calls that have not run be taken up again. The others are answered as cancelled."""
        for call in calls:
            if call.ran:
                call.refuse_unfinished()  # it must not run a second time
            elif call.result is None:
                self._started.pop(call, None)

    def results(self, *, extra_user_text: str | None = None) -> list[Block]:
        """Return the `tool_result` blocks of the turn, in call order. A call without an answer gets one that says so.

        This closes the turn: nothing can be answered afterwards.

        Args:
            extra_user_text: Text of the user behind the results, `"What should I do next?"` for example. The API's
                advice is to leave it out: text after each result teaches the model to end its turns early.

        Raises:
            UsageError: The API would refuse such a text: the turn has no results, code made one of its calls, or the
                API has yet to run a call of its own. Or the results have been sent. They stay as they were.
        """
        self.close()
        results: list[Block] = self.history[1]["content"] if len(self.history) > 1 else []
        if extra_user_text is not None:
            wrong = None
            if self.is_answered:
                wrong = "the results have been sent, or have such a text already"
            elif len(self.history) < 2:
                wrong = "this turn has no results that a text could follow"
            elif not extra_user_text.strip():
                wrong = "the API refuses a text without a word"
            elif any(call.in_history and call.is_programmatic for call in self.calls):
                wrong = "only results may follow a call that code made"
            elif without_result(self.history[0]["content"]):
                wrong = "only results may follow a turn in which the API has yet to run a call of its own"
            if wrong is not None:
                raise UsageError(f"extra_user_text: {wrong}")
            # In place: the history has the same list, and the next request sends the text with the results.
            results.append(text_block(extra_user_text))
            self.is_answered = True
        return results
