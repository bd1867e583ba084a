"""Read a body with a decoder, whichever it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.aws_frames import chunk_frame

from eagerstream_wire import Decoder, EagerStreamError

_GOOD_CHUNKS = (b"", b'data: {"type":"ping"}\n\n', chunk_frame({"type": "ping"}))


def decoded(decoder: Decoder[Any], chunks: Iterable[bytes]) -> tuple[list[Any], str]:
    """Return the events of a body, and the failure that ended it.

    After a failure, every call of the decoder must raise the same exception.
    """
    events: list[Any] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        assert decoder.close() == []
    except EagerStreamError as failure:
        for chunk in _GOOD_CHUNKS:
            with pytest.raises(type(failure)) as again:
                decoder.feed(chunk)
            assert again.value is failure
        with pytest.raises(type(failure)) as again:
            decoder.close()
        assert again.value is failure
        return events, f"{type(failure).__name__}: {failure}"
    return events, ""
