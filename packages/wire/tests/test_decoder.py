"""`Decoder`: the rules that every decoder of a body follows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.aws_frames import chunk_frame
from tests.tables import rows

from eagerstream_wire import AWSEventStreamDecoder, Decoder, FragmentDecoder, SSEDecoder, UsageError, WireDecoder

_LINES = b'data: {"type":"ping"}\n\n'
_BODIES: dict[type[Decoder[Any]], bytes] = {
    SSEDecoder: _LINES,
    WireDecoder: _LINES,
    FragmentDecoder: _LINES,
    AWSEventStreamDecoder: chunk_frame({"type": "ping"}),
}
"""A body of one event for each decoder."""

each_decoder = rows("kind", _BODIES)


@each_decoder
def test_feed_after_close_is_the_callers_error(kind: type[Decoder[Any]]) -> None:
    """`close` may be called twice, also inside an event; feeding a closed decoder is a mistake worth hearing of."""
    body = _BODIES[kind]
    decoder = kind()
    decoder.feed(body[:10])
    assert decoder.close() == decoder.close() == []
    with pytest.raises(UsageError, match=rf"{kind.__name__}\.feed\(\) after close"):
        decoder.feed(body[10:])


@rows("bound", [0, -1])
@each_decoder
def test_a_limit_must_be_positive(kind: type[Decoder[Any]], bound: int) -> None:
    """A decoder that takes nothing is a mistake of the caller."""
    with pytest.raises(UsageError):
        kind(max_event_bytes=bound)


@each_decoder
def test_a_decoder_without_an_event_has_nothing_to_give(kind: type[Decoder[Any]]) -> None:
    """An empty chunk is no event, and a whole one comes out with its last byte."""
    body = _BODIES[kind]
    decoder = kind()
    assert decoder.feed(b"") == decoder.feed(body[:-1]) == []
    assert len(decoder.feed(body[-1:])) == 1
    assert decoder.close() == []
