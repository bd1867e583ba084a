"""`Changes`: the operations of a fragment, and what they are where the input lost one or came as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from eagerstream.wire import InputAccumulator, InputDelta, apply_patch
from tests.streams import block_stop, cut_at, input_delta, tool_start, written
from tests.tables import rows
from tests.wire.json_texts import texts, without_infinity


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
