"""`run.latency`: its marks, and what follows from them, of runs whose every moment is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter

import eagerstream
from eagerstream import Group, ItemStream, Later, Recording, Reject, RunStatus, Tool, ToolCall, tool
from eagerstream.loop import Gaps, LatencyData, RunLatency, RunMarks
from eagerstream.testing import reply, text
from eagerstream.wire import MessageAssembler
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    LocalAPI,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    whole_call,
)
from tests.virtual_time import Playing, in_virtual_time, timed

DONE = timed((0.25, message_start(id="msg_2")), (0.5, message_delta("end_turn")), (0.75, MESSAGE_STOP))


@tool
async def quick(city: str) -> str:
    """Half a second."""
    await anyio.sleep(0.5)
    return city


@tool
async def slow(city: str, call: ToolCall) -> str:
    """Two seconds, and tells of the first."""
    await anyio.sleep(1)
    await call.progress("half")
    await anyio.sleep(0.5)
    await call.progress("more")
    await anyio.sleep(0.5)
    return city


def call_events(index: int, name: str, start_s: float, *, fragments: Sequence[str], gap_s: float = 0.5) -> list[Any]:
    """The events of a call: a fragment each `gap_s`, the end with the last of them."""
    events: list[Any] = [(start_s, tool_start(index, name))]
    for number, fragment in enumerate(fragments, 1):
        events.append((start_s + number * gap_s, input_delta(index, fragment)))
    return [*events, (start_s + len(fragments) * gap_s, block_stop(index))]


def calls(*events: tuple[float, Any], stop_s: float, reason: str = "tool_use") -> Recording:
    """A reply with these events."""
    end = (stop_s, message_delta(reason)), (stop_s, MESSAGE_STOP)
    return timed((0.25, message_start(id="msg_1")), *sorted(events, key=lambda event: event[0]), *end)


CITY = ['{"city": ', '"Paris"}']


def latency_of(*turns: Recording | Any, tools: Sequence[Any], **options: Any) -> RunLatency:
    """Of a run with these replies, in virtual time."""

    async def main() -> RunLatency:
        transport = Playing(*turns)
        async with eagerstream.run(transport, tools=tools, clock=anyio.current_time, **REQUEST, **options) as run:
            await run.finish()
        return run.latency

    return in_virtual_time(main)


def about(value: float | None) -> Any:
    """Nothing takes time there but what waits."""
    return None if value is None else pytest.approx(value, abs=1e-6)


def test_the_marks_of_a_run() -> None:
    """Requests, blocks, fragments, fields and tools: each has the time at which it happened."""
    first = calls(*call_events(0, "quick", 1, fragments=CITY), *call_events(1, "slow", 2, fragments=CITY), stop_s=4)
    latency = latency_of(first, DONE, tools=[quick, slow])
    one, two = latency.requests
    assert [request.turn for request in latency.requests] == [1, 2]
    assert (one.sent_s, one.headers_s, one.first_byte_s, one.message_start_s) == (0, 0, about(0.25), about(0.25))
    assert (one.message_stop_s, one.end_s, one.settled_s, one.next_request_s) == (4, 4, about(5), about(5))
    assert (two.sent_s, two.first_byte_s, two.message_stop_s) == (about(5), about(5.25), about(5.75))
    assert two.next_request_s is None
    assert latency.duration_s == about(5.75)
    early, late = latency.calls
    assert (early.name, early.id, early.start_s, early.first_fragment_s) == ("quick", "toolu_0", 1, 1.5)
    assert (early.last_fragment_s, early.stop_s, early.first_field_s) == (2, 2, 2)
    assert early.fields() == [(("city",), about(2))]
    assert (early.admitted_s, early.tool_start_s, early.tool_progress_s, early.tool_end_s) == (2, 2, None, about(2.5))
    assert (late.tool_start_s, late.tool_progress_s, late.tool_end_s) == (3, about(4), about(5))
    assert (early.tool_s, early.lead_s, early.hidden_s) == (about(0.5), about(2), about(0.5))
    assert (late.tool_s, late.lead_s, late.hidden_s) == (about(2), about(1), about(1))
    assert (latency.time_to_first_fragment_s, latency.time_to_first_field_s) == (about(1.5), about(2))
    assert latency.time_to_tool_start_s == about(2)
    assert (latency.tool_s, latency.hidden_s, latency.hidden_share) == (about(2.5), about(1.5), about(0.6))
    assert (latency.fragments, latency.chars) == (4, 34)
    assert latency.fragments_per_s == about(2 / 1)
    assert latency.chars_per_s == about(2 * len(CITY[1]) / 1)
    assert latency.gaps == Gaps(2, about(0.5), about(0.5), about(0.5), about(0.5))


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


def test_a_later_parameter() -> None:
    """Fields come in the order in which they are finished, whatever waits for them."""

    @tool
    async def draw(shape: str, points: ItemStream[int], colour: Later[str] = Later.of("red")) -> str:
        """Draw."""
        async for _ in points:
            pass
        return await colour

    fragments = ['{"shape": "star", ', '"points": [1', ", 2], ", '"colour": "blue"}']
    latency = latency_of(calls(*call_events(0, "draw", 1, fragments=fragments), stop_s=4), DONE, tools=[draw])
    (call,) = latency.calls
    assert [path for path, _ in call.fields()] == [("shape",), ("points", 0), ("points", 1), ("points",), ("colour",)]
    assert (call.tool_start_s, call.tool_end_s) == (1.5, about(3))


def test_a_request_that_is_sent_again() -> None:
    """The first attempt stays visible, and counts in no figure."""
    broken = timed((0.5, message_start()), (1.0, tool_start(0, "quick")), (1.5, input_delta(0, '{"city": "Be')))
    attempts = iter([broken, calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=3)])
    latency = latency_of(lambda _: next(attempts), DONE, tools=[quick], restart_delay_s=1)
    assert [(request.turn, request.discarded) for request in latency.requests] == [(1, True), (1, False), (2, False)]
    lost, again, _ = latency.requests
    assert (lost.end_s, lost.message_stop_s, lost.settled_s, lost.won_s) == (about(1.5), None, None, None)
    assert lost.calls[0].first_fragment_s == about(1.5)
    assert lost.next_request_s == again.sent_s
    assert again.sent_s is not None
    assert 2 <= again.sent_s <= 2.5 + 1e-6
    assert len(latency.calls) == 1
    assert latency.time_to_first_fragment_s == about(again.sent_s + 1.5)
    assert latency.fragments == 2


def test_a_call_that_does_not_run() -> None:
    """An input that is not JSON, a tool that is not there: no tool time, nothing won, and the marks of their blocks."""
    events = [
        *call_events(0, "quick", 1, fragments=['{"city": ', "Paris}"]),
        *call_events(1, "nope", 2, fragments=["{}"]),
    ]
    latency = latency_of(calls(*events, stop_s=4), DONE, tools=[quick])
    invalid, unknown = latency.calls
    assert (invalid.tool_start_s, unknown.tool_start_s, latency.time_to_tool_start_s) == (None, None, None)
    assert (invalid.is_error, unknown.is_error) == (True, True)
    assert (latency.tool_s, latency.hidden_share, latency.won_s) == (0, None, 0)
    outcomes = [block["outcome"] for block in latency.to_dict()["requests"][0]["blocks"]]
    assert outcomes == ["invalid", "valid"]


def test_a_run_without_calls() -> None:
    """It has marks, and no figures about inputs; its text has gaps of its own, which are none of inputs."""
    said = timed(
        (0.5, message_start()),
        (1.0, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        (1.5, text_delta(0, "Hel")),
        (2.5, text_delta(0, "lo")),
        (2.5, block_stop(0)),
        (3.0, message_delta("end_turn")),
        (3.0, MESSAGE_STOP),
    )
    latency = latency_of(said, tools=[])
    assert latency.calls == []
    figures = (latency.time_to_first_fragment_s, latency.gaps, latency.fragments_per_s, latency.chars_per_s)
    assert figures == (None, None, None, None)
    (request,) = latency.to_dict(arrivals=True)["requests"]
    (block,) = request["blocks"]
    assert (block["kind"], block["fragments"], block["fields"], block["call"]) == ("text", 2, [], None)
    assert block["arrivals"] == [(1.5, 1, 3), (2.5, 1, 2)]
    assert block["gaps"] == {"count": 1, "p50_s": 1.0, "p90_s": 1.0, "p99_s": 1.0, "max_s": 1.0}


def test_json() -> None:
    """What comes out is JSON of the documented shape, the same numbers, and no content."""
    first = calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=3)
    latency = latency_of(first, DONE, tools=[quick])
    told = json.loads(latency.to_json(arrivals=True))
    TypeAdapter(LatencyData).validate_python(told, strict=False)
    assert told == json.loads(json.dumps(latency.to_dict(arrivals=True)))
    assert told["eagerstream_latency"] == 1
    assert (told["model"], told["status"], told["eager"]) == (REQUEST["model"], "completed", "field")
    block = told["requests"][0]["blocks"][0]
    assert block["fields"] == [{"path": ["city"], "at_s": 2.0}]
    assert block["call"]["start_s"] == 2.0
    assert block["arrivals"] == [[1.5, 1, 9], [2.0, 1, 8]]
    assert "Paris" not in latency.to_json(arrivals=True)
    assert all(block["arrivals"] == [] for request in latency.to_dict()["requests"] for block in request["blocks"])


def test_latency_while_the_run_goes_on() -> None:
    """It can be looked at from an event, and has what is known by then."""
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        transport = Playing(calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=4), DONE)
        async with eagerstream.run(transport, tools=[quick], clock=anyio.current_time, **REQUEST) as run:
            assert run.latency.requests == []
            assert run.latency.to_dict()["duration_s"] is None
            async for event in run:
                data = run.latency.to_dict()
                seen.append({"event": type(event).__name__, **data})
        assert run.result.status is RunStatus.COMPLETED

    in_virtual_time(main)
    stops = [data for data in seen if data["event"] == "InputStop"]
    assert stops[0]["time_to_first_field_s"] == about(2)
    assert stops[0]["requests"][0]["message_stop_s"] is None
    starts = [data for data in seen if data["event"] == "ToolStart"]
    assert starts[0]["time_to_tool_start_s"] == about(2)
    assert starts[0]["status"] == "running"
    assert starts[0]["requests"][0]["won_s"] is None


def test_a_run_that_is_left() -> None:
    """Its marks end where it was left; the call that was cut off has its end."""

    async def main() -> RunLatency:
        transport = Playing(calls(*call_events(0, "slow", 1, fragments=CITY), stop_s=40), DONE)
        async with eagerstream.run(transport, tools=[slow], clock=anyio.current_time, **REQUEST) as run:
            await anyio.sleep(2.5)
        return run.latency

    latency = in_virtual_time(main)
    (call,) = latency.calls
    assert (latency.status, call.tool_start_s, call.tool_end_s) == ("cancelled", 2, about(2.5))
    assert latency.requests[0].end_s == about(2.5)
    assert latency.requests[0].won_s is None


def test_a_run_that_is_left_waits_for_a_tool() -> None:
    """One that has to finish is a part of the run, and of its duration."""

    async def pay(city: str) -> str:
        """Two seconds, whatever happens."""
        await anyio.sleep(2)
        return city

    async def main() -> RunLatency:
        transport = Playing(calls(*call_events(0, "pay", 1, fragments=CITY), stop_s=40), DONE)
        tools = [Tool(pay, on_cancel="finish")]
        async with eagerstream.run(transport, tools=tools, clock=anyio.current_time, **REQUEST) as run:
            await anyio.sleep(2.5)
        return run.latency

    latency = in_virtual_time(main)
    assert (latency.calls[0].tool_end_s, latency.duration_s) == (about(4), about(4))


@pytest.mark.parametrize(
    ("gaps_s", "expected"),
    [
        ([], None),
        ([0.5], Gaps(1, 0.5, 0.5, 0.5, 0.5)),
        ([0.0, 1.0], Gaps(2, 0.5, 0.9, 0.99, 1.0)),
        ([n / 100 for n in range(101)], Gaps(101, 0.5, 0.9, 0.99, 1.0)),
    ],
)
def test_gaps(gaps_s: list[float], expected: Gaps | None) -> None:
    """Quantiles with linear interpolation, as NumPy's are."""
    gaps = Gaps.of(gaps_s)
    if expected is None:
        assert gaps is None
    else:
        assert gaps is not None
        assert (gaps.count, gaps.max_s) == (expected.count, expected.max_s)
        assert (gaps.p50_s, gaps.p90_s, gaps.p99_s) == pytest.approx((expected.p50_s, expected.p90_s, expected.p99_s))
        assert Gaps.of(reversed(gaps_s)) == gaps


