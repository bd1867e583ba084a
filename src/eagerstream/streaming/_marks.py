"""`ReplyMarks`: the times of a response.

While a response is read, times are appended to arrays, and little else happens. Gaps, fields and the times at which
fields were finished are computed when somebody asks.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from eagerstream_wire import (
    BlockStart,
    BlockStop,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    PartialJSON,
    TextDelta,
    ThinkingDelta,
    ToolInput,
)
from eagerstream_wire._values import Path

from ._observers import FeedEnd

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment, never falling: `time.monotonic`, or a clock of a test."""

# With the median of real streams, 7 characters a fragment, these are 700,000 characters of one block.
MAX_ARRIVALS: Final = 100_000
"""Arrivals of a block that are kept apart, at most 24 bytes each; further ones only move the last."""

MAX_FIELDS: Final = 10_000
"""Finished fields of an input that are reported."""


class Arrival(NamedTuple):
    """Fragments of a block that came together.

    Attributes:
        at_s: Time of arrival, by the clock of the marks.
        fragments: Number of fragments, at least 1; none of them empty.
        chars: Characters in all of them.
    """

    at_s: float
    fragments: int
    chars: int


class FinishedField(NamedTuple):
    """A value of an input, and the time of the fragment that finished it.

    Attributes:
        path: Object keys and array indexes.
        at_s: Time of that fragment, by the clock of the marks.
    """

    path: Path
    at_s: float

    def __repr__(self) -> str:
        # Without the path: its keys are written by the model.
        return f"FinishedField({len(self.path)} steps, at_s={self.at_s!r})"


class BlockMarks:
    """The times of one content block, by the clock of the marks. `None`: has not happened.

    Fragments are the deltas with text: of the JSON of an input, of a text, of thinking.

    Attributes:
        index: Place in the message.
        kind, id, name: Those of its `content_block_start`; empty if it has none.
        input: The input of a call; None for any other block.
        start_s: Time of its `content_block_start`.
        stop_s: Time of its `content_block_stop`. For an input without text: of the event that proved it complete.
        fragments, chars: Number of fragments and characters so far.
    """

    # Slots for the caches of the processor: each chunk of each stream comes here.
    __slots__ = (
        "_arrivals",
        "chars",
        "fragments",
        "id",
        "index",
        "input",
        "kind",
        "name",
        "start_s",
        "stop_s",
    )

    def __init__(self, index: int, block: Mapping[str, Any], start_s: float, input: ToolInput | None = None) -> None:
        self.index: int = index
        self.kind: str = str(block.get("type", ""))
        self.id: str = str(block.get("id", ""))
        self.name: str = str(block.get("name", ""))
        self.input: ToolInput | None = input
        self.start_s: float = start_s
        self.stop_s: float | None = None
        self.fragments: int = 0
        self.chars: int = 0
        # Time, fragments and characters of each arrival: 24 bytes. A tuple in a list takes over 100, and the garbage
        # collector visits it. Three arrays would be three times as many places in memory to write for each chunk.
        self._arrivals = array("d")

    @property
    def first_fragment_s(self) -> float | None:
        """The time of its first fragment."""
        return self._arrivals[0] if self._arrivals else None

    @property
    def last_fragment_s(self) -> float | None:
        """The time of its last fragment."""
        return self._arrivals[-3] if self._arrivals else None

    def arrivals(self) -> Iterator[Arrival]:
        """Iterate over its fragments as they came."""
        arrivals = self._arrivals
        for at in range(0, len(arrivals), 3):
            at_s, fragments, chars = arrivals[at : at + 3]
            yield Arrival(at_s, int(fragments), int(chars))

    def gaps_s(self) -> list[float]:
        """Return the seconds from each fragment to the next; 0 between those that came together."""
        times = self._arrivals[::3]
        together = self.fragments - len(times)
        return [later - earlier for earlier, later in pairwise(times)] + [0.0] * together

    def fields(self, maximum: int = MAX_FIELDS) -> list[FinishedField]:
        """Return the values of its input in the order in which they were finished, with the times; at most `maximum`.

        The input is parsed once more for it, up to the last of these fields: O(characters). An input that came complete
        with its start has none.
        """
        # Parsed afterwards instead of reported with each fragment: every run has marks, and few programs ask for
        # fields. The input keeps its text anyway, and the arrivals give the time of each part.
        input = self.input
        if input is None or not self._arrivals:
            return []
        found: list[FinishedField] = []
        parser = PartialJSON(reports=True)
        raw = input.raw
        end = 0
        for at_s, _, chars in self.arrivals():
            start, end = end, end + chars
            parser.feed(raw[start:end])
            found += (FinishedField(path, at_s) for path, _ in parser.finished if path)
            if len(found) >= maximum:
                return found[:maximum]
        return found

    def reached(self, at_s: float, fragments: int, chars: int) -> None:
        """Note how much of it has come by now, in all."""
        # Totals instead of pieces, because an input counts its own fragments, and no delta is made for the marks.
        # Beyond the bound the last arrival grows, so that the totals and the last time stay right
        # (test_arrivals_are_bounded).
        if chars == self.chars:
            return
        new_fragments, new_chars = fragments - self.fragments, chars - self.chars
        self.fragments, self.chars = fragments, chars
        arrivals = self._arrivals
        if len(arrivals) < 3 * MAX_ARRIVALS:
            # One call of C: another thread that looks at the marks sees all three or none.
            arrivals.extend((at_s, new_fragments, new_chars))
        else:
            arrivals[-3] = at_s
            arrivals[-2] += new_fragments
            arrivals[-1] += new_chars


