"""`waiting_s`: the time of a run that waits for the end of each response. No more gain is claimed than is true."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

import eagerstream
from eagerstream import Group, ItemStream, Reject, Tool, tool
from eagerstream.loop import RunLatency
from eagerstream.tools import ToolCall
from tests.loop.timing import CITY, DONE, about, call_events, calls, latency_of, quick, slow
from tests.streams import REQUEST
from tests.virtual_time import Playing, in_virtual_time


def test_what_is_won_against_waiting_for_the_end() -> None:
    """The tools of a run that waits begin at 4 s: the slow one ends at 6 instead of 5."""
    first = calls(*call_events(0, "quick", 1, fragments=CITY), *call_events(1, "slow", 2, fragments=CITY), stop_s=4)
    latency = latency_of(first, DONE, tools=[quick, slow])
    assert [request.won_s for request in latency.requests] == [about(1), 0]
    assert latency.won_s == about(1)


@pytest.mark.parametrize(
    ("max_concurrency", "group", "won_s"), [(16, None, 0.5), (1, None, 1.5), (16, "one by one", 1.5)]
)
def test_a_run_that_waits_has_the_same_limits(max_concurrency: int, group: str | None, won_s: float) -> None:
    """Of three calls of half a second, as many run at a time as here, and those of a group one after the other."""

    async def work(city: str) -> str:
        await anyio.sleep(0.5)
        return city

    tools = [eagerstream.Tool(work, name=f"work{n}", group=Group(group) if group else None) for n in range(3)]
    events = [event for n in range(3) for event in call_events(n, f"work{n}", 0.5, fragments=CITY, gap_s=0.25)]
    latency = latency_of(calls(*events, stop_s=4), DONE, tools=tools, max_concurrency=max_concurrency)
    assert latency.won_s == about(won_s)


def test_a_tool_that_reads_its_input_while_it_is_written() -> None:
    """It waits for the model most of its time: what a run that waits would take for it is only what it did after that."""

    @tool
    async def make_file(filename: str, lines: ItemStream[str]) -> str:
        """Write."""
        async for _ in lines:
            pass
        await anyio.sleep(0.25)
        return filename

    fragments = ['{"filename": "a", "lines": [', '"one", ', '"two", ', '"three"]}']
    latency = latency_of(calls(*call_events(0, "make_file", 1, fragments=fragments), stop_s=5), DONE, tools=[make_file])
    (call,) = latency.calls
    assert (call.tool_start_s, call.tool_end_s, call.stop_s) == (1.5, about(3.25), 3)
    assert call.tool_s == call.hidden_s == about(1.75)
    assert latency.hidden_share == 1
    assert latency.won_s == about(0.25)
    assert [(path, at_s) for path, at_s in call.fields()] == [
        (("filename",), about(1.5)),
        (("lines", 0), about(2)),
        (("lines", 1), about(2.5)),
        (("lines", 2), about(3)),
        (("lines",), about(3)),
    ]


def test_a_tool_that_has_to_be_approved() -> None:
    """Somebody has to be asked in a run that waits, too: the time that it takes counts there as well."""

    async def approve(_: ToolCall) -> bool:
        await anyio.sleep(1)
        return True

    async def pay(city: str) -> str:
        await anyio.sleep(0.5)
        return city

    paid = eagerstream.Tool(pay, approve=approve)
    latency = latency_of(calls(*call_events(0, "pay", 1, fragments=CITY), stop_s=4), DONE, tools=[paid])
    (call,) = latency.calls
    assert (call.admitted_s, call.tool_start_s, call.tool_end_s) == (2, about(3), about(3.5))
    assert latency.won_s == about(1.5)


def test_a_tool_that_waits_for_the_end_wins_nothing() -> None:
    """With `start="message"` this run is the one that waits."""

    async def pay(city: str) -> str:
        await anyio.sleep(0.5)
        return city

    latency = latency_of(
        calls(*call_events(0, "pay", 1, fragments=CITY), stop_s=4),
        DONE,
        tools=[eagerstream.Tool(pay, start="message")],
    )
    (call,) = latency.calls
    assert (call.tool_start_s, call.lead_s, call.hidden_s) == (4, 0, 0)
    assert latency.won_s == about(0)
    assert latency.hidden_share == 0


async def _approve(_: ToolCall) -> bool:
    await anyio.sleep(1.25)
    return True


def _no_ninety_nine(partial: Any) -> Reject | None:
    return Reject("no 99", cut=False) if 99 in partial.get("items", ()) else None


async def _work(seconds: float) -> str:
    """Work."""
    await anyio.sleep(seconds)
    return "done"


async def _stream(seconds: float, items: ItemStream[int]) -> str:
    """Work at each item, and once more."""
    try:
        async for _ in items:
            await anyio.sleep(seconds)
    finally:
        await anyio.sleep(seconds)
    return "done"


async def _whole(seconds: float, items: list[int]) -> str:
    """The same in a run that waits."""
    await anyio.sleep(seconds * (1 + len(items)))
    return "done"


KINDS = [(streams, group, approved) for streams in (False, True) for group in (None, "a", "b") for approved in (0, 1)]


def _tools(*, waits: bool) -> Iterable[Tool]:
    for number, (streams, group, approved) in enumerate(KINDS):
        yield Tool(
            (_whole if waits else _stream) if streams else _work,
            name=f"kind{number}",
            group=Group(group) if group else None,
            approve=_approve if approved else None,
            guard=_no_ninety_nine if streams else None,
            start="message" if waits else "input",
        )


made_calls = st.tuples(
    st.integers(0, len(KINDS) - 1),
    st.sampled_from([0.25, 0.5, 1, 3]),
    st.sampled_from(["[]", "[1]", "[1, 2, 3]", '[1, "wrong"]', "[1, 99, 2]", "[1}"]),
    st.sampled_from([0.25, 1, 2]),
)

reasons = st.sampled_from(["tool_use"] * 4 + ["end_turn", "pause_turn", "max_tokens", "refusal", "stop_sequence", "?"])


@settings(max_examples=60)
@given(st.lists(made_calls, min_size=1, max_size=6), st.integers(1, 4), reasons)
@pytest.mark.slow
def test_no_more_is_won_than_is_true(
    made: list[tuple[int, float, str, float]], max_concurrency: int, reason: str
) -> None:
    """The same conversation is really run both ways: approvals, groups, slots, guards, inputs that turn out wrong."""
    events: list[Any] = []
    at_s = 0.25
    for index, (kind, seconds, items, gap_s) in enumerate(made):
        fragments = [f'{{"seconds": {seconds}', *([', "items": ', items[:3], items[3:]] if KINDS[kind][0] else []), "}"]
        events += call_events(index, f"kind{kind}", at_s, fragments=fragments, gap_s=gap_s)
        at_s = events[-1][0]
    replies = calls(*events, stop_s=at_s + 1, reason=reason), DONE
    run = partial(latency_of, *replies, max_concurrency=max_concurrency, max_turns=2)
    (early, *_), (late, *_) = (run(tools=[*_tools(waits=waits)]).requests for waits in (False, True))
    assert early.settled_s is not None
    assert late.settled_s is not None
    if reason in ("tool_use", "end_turn", "pause_turn"):
        assert early.won_s is not None
        assert early.won_s <= late.settled_s - early.settled_s + 1e-6
    else:
        assert early.won_s is None


def test_other_calls_run_while_a_group_waits() -> None:
    """Two slots, two calls of a group, two of none: a run that waits is done after two of them, as this one is."""
    tools = [Tool(_work, name=f"work{n}", group=Group("g") if n < 2 else None) for n in range(4)]
    fragments = ['{"seconds": ', "2}"]
    events = [event for n in range(4) for event in call_events(n, f"work{n}", 0.5, fragments=fragments)]
    (request, _) = latency_of(calls(*events, stop_s=1.5), DONE, tools=tools, max_concurrency=2).requests
    assert (request.settled_s, request.won_s) == (about(5.5), about(0))


def test_a_run_that_is_cancelled_wins_nothing() -> None:
    """Its tools would have been cut off as well had they begun later."""

    async def main() -> RunLatency:
        transport = Playing(calls(*call_events(0, "slow", 1, fragments=CITY), stop_s=2.5), DONE)
        async with eagerstream.run(transport, tools=[slow], clock=anyio.current_time, **REQUEST) as run:
            await anyio.sleep(3)
            run.cancel()
            await run.finish()
        return run.latency

    (request,) = in_virtual_time(main).requests
    assert (request.settled_s, request.won_s) == (about(3), None)
