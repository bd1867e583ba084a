"""`SSEDecoder` and `WireDecoder`: bytes to events."""

from __future__ import annotations

from typing import Final

from packages.wire.tests.conformance.reading_sse import read

from eagerstream_wire import (
    LimitError,
    ProtocolError,
    ServerSentEvent,
    SSEDecoder,
    WireDecoder,
    WireEvent,
    decode_event,
)
from tests.streams import written

from .choices import Choices, pieces
from .cost import check_cost, check_kept, is_sampled
from .feeding import decoded, fed
from .wire_text import body, event_stream

_NO_BOUND: Final = 1 << 30
_BOUNDS: Final = (_NO_BOUND, _NO_BOUND, 100, 9)


def check(data: bytes) -> None:
    """Any cut gives what the standard says, up to the limit; nothing but the documented errors is raised."""
    choices = Choices(data)
    bound = choices.pick(_BOUNDS)
    grammar = choices.pick((None, None, event_stream, body))
    aspect = choices.below(4)
    seed = Choices(choices.take(6))
    stream = choices.rest() if grammar is None else grammar(choices)
    cut = pieces(seed, stream)
    decoder = SSEDecoder(max_event_bytes=bound)
    events, error = decoded(decoder, cut)
    expected, expected_time = by_the_standard(stream)
    if error is None:
        assert (events, decoder.reconnection_time_ms) == (expected, expected_time)
    else:
        assert isinstance(error, LimitError)
        assert bound < _NO_BOUND
        whole, whole_error = decoded(SSEDecoder(max_event_bytes=bound), [stream])
        assert events == whole == expected[: len(events)]
        assert repr(error) == repr(whole_error)
    if aspect == 0:
        _check_wire_events(stream, cut, bound, expected)
    if is_sampled(data, 500):
        check_cost(
            lambda: decoded(SSEDecoder(max_event_bytes=bound), cut),
            len(stream) + 20 * len(cut),
            lines_per_unit=12,  # a line of two bytes takes some 20 lines of code
            bytes_per_unit=64,  # an event without a name and with no text takes 120 bytes, from 6
        )
        check_kept(lambda: fed(SSEDecoder(max_event_bytes=bound), cut), 64 * min(len(stream), bound))


def by_the_standard(stream: bytes) -> tuple[list[ServerSentEvent], int | None]:
    """What the second reading makes of the whole."""
    events, reconnection_time = read(stream)
    return [ServerSentEvent(*event) for event in events], reconnection_time


def _check_wire_events(stream: bytes, cut: list[bytes], bound: int, expected: list[ServerSentEvent]) -> None:
    """Decoding bytes straight to wire events leads where `SSEDecoder` and `decode_event` do."""
    events, error = decoded(WireDecoder(max_event_bytes=bound), cut)
    whole, whole_error = decoded(WireDecoder(max_event_bytes=bound), [stream])
    assert (written(events), repr(error)) == (written(whole), repr(whole_error))
    wire: list[WireEvent] = []
    fault: Exception | None = None
    for event in expected:
        if event.data in ("", "[DONE]"):
            continue
        try:
            wire.append(decode_event(event.data, event.event))
        except ProtocolError as caught:
            fault = caught
            break
    if isinstance(error, LimitError):
        assert bound < _NO_BOUND
        assert written(events) == written(wire[: len(events)])
    else:
        assert written(events) == written(wire)
        assert repr(error) == repr(fault)
