"""The wire core alone, driven as `eagerstream.stream` drives it: no client, no event loop, no buffer."""

from __future__ import annotations

from typing import Any

from eagerstream.wire import FragmentDecoder, MessageAssembler


class WireCore:
    """Decoder and assembler, from chunks of a body to events.

    Attributes:
        assembler: Assembler of the message and its inputs.
    """

    def __init__(self) -> None:
        self._decoder = FragmentDecoder()
        self.assembler = MessageAssembler()

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the events of a chunk, including each `InputDelta`."""
        events: list[Any] = []
        assembler = self.assembler
        batch = iter(self._decoder.feed(chunk))
        while (event := assembler.feed_deltas(batch, events)) is not None:
            events += assembler.feed(event)
        return events
