"""`RunMarks`: when the requests, fields and calls of a run started and ended."""

from __future__ import annotations

import gc

import anyio

import eagerstream
from eagerstream import ItemStream, Later, Tool, tool
from eagerstream.loop import Gaps, RunLatency, RunMarks
from eagerstream_testing import reply, text
from eagerstream_wire import MessageAssembler
from tests.loop.timing import CITY, DONE, about, call_events, calls, latency_of, quick, slow
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.virtual_time import Playing, in_virtual_time, timed


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


def test_two_messages_with_the_same_reply() -> None:
    """Each request has its own blocks, also where the model says the same twice."""
    again = reply(text("Hello."), message_id="msg_x")
    latency = latency_of(again, tools=[])
    assert [len(request.to_dict()["blocks"]) for request in latency.requests] == [1]


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
    assert not any(isinstance(value, MessageAssembler) for each in kept for value in gc.get_referents(each))
    assert marks.requests[0].reply.blocks[0].input is not None


def test_a_tool_that_ends_during_the_next_response() -> None:
    """Its end is no byte of that response, and is noted even after the run has reported its own end."""

    @tool(idempotent=True, on_cancel="finish")
    async def outlive(city: str) -> str:
        """Take three seconds, whatever happens."""
        await anyio.sleep(3)
        return city

    input = (input_delta(0, '{"city": "Oslo"}'), block_stop(0))
    cut = timed(
        (0, message_start()), (0.5, tool_start(0, "outlive")), *((0.5, event) for event in input), (1, {"type": "ping"})
    )
    for first_s in (8, 0.125):
        late = timed((first_s, message_start()), (first_s, message_delta("end_turn")), (first_s, MESSAGE_STOP))
        answers = iter([cut, late])
        latency = latency_of(lambda *_, answers=answers: next(answers), tools=[outlive], restart_delay_s=1)
        first, again = latency.requests
        assert first.discarded
        assert first.calls[0].tool_end_s == about(3.5)
        assert again.sent_s is not None
        assert again.first_byte_s == about(again.sent_s + first_s)
        assert latency.duration_s == about(max(3.5, again.sent_s + first_s))
