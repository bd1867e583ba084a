"""The life of two calls in one turn, in every order, without I/O.

`Turn` and `Conversation` await nothing. So every order in which wire events, the starts and ends of tools, a cancellation,
a lost connection, a restart and a lost fragment can come is tried here, from the first event to the settled turn, and
the laws of a turn are checked at each end. The depth is the whole turn: seven events of the response, four steps of the
tools, and at most one of the other things, at any place.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf
from typing import Any

import pytest

from eagerstream.calls import RunStatus, Turn, _settle
from eagerstream.calls._policy import CANCELLED, Begins, Ending, Keeps, Then
from eagerstream.errors import APIError, ProtocolError, StreamInterrupted
from eagerstream.inputs import GrowingInput
from eagerstream.loop import _course
from eagerstream.loop._course import Course
from eagerstream.tools import CallState, Invoked, ItemStream, Tool, ToolCall, ToolResponse, _call, tool
from eagerstream.tools._results import result_for
from eagerstream_wire import MessageAssembler, MessageState, Outcome
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import check_history
from tests.tables import rows

REASONS = ("tool_use", "end_turn", "max_tokens", "refusal", "pause_turn")
ONCE = ("cancel", "lose the connection", "restart", "lose a fragment", "reject")
"""What may happen at most once, at any place."""


@tool
async def plain(n: int) -> str:
    """Start at the end of the input."""
    return str(n)


@tool
async def plain_2(n: int) -> str:
    """Start at the end of the input, too."""
    return str(n)


@tool(start="message")
async def late(n: int) -> str:
    """Start at the end of the message."""
    return str(n)


@tool
async def reading(n: ItemStream[int]) -> str:
    """Start while the input is written."""
    return str(await n)


class Places:
    """The executor: it gives each call its place at once, and starts nothing by itself."""

    asks_approval = True

    def admit(self, call: ToolCall) -> None:
        call.state = CallState.ADMITTED if call.result is None else call.state

    async def execute(self, call: ToolCall) -> None:
        raise AssertionError("the test ends the calls by itself")


class World:
    """One turn, driven step by step as the loop drives it."""

    def __init__(self, tools: Sequence[Tool], reason: str) -> None:
        self.course = Course(**REQUEST, tools=tools, executor=Places())
        self.course.prepare()
        self.turn: Turn = self.course.begin()
        self.assembler = MessageAssembler(input_type=GrowingInput)
        first, second = (tool.name for tool in tools)
        values = ['{"n": [1]}' if tool.is_streaming else '{"n": 1}' for tool in tools]
        self.script: list[list[Any]] = [
            [message_start(), tool_start(0, first)],
            [input_delta(0, values[0][:6])],
            [input_delta(0, values[0][6:]), block_stop(0)],
            [tool_start(1, second), input_delta(1, values[1][:6])],
            [input_delta(1, values[1][6:]), block_stop(1)],
            [message_delta(reason)],
            [MESSAGE_STOP],
        ]
        self.at = 0
        self.once: str | None = None
        self.error: APIError | ProtocolError | None = None
        self.started: list[ToolCall] = []  # given to the runner
        self.runs: list[ToolCall] = []  # each start of a tool
        self.stopped: set[ToolCall] = set()  # cancelled while they ran
        self.said: dict[ToolCall, str] = {}  # the answers of tools that ended by themselves
        self.has_ended = False
        self.failure: Exception | None = None

    # --- what can happen now ------------------------------------------------------------------------------------------

    def choices(self) -> Iterator[str]:
        if self.turn.is_closed:
            return
        if not self.has_ended:
            yield "next"
            if self.once is None:
                yield from (what for what in ONCE if what != "reject" or self.turn.calls)
        for number, call in enumerate(self.started):
            if call.result is not None or call in self.stopped:
                continue
            if call not in self.runs:
                yield f"start {number}"
            elif call.input.outcome is not None:
                yield f"end {number}"
                if number == 0:  # how a tool ended decides nothing else: one that may fail is enough
                    yield f"fail {number}"

    def step(self, what: str) -> None:
        self.do(what)
        late_runs = [call for call in self.runs if call.name == "late"]
        assert not late_runs or self.has_ended, "a tool ran before the end of its message"

    def do(self, what: str) -> None:
        match what.split():
            case ["next"]:
                self.feed(self.script[self.at])
                self.at += 1
                if self.at == len(self.script):
                    self.end(None)
            case ["start", number]:
                self.start(self.started[int(number)])
            case ["end" | "fail" as how, number]:
                self.finish(self.started[int(number)], fails=how == "fail")
            case _:
                self.once = what
                getattr(self, what.replace(" ", "_"))()
        self.close_if_done()

    def feed(self, events: Sequence[Any]) -> None:
        for event in events:
            step = self.turn.take(self.assembler.feed(event))
            for call in step.cancelled:
                self.stop(call)
            self.started += step.started

    def start(self, call: ToolCall) -> None:
        """As the executor: an input that cannot be used is answered without the tool."""
        found = self.course.tools.find(call.block)
        assert found is not None
        if call.input.outcome is Outcome.VALID or (call.input.outcome is None and found.is_streaming):
            self.runs.append(call)
            call.start()
        elif call.input.outcome is not None:
            call.refuse()

    def finish(self, call: ToolCall, *, fails: bool) -> None:
        text = f"it {'failed' if fails else 'said'} {len(self.runs)}"
        is_sure = call.input.outcome is Outcome.VALID and call.input.interrupted is None
        response = ToolResponse.error("NOT_FOUND", text) if fails else ToolResponse.success(text)
        call.end(Invoked(response), is_unsure=not is_sure)
        self.said[call] = text

    def stop(self, call: ToolCall) -> None:
        """As the runner: a call that is cancelled is answered when its input is settled."""
        if call in self.runs and call.result is None:
            if call.input.outcome is None:
                self.feed_end()
            self.stopped.add(call)
            _settle.answer(call)

    # --- what happens once --------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        self.turn.is_stopped = True
        self.end(CANCELLED)

    def lose_the_connection(self) -> None:
        self.end(StreamInterrupted("the connection was lost"))

    def restart(self) -> None:
        self.feed([message_start()])
        if self.turn.is_cut:
            self.end(StreamInterrupted("the peer started its response again"))
        else:
            self.at = 0

    def lose_a_fragment(self) -> None:
        self.feed([{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}}])

    def reject(self) -> None:
        self.turn.calls[-1].reject("no")

    # --- the end ------------------------------------------------------------------------------------------------------

    def feed_end(self) -> None:
        step = self.turn.take(self.assembler.close(cleanly=False))
        self.started += step.started

    def end(self, how: Any) -> None:
        self.has_ended = True
        if self.assembler.state is not MessageState.STOPPED:
            self.feed_end()
        message = self.assembler.message if self.turn.voided is None else self.assembler.voided or self.turn.voided
        if isinstance(how, APIError | ProtocolError):
            self.course.interrupt(self.turn, message, how)
        elif self.assembler.lost_fragments:
            self.course.interrupt(self.turn, message, ProtocolError("a start was lost"))
        elif how is CANCELLED and self.assembler.state is MessageState.STOPPED:
            self.course.end(self.turn, message)
        else:
            self.course.end(self.turn, message, how)
        if self.turn.is_discarded:
            for call in self.started:
                self.stop(call)
            return
        assert self.turn.ending is not None
        is_cancelled = how is CANCELLED
        self.started += self.turn.release(Begins.NONE if is_cancelled else self.turn.ending.begins)
        if is_cancelled:
            for call in self.started:
                self.stop(call)

    def close_if_done(self) -> None:
        if self.has_ended and not self.turn.is_closed and all(call.result for call in self.turn.calls):
            self.course.close_turn()

    # --- the laws -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        turn, history = self.turn, self.course.result.messages
        check_history(history)  # every history can be sent: each call has one result, and each result its call
        assert all(call.result is not None for call in turn.calls), "a call without a result"
        assert len(set(self.runs)) == len(self.runs), "a tool ran twice"
        results = {block["tool_use_id"]: block for message in turn.history[1:] for block in message["content"]}
        for call in self.runs:
            found = self.course.tools.find(call.block)
            assert found is not None
            assert found.is_streaming or call.input.outcome is Outcome.VALID, "a guessed input reached a tool"
        if turn.is_discarded:
            assert not turn.history, "a discarded turn is in the history"
            assert not self.runs or self.once == "restart", "a turn in which a tool ran was discarded"
        if turn.ending is not None and turn.ending.status is RunStatus.REFUSED:
            assert not turn.history, "a refused turn is in the history"
        elif not turn.is_discarded and self.once != "restart":
            for call, text in self.said.items():
                assert call.in_history, "finished work is lost"
                assert text in str(results[call.input.echo_id]), "the result is not what the tool said"


def explore(tools: Sequence[Tool], reason: str, *, at_most: float = inf) -> int:
    """Try every order, or some of them, chosen at random; how many were tried.

    Each world is driven to its end, and what else could have happened on the way is tried later: a path is walked again
    once for each end, not for each step.
    """
    ends = 0
    chance = random.Random(reason)
    pending: list[tuple[str, ...]] = [()]
    while pending and ends < at_most:
        path = pending.pop(chance.randrange(len(pending)) if at_most < inf else -1)
        world = World(tools, reason)
        try:
            for what in path:
                world.step(what)
            while choices := list(world.choices()):
                what = choices.pop(chance.randrange(len(choices)) if at_most < inf else -1)
                pending += [(*path, other) for other in choices]
                path = (*path, what)
                world.step(what)
            assert world.turn.is_closed, "the turn never ends"
            world.check()
        except Exception as error:
            error.add_note(f"after: {', '.join(path)}")
            raise
        ends += 1
    return ends


PAIRS: list[tuple[Tool, Tool]] = [(plain, plain_2), (plain, late), (reading, plain), (late, reading)]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of runs end without a call, and say so."""
    caplog.set_level(logging.ERROR)