class ReplyMarks:
    """The times of one response. `None`: has not happened.

    It is an observer of the events of the response. It needs no `InputDelta`s, because an input knows how much of it
    has come: a run that nobody watches makes no deltas for its marks.

    Args:
        clock: Returns the time in seconds.

    Attributes:
        sent_s: Time at which the request was about to be sent.
        headers_s: Time of the headers of an accepted request (HTTP status 200).
        first_byte_s: Time of the first chunk of the body.
        message_start_s, message_stop_s: Times of the last message that started.
        end_s: Time from which on nothing more was read: its end, or its interruption.
        blocks: Block index, as in `MessageStream.inputs`, to the marks of the block, in the order of their starts.
    """

    __slots__ = (
        "_growing",
        "blocks",
        "clock",
        "end_s",
        "first_byte_s",
        "headers_s",
        "message_start_s",
        "message_stop_s",
        "sent_s",
    )

    wants_deltas = False
    wants_chunks = True

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock: Clock = clock
        self.sent_s: float | None = None
        self.headers_s: float | None = None
        self.first_byte_s: float | None = None
        self.message_start_s: float | None = None
        self.message_stop_s: float | None = None
        self.end_s: float | None = None
        self.blocks: dict[int, BlockMarks] = {}
        self._growing: dict[ToolInput, BlockMarks] = {}  # inputs that are not settled

    def sending(self, _: Mapping[str, Any], /) -> None:
        """Note that the request is about to be sent."""
        self.sent_s = self.clock()

    def opened(self) -> None:
        """Note that the headers are there."""
        self.headers_s = self.clock()

    def ended(self) -> None:
        """Note that nothing more is read. Events that follow only settle what was cut off."""
        # The first call counts: the reader calls this before it settles the inputs, and again at the very end.
        if self.end_s is None:
            self.end_s = self.clock()

    def take(self, events: Sequence[Any]) -> None:
        """Note the events of one chunk of the body."""
        # One time for the chunk, asked once: its events came together, whatever their number.
        if self.end_s is not None:
            return
        now = self.clock()
        if self.first_byte_s is None:
            self.first_byte_s = now
        index, fragments, chars = -1, 0, 0  # of the text of the last events, which is noted once
        for event in events:
            kind = type(event)
            if kind is InputDelta:
                continue
            if fragments and (kind is not TextDelta or event.index != index):
                self._text_came(now, index, fragments, chars)
                fragments = chars = 0
            if kind is TextDelta:
                index = event.index
                fragments += 1
                chars += len(event.text)
            else:
                self._take(event, now)
        if fragments:
            self._text_came(now, index, fragments, chars)
        # All inputs that are open, as no delta says which of them grew. It is one, unless a peer interleaves blocks.
        for input, block in self._growing.items():
            block.reached(now, input.fragments, input.chars)

    def _text_came(self, now: float, index: int, fragments: int, chars: int) -> None:
        if index in self.blocks:
            marks = self.blocks[index]
            marks.reached(now, marks.fragments + fragments, marks.chars + chars)

    def _take(self, event: object, now: float) -> None:
        match event:
            case ThinkingDelta(index=index, thinking=text):
                self._text_came(now, index, 1, len(text))
            case BlockStart(index=index, block=block):
                self.blocks[index] = BlockMarks(index, block, now)
            case BlockStop(index=index, block=block):
                if index not in self.blocks:  # a result that came whole, in the start of the message
                    self.blocks[index] = BlockMarks(index, block, now)
                self.blocks[index].stop_s = now
            case InputStart(input=input):
                marks = self.blocks[input.index] = BlockMarks(input.index, input.block, now, input)
                self._growing[input] = marks
            case InputStop(input=input) if input in self._growing:
                marks = self._growing.pop(input)
                marks.reached(now, input.fragments, input.chars)
                marks.stop_s = now
            case MessageStart():
                self.blocks, self._growing = {}, {}
                self.message_start_s, self.message_stop_s = now, None
            case MessageStop():
                self.message_stop_s = now
            case _:
                pass

    def end(self, end: FeedEnd) -> None:
        """See `Observer`: nothing is left to do."""