def test_two_messages_with_the_same_reply() -> None:
    """Each request has its own blocks, also where the model says the same twice."""
    again = reply(text("Hello."), message_id="msg_x")
    latency = latency_of(again, tools=[])
    assert [len(request.to_dict()["blocks"]) for request in latency.requests] == [1]


# --- what is won is never more than is true ---------------------------------------------------------------------------


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


def test_calls_of_a_message_that_begins_anew() -> None:
    """The message of which a tool has run is the one that stays, and so are its marks; what comes instead is none."""
    again = [(3, message_start(id="msg_b")), *call_events(0, "slow", 3, fragments=CITY)]
    events = [(0.25, message_start(id="msg_1")), *call_events(0, "quick", 1, fragments=CITY), *again]
    latency = latency_of(timed(*events, (5, message_delta("tool_use")), (5, MESSAGE_STOP)), DONE, tools=[quick, slow])
    (call,) = latency.calls
    assert (call.name, call.start_s, call.tool_start_s, call.tool_end_s) == ("quick", 1, about(2), about(2.5))
    assert call.fields() == [(("city",), about(2))]
    assert latency.requests[0].won_s is None


def test_calls_that_are_whole_in_the_start_of_their_message() -> None:
    """Code that the API runs makes calls, too; they come without a block of their own."""
    start = message_start()
    start["message"]["content"] = [{"type": "tool_use", "id": "toolu_0", "name": "quick", "input": {"city": "Paris"}}]
    latency = latency_of(timed((0.25, start), (4, message_delta("tool_use")), (4, MESSAGE_STOP)), DONE, tools=[quick])
    (call,) = latency.calls
    assert (call.name, call.start_s, call.stop_s, call.tool_start_s) == ("quick", 0.25, 0.25, about(0.25))
    assert (latency.time_to_tool_start_s, latency.won_s) == (about(0.25), about(0.5))


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


