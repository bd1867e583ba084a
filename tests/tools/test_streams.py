"""Streaming parameters: what a tool may declare, and what it reads of an input that is still written."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

from eagerstream.errors import InputInterrupted, UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.tools import ItemStream, Later, TextStream, Tool, tool
from eagerstream.tools._streams import repeated_key
from eagerstream_wire import InputAccumulator
from tests.streams import block_stop, input_delta, message_delta, tool_start
from tests.support import all_tasks_blocked, awaiting
from tests.tables import rows

pytestmark = pytest.mark.anyio


@tool
async def make_file(filename: str, lines: ItemStream[str], mode: Later[str] = Later.of("w")) -> list[str]:
    """Write a file."""
    return [filename, *[line async for line in lines], await mode]


@tool
async def say(words: TextStream) -> str:
    """Say something."""
    return await words


class Written:
    """An input that a test writes piece by piece."""

    def __init__(self, raw: str = "") -> None:
        self._accumulator = InputAccumulator(input_type=GrowingInput)
        self._accumulator.feed(tool_start(0, "tool"))
        self.input = self._accumulator.inputs[0]
        self.write(raw)

    def write(self, raw: str) -> None:
        self._accumulator.feed(input_delta(0, raw))

    def end(self, raw: str = "") -> None:
        self.write(raw)
        self._accumulator.feed(block_stop(0))
        self._accumulator.feed(message_delta("tool_use"))

    def cut(self) -> None:
        self._accumulator.close()


# --- definitions ------------------------------------------------------------------------------------------------------


def test_the_schema_is_that_of_the_values() -> None:
    """The model sees a string, an array and an optional value: how they are read is nobody's business but ours."""

    @tool
    async def f(days: ItemStream[dt.date], text: TextStream, n: Later[int] = Later.of(3)) -> None:
        """F."""

    assert f.is_streaming
    assert f.input_schema == {
        "type": "object",
        "properties": {
            "days": {"type": "array", "items": {"type": "string", "format": "date"}},
            "text": {"type": "string"},
            "n": {"type": "integer", "default": 3},
        },
        "required": ["days", "text"],
        "additionalProperties": False,
    }
    assert f.to_dict()["eager_input_streaming"] is True


def test_all_faults_of_streaming_definitions() -> None:
    """What cannot be kept is refused when it is defined, all of it together."""

    async def odd(body: TextStream = "", n: int = 1, m: Later[int] = 2) -> None:  # type: ignore[assignment]
        """Odd."""

    with pytest.raises(UsageError) as caught:
        tool(start="message")(odd)
    for told in (
        "'body' must be TextStream.of(...)",
        "'n' is optional in a tool with",
        "'m' must be Later.of(...)",
        'cannot be "message"',
    ):
        assert told in str(caught.value)


def test_the_default_of_a_stream_is_of_its_own_kind() -> None:
    """Another kind cannot be read as what the annotation promises."""

    async def odd(body: TextStream = Later.of(""), lines: ItemStream[str] = TextStream.of("")) -> None:  # type: ignore[assignment]
        """Odd."""

    with pytest.raises(UsageError) as caught:
        tool(odd)
    assert "'body' must be TextStream.of(...)" in str(caught.value)
    assert "'lines' must be ItemStream.of(...)" in str(caught.value)


def test_later_needs_a_stream_beside_it() -> None:
    """Without a streaming parameter nothing begins early, and there is nothing to wait for."""

    async def odd(n: Later[int] = Later.of(1)) -> None:
        """Odd."""

    with pytest.raises(UsageError, match="the tool has no streaming parameter"):
        tool(odd)


async def test_called_with_a_whole_input() -> None:
    """Outside a stream it is a tool like any other: checked, converted, run."""
    assert await make_file.call({"filename": "a", "lines": ["x", "y"]}) == ["a", "x", "y", "w"]
    assert await make_file.call({"filename": "a", "lines": [], "mode": "a"}) == ["a", "a"]


async def test_called_by_hand() -> None:
    """The function itself takes streams made of values: for tests of one's own tools."""
    assert await make_file("a", ItemStream.of(["x"]), Later.of("b")) == ["a", "x", "b"]
    assert await say(TextStream.of("Hi")) == "Hi"
    assert [piece async for piece in TextStream.of("Hi")] == ["Hi"]
    assert await ItemStream.of([1, 2]) == [1, 2]


# --- reading ----------------------------------------------------------------------------------------------------------


async def _begin(used: Tool, written: Written) -> dict[str, Any]:
    with anyio.fail_after(10):
        arguments = await used.begin(written.input)
    assert arguments is not None
    return arguments


