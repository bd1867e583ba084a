"""`ReplyMarks`: what of a reply came when.

While a reply is read, little more happens than that times are appended to arrays; what follows from them (gaps, fields
and when they were finished) is found out when somebody asks.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ..limits import DEFAULT_LIMITS
from ..wire import PartialJSON, ToolInput
from ..wire._accumulator import TOOL_BLOCKS, Places
from ..wire._events import TEXT_FIELDS
from ..wire._values import Path

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment, never falling: `time.monotonic`, or a clock of a test."""

MAX_ARRIVALS: Final = 100_000
"""Arrivals of a block that are kept apart, 16 bytes each; further ones only move the last."""

_TEXT_FIELDS: Final = {kind: name for kind, name in TEXT_FIELDS.items() if kind != "input_json_delta"}

MAX_FIELDS: Final = 10_000
"""Finished fields of an input that are told of."""


class HasInputs(Protocol):
    """What knows the inputs of a message: its assembler."""

    @property
    def inputs(self) -> Mapping[int, ToolInput]:
        """Block index to tool input."""
        ...


class _Kept(NamedTuple):
    """The input that a block had when its message ended, or began anew."""

    inputs: Mapping[int, ToolInput]


class Arrival(NamedTuple):
    """Fragments of a block that came together.

    Attributes:
        at_s: When, by the clock of the marks.
        fragments: How many they were, at least 1; none of them empty.
        chars: Characters in all of them.
    """

    at_s: float
    fragments: int
    chars: int


class FinishedField(NamedTuple):
    """A value of an input, and when the fragment came that finished it.

    Attributes:
        path: Object keys and array indexes.
        at_s: By the clock of the marks.
    """

    path: Path
    at_s: float


class BlockMarks:
    """When the parts of one content block came.

    Times are of the clock of the marks; None: has not happened. Fragments are the deltas that have text: of the JSON of
    an input, of a text, of thinking.

    Attributes:
        index: Place in the message.
        kind, id, name: As its `content_block_start` has them; empty where it has none.
        start_s, stop_s: Its `content_block_start`, its `content_block_stop`.
        fragments, chars: How much has come.
    """

    def __init__(self, index: int, block: Mapping[str, Any], message: HasInputs) -> None:
        self.index = index
        self.kind = str(block.get("type", ""))
        self.id = str(block.get("id", ""))
        self.name = str(block.get("name", ""))
        self.start_s: float | None = None
        self.stop_s: float | None = None
        self.fragments = 0
        self.chars = 0
        self._message = message
        self._has_input = self.kind in TOOL_BLOCKS
        self._at_s = array("d")
        self._counts = array("L")
        self._chars = array("L")

    @property
    def first_fragment_s(self) -> float | None:
        """When its first fragment came."""
        return self._at_s[0] if self._at_s else None

    @property
    def last_fragment_s(self) -> float | None:
        """When its last fragment came."""
        return self._at_s[-1] if self._at_s else None

    @property
    def input(self) -> ToolInput | None:
        """The input of a call; None where it is none."""
        return self._message.inputs.get(self.index) if self._has_input else None

    def arrivals(self) -> Iterator[Arrival]:
        """Its fragments as they came."""
        # Not strictly as many: where another thread looks, one of the arrays may just have grown.
        return map(Arrival._make, zip(self._at_s, self._counts, self._chars, strict=False))

    def gaps_s(self) -> list[float]:
        """Seconds from each fragment to the next; 0 between those that came together."""
        together = self.fragments - len(self._at_s)
        return [later - earlier for earlier, later in pairwise(self._at_s)] + [0.0] * together

    def fields(self, maximum: int = MAX_FIELDS) -> list[FinishedField]:
        """Each value of its input in the order in which they were finished, and when; at most `maximum`.

        The input is parsed once more for it, up to the last of these fields: O(characters). Of one that came whole with
        its start there are none.
        """
        input = self.input
        if input is None or not self._at_s:
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

    def arrived(self, at_s: float, fragments: int, chars: int) -> None:
        """So much of it came."""
        self.fragments += fragments
        self.chars += chars
        if len(self._at_s) < MAX_ARRIVALS:
            self._at_s.append(at_s)
            self._counts.append(fragments)
            self._chars.append(chars)
        else:
            self._at_s[-1] = at_s
            self._counts[-1] += fragments
            self._chars[-1] += chars

    def keep_input(self) -> None:
        """Its message begins anew, and will have other inputs; or has ended, and need not be kept for this one."""
        input = self.input
        self._message = _Kept({} if input is None else {self.index: input})

    def catch_up(self, at_s: float) -> None:
        """What came of its input since the last time came now."""
        input = self.input
        if input is not None and input.chars > self.chars:
            self.arrived(at_s, input.fragments - self.fragments, input.chars - self.chars)

    def take_delta(self, at_s: float, delta: object) -> None:
        """Text or thinking came; in a call it is none of it. Fragments of an input count once the reader has them."""
        if self._has_input or not isinstance(delta, dict):
            return
        kind = delta.get("type")
        if isinstance(kind, str) and kind in _TEXT_FIELDS:
            text = delta.get(_TEXT_FIELDS[kind])
            if isinstance(text, str) and text:
                self.arrived(at_s, 1, len(text))


