"""`ReplyMarks`: what of a reply came when, by a clock that the test sets."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import eagerstream
from eagerstream.streaming import ReplyMarks, _marks as marks_module
from eagerstream.streaming._marks import Arrival, FinishedField
from eagerstream_testing import Timing, reply, retime, text, thinking, tool_use
from eagerstream_wire import FragmentDecoder, MessageAssembler, SSEDecoder, decode_event
from tests.sampling import drawn
from tests.streaming.streams import finished
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    made_recordings,
    message_delta,
    message_start,
    real_recordings,
    text_delta,
    tool_start,
)
from tests.tables import rows
from tests.virtual_time import in_virtual_time, timed


class Clock:
    """Says what it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """Feeds chunks of events to an assembler, as the reader of a reply does, each at a time of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.assembler = MessageAssembler()
        self.marks = ReplyMarks(self.clock)

    def take(self, at_s: float, *events: Any) -> None:
        self.clock.now = at_s
        self.marks.take([told for event in events for told in self.assembler.feed(event)])


def test_a_block_from_its_start_to_its_end() -> None:
    """Each mark is the time of the chunk that it came in; an empty fragment is none."""
    reader = Reader()
    reader.take(1.0, message_start())
    reader.take(2.0, tool_start(0, "make_file"), input_delta(0, ""))
    reader.take(3.0, (0, '{"a": '), (0, "1"))
    reader.take(5.5, (0, ""), (0, ', "b": "x'))
    reader.take(6.0, input_delta(0, '"}'), block_stop(0))
    reader.take(7.0, message_delta("tool_use"), MESSAGE_STOP)
    marks = reader.marks
    assert (marks.first_byte_s, marks.message_start_s, marks.message_stop_s) == (1.0, 1.0, 7.0)
    (block,) = marks.blocks.values()
    assert (block.index, block.kind, block.id, block.name) == (0, "tool_use", "toolu_0", "make_file")
    assert (block.start_s, block.first_fragment_s, block.last_fragment_s, block.stop_s) == (2.0, 3.0, 6.0, 6.0)
    assert (block.fragments, block.chars) == (4, 18)
    assert list(block.arrivals()) == [Arrival(3.0, 2, 7), Arrival(5.5, 1, 9), Arrival(6.0, 1, 2)]
    assert sorted(block.gaps_s()) == [0.0, 0.5, 2.5]
    assert block.fields() == [FinishedField(("a",), 5.5), FinishedField(("b",), 6.0)]
    assert block.fields(1) == [FinishedField(("a",), 5.5)]


def test_texts_have_fragments_too() -> None:
    """Text and thinking; not signatures, nor what is not known. They have no fields."""
    reader = Reader()
    reader.take(0.0, message_start(), block_start(0, "thinking", thinking="", signature=""))
    reader.take(1.0, block_delta(0, "thinking_delta", thinking="Hm."))
    reader.take(2.0, block_delta(0, "signature_delta", signature="abc"), block_stop(0))
    reader.take(3.0, block_start(1, "text", text=""), text_delta(1, "Hello"), text_delta(1, ""))
    reader.take(4.0, block_delta(1, "new_delta", text="?"), text_delta(1, "."))
    thought, said = reader.marks.blocks.values()
    assert (thought.fragments, thought.first_fragment_s, thought.last_fragment_s, thought.stop_s) == (1, 1.0, 1.0, 2.0)
    assert (said.fragments, said.chars, said.last_fragment_s, said.stop_s) == (2, 6, 4.0, None)
    assert said.fields() == []
    assert said.input is None


def test_deltas_of_another_kind() -> None:
    """Text in a call is no part of its input. An index that is used again is another block, beside the first one."""
    reader = Reader()
    reader.take(1.0, message_start(), tool_start(0))
    reader.take(2.0, text_delta(0, "a"), text_delta(0, "b"), text_delta(0, "c"))
    reader.take(3.0, input_delta(0, '{"key": "long"}'))
    (call,) = reader.marks.blocks.values()
    assert list(call.arrivals()) == [Arrival(3.0, 1, 15)]
    reader.take(4.0, block_start(0, "text", text=""))
    reader.take(5.0, text_delta(0, "So"))
    reader.take(6.0, block_stop(0), tool_start(0), input_delta(0, "{}"))
    first, said, second = reader.marks.blocks.values()
    assert first is call
    assert (said.kind, said.input, list(said.arrivals())) == ("text", None, [Arrival(5.0, 1, 2)])
    assert (second.index, second.input, list(second.arrivals())) == (
        2,
        reader.assembler.inputs[2],
        [Arrival(6.0, 1, 2)],
    )


def test_blocks_that_grow_at_the_same_time() -> None:
    """Fragments of one chunk go each to their own block."""
    reader = Reader()
    reader.take(0.0, message_start(), tool_start(0), tool_start(1))
    reader.take(1.0, (0, '{"a'), (1, "{"), (1, '"b'), (0, '":1}'), (1, '":2}'))
    first, second = reader.marks.blocks.values()
    assert (first.fragments, first.chars, second.fragments, second.chars) == (2, 7, 3, 7)
    assert first.fields() == [FinishedField(("a",), 1.0)]
    assert second.fields() == [FinishedField(("b",), 1.0)]


def test_a_message_that_begins_anew() -> None:
    """What came before it is forgotten, also an input with the same index."""
    reader = Reader()
    reader.take(0.0, message_start(), tool_start(0), (0, '{"a": 1, "c'))
    reader.take(1.0, message_start(), tool_start(0), (0, '{"b": 2}'))
    (block,) = reader.marks.blocks.values()
    assert (reader.marks.message_start_s, block.start_s) == (1.0, 1.0)
    assert block.fields() == [FinishedField(("b",), 1.0)]
    assert reader.marks.first_byte_s == 0.0


def test_arrivals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the last one goes on growing: nothing is lost but the gaps in it."""
    monkeypatch.setattr(marks_module, "MAX_ARRIVALS", 3)
    reader = Reader()
    reader.take(0.0, message_start(), tool_start(0))
    fragments = ['{"items": [', "1, ", "2, ", "3, ", "4]", "}"]
    for at_s, fragment in enumerate(fragments, 1):
        reader.take(float(at_s), (0, fragment))
    (block,) = reader.marks.blocks.values()
    assert list(block.arrivals()) == [Arrival(1.0, 1, 11), Arrival(2.0, 1, 3), Arrival(6.0, 4, 9)]
    assert (block.fragments, block.chars, block.last_fragment_s) == (6, 23, 6.0)
    assert sorted(block.gaps_s()) == [0.0, 0.0, 0.0, 1.0, 4.0]
    assert block.fields()[-1] == FinishedField(("items",), 6.0)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), st.data())
