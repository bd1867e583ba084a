"""`buffered`: the reply without eager input streaming."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.sampling import drawn
from tests.streams import made_recordings, real_recordings, wire_events
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Scripted, Timing, block, buffered, error_event, reply, retime, text, thinking, tool_use
from eagerstream_testing._one_piece import final_message
from eagerstream_wire import JSON

_FRAGMENT_S = 1.0  # between one event and the next


def _one_event_a_second(recording: Recording) -> Recording:
    chunks = retime(recording, Timing.instant()).chunks
    return Recording(tuple(Chunk(number * _FRAGMENT_S, chunk.data) for number, chunk in enumerate(chunks)))


def _input_characters(recording: Recording) -> dict[Any, list[tuple[str, float]]]:
    """Block index to the characters of its input, each with its arrival time; needs one event per chunk."""
    characters: dict[Any, list[tuple[str, float]]] = {}
    for at_s, data in recording.chunks:
        for event in wire_events(data):
            if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
                fragment = event["delta"]["partial_json"]
                characters.setdefault(event["index"], []).extend((character, at_s) for character in fragment)
    return characters


def _check_laws(eager: Recording) -> Recording:
    held = buffered(eager)
    assert final_message(wire_events(held.body)) == final_message(wire_events(eager.body))
    assert all(earlier.at_s <= later.at_s for earlier, later in pairwise(held.chunks))
    before, after = _input_characters(eager), _input_characters(held)
    assert list(before) == list(after)
    for index, written in before.items():
        assert [character for character, _ in after[index]] == [character for character, _ in written]
        assert all(now_s >= eager_s for (_, eager_s), (_, now_s) in zip(written, after[index], strict=True))
    return held


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
_VALUES: st.SearchStrategy[JSON] = st.recursive(
    _SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3))
)
_INPUTS = st.one_of(
    st.dictionaries(st.text(max_size=5), _VALUES, max_size=5),
    st.text(alphabet='{}[]",:a1 \\', max_size=30),  # what is hardly ever JSON
)


def _calls() -> st.SearchStrategy[Scripted]:
    return st.builds(
        lambda input, size, closed: tool_use("f", input, fragment_chars=size, closed=closed),
        _INPUTS,
        st.integers(1, 20),
        st.booleans(),
    )


@pytest.mark.slow
@given(calls=st.lists(_calls(), max_size=3), stop=st.booleans())
def test_laws(*, calls: list[Scripted], stop: bool) -> None:
    """Whatever the inputs are, buffering changes no message, lets nothing overtake, and makes no character earlier."""
    blocks = [text("Let me look."), *calls]
    _check_laws(_one_event_a_second(reply(*blocks) if stop else reply(*blocks, error_event("api_error", "no"))))


@rows("recording", (*made_recordings(), *drawn(real_recordings(), 8)))
def test_laws_on_recordings(recording: Path) -> None:
    """The same laws hold for every recorded body, whole or cut, and every event of it stays in its chunk."""
    _check_laws(_one_event_a_second(Recording.load(recording)))


@pytest.mark.slow
@given(
    input=st.dictionaries(st.text(max_size=5), _VALUES, min_size=1, max_size=5),
    size=st.integers(1, 60),
)
def test_members_come_whole(input: dict[str, JSON], size: int) -> None:
    """Nothing of a member shows before the event that ends it, and then all of it does at once."""
    eager = _one_event_a_second(reply(tool_use("f", input, fragment_chars=size)))
    written = _input_characters(eager)[0]
    held = _input_characters(buffered(eager))[0]
    # A member reaches from the bracket or comma before it to its last character; a number's end shows with what follows.
    raw = json.dumps(input, ensure_ascii=False)
    start = 0
    for end in _ends_of_members(input):
        arrivals = {at_s for _, at_s in held[start:end]}
        assert len(arrivals) == 1
        ended_s = {written[end - 1][1], written[end][1]}
        assert arrivals <= ended_s
        start = end
    assert raw[start:] == "}"


def _ends_of_members(input: dict[str, JSON]) -> list[int]:
    ends = []
    at = 1
    for key, value in input.items():
        at += len(json.dumps({key: value}, ensure_ascii=False)) - 2
        ends.append(at)
        at += 2  # comma and space
    return ends


def test_a_fragment_of_two_members_becomes_two() -> None:
    """The first member does not wait for the second, and the second does not show with the first."""
    eager = _one_event_a_second(reply(tool_use("f", '{"a": "1", "b": 22, "c": [3, 4]}', fragment_chars=8)))
    times: dict[float, str] = {}
    for character, at_s in _input_characters(buffered(eager))[0]:
        times[at_s] = times.get(at_s, "") + character
    first_s = next(at_s for character, at_s in _input_characters(eager)[0] if character == "1")
    assert times == {
        first_s + 1: '{"a": "1"',
        first_s + 2: ', "b": 22',  # the comma that ends the number comes two characters after it
        first_s + 3: ', "c": [3, 4]}',
    }


def test_what_never_ends_comes_with_its_block() -> None:
    """The rest of an input that is not JSON is released by its `content_block_stop`, as a whole."""
    eager = _one_event_a_second(reply(tool_use("f", '{"a": 1, "b": nope, "c": 3}'), text("x"), block({"type": "new"})))
    stop_s = next(at_s for at_s, data in eager.chunks if wire_events(data)[0]["type"] == "content_block_stop")
    late = "".join(character for character, at_s in _input_characters(buffered(eager))[0] if at_s == stop_s)
    assert late == ', "b": nope, "c": 3}'


def test_replies_without_inputs_stay_as_they_are() -> None:
    """Text and thinking are streamed in any mode; only the cut into one chunk per event is new."""
    eager = retime(reply(thinking("hm"), text("yes")), Timing(first_byte_s=1))
    assert buffered(eager).chunks == eager.chunks
    assert buffered(eager).note == "simulated timing; simulated buffering"
    assert buffered(Recording(())).chunks == ()
