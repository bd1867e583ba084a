"""Calls that come in pieces: whatever a server does to them, the inputs are those that the model wrote."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest
from hypothesis import given, strategies as st
from tests.streams import cut_at
from tests.tables import rows

from eagerstream.errors import LimitError
from eagerstream.limits import Limits
from eagerstream_adapters.tool_call_chunks import ToolCallChunks
from eagerstream_wire import InputAccumulator, InputStop, Outcome, ToolInput

Piece: TypeAlias = dict[str, Any]
OSLO, LIMA = '{"city": "Oslo"}', '{"city": "Lima"}'
WEATHER = [("weather", OSLO), ("weather", LIMA)]


class Reader:
    """Pieces into inputs, in the order of their blocks."""

    def __init__(self, *, whole_names: bool = False, **options: Any) -> None:
        self.events: list[Any] = []
        self.accumulator = InputAccumulator()
        self.chunks = ToolCallChunks(self._feed, whole_names=whole_names, **options)

    def _feed(self, event: Any) -> list[Any]:
        events = self.accumulator.feed(event)
        self.events += events
        return events

    def read(self, *pieces: Piece) -> Reader:
        for piece in pieces:
            self.chunks.piece(**piece)
        return self

    def end(self, reason: str | None = "tool_calls") -> Reader:
        self.chunks.end(reason)
        self.events += self.accumulator.close()
        return self

    @property
    def inputs(self) -> list[ToolInput]:
        return [input for _, input in sorted(self.accumulator.inputs.items())]

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(input.name, input.raw) for input in self.inputs]

    @property
    def outcomes(self) -> list[Outcome | None]:
        return [input.outcome for input in self.inputs]

    @property
    def settled(self) -> list[str]:
        """The texts of the inputs whose outcome has been told, in the order of telling."""
        return [event.input.raw for event in self.events if isinstance(event, InputStop)]


def read(*pieces: Piece, reason: str | None = "tool_calls") -> Reader:
    return Reader().read(*pieces).end(reason)


# --- what servers do --------------------------------------------------------------------------------------------------


def in_halves(raw: str) -> tuple[str, str]:
    return raw[:7], raw[7:]


OSLO_1, OSLO_2 = in_halves(OSLO)
LIMA_1, LIMA_2 = in_halves(LIMA)


def sent(pieces: str) -> list[Piece]:
    """Pieces of calls: `index id name arguments | ...`. A missing field is `.`, and an empty one is `''`."""
    names = ("index", "id", "name", "arguments")
    rows = [zip(names, each.split(" ", 3), strict=True) for each in pieces.split(" | ")]
    return [
        {name: int(value) if name == "index" else value.replace("''", "") for name, value in row if value != "."}
        for row in rows
    ]


SERVERS: dict[str, list[Piece]] = {
    "openai": sent(
        f"0 a weather '' | 0 . . {OSLO_1} | 0 . . {OSLO_2} | 1 b weather '' | 1 . . {LIMA_1} | 1 . . {LIMA_2}"
    ),
    "whole, index 0 for all": sent(f"0 a weather {OSLO} | 0 b weather {LIMA}"),
    "in pieces, index 0 for all, ids that are empty": sent(
        f"0 a weather '' | 0 '' . {OSLO_1} | 0 '' . {OSLO_2} | 0 b weather '' | 0 '' . {LIMA}"
    ),
    "index 0 for all, the id on each piece": sent(f"0 a weather '' | 0 a . {OSLO} | 0 b weather '' | 0 b . {LIMA}"),
    "another id on each piece": sent(
        f"0 a weather '' | 0 a2 . {OSLO_1} | 0 a3 . {OSLO_2} | 1 b weather '' | 1 b2 . {LIMA}"
    ),
    "id and name on each piece": sent(
        f"0 a weather '' | 0 a weather {OSLO_1} | 0 a weather {OSLO_2} | "
        f"0 a weather '' | 1 b weather {LIMA} | 1 b weather ''"
    ),
    "no index": sent(f". a weather {OSLO} | . b weather {LIMA}"),
    "no index, in pieces": sent(f". a weather {OSLO_1} | . . . {OSLO_2} | . b weather {LIMA_1} | . . . {LIMA_2}"),
    "no index, by turns": sent(f". a weather {OSLO_1} | . b weather {LIMA_1} | . a . {OSLO_2} | . b . {LIMA_2}"),
    "neither index nor ids": sent(f". '' weather {OSLO} | . '' weather {LIMA}"),
    "no ids, the name on each piece": sent(
        f"0 . weather {OSLO_1} | 0 . weather {OSLO_2} | 0 . weather '' | 1 . weather {LIMA}"
    ),
    "by turns": sent(
        f"0 a weather . | 1 b weather . | 1 . . {LIMA_1} | 0 . . {OSLO_1} | 1 . . {LIMA_2} | 0 . . {OSLO_2}"
    ),
    "the name in parts": sent(f"0 a wea . | 0 . ther '' | 0 . . {OSLO} | 1 b w '' | 1 . weather '' | 1 . . {LIMA}"),
    "the name last": sent(f"0 a . {OSLO_1} | 0 . . {OSLO_2} | 0 . weather . | 1 b weather {LIMA}"),
    "indexes that begin anywhere": sent(f"7 a weather {OSLO} | 3 b weather {LIMA}"),
    "index 0 for all, no ids": [
        {"index": 0, "name": "weather", "arguments": json.loads(OSLO)},
        {"index": 0, "name": "weather", "arguments": json.loads(LIMA)},
    ],
}


@rows("reason", ["tool_calls", "stop", "function_call", "eos"])
@rows("server", SERVERS)
def test_what_servers_do(server: str, reason: str) -> None:
    """Both calls are there as they were written, in their order, whatever the server says of the end."""
    reader = read(*SERVERS[server], reason=reason)
    assert reader.calls == WEATHER
    assert reader.outcomes == [Outcome.VALID] * 2
    ids = [input.id for input in reader.inputs]
    assert ids == ["a", "b"] if any(piece.get("id") for piece in SERVERS[server]) else len(set(ids)) == 2
    assert not reader.accumulator.violations


@rows("server", sorted(set(SERVERS) - {"the name in parts"}))
def test_names_that_are_whole(server: str) -> None:
    """A call is told of with its name, and all else is the same."""
    reader = Reader(whole_names=True)
    for piece in SERVERS[server]:
        reader.read(piece)
        seen = SERVERS[server][: 1 + SERVERS[server].index(piece)]
        assert bool(reader.inputs) is any(before.get("name") for before in seen)
    assert reader.end().calls == WEATHER
    assert reader.outcomes == [Outcome.VALID] * 2


@rows("server", sorted(set(SERVERS) - {"by turns", "no index, by turns"}))
def test_a_call_ends_when_the_next_one_begins(server: str) -> None:
    """It need not wait for the end of the reply: it may run while the next one is being written."""
    pieces = SERVERS[server]
    reader = Reader()
    for count, piece in enumerate(pieces):
        reader.read(piece)
        if len(reader.inputs) == 2:
            assert reader.settled == [OSLO], count
            return
    pytest.fail("the second call did not begin before the end")


def test_arguments_as_an_object() -> None:
    """Some servers give them parsed."""
    reader = read({"index": 0, "id": "a", "name": "f", "arguments": {"a": [1, None], "b": "ø"}})
    assert reader.inputs[0].value == {"a": [1, None], "b": "ø"}


@rows("arguments", ["", None])
def test_no_arguments(arguments: str | None) -> None:
    """A tool without parameters is called with nothing, and that is an empty object once the reply has gone on."""
    nothing = {"index": 0, "id": "a", "name": "now", "arguments": arguments}
    assert [input.value for input in read(nothing).inputs] == [{}]
    both = read(nothing, {"index": 1, "id": "b", "name": "weather", "arguments": OSLO})
    assert [input.value for input in both.inputs] == [{}, {"city": "Oslo"}]
    assert read(nothing, reason="length").outcomes == [Outcome.INCOMPLETE], "the arguments may have been cut off"


def test_calls_without_arguments_keep_their_place() -> None:
    """A call whose arguments come late is still the first one."""
    late = [{"index": 0, "id": "a", "name": "f"}, {"index": 1, "id": "b", "name": "g", "arguments": "{}"}]
    assert read(*late, {"index": 0, "arguments": "{ }"}).calls == [("f", "{ }"), ("g", "{}")]


# --- what models do ---------------------------------------------------------------------------------------------------


@rows("raw", ['{"city": Oslo}', "[1]", '{"a": 1} and more', '{"a": 1}{"b": 2}', "null"])
def test_arguments_that_are_no_object(raw: str) -> None:
    """They are invalid, not cut and not mended, and the next call is not drawn in."""
    pieces = (
        {"index": 0, "id": "a", "name": "f", "arguments": raw},
        {"index": 1, "id": "b", "name": "g", "arguments": "{}"},
    )
    assert read(*pieces).outcomes == [Outcome.INVALID, Outcome.VALID]


@rows("reason", ["length", "model_length", "content_filter"])
def test_a_reply_that_is_cut(reason: str) -> None:
    """What is whole stays, and what is not is told to be cut."""
    reader = read(*SERVERS["openai"][:-1], reason=reason)
    assert reader.outcomes == [Outcome.VALID, Outcome.INCOMPLETE]


def test_a_reply_that_breaks_off() -> None:
    """A closing brace proves that a call is whole, even where nothing proves that the reply is."""
    assert read(*SERVERS["openai"], reason=None).outcomes == [Outcome.VALID] * 2
    assert read(*SERVERS["openai"][:-1], reason=None).outcomes == [Outcome.VALID, Outcome.INCOMPLETE]
    assert read(*SERVERS["openai"][:2], reason=None).outcomes == [Outcome.INCOMPLETE]
    assert read(SERVERS["openai"][0], reason=None).outcomes == [Outcome.INCOMPLETE]


def test_more_of_a_call_that_has_ended() -> None:
    """It is noted and not mixed into another one."""
    reader = read(*SERVERS["openai"], {"index": 0, "arguments": "more"})
    assert reader.calls == WEATHER
    assert len(reader.accumulator.violations) == 1


def test_a_peer_that_says_where_a_call_ends() -> None:
    """It is settled then and there; what is not open is left alone."""
    reader = Reader().read(SERVERS["openai"][0], {"index": 0, "arguments": OSLO})
    assert reader.settled == []
    reader.chunks.stop(3)
    reader.chunks.stop(0)
    assert reader.settled == [OSLO]
    count = len(reader.events)
    reader.chunks.stop(0)
    assert len(reader.end().events) == count


def test_after_the_end_nothing_counts() -> None:
    """The reply is over once, whatever still comes."""
    reader = read(*SERVERS["openai"])
    count = len(reader.events)
    reader.read({"index": 2, "id": "c", "name": "f", "arguments": "{}"}).end("length")
    assert len(reader.events) == count


@rows("reason", ["tool_calls", "stop", None])
def test_a_reply_without_calls(reason: str | None) -> None:
    assert read(reason=reason).inputs == []


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_too_many_calls() -> None:
    """Also those that never get a name, and are no blocks."""
    for name in ("f", None):
        reader = Reader(limits=Limits(max_blocks=10))
        with pytest.raises(LimitError) as caught:
            reader.read(*({"index": index, "id": str(index), "name": name} for index in range(20)))
        assert caught.value.limit == "max_blocks"


def test_arguments_without_a_name() -> None:
    """They wait for it only so long."""
    reader = Reader(limits=Limits(max_input_chars=100))
    with pytest.raises(LimitError) as caught:
        reader.read(*[{"index": 0, "id": "a", "arguments": "x" * 10}] * 20)
    assert caught.value.limit == "max_input_chars"


# --- properties -------------------------------------------------------------------------------------------------------

names = st.sampled_from(["weather", "weather_now", "f", "now"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=3).map(json.dumps)
texts = objects | st.just("") | st.text(min_size=1, max_size=8)


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[str, str]]:
    return draw(st.lists(st.tuples(names, texts), max_size=4))


@st.composite
def cut(draw: st.DrawFn, raw: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(raw)), max_size=5).map(sorted))
    return [str(piece) for piece in cut_at(raw, places)] if raw else [""]


@pytest.mark.slow
@given(st.data(), calls())
def test_any_cutting_gives_the_same_inputs(data: st.DataObject, wanted: list[tuple[str, str]]) -> None:
    """Whatever pieces the arguments come in, with the metadata once or on each of them."""
    pieces: list[Piece] = []
    for index, (name, raw) in enumerate(wanted):
        repeats = data.draw(st.sampled_from(["", "id", "id and name"]))
        for number, text in enumerate(data.draw(cut(raw))):
            piece: Piece = {"index": index, "arguments": text}
            if number == 0 or "id" in repeats:
                piece["id"] = f"call_{index}"
            if number == 0 or "name" in repeats:
                piece["name"] = name
            pieces.append(piece)
    whole = [{"index": i, "id": f"call_{i}", "name": name, "arguments": raw} for i, (name, raw) in enumerate(wanted)]
    reader, at_once = read(*pieces), read(*whole)
    assert reader.calls == at_once.calls == wanted
    assert reader.outcomes == at_once.outcomes
    assert [input.id for input in reader.inputs] == [f"call_{index}" for index in range(len(wanted))]


@pytest.mark.slow
@given(st.data(), st.lists(st.tuples(names, objects), min_size=1, max_size=4))
def test_calls_that_are_written_by_turns(data: st.DataObject, wanted: list[tuple[str, str]]) -> None:
    """Each piece finds its call, in whatever order they come."""
    rest = {index: data.draw(cut(raw)) for index, (_, raw) in enumerate(wanted)}
    pieces: list[Piece] = [{"index": i, "id": f"call_{i}", "name": name} for i, (name, _) in enumerate(wanted)]
    while rest:
        index = data.draw(st.sampled_from(sorted(rest)))
        pieces.append({"index": index, "arguments": rest[index].pop(0)})
        if not rest[index]:
            del rest[index]
    reader = read(*pieces)
    assert sorted(reader.calls) == sorted(wanted)
    assert reader.outcomes == [Outcome.VALID] * len(wanted)


@pytest.mark.slow
@given(st.lists(st.tuples(names, objects), max_size=4), st.booleans(), st.booleans())
def test_whole_calls_need_neither_index_nor_id(wanted: list[tuple[str, str]], has_index: bool, has_id: bool) -> None:
    """As from the servers that tell a call when it is whole."""
    pieces: list[Piece] = [
        {"name": name, "arguments": raw}
        | ({"index": 0} if has_index else {})
        | ({"id": f"call_{number}"} if has_id else {})
        for number, (name, raw) in enumerate(wanted)
    ]
    assert read(*pieces).calls == wanted


@pytest.mark.slow
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "index": st.integers(0, 2),
                "id": st.sampled_from(["", "a", "b"]),
                "name": st.sampled_from(["", "f", "g"]),
                "arguments": st.sampled_from(["", "{", "}", '{"a": 1}', " ", "x", {}, None]),
            },
        ),
        max_size=12,
    ),
    st.sampled_from(["tool_calls", "stop", "length", "content_filter", "odd", None]),
)
def test_any_pieces(pieces: list[Piece], reason: str | None) -> None:
    """Nothing raises, everything is settled once, and what is valid is an object that stands in the pieces."""
    reader = read(*pieces, reason=reason)
    stops = [event.input for event in reader.events if isinstance(event, InputStop)]
    assert len(stops) == len(set(map(id, stops))) == len(reader.inputs)
    for input in reader.inputs:
        assert input.outcome is not None
        assert input.id
        assert input.name
