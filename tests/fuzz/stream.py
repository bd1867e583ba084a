"""`eagerstream.stream` over a recording: bytes in, events and the message out, by way of `MessageAssembler`."""

from __future__ import annotations

import asyncio
import atexit
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import eagerstream
from eagerstream.errors import APIError, LimitError, ProtocolError, StreamInterrupted
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.recordings import Chunk, Recording
from eagerstream.transports._error_responses import event_error, may_be_events, no_stream_error
from eagerstream_wire import (
    InputDelta,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageState,
    TextDelta,
    ThinkingDelta,
    WireDecoder,
)
from tests.streams import REQUEST, event_line, written

from .choices import Choices, pieces
from .cost import check_cost, is_sampled
from .wire_text import body

_SMALL: Final = Limits(
    max_event_bytes=300, max_input_chars=40, max_depth=3, max_integer_digits=9, max_blocks=3, max_values=40
)
_LIMITS: Final = (DEFAULT_LIMITS, DEFAULT_LIMITS, DEFAULT_LIMITS, _SMALL)
_ERRORS: Final = (APIError, ProtocolError, LimitError)  # StreamInterrupted is an APIError
_MAX_CHUNKS: Final = 60  # each goes through the event loop, which takes longer than reading it


class _Reply(NamedTuple):
    lines: list[tuple[Any, ...]]
    message: str
    stop_reason: str | None
    is_whole: bool
    error: str


def check(data: bytes) -> None:
    """The events are those of the wire core, however the bytes were cut; every input ends, and the message can be sent."""
    choices = Choices(data)
    limits = choices.pick(_LIMITS)
    structured = choices.below(2)
    seed = Choices(choices.take(6))
    stream = body(choices) if structured else choices.rest()
    cut = pieces(seed, stream)
    cut[_MAX_CHUNKS:] = [b"".join(cut[_MAX_CHUNKS:])]
    expected = _by_the_core(stream, limits)
    assert _received(cut, limits) == expected
    if is_sampled(data, 500):
        check_cost(
            lambda: _received(cut, limits),
            len(stream) + 200 * len(cut),  # a chunk goes through the event loop, which is not ours to measure
            lines_per_unit=50,
            bytes_per_unit=400,
        )


@cache
def _runner() -> asyncio.Runner:
    """One event loop for all inputs: a loop of its own would take longer than most of them."""
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def _received(cut: Sequence[bytes], limits: Limits) -> _Reply:
    return _runner().run(_receive(cut, limits))


async def _receive(cut: Sequence[bytes], limits: Limits) -> _Reply:
    recording = Recording(tuple(Chunk(0.0, chunk) for chunk in cut))
    events: list[Any] = []
    caught: Exception | None = None
    async with eagerstream.stream(recording, limits=limits, **REQUEST) as stream:
        try:
            async for event in stream:
                events.append(event)
        except _ERRORS as error:
            caught = error
            str(error)
    assert caught is not None or stream.is_whole
    message: dict[str, Any] = {**stream.message}
    if isinstance(caught, APIError) and caught.message is not None:
        assert caught.message == message
    return _reply(events, message, stream.stop_reason, is_whole=stream.is_whole, error=caught)


def _by_the_core(stream: bytes, limits: Limits) -> _Reply:
    """The same without any transport or event loop."""
    decoder = WireDecoder(max_event_bytes=limits.max_event_bytes, max_values=limits.max_values)
    assembler: MessageAssembler[Any] = MessageAssembler(limits=limits)
    events: list[Any] = []
    error: Exception | None = None
    has_begun = False
    try:
        for event in decoder.feed(stream):
            has_begun = has_begun or event["type"] != "ping"
            if event["type"] == "error":
                raise event_error(event, None)
            events += assembler.feed(event)
        decoder.close()  # raises what ended the decoding behind the last event
    except _ERRORS as caught:
        error = caught
    events += assembler.close(cleanly=error is None)
    if error is None and assembler.state is not MessageState.STOPPED:
        error = StreamInterrupted("the response ended before its message did")
        told = no_stream_error(stream, {})
        if not has_begun and (isinstance(told, APIError) or not may_be_events(stream)):
            error = told
    is_whole = assembler.state is MessageState.STOPPED
    return _reply(events, {**assembler.message}, assembler.stop_reason, is_whole=is_whole, error=error)


def _reply(
    events: Sequence[Any], message: dict[str, Any], stop_reason: str | None, *, is_whole: bool, error: Exception | None
) -> _Reply:
    starts = [event.input for event in events if isinstance(event, InputStart)]
    stops = [event.input for event in events if isinstance(event, InputStop)]
    assert len(starts) == len(stops)
    assert {id(input) for input in starts} == {id(input) for input in stops}
    json.dumps(message, ensure_ascii=True)
    # Events that a slow consumer finds merged are compared by their texts, in the order in which their blocks began.
    return _Reply(_unmerged(events), written(message), stop_reason, is_whole, f"{type(error).__name__}: {error}")


def _unmerged(events: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The events written down, deltas put together as far as nothing but deltas comes between them."""
    lines: list[tuple[Any, ...]] = []
    texts: dict[tuple[Any, ...], list[str]] = {}
    counts: Counter[tuple[Any, ...]] = Counter()  # of the tokens of thinking

    def joined() -> list[tuple[Any, ...]]:
        return sorted((*key, "".join(pieces), counts[key]) for key, pieces in texts.items())

    for event in events:
        match event:
            case InputDelta() | TextDelta() | ThinkingDelta():
                name, index, text, *tokens = event_line(event)
                key = (name, index)
                texts.setdefault(key, []).append(text)
                counts[key] += sum(count for count in tokens if count is not None)
            case _:
                lines += joined()
                texts.clear()
                counts.clear()
                lines.append(event_line(event))
    return lines + joined()
