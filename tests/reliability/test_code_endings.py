"""Responses that end badly at each of their events, with code among the calls; and code that is stopped midway.

The faults of connections are in `test_code_faults`. What the model must learn is in `code_conversations`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import EagerStreamError, InputAccumulator, ToolProgress
from eagerstream.loop import Run
from eagerstream_testing import reply, text
from eagerstream_toolkit._code.statements import StatementSplitter
from eagerstream_wire import WireEvent
from tests.loop.serial import checked
from tests.reliability.code_conversations import CODE, FIRST_EVENTS, SECOND, CodeWorld
from tests.sampling import is_in_part
from tests.streams import MESSAGE_STOP, REQUEST, USER, block_stop, input_delta, message_delta
from tests.support import Broken, Exchange, Gate, LocalAPI, Piece

pytestmark = pytest.mark.anyio

EVENTS: list[WireEvent] = FIRST_EVENTS
DONE = reply(text("Done."), message_id="msg_done")
SLOWLY_S = 60
INDEX = 2
"""Of the block with the code."""
STARTS = EVENTS.index(next(each for each in EVENTS if each.get("index") == INDEX))
ENDS = EVENTS.index(next(each for each in EVENTS if each == block_stop(INDEX)))


class API(LocalAPI):
    """Answers the first request with a response that ends badly, and the same request again with a complete one."""

    def body_for(self, exchange: Exchange) -> list[Piece]:
        """See `LocalAPI`."""
        if len(exchange.body["messages"]) > 1:
            return [DONE]
        return [*EVENTS] if self.exchanges else list(super().body_for(exchange))  # type: ignore[arg-type]


def closing(at: int) -> list[Piece]:
    """Return the end of the block that is open after so many events."""
    opened = [each["index"] for each in EVENTS[:at] if each["type"] == "content_block_start"]
    closed = [each["index"] for each in EVENTS[:at] if each["type"] == "content_block_stop"]
    return [block_stop(index) for index in opened if index not in closed]


def stopped(reason: str) -> Callable[[int], list[Piece]]:
    """Return the end of a response that stops for a reason in the middle of a block."""
    return lambda at: [*closing(at), message_delta(reason), MESSAGE_STOP]


def inserted(raw: str) -> Callable[[int], list[Piece]]:
    """Return the rest of a response, with a text in between if the code is being written."""
    return lambda at: [*([input_delta(INDEX, raw)] if STARTS < at <= ENDS else []), *EVENTS[at:]]


ENDINGS: dict[str, tuple[Callable[[int], list[Piece]], dict[str, Any]]] = {
    "max_tokens": (stopped("max_tokens"), {}),
    "max_tokens, reported": (stopped("max_tokens"), {"on_truncated": "report"}),
    "max_tokens, retried": (stopped("max_tokens"), {"on_truncated": "retry"}),
    "max_tokens, raised": (stopped("max_tokens"), {"on_truncated": "raise"}),
    "refusal": (stopped("refusal"), {}),
    "pause_turn": (stopped("pause_turn"), {}),
    "lost, resumed": (lambda _: [Broken()], {"on_interrupt": "resume"}),
    "lost, raised": (lambda _: [Broken()], {"on_interrupt": "raise"}),
    "no JSON": (inserted('" so "'), {}),
    "a repeated key": (inserted(f'", "code": "await mark({SECOND})\\nawait mark(8)\\n'), {}),
    "an unknown key": (inserted('", "more": "'), {}),
    "invalid code": (inserted("\\n= 1\\n"), {}),
}


async def check_ending(ending: str, at: int, *, settled: bool) -> None:
    """Run a conversation whose first response ends so after so many events, and check what the model learned.

    Args:
        ending: A key of `ENDINGS`.
        at: The number of events that arrive.
        settled: True if all statements that are complete have run before the response ends.
    """
    rest, options = ENDINGS[ending]
    gate = Gate()
    world = CodeWorld()
    api = API([*EVENTS[:at], *([gate] if settled else []), *rest(at)])
    run = eagerstream.run(api.anthropic(), **REQUEST, tools=world.tools(), restart_delay_s=0, **options)
    await finished(run, at, gate.opened.set)
    world.check(checked(run.result, [USER]).calls)


async def finished(run: Run[Any], at: int, once_settled: Callable[[], object]) -> None:
    """Read a run to its end, and call a function once the statements in its first events have run."""
    wanted = statements_in(at)
    if not wanted:
        once_settled()
    with anyio.fail_after(SLOWLY_S), suppress(EagerStreamError):
        async with run:
            async for event in run:
                if isinstance(event, ToolProgress) and is_settled(event.value, wanted):
                    once_settled()


def is_settled(progress: Any, statements: int) -> bool:
    """Return whether so many statements have run, or an earlier one has failed."""
    return progress["state"] not in ("running", "done") or progress == progress | {
        "statement": statements,
        "state": "done",
    }


def statements_in(at: int) -> int:
    """Return the number of complete statements in the first events."""
    accumulator = InputAccumulator()
    for event in EVENTS[:at]:
        accumulator.feed(event)
    written = accumulator.inputs.get(INDEX)
    splitter = StatementSplitter()
    complete = splitter.feed(str((written.partial if written else {}).get("code", "")))
    return len([*complete, *splitter.close()] if at > ENDS else complete)


@pytest.mark.sample(4)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_in_the_middle(ending: str) -> None:
    """After some statements have run."""
    await check_ending(ending, (STARTS + ENDS) // 2, settled=True)


@pytest.mark.slow
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_at_every_event(ending: str, settled: bool) -> None:
    """A few conversations at once. A run in parts takes its part of the events, with every ending."""
    limiter = anyio.CapacityLimiter(4)

    async def check(at: int) -> None:
        async with limiter:
            await check_ending(ending, at, settled=settled)

    async with anyio.create_task_group() as tasks:
        for at in range(STARTS, len(EVENTS)):
            if is_in_part(f"{ending} {settled} {at}"):
                tasks.start_soon(check, at)


# --- code that is stopped midway ----------------------------------------------------------------------------------------


class Stopped(CodeWorld):
    """A world in which something happens at one of the marks, while its statement runs.

    Args:
        at: The number of the mark, from 1.
        stop: Called at that mark.
        options: Those of the `CodeTool`.
    """

    def __init__(self, at: int, stop: Callable[[], object], **options: Any) -> None:
        super().__init__(**options)
        self._at = at
        self._stop = stop

    def marked(self) -> None:
        """See `CodeWorld`."""
        if len(self.marks) == self._at:
            self._stop()


MARKS = 6


async def run_to_the_end(world: CodeWorld, bind: Callable[[Run[Any]], object] = lambda _: None) -> Run[Any]:
    """Run the complete response, and check what the model learned."""
    run = eagerstream.run(LocalAPI([*EVENTS], [DONE]).anthropic(), **REQUEST, tools=world.tools())
    bind(run)
    await finished(run, len(EVENTS), lambda: None)
    world.check(checked(run.result, [USER]).calls)
    return run


def text_of_code(run: Run[Any]) -> str:
    return next(call.text for call in run.result.calls if call.name == "run_code")


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, MARKS + 1))
async def test_the_run_is_cancelled(at: int) -> None:
    """The model learns it if somebody continues the conversation."""
    runs: list[Run[Any]] = []

    def cancel() -> None:
        runs[0].cancel()

    world = Stopped(at, cancel)
    run = await run_to_the_end(world, runs.append)
    assert len(world.marks) == at
    assert "The run was cancelled" in text_of_code(run)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, MARKS + 1))
async def test_the_interpreter_is_killed(at: int) -> None:
    """By the system, for example because the machine has no memory left."""
    world = Stopped(at, kill_children)
    run = await run_to_the_end(world)
    assert len(world.marks) == at
    assert "The interpreter is lost" in text_of_code(run)


def kill_children() -> None:
    """Kill the interpreters that this program has started."""
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(0, len(CODE), 7))
async def test_a_guard_rejects_the_code(at: int) -> None:
    """As soon as so many characters have been written."""
    world = CodeWorld(guard=lambda partial: "not this code" if len(partial.get("code", "")) > at else None)
    run = await run_to_the_end(world)
    assert "not this code" in text_of_code(run)
