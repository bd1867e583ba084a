"""Marks of a run from the wire: of recorded chunks, and of what a proxy meets besides complete responses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_lab._metrics import METRICS, figures
from eagerstream_lab._wire import Exchange, Seen, WireLog, as_events, eager_form, wire_latency
from eagerstream_testing import Timing, error_event, reply, retime, text, tool_use
from eagerstream_testing.capture._tape import TapedReply
from eagerstream_wire import MessageAssembler

TIMING = Timing(first_byte_s=1.0, tokens_per_second=10)
CALL = retime(reply(text("I will."), tool_use("look", {"place": "sea", "note": "x" * 80})), TIMING)
END = retime(reply(text("Done.")), TIMING)


def exchange(recording: Recording, sent_s: float, **other: Any) -> Exchange:
    """A response as it was recorded, to a request that was sent then."""
    chunks = list(recording.chunks)
    headers = {"content-type": "text/event-stream", **recording.headers}
    taped = TapedReply(1, chunks[0].at_s, recording.status, headers, "", chunks)
    known: dict[str, Any] = {"sent_bytes": 9, "model": "m", "eager": None, "end_s": sent_s + recording.duration_s}
    return Exchange(sent_s=sent_s, reply=taped, **known | other)


def seen(*exchanges: Exchange, **other: Any) -> Seen:
    known: dict[str, Any] = {"other_paths": (), "problem": "", "scripted": True}
    return Seen(exchanges=exchanges, **known | other)


def test_the_figures_of_a_run() -> None:
    """Each time is that of the chunk that brought it, and no figure is about a tool."""
    latency, failure = wire_latency(seen(exchange(CALL, 100.0), exchange(END, 100.0 + CALL.duration_s + 0.5)))
    assert failure is None
    assert latency.status == "completed"
    found = figures(latency, at_proxy=True)
    assert set(found) == {name for name, metric in METRICS.items() if metric.on_wire}
    assert found["first_byte_s"] == pytest.approx(1.0)
    assert found["input_complete_s"] == pytest.approx(CALL.duration_s)
    assert found["next_request_s"] == pytest.approx(CALL.duration_s + 0.5)
    assert found["between_turns_s"] == pytest.approx(0.5)
    assert found["duration_s"] == pytest.approx(CALL.duration_s + 0.5 + END.duration_s)
    assert [name for name, value in found.items() if value is None] == ["p99_gap_s"]  # too few gaps
    assert latency.time_to_tool_start_s is None


def test_requests_at_the_same_time() -> None:
    """A request that is sent before the response has ended answers no call: the time between turns is not negative."""
    latency, failure = wire_latency(seen(exchange(CALL, 0.0), exchange(END, 0.5)))
    assert failure is None
    assert figures(latency, at_proxy=True)["between_turns_s"] == 0.0


def test_a_response_that_is_not_streamed() -> None:
    """Its inputs arrive at its end, all at once."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "sea"}}
    body = json.dumps({**message, "content": [{"type": "text", "text": "I will."}, block], "usage": {}}).encode()
    whole = Recording((Chunk(2.0, body),), headers={"content-type": "application/json"})
    latency, failure = wire_latency(seen(exchange(whole, 10.0)))
    assert failure is None
    assert latency.status == "limit"  # its calls were not answered
    found = figures(latency, at_proxy=True)
    assert found["first_fragment_s"] == found["input_complete_s"] == found["large_parameter_s"] == 2.0
    assert found["next_request_s"] is None
    assembler = MessageAssembler()
    for event in as_events(json.loads(body)):
        assembler.feed(event)
    assert assembler.message is not None
    assert assembler.message["content"][1] == block


def cut(recording: Recording) -> Recording:
    return replace(recording, chunks=recording.chunks[:-2])


REFUSED = Recording(
    (Chunk(0.1, b'{"error": {"type": "not_found_error", "message": "model: x"}}'),), 404, {"content-type": "text/plain"}
)


@rows(
    "exchanges, other, told",
    [
        ([], {}, "no request came to the address in ANTHROPIC_BASE_URL"),
        ([], {"other_paths": ("/v1/chat/completions",)}, "only to /v1/chat/completions"),
        ([exchange(CALL, 0), exchange(REFUSED, 9)], {}, "request 2 of 2: HTTP 404 (not_found_error: model: x)"),
        ([exchange(cut(CALL), 0)], {}, "request 1 of 1: the response ended before its message did"),
        ([exchange(reply(error_event("overloaded_error", "busy")), 0)], {}, "(overloaded_error: busy)"),
        ([exchange(Recording((Chunk(0, b"data: {]\n\n"),)), 0)], {}, "cannot be read"),
        ([replace(exchange(END, 0), reply=None)], {}, "no response came"),
        ([replace(exchange(END, 0), reply=None)], {"problem": "too large"}, "too large"),
    ],
)
def test_what_cannot_count(exchanges: Sequence[Exchange], other: Mapping[str, Any], told: str) -> None:
    """The reason says which request failed, and in which way."""
    latency, failure = wire_latency(seen(*exchanges, **other))
    assert told in str(failure)
    assert latency.status == "error"
    assert len(latency.requests) == len(exchanges)


def test_a_request_that_was_sent_again() -> None:
    """A refused attempt does not count as the first response, and its time counts in the total."""
    latency, failure = wire_latency(seen(exchange(REFUSED, 0.0), exchange(END, 3.0)))
    assert failure is None
    assert [request.discarded for request in latency.requests] == [True, False]
    assert figures(latency, at_proxy=True)["first_byte_s"] == pytest.approx(4.0)


@rows(
    "tools, betas, form",
    [
        ([{"name": "a"}, {"name": "b", "eager_input_streaming": True}], "", "field"),
        ([{"name": "a", "eager_input_streaming": False}], "", None),
        ([{"name": "a"}], "x, fine-grained-tool-streaming-2025-05-14", "header"),
        ("nonsense", "", None),
    ],
)
def test_who_asks_for_eager_inputs(tools: object, betas: str, form: str | None) -> None:
    """One tool is sufficient, and so is the older header."""
    assert eager_form({"tools": tools}, betas) == form


def test_the_log_is_bounded() -> None:
    """A body that exceeds the memory is not kept, and still counts as a request."""
    log = WireLog()
    assert log.hold(256 * 2**20)
    log.begin(b'{"model": "m"}').end()
    collected = log.collect(scripted=True)
    assert [(one.model, one.sent_bytes, one.reply) for one in collected.exchanges] == [("", 14, None)]
    assert not log.collect(scripted=True).exchanges


def test_the_requests_of_a_run_are_bounded() -> None:
    """The first ones are kept, and the reason why the others lack is told."""
    log = WireLog(max_requests=2)
    for _ in range(2):
        log.begin(b"{}").end()
    assert log.collect(scripted=True).problem == ""
    for _ in range(3):
        log.begin(b"{}").end()
    collected = log.collect(scripted=True)
    assert (len(collected.exchanges), collected.problem) == (2, "more than 2 requests")