def test_what_the_marks_keep() -> None:
    """Of a reply that has ended its inputs, which the calls have anyway; not what put its message together."""

    async def main() -> RunMarks:
        transport = Playing(calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=4), DONE)
        async with eagerstream.run(transport, tools=[quick], **REQUEST) as run:
            await run.finish()
            return run.marks

    marks = in_virtual_time(main)
    kept = [each for request in marks.requests for each in (request.reply, *request.reply.blocks.values())]
    assert len(kept) == 3
    assert not any(isinstance(value, MessageAssembler) for each in kept for value in vars(each).values())
    assert marks.requests[0].reply.blocks[0].input is not None


@pytest.mark.anyio
async def test_times_count_from_the_request() -> None:
    """And not from where the clock of the machine began."""
    call = [message_start(), *whole_call(0, "now"), message_delta("tool_use"), MESSAGE_STOP]

    @tool
    async def now() -> str:
        """Tell the time."""
        return "noon"

    async with eagerstream.run(LocalAPI(call, [reply(text("Noon."))]).transport(), **REQUEST, tools=[now]) as run:
        await run.finish()
    (of_call,) = run.latency.calls
    times = [of_call.start_s, of_call.stop_s, of_call.admitted_s, of_call.tool_start_s, of_call.tool_end_s]
    assert all(at_s is not None and 0 <= at_s < 60 for at_s in times), times
