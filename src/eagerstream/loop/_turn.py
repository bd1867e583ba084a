"""`Turn`: one response of the model and its calls, without I/O. Events go in; what follows from them comes out.

A `Turn` awaits nothing, reads no clock and starts no task. It decides when each call may start, what a guard's answer
means, and what becomes of the calls when the response ends. `CallRunner` carries that out. So every order of events can
be tried on this class alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from ..errors import UsageError
from ..limits import Limits
from ..streaming import GrowingInput
from ..tools._call import CallListener, CallState, ToolCall
from ..tools._content import text_block
from ..tools._definition import Tool
from ..tools._executor import Executor
from ..tools._results import CANCELLED_TEXT, REPEATED
from ..tools._toolbox import Toolbox
from ..wire import BlockStart, InputDelta, InputStart, InputStop, MessageStart, MessageStop, Outcome
from ..wire._events import Block, Message
from ._policy import Begins, Ending
from ._runner import CallRunner
from ._settle import kept_blocks, settle, taken_over, without_result


class CallMaker(Protocol):
    """The owner of a turn: it makes the calls, and knows what the history has already."""

    @property
    def tools(self) -> Toolbox:
        """The tools that the calls are for."""
        ...

    def make_call(self, turn: Turn, input: GrowingInput) -> ToolCall | None:
        """Return the call of an input, added to the turn; None if it cannot be answered."""
        ...

    def ending_of(self, turn: Turn, stop_reason: str | None) -> Ending:
        """Return how a response with this stop reason ends the turn."""
        ...

    def void(self, turn: Turn) -> None:
        """The calls of the turn do not count any more: others may have their ids."""
        ...

    def settled(self, turn: Turn) -> None:
        """The turn is closed: `turn.history` is what it adds to the conversation."""
        ...


@dataclass(slots=True)
class Step:
    """What follows from some events.

    Attributes:
        events: Those that count, to be handed on.
        expected: Inputs at whose end a call will probably start.
        started: Calls that start now.
        cancelled: Calls whose results nobody wants any more.
    """

    events: list[Any]
    expected: list[GrowingInput] = field(default_factory=list)
    started: list[ToolCall] = field(default_factory=list)
    cancelled: list[ToolCall] = field(default_factory=list)

    @property
    def follows(self) -> bool:
        """There is something to do."""
        return bool(self.started or self.expected or self.cancelled)


class Turn:
    """One response of the model and its calls.

    A call starts at the end of its own input. If its tool has streaming parameters, it starts with its input. If it has
    to wait for the end of the message, it is held. Guards are asked while inputs grow.

    Attributes:
        number: From 1.
        message: The assistant message; empty until the response has ended.
        calls: The client's calls, in the order of their blocks once the response has ended.
        held: Calls that wait for the end of the message.
        ending: How the response ended; None until it has.
        history: What the turn adds to the conversation; empty until it is closed.
        is_closed: Nothing can be answered any more.
        is_discarded: Its request is sent again, and nothing of it stays.
        is_answered: Its results are in a request, or have a text behind them already.
        is_stopped: No further call may start.
        is_cut: The rest of the response is not wanted: a guard said so, or the peer restarted it after a call had run.
        voided: The message before that restart.
        listener: Hears of the life of the calls.
    """

    def __init__(
        self,
        number: int,
        maker: CallMaker,
        *,
        executor: Executor,
        limits: Limits,
        server_calls: Collection[str] = (),
        can_be_cut: bool = True,
    ) -> None:
        self.number = number
        self.message: Message = {"role": "assistant", "content": []}
        self.calls: list[ToolCall] = []
        self.held: list[ToolCall] = []
        self.ending: Ending | None = None
        self.history: list[Message] = []
        self.is_closed = False
        self.is_discarded = False
        self.is_answered = False
        self.is_stopped = False
        self.is_cut = False
        self.voided: Message | None = None
        self.listener: CallListener | None = None
        self.wants_deltas = maker.tools.has_guards
        """A guard may want to look at each `InputDelta`."""
        self.looks_at_deltas = False
        """It does now, or the rest of the response does not count. Else `take` returns `InputDelta`s as they are."""
        self._maker: CallMaker | None = maker  # until it is closed: no cycle is left
        self._tools = maker.tools
        self._executor = executor
        self._limits = limits
        self._server_calls = server_calls  # of the history before, by id
        self._can_be_cut = can_be_cut  # by a guard; else the owner reads on, whatever it says
        self._by_input: dict[GrowingInput, ToolCall] = {}
        self._guarded: dict[GrowingInput, Tool] = {}
        self._started: set[ToolCall] = set()
        self._held_groups: set[str] = set()
        self._failed_groups: dict[str, ToolCall] = {}

    @property
    def kept(self) -> list[Block]:
        """The blocks of the response that stay in the history."""
        assert self.ending is not None
        return kept_blocks(self.message, self.calls, self.ending.keeps, server_calls=self._server_calls)

    @property
    def forbids_retry(self) -> bool:
        """A call that must not run twice has started to run, or is about to."""
        return any(call.has_begun and not call.idempotent for call in self.calls)

    # --- while the response comes -------------------------------------------------------------------------------------

    def take(self, events: Sequence[Any]) -> Step:
        """Take in events of the response, and return what follows from them."""
        step = Step([])
        for event in events:
            if self.is_cut:
                # Of an input that was being written, the end is still reported.
                if isinstance(event, InputStop) and event.input in self._by_input:
                    step.events.append(event)
            elif isinstance(event, MessageStart) and event.voided is not None and self.forbids_retry:
                # What it calls from here on would be what has started already, under other names.
                self.is_cut = self.looks_at_deltas = True
                self.voided = event.voided
            else:
                step.events.append(event)
                self._take(event, step)
        return step

    def _take(self, event: Any, step: Step) -> None:
        match event:
            case InputDelta(input=input):
                if input in self._guarded:
                    self._ask_guard(input)
            case InputStart(input=input) if input.kind == "tool_use":
                self._take_start(input, step)
            case InputStop(input=input) if input.kind == "tool_use":
                self._ask_guard(input)
                self._take_stop(input, step)
            case MessageStart(restarted=True):
                self._restart(step)
            case MessageStop(stop_reason=reason):
                # At once: the end of the body may be some time in coming, and nothing may start in it.
                assert self._maker is not None
                self.withdraw(self._maker.ending_of(self, reason).begins)
            case BlockStart(block={"type": "fallback"}):
                # Another model takes over: what the first one has called so far is not in its response.
                self.withdraw(Begins.NONE)
                self._failed_groups = {}
            case _:
                pass

    def _take_start(self, input: GrowingInput, step: Step) -> None:
        tool = self._tools.find(input.block)
        if self.is_stopped or tool is None:
            return
        if tool.guard is not None:
            self._guarded[input] = tool
            self.looks_at_deltas = True
        if self._must_wait(tool) or input.error is not None:
            return  # an input that is known to be invalid already is only answered, at its end
        if not tool.is_streaming:
            step.expected.append(input)
        elif (call := self._make(input)) is not None:
            call.streams = tool.approve is None
            self._start(call, step)

    def _take_stop(self, input: GrowingInput, step: Step) -> None:
        """An input is settled. Even a call whose input was cut off goes to the executor, to be answered."""
        call = self._by_input.get(input)
        if call is not None and call.rejected is None:
            return  # it has started
        call = call or self._make(input)
        if call is None or call in self._started or self.is_stopped:
            return
        tool = self._tools.find(input.block)
        if tool is not None and self._must_wait(tool) and input.outcome is Outcome.VALID:
            self.held.append(call)
            if tool.group is not None:
                self._held_groups.add(tool.group.name)
        else:
            self._start(call, step)

    def _must_wait(self, tool: Tool) -> bool:
        """It starts when the message has ended: it says so itself, or an earlier call of its group does."""
        return tool.start == "message" or (tool.group is not None and tool.group.name in self._held_groups)

    def _start(self, call: ToolCall, step: Step) -> None:
        self._started.add(call)
        # Now: a later event of the same chunk may ask which calls must not run twice.
        if self._admit(call):
            step.started.append(call)

    def _admit(self, call: ToolCall) -> bool:
        """Give a call its place. If the executor fails to, the call is answered, and must not be started."""
        call.listener.call_admitted(call)
        try:
            self._executor.admit(call)
        except Exception as error:
            call.fail(error)
            return False
        return True

    def _ask_guard(self, input: GrowingInput) -> None:
        """Ask the tool's guard, if it has one, about the input so far. A call that it rejects is answered."""
        tool = self._guarded.get(input)
        if tool is None or input.outcome is Outcome.INVALID:
            return
        reject = tool.rejects(input.partial)
        if reject is None:
            return
        del self._guarded[input]
        self.looks_at_deltas = self.is_cut or bool(self._guarded)
        call = self._by_input.get(input) or self._make(input)
        if call is not None:
            call.reject(reject.reason)
            self.is_cut = reject.cut and self._can_be_cut
            self.looks_at_deltas = self.looks_at_deltas or self.is_cut

    def _restart(self, step: Step) -> None:
        """The peer starts its response again, and nothing has run that must not run twice: what came is void."""
        self.held.clear()
        self._held_groups.clear()
        step.cancelled.extend(self.calls)
        assert self._maker is not None
        self._maker.void(self)
        self.withdraw(Begins.ADMITTED)
        self.calls.clear()
        self._by_input.clear()
        self._failed_groups = {}

    def _make(self, input: GrowingInput) -> ToolCall | None:
        assert self._maker is not None
        return self._maker.make_call(self, input)

    def add(self, input: GrowingInput) -> ToolCall:
        """Add a call. If an earlier call of the response has its id, it is refused: it may be the same call."""
        call = ToolCall(input, self.number, self._limits, failed_groups=self._failed_groups)
        call.listener = self.listener or call.listener
        self.calls.append(call)
        self._by_input[input] = call
        if input.repeats_id:
            call.refuse(REPEATED)
        return call

    def withdraw(self, begins: Begins) -> None:
        """Answer what may not start any more, so that it does not."""
        for call in self.calls:
            if call.ran:
                continue
            is_held = call.state is CallState.WAITING and not (call.streams and call.input.outcome is Outcome.VALID)
            waits = begins is Begins.NONE or (begins is Begins.ADMITTED and is_held)
            if call.input.outcome is Outcome.INCOMPLETE or (waits and call.input.outcome is not Outcome.VALID):
                call.refuse()
            elif waits:
                call.withdraw()

    # --- when it has ended --------------------------------------------------------------------------------------------

    def end(self, message: Message, ending: Ending) -> None:
        """The response has ended, or broke off."""
        self.message = message
        self.ending = ending
        self.calls.sort(key=lambda call: call.input.index)
        content = message["content"]
        given_up = {block.get("id") for block in content[: taken_over(content)]}
        for call in self.calls:
            if call.input.echo_id in given_up:
                call.failed_groups = {}
                if not call.ran:
                    call.withdraw()

    def release(self, begins: Begins) -> list[ToolCall]:
        """Return the held calls that start now, after the end of the message; the others are answered."""
        self.withdraw(begins)
        if begins is Begins.ALL:
            return [call for call in self.held if call.result is None and self._admit(call)]
        for call in self.held:
            call.withdraw()
        return []

    def discard(self) -> None:
        """Nothing of the turn stays: its request is sent once more."""
        self.is_closed = self.is_discarded = True
        self._maker = None
        self.withdraw(Begins.NONE)

    def close(self) -> None:
        """Settle the turn: afterwards `history` is what stays of it."""
        if not self.is_closed:
            assert self.ending is not None
            self.is_closed = True
            self.history = settle(self.message, self.calls, self.ending.keeps, server_calls=self._server_calls)
            maker, self._maker = self._maker, None
            if maker is not None:
                maker.settled(self)

    # --- step by step -------------------------------------------------------------------------------------------------

    async def execute(self) -> None:
        """Run every call that has no answer yet, concurrently, if the way in which the response ended allows it.

        Then the turn is closed. Cancelling it cancels the tools, whose calls are answered as cancelled; those that had
        not started can still be run.
        """
        if self.ending is not None and self.ending.begins is not Begins.ALL:
            self.withdraw(Begins.NONE)
        own = [call for call in self.calls if call not in self._started]  # the others are another task's
        self._started.update(own)
        try:
            async with anyio.create_task_group() as tasks:
                runner = CallRunner(self._executor, tasks)
                for call in own:
                    if self._admit(call):
                        runner.start(call)
        finally:
            for call in own:
                if call.ran:
                    call.refuse(CANCELLED_TEXT)  # if it was cancelled: it must not run a second time
                elif call.result is None:
                    self._started.discard(call)
        for call in self.calls:
            await call.answered.wait()
        self.close()

    def results(self, *, extra_user_text: str | None = None) -> list[Block]:
        """Return the `tool_result` blocks of the turn, in call order. A call without an answer gets one that says so.

        Nothing can be answered after this.

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
            self._check_extra_text(extra_user_text)
            results.append(text_block(extra_user_text))
            self.is_answered = True
        return results

    def _check_extra_text(self, text: str) -> None:
        wrong = None
        if self.is_answered:
            wrong = "the results have been sent, or have such a text already"
        elif len(self.history) < 2:
            wrong = "this turn has no results that a text could follow"
        elif not text.strip():
            wrong = "the API refuses a text without a word"
        elif any(call.in_history and call.is_programmatic for call in self.calls):
            wrong = "only results may follow a call that code made"
        elif without_result(self.history[0]["content"]):
            wrong = "only results may follow a turn in which the API has yet to run a call of its own"
        if wrong is not None:
            raise UsageError(f"extra_user_text: {wrong}")