async def test_it_begins_when_what_it_needs_is_finished() -> None:
    """Not before, whatever else is there already; and without needs, as soon as anything is written."""
    written = Written('{"lines": ["x"], "filename": "a.tx')
    async with awaiting(lambda: make_file.begin(written.input)) as begun:
        assert not begun
        written.write('t"')
    assert begun[0] is not None
    assert begun[0]["filename"] == "a.txt"

    nothing = Written()
    async with awaiting(lambda: say.begin(nothing.input)) as begun:
        assert not begun
        nothing.write("{")
    assert begun[0] is not None


@pytest.mark.parametrize("raw", ['{"filename": 3, ', '{"lines": [], "filename": ["a"]'])
async def test_it_does_not_begin_with_what_does_not_fit(raw: str) -> None:
    """A wrong parameter is told when the input is whole, like that of any tool."""
    written = Written(raw)
    assert await make_file.begin(written.input) is None


@pytest.mark.parametrize("how", ["invalid", "cut", "missing"])
async def test_it_never_begins(how: str) -> None:
    """What it needs can no longer come: nobody waits for it in vain."""
    written = Written('{"lines": [')
    async with awaiting(lambda: make_file.begin(written.input)) as found:
        if how == "invalid":
            written.write("]]")
        elif how == "cut":
            written.cut()
        else:
            written.end("]}")
    assert found == [None]


async def test_items_come_one_by_one() -> None:
    """Each as soon as it is finished, converted; the end of the array ends the iteration, before the input ends."""

    @tool
    async def plan(days: ItemStream[dt.date]) -> None:
        """Plan."""

    written = Written('{"days": ["2026-01-0')
    days = (await _begin(plan, written))["days"].__aiter__()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            got: list[Any] = []

            async def read() -> None:
                async for day in days:
                    got.append(day)
                got.append("end")

            tasks.start_soon(read)
            await all_tasks_blocked()
            assert got == []
            written.write('1", "2026-01-02"')
            await all_tasks_blocked()
            assert got == [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
            written.write("]")
            await all_tasks_blocked()
            assert got[-1] == "end"
    assert written.input.outcome is None


async def test_text_comes_in_pieces() -> None:
    """Joined they are the string; each iteration begins at its start, and a late one misses nothing."""
    written = Written('{"words": "Good ')
    words = (await _begin(say, written))["words"]
    first = words.__aiter__()
    assert await anext(first) == "Good "
    written.write("mor")
    assert await anext(first) == "mor"
    written.end('ning"}')
    assert [piece async for piece in first] == ["ning"]
    assert "".join([piece async for piece in words]) == "Good morning"
    assert await words == "Good morning"


async def test_an_item_that_does_not_fit() -> None:
    """It interrupts the reading, with its place and what was expected."""
    written = Written('{"filename": "a", "lines": ["x", 3, "y"')
    lines = (await _begin(make_file, written))["lines"].__aiter__()
    assert await anext(lines) == "x"
    with pytest.raises(InputInterrupted, match=r"\['lines'\]\[1\].*valid string, got 3"):
        await anext(lines)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("3}", "not an array"),
        ('["x" "y"', "expected ',' or ']'"),
        ("}", "expected a value"),
    ],
)
async def test_what_cannot_be_read(rest: str, told: str) -> None:
    """Another type, broken JSON: the tool is interrupted where it reads."""
    written = Written('{"filename": "a", "lines": ')
    lines = (await _begin(make_file, written))["lines"]
    written.end(rest)
    with anyio.fail_after(10), pytest.raises(InputInterrupted) as caught:
        await lines
    assert told in str(caught.value)


async def test_what_never_comes() -> None:
    """A parameter that the whole input does not have; an optional one then has its default."""
    written = Written('{"filename": "a"')
    arguments = await _begin(make_file, written)
    written.end("}")
    with anyio.fail_after(10):
        with pytest.raises(InputInterrupted, match="missing"):
            await arguments["lines"]
        assert await arguments["mode"] == "w"


@tool
async def note(
    title: str, body: TextStream = TextStream.of("-"), tags: ItemStream[str] = ItemStream.of(["new"])
) -> list[Any]:
    """Keep a note."""
    return [title, await body, [piece async for piece in body], await tags, [tag async for tag in tags]]


