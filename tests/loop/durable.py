"""A run with a journal, whose tools have effects that a crash does not undo."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import eagerstream
from eagerstream import RunningCall, TextStream, validate_history
from eagerstream.loop import Run, RunResult, resume
from eagerstream.recordings import Recording
from eagerstream.tools import Tool
from eagerstream_testing import Scenario, reply, text, thinking, tool_use
from tests.loop.journals import MemoryJournal, plain
from tests.loop.serial import UntilBlocked
from tests.streams import REQUEST
from tests.support import Exchange, LocalAPI, Piece


class World:
    """The outside of the program: effects that a crash does not undo."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.keys: list[str] = []
        self.inner: RunResult | None = None
        """The result of a run that a tool started."""

    @eagerstream.tool
    async def pay(self, amount: int, call: RunningCall) -> str:
        """Pay."""
        await call.progress(f"paying {amount}")
        self.effects.append(f"pay {amount}")
        self.keys.append(call.idempotency_key)
        return f"paid {amount}"

    @eagerstream.tool(idempotent=True)
    async def look(self, place: str) -> str:
        """Look."""
        self.effects.append(f"look {place}")
        return f"saw {place}"

    @eagerstream.tool
    async def write(self, body: TextStream) -> str:
        """Write."""
        written = [piece async for piece in body]
        self.effects.append("write")
        return f"wrote {len(''.join(written))}"

    def tools(self) -> list[Tool]:
        """The tools of this world."""
        return [self.pay, self.look, self.write]


def scenario() -> Scenario:
    """A conversation with calls of every kind."""
    return Scenario(
        reply(
            thinking("hm", signature="s"),
            text("First."),
            tool_use("pay", {"amount": 1}),
            tool_use("look", {"place": "a"}),
            tool_use("write", {"body": "x" * 40}, fragment_chars=10),
        ),
        reply(text("Then."), tool_use("pay", {"amount": 2}), tool_use("pay", {"amount": 3})),
        reply(text("Done.")),
        reply(text("Again.")),
    )


LONG_S = 0.5
"""A pause of a response in which everything comes to rest that can."""


class Played(LocalAPI):
    """The answers of a scenario at their times, without a server. A long pause ends as soon as nothing is to be done."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self._scenario = scenario

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        """Return the answer, chunk by chunk."""
        answer = self._scenario.answer(exchange.body)
        if answer.status != 200:
            return answer
        pieces: list[Piece] = []
        before_s = 0.0
        for chunk in answer.chunks:
            if chunk.at_s - before_s >= LONG_S:
                pieces.append(UntilBlocked())
            elif chunk.at_s > before_s:
                pieces.append(chunk.at_s - before_s)
            pieces.append(chunk.data)
            before_s = chunk.at_s
        return pieces


@asynccontextmanager
async def client_of(answers: Scenario) -> AsyncIterator[Any]:
    """A client that gets these answers."""
    yield Played(answers).transport()


async def kept(client: Any, journal: Any, tools: Sequence[Any] = (), **options: Any) -> Run:
    """A run with a journal, under the id "r", that went to its end."""
    given = {**REQUEST, "tools": tools, "journal": journal, "run_id": "r", **options}
    async with eagerstream.run(client, **given) as run:
        await run.finish()
    return run


async def taken_up(client: Any, journal: Any, tools: Sequence[Any] = (), **options: Any) -> Run:
    """The same run, continued by another process to its end."""
    async with resume(client, journal, "r", tools=tools, **options) as run:
        await run.finish()
    return run


def answers(result: RunResult) -> list[Any]:
    """The contents of all results in the history, in order."""
    blocks = [block for message in result.messages for block in message["content"] if isinstance(block, dict)]
    return [block.get("content") for block in blocks if block["type"] == "tool_result"]


def check(result: RunResult, world: World) -> None:
    """The laws: a history that can be sent, each call answered once, and nothing done twice that must not be."""
    assert validate_history(result.messages) == []
    once = [effect for effect in world.effects if not effect.startswith("look")]
    assert len(once) == len(set(once)), once
    told = [str(each) for each in answers(result)]
    for effect, said in {"pay 1": "paid 1", "pay 2": "paid 2", "pay 3": "paid 3", "write": "wrote 40"}.items():
        # A call whose result is told was done. One that was not done is told as unknown.
        assert effect in once or said not in told


def one_payment() -> Any:
    """A client whose model pays once, and ends."""
    return Played(Scenario(reply(text("First."), tool_use("pay", {"amount": 1})), reply(text("Done.")))).transport()


async def left_at(kind: str, world: World, tools: list[Tool]) -> MemoryJournal:
    """A journal of a run that was killed after its last write of this kind."""
    journal = MemoryJournal()
    states: list[Any] = []
    journal.on_write = lambda: states.append((journal.runs["r"][-1]["kind"], plain(journal.runs)))
    await kept(one_payment(), journal, tools)
    return MemoryJournal([runs for last, runs in states if last == kind][-1])


async def continued(journal: MemoryJournal, tools: list[Tool]) -> RunResult:
    """The result of a run that another process continues."""
    return (await taken_up(one_payment(), journal, tools)).result