@rows("tools", PAIRS)
@rows("reason", REASONS)
def test_some_orders(tools: tuple[Tool, Tool], reason: str) -> None:
    """However a turn comes about, the laws hold at its end."""
    assert explore(tools, reason, at_most=40) == 40


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("tools", "reason"),
    [*product(PAIRS, REASONS)],
    ids=lambda value: value if isinstance(value, str) else "-".join(each.name for each in value),
)
def test_every_order(tools: tuple[Tool, Tool], reason: str) -> None:
    """All of them: up to 10,000 a turn."""
    assert explore(tools, reason) > 300


def _answers_nothing(_: ToolCall) -> None: ...


def _answers_again(call: ToolCall) -> None:
    call.result = None
    call.refuse("something else")


def _names_no_call(*given: Any, **options: Any) -> Any:
    return {**result_for(*given, **options), "tool_use_id": "toolu_other"}


FAULTS: dict[str, tuple[Any, str, Any, str]] = {
    "calls are not withdrawn": (Turn, "withdraw", lambda *_: None, "the turn never ends"),
    "cancelled calls are not answered": (_settle, "answer", _answers_nothing, "the turn never ends"),
    "answers are overwritten": (_settle, "answer", _answers_again, "not what the tool said"),
    "a retry is always allowed": (Turn, "forbids_retry", False, "was discarded"),
    "no call waits for the message": (Turn, "_must_wait", lambda *_: False, "before the end of its message"),
    "results name no call": (_call, "result_for", _names_no_call, "tool_use"),
    "refused turns stay": (
        _course,
        "ending_of",
        lambda *_, **__: Ending(RunStatus.REFUSED, Then.STOP, Begins.NONE, Keeps.WHOLE),
        "refused turn",
    ),
    "nothing stays": (_settle, "_sendable", lambda *_: [], "lost"),
}


@rows("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    """Each law is broken by a fault in the code that keeps it, and some order shows it."""
    place, attribute, fault, told = FAULTS[name]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=told):
        patch.setattr(place, attribute, fault)
        for tools, reason in product(PAIRS[::-1], REASONS):
            explore(tools, reason, at_most=40)