def test_the_schema_of_optional_streams() -> None:
    """They are not required, and their default is shown, as that of any parameter."""
    assert note.input_schema["required"] == ["title"]
    assert note.input_schema["properties"] == {
        "title": {"type": "string"},
        "body": {"type": "string", "default": "-"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    }


async def test_an_optional_stream_that_never_comes() -> None:
    """Its default counts once the input has ended without it, and not before: it might still have come."""
    written = Written('{"title": "a"')
    arguments = await _begin(note, written)
    async with awaiting(lambda: note(**arguments)) as got:
        assert got == []
        written.end("}")
    assert got == [["a", "-", ["-"], ["new"], ["new"]]]
    assert await note.call({"title": "a"}) == got[0]


async def test_an_optional_stream_that_comes() -> None:
    """It is read as a required one; an empty value is a value, not the default."""
    written = Written('{"title": "a", "body": "", "tags": [')
    arguments = await _begin(note, written)
    written.end("]}")
    assert await note(**arguments) == ["a", "", [], [], []]


@pytest.mark.parametrize("rest", ["", ', "body": "b', ', "tags": ["x"', ', "body": 3', ', "tags": null, "body": null'])
async def test_the_default_stands_for_nothing_else(rest: str) -> None:
    """An input that was cut, or a value that does not fit, is not an input without the parameter."""
    written = Written(f'{{"title": "a"{rest}')
    arguments = await _begin(note, written)
    written.cut()
    with anyio.fail_after(10):
        with pytest.raises(InputInterrupted):
            await arguments["body"]
        with pytest.raises(InputInterrupted):
            await note(**arguments)
        with pytest.raises(InputInterrupted):
            await arguments["tags"]


async def test_later_waits_for_its_value() -> None:
    """It is there when it is finished, checked like the others."""
    written = Written('{"filename": "a", "mode": "a')
    arguments = await _begin(make_file, written)
    async with awaiting(lambda: arguments["mode"]) as got:
        assert got == []
        written.write('b"')
    assert got == ["ab"]

    written = Written('{"filename": "a", "mode": 3, ')
    with pytest.raises(InputInterrupted, match="valid string, got 3"):
        await (await _begin(make_file, written))["mode"]


async def test_an_input_that_is_not_wanted_any_more() -> None:
    """Whoever reads is interrupted, also in the middle of waiting, with the reason."""
    written = Written('{"words": "Good ')
    words = (await _begin(say, written))["words"]
    caught: list[InputInterrupted] = []

    async def read() -> None:
        try:
            await words
        except InputInterrupted as error:
            caught.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await all_tasks_blocked()
            written.input.interrupt("not allowed")
    assert caught[0].reason == "not allowed"


@rows(
    "raw, found",
    [
        ('{"a": 1, "b": {"a": 2}, "c": [{"a": 1, "a": 2}]}', None),
        ('{"a": 1, "b": 2, "a": 3}', "a"),
        ('{"a": 1, "\\u0061": {"b": 1}}', "a"),
        ("{}", None),
    ],
)
def test_repeated_keys(raw: str, found: str | None) -> None:
    """Of the object itself, however they are written; what is inside it is its own affair."""
    assert repeated_key(raw) == found


def test_where_nothing_could_stream() -> None:
    """Inside another type, or in a function that cannot wait: refused when it is defined, not found out later."""

    async def nested(a: TextStream | None = None, b: list[TextStream] = [], c: Later[TextStream] = 1) -> None:  # type: ignore[assignment]  # noqa: B006
        """F."""

    def plain(words: TextStream) -> None:
        """F."""

    with pytest.raises(UsageError) as caught:
        tool(nested)
    assert str(caught.value).count("cannot stream inside another type") == 3
    with pytest.raises(UsageError, match="only an async function"):
        tool(plain)


def test_a_field_is_no_default() -> None:
    """`Field(description=...)` describes a required parameter."""

    @tool
    async def f(text: TextStream = Field(description="words"), n: Later[int] = Field(gt=0)) -> None:
        """F."""

    assert f.input_schema["required"] == ["text", "n"]
    assert f.input_schema["properties"]["text"] == {"type": "string", "description": "words"}


async def test_constraints_hold_while_reading() -> None:
    """What the schema promises of a value is true of what the tool is given."""

    @tool
    async def f(text: TextStream, n: Annotated[Later[int], Field(gt=0)]) -> None:
        """F."""

    written = Written('{"n": -5, "text": "a')
    arguments = await _begin(f, written)
    with pytest.raises(InputInterrupted, match="greater than 0"):
        await arguments["n"]


async def test_half_a_surrogate_pair() -> None:
    """Pieces can be written to a file: what UTF-8 cannot carry is U+FFFD in them, as in the whole."""
    written = Written('{"words": "a\\ud800b"}')
    words = (await _begin(say, written))["words"]
    assert "".join([piece async for piece in words]) == await words == "a\ufffdb"


async def test_waiting_that_was_given_up_leaves_nothing_behind() -> None:
    """However often somebody looks for a moment, the input does not remember them."""
    written = Written('{"words": "Good ')
    words = (await _begin(say, written))["words"]
    for _ in range(100):
        with anyio.move_on_after(0):
            await words
    assert not written.input._watchers
    assert not written.input._waiting
