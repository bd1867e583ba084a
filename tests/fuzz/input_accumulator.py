"""`InputAccumulator`: wire events to the inputs of tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from packages.wire.tests.summaries import input_summary

from eagerstream_wire import (
    InputAccumulator,
    InputDelta,
    InputStart,
    InputStop,
    LimitError,
    Outcome,
    ParsingLimits,
    ProtocolError,
    ToolInput,
    WireEvent,
    decode_event,
)
from eagerstream_wire._limits import DEFAULT_LIMITS
from tests.streams import strict_loads, written

from .choices import Choices, pieces
from .cost import check_cost, check_kept, is_sampled
from .feeding import fed
from .wire_text import wire_events

_SMALL: Final = ParsingLimits(max_input_chars=40, max_depth=3, max_integer_digits=9, max_blocks=3)
_MEDIUM: Final = ParsingLimits(max_input_chars=2_000, max_depth=100, max_blocks=50)
_LIMITS: Final = (DEFAULT_LIMITS, DEFAULT_LIMITS, _MEDIUM, _SMALL)
_MAX_VIOLATIONS: Final = 100


def check(data: bytes) -> None:
    """Every input that starts stops once, and is what its fragments say, however these were cut."""
    choices = Choices(data)
    limits = choices.pick(_LIMITS)
    structured = choices.below(2)
    aspect = choices.below(3)
    seed = Choices(choices.take(6))
    events = wire_events(choices) if structured else _raw_events(choices.rest())
    accumulator = InputAccumulator(limits=limits)
    settled = _settled(accumulator, events)
    assert len(accumulator.violations) <= _MAX_VIOLATIONS
    for input in settled:
        _check_input(input, limits)
    if aspect == 0:
        again = _settled(InputAccumulator(limits=limits), _recut(events, seed))
        assert [input_summary(input) for input in again] == [input_summary(input) for input in settled]
    if is_sampled(data, 500):
        size = sum(len(written(event)) for event in events)
        check_cost(
            lambda: _settled(InputAccumulator(limits=limits), events),
            size,
            lines_per_unit=50,
            bytes_per_unit=400,
        )
        check_kept(lambda: fed(InputAccumulator(limits=limits), events), 400 * size)


def _raw_events(data: bytes) -> list[WireEvent]:
    """Each line is an event if it can be, and else a fragment for the block before."""
    events: list[WireEvent] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "n"}}
    ]
    for line in data.split(b"\n"):
        try:
            events.append(decode_event(line))
        except ProtocolError:
            fragment = line.decode("utf-8", "surrogateescape")
            delta = {"type": "input_json_delta", "partial_json": fragment}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    return events


def _recut(events: Iterable[WireEvent], seed: Choices) -> Iterator[Any]:
    """The same, its fragments cut again, and no event a dict."""
    for event in events:
        delta = event.get("delta")
        if not isinstance(delta, dict) or not isinstance(fragment := delta.get("partial_json"), str) or not fragment:
            yield MappingProxyType(event)
            continue
        for piece in pieces(seed, fragment):
            yield MappingProxyType(event | {"delta": MappingProxyType({**delta, "partial_json": piece})})


def _settled(accumulator: InputAccumulator, events: Iterable[WireEvent]) -> list[ToolInput]:
    """Every input in the order of their ends; each began once, and says nothing after it ended."""
    under_way: list[ToolInput] = []
    settled: list[ToolInput] = []

    def take(out: list[Any]) -> None:
        for event in out:
            match event:
                case InputStart(input=input):
                    assert input not in under_way
                    under_way.append(input)
                case InputDelta(input=input, fragment=fragment):
                    assert input in under_way
                    assert fragment
                case InputStop(input=input):
                    under_way.remove(input)
                    assert input.outcome is not None
                    settled.append(input)
                case _:
                    raise AssertionError(f"not an event of an input: {event!r}")

    try:
        for event in events:
            take(accumulator.feed(event))
    except LimitError as error:
        assert error.limit == "max_blocks"
    take(accumulator.close())
    assert accumulator.close() == []
    assert under_way == []
    return settled


def _check_input(input: ToolInput, limits: ParsingLimits) -> None:
    assert len(input.raw) <= limits.max_input_chars or not input.chars
    json.dumps(input.wrapped, allow_nan=False)
    if input.outcome is Outcome.VALID:
        if input.chars:
            assert written(input.value) == written(strict_loads(input.raw))
        assert input.error is None
    else:
        assert input.wrapped == {"INVALID_JSON": input.raw}
        assert input.value is None
        assert input.error is not None
        str(input.error)
