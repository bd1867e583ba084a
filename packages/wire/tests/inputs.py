"""Feed wire events to an accumulator or an assembler, and write down in short what comes of them."""

from __future__ import annotations

from typing import Any

from tests.streams import block_stop, input_delta, tool_start

from eagerstream_wire import (
    InputAccumulator,
    InputDelta,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageEvent,
    ParsingLimits,
    ToolInput,
)


def told(accumulator: InputAccumulator, *events: Any) -> list[str]:
    """What came out, in short: `start 0`, `delta 0 'x'`, `stop 0 valid`."""
    lines = []
    for event in events:
        for out in accumulator.feed(event):
            match out:
                case InputStart(input=tool_input):
                    lines.append(f"start {tool_input.index}")
                case InputDelta(input=tool_input, fragment=fragment):
                    lines.append(f"delta {tool_input.index} {fragment!r}")
                case InputStop(input=tool_input):
                    assert tool_input.outcome is not None
                    lines.append(f"stop {tool_input.index} {tool_input.outcome.value}")
    return lines


def heard(*events: Any) -> InputAccumulator:
    """An accumulator that has heard these events."""
    accumulator = InputAccumulator()
    told(accumulator, *events)
    return accumulator


def closed(accumulator: InputAccumulator, stop_reason: str | None = None) -> list[str]:
    return [
        f"stop {event.input.index} {event.input.outcome.value}"
        for event in accumulator.close(stop_reason)
        if event.input.outcome
    ]


def ended(*fragments: str, limits: ParsingLimits | None = None) -> ToolInput:
    """A whole, closed input of these fragments."""
    accumulator = InputAccumulator(limits=limits or ParsingLimits())
    told(accumulator, tool_start(0), *(input_delta(0, fragment) for fragment in fragments), block_stop(0))
    return accumulator.inputs[0]


def fed(*events: Any, limits: ParsingLimits | None = None) -> tuple[MessageAssembler, list[MessageEvent[ToolInput]]]:
    assembler = MessageAssembler(limits=limits or ParsingLimits())
    return assembler, [out for event in events for out in assembler.feed(event)]
