"""`Changes`: the operations of a fragment, and what they are where the input lost one or came as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from packages.wire.tests.json_texts import texts, without_infinity
from tests.streams import block_stop, cut_at, input_delta, tool_start, written
from tests.tables import rows

from eagerstream_wire import InputAccumulator, InputDelta, PartialJSON, apply_patch
from eagerstream_wire._message_inputs import EVENTS_AT_ONCE


@given(texts, st.lists(st.integers(0, 200), max_size=12), st.integers(0, 12))
def test_deltas_carry_their_changes(text: str, places: list[int], asked_at: int) -> None:
    """Applied to what was there before, they give the partial value; from whenever they are asked for."""
    accumulator = InputAccumulator(reports=asked_at == 0)
    accumulator.feed(tool_start(0))
    input = accumulator.inputs[0]
    value: Any = None
    for number, fragment in enumerate(filter(None, cut_at(text, places))):
        if number and number == asked_at:
            accumulator.reports = True
            value = apply_patch(None, input.whole_patch())
        (delta,) = accumulator.feed(input_delta(0, fragment))
        assert isinstance(delta, InputDelta)
        assert (delta.patch is not None) == accumulator.reports
        if delta.patch is not None:
            value = apply_patch(value, delta.patch)
            assert written(value or {}) == written(without_infinity(input.partial))


@given(texts, st.lists(st.integers(0, 200), max_size=30), st.integers(1, 8), st.booleans())
def test_fragments_of_a_batch_have_their_changes_together(
    text: str, places: list[int], size: int, is_watched: bool
) -> None:
    """They are in the last one, no matter how often the parser has read in between."""
    accumulator = InputAccumulator(reports=True)
    accumulator.feed(tool_start(0))
    input = accumulator.inputs[0]
    if is_watched:
        input.watch("never", callback=list)  # each fragment is then parsed when it comes
    fragments = [*filter(None, cut_at(text, places))]
    value: Any = None
    one_by_one = PartialJSON(reports=True)
    for at in range(0, len(fragments), size):
        events: list[Any] = []
        accumulator._message.feed_deltas(iter([(0, fragment) for fragment in fragments[at : at + size]]), events)
        assert [event.fragment for event in events] == fragments[at : at + size]
        assert all((event.patch, [*event.finished]) == ([], []) for event in events[:-1])
        value = apply_patch(value, events[-1].patch)
        assert written(value or {}) == written(without_infinity(input.partial))
        finished: list[str] = []
        for fragment in fragments[at : at + size]:
            one_by_one.feed(fragment)
            finished += one_by_one.finished_fields
        # Not a field whose key has come again, and whose value is open.
        assert [*events[-1].finished] == [name for name in finished if one_by_one.is_finished((name,))]


def test_each_part_of_a_long_batch_has_its_changes() -> None:
    """A long batch is handed on in parts, and an observer sees the first before the second."""
    accumulator = InputAccumulator(reports=True)
    accumulator.feed(tool_start(0))
    fragments = ['{"a": "', *("xyz" * EVENTS_AT_ONCE)]
    events: list[Any] = []
    accumulator._message.feed_deltas(iter([(0, fragment) for fragment in fragments]), events)
    value: Any = None
    for end in range(EVENTS_AT_ONCE, len(events) + EVENTS_AT_ONCE, EVENTS_AT_ONCE):
        for event in events[end - EVENTS_AT_ONCE : end]:
            value = apply_patch(value, event.patch)
        assert value == {"a": "".join(fragments[1:end])}


def test_changes_that_nobody_wants_are_not_kept() -> None:
    """They may be wanted again: then those in between are not among them."""
    accumulator = InputAccumulator(reports=True)
    accumulator.feed(tool_start(0))
    patches = []
    for reports, fragment in [(True, '{"a": "x'), (False, "y"), (True, 'z"')]:
        accumulator.reports = reports
        (delta,) = accumulator.feed(input_delta(0, fragment))
        assert isinstance(delta, InputDelta)
        patches.append((delta.patch, [*delta.finished]))
    added = [{"op": "add", "path": "", "value": {"a": "x"}}]
    assert patches == [(added, []), (None, []), ([{"op": "append", "path": "/a", "value": "z"}], ["a"])]


@rows("chars", [1, 5, 13, 26, 40])
def test_a_field_that_begins_again_is_not_finished(chars: int) -> None:
    """Its key came twice: after each delta, what was finished last is finished now, however the text is cut."""
    accumulator = InputAccumulator(reports=True)
    accumulator.feed(tool_start(0))
    raw = '{"a": "x", "b": 1, "a": "yz", "c": 2}'
    finished: list[str] = []
    for at in range(0, len(raw), chars):
        (delta,) = accumulator.feed(input_delta(0, raw[at : at + chars]))
        assert isinstance(delta, InputDelta)
        assert all(delta.input.is_finished(name) for name in delta.finished)
        finished += delta.finished
    assert [*dict.fromkeys(reversed(finished))] == ["c", "a", "b"]


def test_nothing_changes_after_a_loss() -> None:
    """Further text means nothing then, and no change of an earlier fragment is reported again."""
    accumulator = InputAccumulator(reports=True)
    accumulator.feed(tool_start(0))
    accumulator.feed(input_delta(0, '{"a": "x'))
    accumulator.feed({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}})
    (delta,) = accumulator.feed(input_delta(0, 'y"}'))
    assert isinstance(delta, InputDelta)
    assert (delta.patch, [*delta.finished]) == ([], [])


@rows("raw", ["{}", '{"x": 1]', "[1]", ""])
def test_the_patch_of_a_whole_input(raw: str) -> None:
    """It brings whoever missed the beginning up to date, also after the end."""
    accumulator = InputAccumulator()
    for event in (tool_start(0), input_delta(0, raw), block_stop(0)):
        accumulator.feed(event)
    input = accumulator.inputs[0]
    assert (apply_patch(None, input.whole_patch()) or {}) == input.partial
    assert bool(input.whole_patch()) == raw.startswith("{")