def test_fields_however_the_input_is_cut(value: dict[str, Any], data: st.DataObject) -> None:
    """Each value has its field, at the time of the fragment that has its last character, or what shows that it ended."""
    raw = json.dumps(value)
    cuts = sorted({0, len(raw), *data.draw(st.lists(st.integers(1, max(1, len(raw) - 1)), max_size=8))})
    fragments = [raw[start:end] for start, end in pairwise(cuts)]
    reader = Reader()
    reader.take(0.0, message_start(), tool_start(0))
    for number, fragment in enumerate(fragments, 1):
        reader.take(float(number), (0, fragment))
    reader.take(99.0, block_stop(0))
    (block,) = reader.marks.blocks.values()
    found = block.fields()
    assert {path for path, _ in found} == set(_paths(value))
    assert [at_s for _, at_s in found] == sorted(at_s for _, at_s in found)
    for path, at_s in found:
        seen = Reader()
        seen.take(0.0, message_start(), tool_start(0), *((0, fragment) for fragment in fragments[: int(at_s)]))
        assert seen.assembler.inputs[0].is_finished(*path)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in inner for path in [*_paths(item, (*at, key)), (*at, key)]]


@rows("recording", (*made_recordings(), *drawn(real_recordings(), 8)))
def test_marks_of_recordings(recording: Path) -> None:
    """Counts and kinds are those of the wire, whichever decoder reads it, and however it is cut."""
    body = recording.read_bytes()
    decoder = SSEDecoder()
    plain = Reader()
    for event in decoder.feed(body):
        try:
            plain.take(0.0, decode_event(event.data))
        except eagerstream.ProtocolError:
            break
    fast = Reader()
    fragments = FragmentDecoder()
    cut = random.Random(recording.name)
    at = 0
    while at < len(body):
        end = at + cut.randint(1, 400)
        try:
            fast.take(0.0, *fragments.feed(body[at:end]))
        except eagerstream.ProtocolError:
            break
        at = end

    def told(reader: Reader) -> Sequence[Any]:
        return [
            (block.index, block.kind, block.id, block.name, block.fragments, block.chars, block.stop_s is None)
            for block in reader.marks.blocks.values()
        ]

    assert told(plain) == told(fast)
    for block in plain.marks.blocks.values():
        if block.input is not None and block.fragments:
            assert block.chars == block.input.chars


def test_a_stream_has_marks() -> None:
    """`MessageStream.marks`, by the clock that was given, of the reply that was read."""
    recording = timed(
        (0.5, message_start()),
        (0.75, tool_start(0)),
        (1.0, input_delta(0, '{"city": "Pa')),
        (1.5, input_delta(0, 'ris"}')),
        (1.75, block_stop(0)),
        (2.0, message_delta("tool_use")),
        (2.25, MESSAGE_STOP),
    )

    async def main() -> ReplyMarks:
        import anyio

        async with eagerstream.stream(recording, clock=anyio.current_time, **REQUEST) as stream:
            await anyio.sleep(0.1)
            assert stream.marks.first_byte_s is None
            await stream.finish()
        return stream.marks

    marks = in_virtual_time(main)
    assert marks.sent_s is not None
    times = (marks.headers_s, marks.first_byte_s, marks.message_start_s, marks.message_stop_s, marks.end_s)
    assert times == pytest.approx([marks.sent_s + after for after in (0, 0.5, 0.5, 2.25, 2.25)])
    (block,) = marks.blocks.values()
    ((path, at_s),) = block.fields()
    assert path == ("city",)
    assert at_s - marks.sent_s == pytest.approx(1.5)


def test_marks_of_a_whole_reply_at_its_pace() -> None:
    """A reply of several kinds of block, timed by the simulator: each mark is one of its arrival times."""
    whole = retime(
        reply(thinking("Let me see."), text("I will."), tool_use("make_file", {"lines": ["one", "two"]})),
        Timing(tokens_per_second=20, first_byte_s=0.4, jitter=0.5),
    )

    async def main() -> ReplyMarks:
        import anyio

        stream = await finished(whole, clock=anyio.current_time)
        return stream.marks

    marks = in_virtual_time(main)
    assert marks.sent_s is not None
    arrivals = {round(chunk.at_s, 6) for chunk in whole.chunks}
    seen = [at_s for block in marks.blocks.values() for at_s in (block.start_s, block.first_fragment_s, block.stop_s)]
    seen += [arrival.at_s for block in marks.blocks.values() for arrival in block.arrivals()]
    assert {round(at_s - marks.sent_s, 6) for at_s in seen if at_s is not None} <= arrivals
    assert len(seen) > 9
