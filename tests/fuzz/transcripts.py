"""All that a program can see of the wire core, written down line by line, for a comparison of its two flavors."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final

import eagerstream
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.recordings import Chunk, Recording
from eagerstream_wire import (
    FragmentDecoder,
    InputAccumulator,
    InputDelta,
    InputFragment,
    MessageAssembler,
    PartialJSON,
    SSEDecoder,
    TextFragment,
    TolerantJSON,
    ToolInput,
    WireDecoder,
    WireEvent,
)
from eagerstream_wire._values import is_deeper
from tests.streams import REQUEST, written

from .choices import Choices, pieces
from .json_text import json_text
from .wire_text import body, event_stream, wire_events

_LIMITS: Final = (
    DEFAULT_LIMITS,
    DEFAULT_LIMITS,
    Limits(max_input_chars=2_000, max_depth=100, max_integer_digits=100, max_blocks=50),
    Limits(max_event_bytes=300, max_input_chars=40, max_depth=3, max_integer_digits=9, max_blocks=3, max_values=40),
)
_MAX_STEPS: Final = 40
_MAX_DEPTH: Final = 300
_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")

Lines = Iterator[str]


def transcript(data: bytes) -> list[str]:
    """The lines of one scenario, which the data chooses. The same data give the same lines, whatever the flavor."""
    choices = Choices(data)
    before = logging.root.manager.disable
    logging.disable()  # `stream()` logs each breach of the protocol
    try:
        return [_ADDRESS.sub("0x", line) for line in choices.pick(_SCENARIOS)(choices)]
    finally:
        logging.disable(before)


def attempted(call: Callable[[], object]) -> str:
    """What a call returns, or the type and the text of what it raises."""
    try:
        return shown(call())
    except RecursionError:
        return "raises RecursionError"  # its text depends on the place
    except Exception as error:
        return f"raises {type(error).__name__}: {shown(str(error))}"


def shown(value: Any) -> str:
    """A value as it can be compared: by its JSON, or by its `repr`."""
    # Whether a deep value can be written depends on the depth of the stack, which differs between the flavors.
    if is_deeper([value], _MAX_DEPTH):
        return f"{type(value).__name__}, deep"
    if isinstance(value, ToolInput):
        return f"{value!r} {_input(value)}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(shown, value))}]"
    if value is None or isinstance(value, dict | str | int | float):
        try:
            return written(value)
        except (TypeError, ValueError) as error:
            return f"{type(value).__name__}, {type(error).__name__}" if isinstance(value, dict) else ascii(value)
    return ascii(value)


def _input(input: ToolInput) -> str:
    names = (
        "id",
        "name",
        "kind",
        "echo_id",
        "echo_name",
        "repeats_id",
        "raw",
        "chars",
        "fragments",
        "partial",
        "value",
    )
    more = ("outcome", "error", "is_damaged", "open_path", "wrapped")
    return "; ".join(attempted(lambda name=name: getattr(input, name)) for name in (*names, *more))  # type: ignore[misc]


# --- the core ---------------------------------------------------------------------------------------------------------


def _bytes_to_events(choices: Choices) -> Lines:
    kind = choices.pick((SSEDecoder, WireDecoder, FragmentDecoder))
    bound = choices.pick((1 << 30, 1 << 30, 100, 9))
    grammar = choices.pick((None, event_stream, body, body))
    seed = Choices(choices.take(6))
    decoder: Any = kind(max_event_bytes=bound)
    for chunk in pieces(seed, choices.rest() if grammar is None else grammar(choices))[: 3 * _MAX_STEPS]:
        yield attempted(lambda chunk=chunk: decoder.feed(chunk))  # type: ignore[misc]
        yield shown(decoder.reconnection_time_ms)
    yield attempted(decoder.close)
    yield attempted(lambda: decoder.feed(b"data: {}\n\n"))


def _fragments_to_value(choices: Choices) -> Lines:
    is_tolerant = choices.below(4) == 3
    limits = choices.pick(_LIMITS)
    switches = choices.below(16)
    seed = Choices(choices.take(6))
    text = json_text(choices) if choices.below(3) else choices.rest().decode("utf-8", "surrogateescape")
    reports, tracks = bool(switches & 1), bool(switches & 2)
    parser = TolerantJSON(limits=limits) if is_tolerant else PartialJSON(limits=limits, reports=reports, tracks=tracks)
    for number, fragment in enumerate(pieces(seed, text)[:_MAX_STEPS]):
        if number == switches // 2:
            parser.reports = not parser.reports
        yield attempted(lambda fragment=fragment: parser.feed(fragment))  # type: ignore[misc]
        yield from _of_parser(parser)
    yield attempted(parser.close)
    yield from _of_parser(parser)
    yield attempted(lambda: parser.feed("1"))


def _of_parser(parser: PartialJSON) -> Lines:
    yield shown(parser.value)
    yield shown([parser.started, parser.complete, parser.error, parser.overflow_chars, parser.open_path])
    yield shown([parser.tracks, parser.reports, parser.ended is None])
    for read in (lambda: parser.patch, lambda: parser.finished, lambda: parser.finished_fields):
        yield attempted(read)
    yield attempted(lambda: [parser.finished_in(depth) for depth in range(3)])
    yield attempted(lambda: [parser.is_finished(path) for path in ((), ("a",), (0,), ("a", 0))])


def _events_to_inputs(choices: Choices) -> Lines:
    accumulator = InputAccumulator(limits=choices.pick(_LIMITS))
    aspect = choices.below(8)
    calls: list[str] = []
    for event in _batch(choices, as_fragments=bool(aspect & 4)):
        if aspect & 2:
            accumulator.reports = not accumulator.reports
        yield attempted(lambda event=event: accumulator.feed(event))  # type: ignore[misc]
        for input in accumulator.inputs.values() if aspect & 1 else ():
            if len(calls) < _MAX_STEPS:
                calls.append(attempted(lambda input=input: input.watch("a", callback=lambda value: calls.append(shown(value)))))  # type: ignore[misc]  # fmt: skip
    yield attempted(
        lambda: accumulator._message.close(choices.pick((None, "tool_use", "max_tokens")), cut=bool(choices.below(2)))
    )
    yield from calls
    yield shown([*accumulator.inputs.values()])
    yield from (attempted(input.to_dict) for input in accumulator.inputs.values())
    yield from (attempted(lambda input=input: ToolInput.from_dict(input.to_dict())) for input in accumulator.inputs.values())  # type: ignore[misc]  # fmt: skip
    yield shown(
        [accumulator.violations, accumulator.violation_count, accumulator.lost_fragments, accumulator.stop_reason]
    )


def _events_to_message(choices: Choices) -> Lines:
    assembler: MessageAssembler[ToolInput] = MessageAssembler(limits=choices.pick(_LIMITS))
    every_time = choices.below(2)
    for event in _batch(choices, as_fragments=bool(choices.below(2))):
        yield attempted(lambda event=event: assembler.feed(event))  # type: ignore[misc]
        if every_time:
            yield shown([assembler.message, str(assembler.state), assembler.stop_reason])
    yield attempted(lambda: assembler.close(cleanly=bool(choices.below(2))))
    yield shown([assembler.message, str(assembler.state), assembler.stop_reason])


def _batch(choices: Choices, *, as_fragments: bool) -> Sequence[WireEvent | InputFragment]:
    events: list[WireEvent | InputFragment] = []
    for event in wire_events(choices)[:_MAX_STEPS]:
        delta = event.get("delta")
        if not as_fragments or event.get("type") != "content_block_delta" or not isinstance(delta, dict):
            events.append(event)
        elif "partial_json" in delta:
            events.append((event.get("index", 0), delta["partial_json"]))
        elif "text" in delta:
            events.append(TextFragment((event.get("index", 0), delta["text"])))
        else:
            events.append(event)
    return events


def _streamed(choices: Choices) -> Lines:
    """`stream()`, which is left or cancelled after some of its events."""
    leave_after = choices.pick((1000, 1000, 0, 1, 2, 3, 5, 8))
    is_cancelled = choices.below(2)
    limits = choices.pick(_LIMITS)
    seed = Choices(choices.take(6))
    cut = pieces(seed, body(choices))
    recording = Recording(tuple(Chunk(0.0, chunk) for chunk in [*cut[:_MAX_STEPS], b"".join(cut[_MAX_STEPS:])]))
    lines: list[str] = []

    async def read() -> None:
        numbers = count()
        async with eagerstream.stream(recording, limits=limits, **REQUEST) as stream:
            try:
                async for event in stream:
                    # A slow reader gets deltas merged: by the timing, not by the flavor.
                    lines.append(type(event).__name__ if isinstance(event, InputDelta) else shown(event))
                    if next(numbers) == leave_after:
                        break
                    if is_cancelled and next(numbers) > leave_after:
                        task = asyncio.current_task()
                        assert task is not None
                        task.cancel()
                        await asyncio.sleep(0)
            finally:
                lines.append(shown([{**stream.message}, stream.stop_reason, stream.is_whole]))

    lines.append(attempted(lambda: _cancellable(read)))
    return iter(lines)


def _cancellable(read: Callable[[], Any]) -> str:
    try:
        asyncio.run(read())
    except asyncio.CancelledError:
        return "cancelled"
    return "read"


def _used_wrongly(choices: Choices) -> Lines:
    from .misuse import misused

    return misused(choices)


_SCENARIOS: Final[tuple[Callable[[Choices], Lines], ...]] = (
    *(_bytes_to_events, _fragments_to_value, _events_to_inputs, _events_to_message) * 3,
    *(_used_wrongly,) * 8,
    _streamed,
)
