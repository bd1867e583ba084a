"""Bounds on the tokens and the cost of a run, and of the runs that its tools start."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import Conversation, RunResult, RunStatus, UsageError, tool
from eagerstream.loop import resume
from eagerstream.streaming import FeedEnd
from eagerstream_testing import encode_event, reply, text, tool_use
from tests.loop.journals import MemoryJournal
from tests.loop.serial import SLOWLY_S, checked
from tests.streams import REQUEST, block_start, block_stop, input_delta, message_start, text_delta, tool_start
from tests.support import LocalAPI
from tests.tables import rows

pytestmark = pytest.mark.anyio

USAGE = {"input_tokens": 100, "output_tokens": 20}
CALL = reply(tool_use("look", {}), usage=USAGE)
DONE = reply(text("Done."), usage=USAGE)


@tool
async def look() -> str:
    """Look."""
    return "seen"


def price(usage: Mapping[str, Any], model: str) -> float:
    """A cent for each output token."""
    assert model.startswith("claude-")
    return 0.01 * int(usage.get("output_tokens", 0))


async def ran(*replies: Any, tools: Any = (look,), **options: Any) -> tuple[RunResult[Any], LocalAPI]:
    api = LocalAPI(*replies)
    with anyio.fail_after(SLOWLY_S):
        result = await eagerstream.run(api.transport(), **REQUEST, tools=tools, **options)
    return checked(result), api


@pytest.mark.parametrize(
    ("options", "limit", "requests"),
    [
        ({}, None, 3),
        ({"max_total_tokens": 1}, "max_total_tokens", 1),
        ({"max_total_tokens": 120}, "max_total_tokens", 1),
        ({"max_total_tokens": 121}, "max_total_tokens", 2),
        ({"max_total_tokens": 241}, None, 3),
        ({"max_cost": 0.2, "price": price}, "max_cost", 1),
        ({"max_cost": 0.3, "price": price}, "max_cost", 2),
        ({"max_cost": 0.5, "price": price}, None, 3),
        ({"max_cost": 0.5, "price": price, "max_turns": 1}, "max_turns", 1),
        ({"max_cost": 0.5, "price": lambda usage, model: 0}, None, 3),
    ],
)
async def test_bounds(options: Any, limit: str | None, requests: int) -> None:
    """They are checked before each request: the calls of the last turn run, and the history can be continued."""
    ends: list[FeedEnd] = []

    class Watcher:
        def take(self, events: Any) -> None:
            pass

        def end(self, end: FeedEnd) -> None:
            ends.append(end)

    api = LocalAPI(CALL, CALL, DONE)
    run = eagerstream.run(api.transport(), **REQUEST, tools=[look], **options)
    run.observe(Watcher())
    with anyio.fail_after(SLOWLY_S):
        result = await run
    assert (result.limit, len(api.exchanges)) == (limit, requests)
    assert result.status is (RunStatus.COMPLETED if limit is None else RunStatus.LIMIT)
    assert [call.text for call in result.calls] == ["seen"] * min(requests, 2)
    cost = 0.2 * requests if options.get("price") is price else 0.0
    assert result.cost == pytest.approx(cost)
    assert (ends[0].limit, ends[0].cost) == (limit, result.cost)
    assert RunResult.from_json(result.to_json()).limit == limit
    assert RunResult.from_json(result.to_json()).cost == result.cost


async def test_sub_runs_share_the_budget() -> None:
    """What a run of a tool uses counts above, while it runs; and where that is used up, it sends nothing."""
    statuses: list[Any] = []
    child = LocalAPI(CALL, CALL, CALL, CALL, DONE)

    @tool
    async def ask() -> str:
        """Ask another model."""
        result = await eagerstream.run(child.transport(), **REQUEST, tools=[look])
        statuses.append((result.status, result.limit, result.turns))
        return "asked"

    asks = reply(tool_use("ask", {}), usage=USAGE)
    result, api = await ran(asks, asks, DONE, tools=[ask], max_cost=0.6, price=price)
    assert statuses == [(RunStatus.LIMIT, "max_cost", 2)]
    assert (result.limit, len(api.exchanges), len(child.exchanges)) == ("max_cost", 1, 2)
    assert result.cost == pytest.approx(0.6)
    statuses.clear()
    result, api = await ran(
        reply(tool_use("ask", {}), tool_use("ask", {}), usage=USAGE), tools=[ask], max_total_tokens=120
    )
    assert statuses == [(RunStatus.LIMIT, "max_total_tokens", 0)] * 2
    assert result.cost == 0


async def test_the_step_by_step_form() -> None:
    """It ends in the same way."""
    api = LocalAPI(CALL, DONE)
    conversation = Conversation(**REQUEST, tools=[look], max_total_tokens=100)
    while not conversation.ended:
        async with eagerstream.stream(api.transport(), **conversation.request()) as stream:
            await stream.finish()
        await conversation.execute(conversation.take(stream))
    assert (conversation.result.status, conversation.result.limit) == (RunStatus.LIMIT, "max_total_tokens")
    assert len(api.exchanges) == 1


@pytest.mark.parametrize("options", [{"max_total_tokens": 500}, {"max_cost": 5.0, "price": price}])
@pytest.mark.parametrize("kind", ["text", "input"])
async def test_a_response_that_is_cut(monkeypatch: pytest.MonkeyPatch, kind: str, options: Any) -> None:
    """On request, where its estimate passes the bound: its complete calls run, and the run ends."""
    monkeypatch.setattr("eagerstream.loop._turn_exchange._ESTIMATE_S", 0)
    sent: list[int] = []

    async def body() -> AsyncIterator[bytes]:
        for event in (
            *(message_start(), tool_start(0, "look"), input_delta(0, "{}"), block_stop(0)),
            *([block_start(1, "text", text="")] if kind == "text" else [tool_start(1, "look")]),
        ):
            yield encode_event(event)
        for number in range(1_000):
            sent.append(number)
            yield encode_event(text_delta(1, "x" * 40) if kind == "text" else input_delta(1, " " * 40))
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(SLOWLY_S):
        result = await eagerstream.run(body(), **REQUEST, tools=[look], on_budget="cut", **options)
    checked(result)
    assert (result.status, result.limit) == (RunStatus.LIMIT, next(iter(options)))
    assert [call.text for call in result.calls if call.ran] == ["seen"]
    assert 30 < len(sent) < 60
    assert result.usage["uncounted_output_tokens"] > 300


async def test_a_response_that_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, and below the bound."""
    monkeypatch.setattr("eagerstream.loop._turn_exchange._ESTIMATE_S", 0)
    long = reply(text("x" * 4_000), usage=USAGE)
    for options in ({"max_total_tokens": 500}, {"max_total_tokens": 5_000, "on_budget": "cut"}, {"on_budget": "cut"}):
        result, _ = await ran(long, **options)
        assert (result.status, len(result.text)) == (RunStatus.COMPLETED, 4_000)


