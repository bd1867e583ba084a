"""Runs to be observed: events of replies written by hand, and the records that come of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.streams import block_stop, input_delta, message_start, tool_start

from eagerstream.inputs import GrowingInput
from eagerstream.loop import RunEvent, TurnStart
from eagerstream.streaming import FeedEnd
from eagerstream.tools import ToolCall
from eagerstream_progress import Record, RunRecorder, RunView
from eagerstream_wire import InputStart, MessageAssembler, WireEvent


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def events_of(*fragments: str, stops: bool = True, name: str = "tool") -> list[RunEvent]:
    """The events of one turn with one call, whose input comes in these fragments."""
    assembler = MessageAssembler(input_type=GrowingInput, reports=True)
    events: list[RunEvent] = [TurnStart(1)]
    wire_events = [message_start(), tool_start(0, name), *(input_delta(0, fragment) for fragment in fragments)]
    for wire_event in [*wire_events, block_stop(0)] if stops else wire_events:
        events += assembler.feed(wire_event)
    return events


def recorded(events: Iterable[RunEvent], *, ends: bool = True, **settings: Any) -> list[Record]:
    """The records of events that come one at a time."""
    records: list[Record] = []
    recorder = RunRecorder(records.extend, **settings)
    for event in events:
        recorder.take([event])
    if ends:
        recorder.end(FeedEnd("completed", 1, {}, None))
    return records


def tool_call_of(events: Iterable[RunEvent]) -> ToolCall:
    """The only call in events."""
    (input,) = (event.input for event in events if isinstance(event, InputStart))
    return ToolCall(input, turn=1)


def viewed(records: Iterable[Record]) -> RunView:
    """What records tell of a run."""
    view = RunView()
    for record in records:
        view.feed(record)
    return view


def recorded_body(chunks: Sequence[Sequence[WireEvent]]) -> tuple[list[Record], MessageAssembler[GrowingInput]]:
    """The records of wire events that come in chunks, and what put their message together."""
    records: list[Record] = []
    recorder = RunRecorder(records.extend)
    assembler = MessageAssembler(input_type=GrowingInput, reports=True)
    for chunk in chunks:
        events: list[RunEvent] = []
        for wire_event in chunk:
            if wire_event["type"] != "error":
                events += assembler.feed(wire_event)
        recorder.take(events)
    recorder.take([*assembler.close()])
    recorder.end(FeedEnd("completed", 1, {}, None))
    return records, assembler
