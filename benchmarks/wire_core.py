"""The wire core by itself, driven as `eagerstream.stream` drives it: no client, no event loop, no buffer."""

from __future__ import annotations

from typing import Any

from eagerstream.wire import FragmentDecoder, MessageAssembler


class WireCore:
    """Chunks of a body in, events out.

    Attributes:
        assembler: Has the message and its inputs.
    """

    def __init__(self) -> None:
        self._decoder = FragmentDecoder()
        self.assembler = MessageAssembler()

    def feed(self, chunk: bytes) -> list[Any]:
        """The events of a chunk, its `InputDelta`s among them."""
        events: list[Any] = []
        assembler = self.assembler
        batch = iter(self._decoder.feed(chunk))
        while (event := assembler.feed_deltas(batch, events)) is not None:
            events += assembler.feed(event)
        return events
