"""The wire core alone, driven as `eagerstream.stream` drives it: no client, no event loop, no buffer."""

from __future__ import annotations

from typing import Any, Final

from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream_wire import FragmentDecoder, MessageAssembler

LONG_INPUTS: Final = Limits(max_values=10_000_000)
"""An input of megabytes may have more values than an input may have by default."""


class WireCore:
    """Decoder and assembler, from chunks of a body to events.

    Args:
        limits: Bounds of each input.

    Attributes:
        assembler: Assembler of the message and its inputs.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._decoder = FragmentDecoder()
        self.assembler = MessageAssembler(limits=limits)

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the events of a chunk, including each `InputDelta`."""
        events: list[Any] = []
        assembler = self.assembler
        batch = iter(self._decoder.feed(chunk))
        while (event := assembler.feed_deltas(batch, events)) is not None:
            events += assembler.feed(event)
        return events