async def test_it_is_counted_on_in_another_process() -> None:
    """What earlier processes have used is in the journal."""
    journal = MemoryJournal()
    api = LocalAPI(CALL)
    options: Any = {"tools": [look], "max_cost": 0.3, "price": price}
    async with eagerstream.run(api.transport(), **REQUEST, **options, max_turns=1, journal=journal, run_id="r") as run:
        await run.finish()
    assert run.result.limit == "max_turns"
    later = LocalAPI(CALL, CALL, DONE)
    async with resume(later.transport(), journal, "r", **options, max_turns=None) as run:
        await run.finish()
    assert (run.result.limit, len(later.exchanges)) == ("max_cost", 1)
    assert run.result.cost == pytest.approx(0.4)
    json.dumps(journal.runs["r"])


def _raises(usage: Any, model: str) -> float:
    raise KeyError(model)


@pytest.mark.parametrize("broken", [_raises, "none"])
async def test_a_price_that_fails(broken: Any) -> None:
    """It ends the run with its exception, and the result has what was used."""
    given: Any = (lambda usage, model: None) if broken == "none" else broken
    with pytest.raises(UsageError if broken == "none" else KeyError) as raised:
        await ran(CALL, DONE, price=given)
    result = RunResult.of(raised.value)
    assert result is not None
    assert (result.status, result.usage["output_tokens"]) == (RunStatus.ERROR, 20)


@rows(
    "options, fault",
    [
        ({"max_cost": 1.0}, "max_cost needs price="),
        ({"max_cost": 0, "price": price}, "max_cost"),
        ({"max_total_tokens": 0}, "max_total_tokens"),
        ({"price": 3}, "price must be a function of usage and model, not 3"),
        ({"on_budget": "stop"}, "on_budget"),
    ],
)
def test_options(options: Any, fault: str) -> None:
    """Mistakes are errors of the call of `run`."""
    with pytest.raises(UsageError, match=fault):
        eagerstream.run(LocalAPI(DONE).transport(), **REQUEST, **options)