class ReplyMarks:
    """When the parts of one reply came; None: has not happened.

    Args:
        message: Whose inputs they are.
        clock: Tells the time.

    Attributes:
        sent_s: The request was about to be sent.
        headers_s: The headers were there, and asked for an answer (HTTP status 200).
        first_byte_s: The first chunk of the body.
        message_start_s, message_stop_s: Of the last message that began.
        end_s: Nothing more was read: at its end, or where it broke off.
        blocks: By their index in the message, as `MessageStream.inputs` counts it, in the order in which they began.
    """

    def __init__(self, message: HasInputs, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.sent_s: float | None = None
        self.headers_s: float | None = None
        self.first_byte_s: float | None = None
        self.message_start_s: float | None = None
        self.message_stop_s: float | None = None
        self.end_s: float | None = None
        self.blocks: dict[int, BlockMarks] = {}
        self._message = message
        self._open: dict[int, BlockMarks] = {}  # by the index of the peer; their input may go on
        self._places = Places()
        self._before: list[tuple[dict[int, BlockMarks], float | None]] = []  # messages begun anew in this chunk
        self._now: Any = None  # when the chunk came that is being taken in

    def sending(self) -> None:
        """The request is about to be sent."""
        self.sent_s = self.clock()

    def opened(self) -> None:
        """The headers are there."""
        self.headers_s = self.clock()

    def end(self) -> None:
        """Nothing more is read."""
        self.end_s = self.clock()
        for block in self.blocks.values():
            block.keep_input()
        self._message = _Kept({})  # the marks of a run stay longer than the assembler of each of its replies
        self._before = []

    def take(self, event: Mapping[str, Any] | object) -> None:
        """The reader is about to take in this event.

        Fragments of inputs need not be told of: they are found in the input, by `catch_up`.
        """
        if type(event) is not dict:
            return
        if self._now is None:  # the first of its chunk
            self._now = self.clock()
            self._before = []
        now = self._now
        kind = event.get("type")
        index = event.get("index")
        if type(index) is int:
            if kind == "content_block_delta":
                block = self._open.get(index)
                if block is not None:
                    block.take_delta(now, event.get("delta"))
            elif kind == "content_block_start":
                content = event.get("content_block")
                if isinstance(content, dict):
                    place = self._places.take(index)
                    block = self.blocks[place] = BlockMarks(place, content, self._message)
                    block.start_s = now
                    self._open[index] = block
            elif kind == "content_block_stop" and index in self._open:
                block = self._open.pop(index)
                block.catch_up(now)
                block.stop_s = now
        elif kind == "message_start":
            self._begin(event.get("message"), now)
        elif kind == "message_stop":
            self.message_stop_s = now

    def _begin(self, message: object, now: float) -> None:
        """A message begins, maybe with blocks that are whole: calls made by code that the API runs."""
        for block in self._open.values():
            block.catch_up(now)
        for block in self.blocks.values():
            block.keep_input()
        self._before.append((self.blocks, self.message_start_s))
        self.message_start_s = now
        self.message_stop_s = None
        content = message.get("content") if isinstance(message, dict) else None
        whole = content[: DEFAULT_LIMITS.max_blocks] if isinstance(content, list) else ()
        self.blocks = {
            n: BlockMarks(n, block, self._message) for n, block in enumerate(whole) if isinstance(block, dict)
        }
        self._places = Places()
        for index in self.blocks:
            self._places.take(index)
        for made in self.blocks.values():
            made.start_s = made.stop_s = now
        self._open = {}

    def return_to(self, input: ToolInput) -> None:
        """The message that was begun anew in this chunk stays after all, which is the one with this input."""
        for blocks, start_s in self._before:
            if any(block.input is input for block in blocks.values()):
                self.blocks, self.message_start_s, self.message_stop_s = blocks, start_s, None
                self._open = {}

    def catch_up(self) -> None:
        """The reader has taken in all of a chunk: what is new in the open inputs came with it."""
        now = self.clock() if self._now is None else self._now
        if self.first_byte_s is None:
            self.first_byte_s = now
        inputs = self._message.inputs
        for block in self._open.values():
            input = inputs.get(block.index)
            if input is not None and input.chars > block.chars:
                block.arrived(now, input.fragments - block.fragments, input.chars - block.chars)
        self._now = None
