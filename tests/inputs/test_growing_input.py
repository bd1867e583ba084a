"""`GrowingInput`: what is waited for in an input comes as early as it can, and nothing hangs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st
from partial_json_parser import Allow
from pydantic import BaseModel

from eagerstream.errors import InputInterrupted, UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import Limits
from eagerstream.tools import ItemStream, tool
from eagerstream_wire import InputAccumulator, Outcome, PartialJSON, TolerantJSON
from tests.streaming.streams import turns_of_others
from tests.streams import block_stop, cut_at, input_delta, message_delta, tool_start
from tests.support import all_tasks_blocked

pytestmark = pytest.mark.anyio

SLOWLY_S = 10
"""How long a test that hangs may hang."""


class Writer:
    """A call that is being written: what the model would send, piece by piece."""

    def __init__(self, *fragments: str, **options: Any) -> None:
        self._accumulator = InputAccumulator(input_type=GrowingInput, **options)
        self._accumulator.feed(tool_start(0))
        self.input = self._accumulator.inputs[0]
        self.write(*fragments)

    def write(self, *fragments: str) -> None:
        for fragment in fragments:
            self._accumulator.feed(input_delta(0, fragment))

    def lose_a_fragment(self) -> None:
        self._accumulator.feed({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}})

    def stop(self) -> None:
        self._accumulator.feed(block_stop(0))
        self._accumulator.feed(message_delta("tool_use"))

    def cut(self) -> None:
        self._accumulator.close()


class Waiter:
    """Something that is being waited for, and how that ended."""

    def __init__(self) -> None:
        self.outcome: Any = None
        self.got: list[Any] = []

    @property
    def waits(self) -> bool:
        return self.outcome is None

    async def run(self, wait: Awaitable[Any] | AsyncIterator[Any]) -> None:
        """Await a value, or take all pieces."""
        try:
            if isinstance(wait, AsyncIterator):
                async for piece in wait:
                    self.got.append(piece)
                self.outcome = "end"
            else:
                self.outcome = ("value", await wait)
        except (InputInterrupted, KeyError, TypeError) as error:
            self.outcome = type(error)


@asynccontextmanager
async def waiting(*waits: Awaitable[Any] | AsyncIterator[Any]) -> AsyncIterator[list[Waiter]]:
    """A waiter for each of these, all of which wait already; the block ends when they have ended."""
    waiters = [Waiter() for _ in waits]
    with anyio.fail_after(SLOWLY_S):
        async with anyio.create_task_group() as tasks:
            for waiter, wait in zip(waiters, waits, strict=True):
                tasks.start_soon(waiter.run, wait)
            await all_tasks_blocked()
            yield waiters


async def steps_of(writer: Writer, pieces: AsyncIterator[Any], fragments: Sequence[str]) -> list[list[Any]]:
    """The pieces that are there after each of these fragments; after the last of them, they have ended."""
    steps: list[list[Any]] = []
    async with waiting(pieces) as (waiter,):
        for fragment in fragments:
            writer.write(fragment)
            await all_tasks_blocked()
            steps.append(list(waiter.got))
    assert waiter.outcome == "end"
    return steps


# --- field ------------------------------------------------------------------------------------------------------------


async def test_a_field_comes_before_the_input_ends() -> None:
    """The point of it all: a value can be used as soon as it is finished, while the rest is being written."""
    writer = Writer()
    async with waiting(writer.input.field("filename")) as (waiter,):
        writer.write('{"filename": "poem', ".txt")
        await all_tasks_blocked()
        assert waiter.waits  # the string may go on
        writer.write('", "lines": [')
        await all_tasks_blocked()
        assert waiter.outcome == ("value", "poem.txt")
        assert writer.input.outcome is None


async def test_a_field_that_is_there_already() -> None:
    """No waiting for what has come: also after the end, and deep inside."""
    writer = Writer('{"files": [{"name": "a", "size": 12}], "n": null')
    assert await writer.input.field("files", 0, "name") == "a"
    assert await writer.input.field("files") == [{"name": "a", "size": 12}]
    writer.write("}")
    writer.stop()
    assert await writer.input.field("n") is None
    assert await writer.input.field("files", 0, "size") == 12
    assert await writer.input.field() == {"files": [{"name": "a", "size": 12}], "n": None}


async def test_a_number_is_not_told_too_early() -> None:
    """`1` may become `10`: a number is finished by what comes after it."""
    writer = Writer()
    async with waiting(writer.input.field("n")) as (waiter,):
        writer.write('{"n": 1')
        await all_tasks_blocked()
        assert waiter.waits
        writer.write("0}")
    assert waiter.outcome == ("value", 10)


async def test_given_input() -> None:
    """An input that came whole with the start of its block has its fields at once."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(0, input={"city": "Oslo", "days": [1, 2]}))
    input = accumulator.inputs[0]
    assert await input.field("city") == "Oslo"
    assert [piece async for piece in input.text("city")] == ["Oslo"]
    assert [item async for item in input.items("days")] == [1, 2]
    accumulator.feed(block_stop(0))
    assert await input.finished() is Outcome.VALID
    with pytest.raises(KeyError):
        await input.field("country")


WAITS: dict[str, Callable[[GrowingInput], Any]] = {
    "field": lambda input: input.field("late"),
    "text": lambda input: input.text("late"),
    "items": lambda input: input.items("late"),
}
ENDS: dict[str, tuple[list[str], str, type[Exception], Outcome]] = {
    "valid without it": (['{"a": 1}'], "stop", KeyError, Outcome.VALID),
    "valid without anything": ([], "stop", KeyError, Outcome.VALID),
    "valid, but not an object there": (['{"late": {}', "}"], "stop", TypeError, Outcome.VALID),
    "cut off before it": (['{"a": 1'], "cut", InputInterrupted, Outcome.INCOMPLETE),
    "cut off without anything": ([], "cut", InputInterrupted, Outcome.INCOMPLETE),
    "closed too early": (['{"a": 1, "la'], "stop", InputInterrupted, Outcome.INCOMPLETE),
    "not JSON": (['{"a": Dave'], "stop", InputInterrupted, Outcome.INVALID),
    "not an object": (["[1, 2]"], "stop", InputInterrupted, Outcome.INVALID),
    "something behind it": (['{"a": 1} {'], "stop", InputInterrupted, Outcome.INVALID),
}


@pytest.mark.parametrize("wait", WAITS)
async def test_nothing_hangs(wait: str) -> None:
    """Every wait ends when the input does: `KeyError` if the input is valid without the value, else interrupted."""
    for end, (fragments, ending, error, outcome) in ENDS.items():
        writer = Writer()
        late = Waiter()
        async with waiting(WAITS[wait](writer.input), writer.input.finished()) as (early, finished):
            for fragment in fragments:
                writer.write(fragment)
                await all_tasks_blocked()
            getattr(writer, ending)()
        with anyio.fail_after(SLOWLY_S):
            await late.run(WAITS[wait](writer.input))
        expected: Any = ("value", {}) if wait == "field" and error is TypeError else error
        assert early.outcome == expected, end
        assert late.outcome == expected, end
        assert finished.outcome == ("value", outcome), end


async def test_invalid_is_told_at_the_offending_character() -> None:
    """What can no longer come is said when that is known, not when the model has written its last line."""
    writer = Writer()
    async with waiting(writer.input.field("b")) as (waiter,):
        writer.write('{"a": Dave, ')
    assert waiter.outcome is InputInterrupted
    assert writer.input.outcome is None


async def test_what_had_finished_before_an_error_counts() -> None:
    """An input that turns out invalid later does not take back what was finished."""
    writer = Writer('{"a": 1, "b": Dave}')
    assert await writer.input.field("a") == 1
    writer.stop()
    assert await writer.input.field("a") == 1


async def test_a_root_that_is_no_object_has_no_fields() -> None:
    """What a list at the root holds is not part of an input: nothing of it may look like a value."""
    writer = Writer()
    async with waiting(writer.input.field(0, "a")) as (waiter,):
        writer.write('[{"a": 1}, ')
        await all_tasks_blocked()
        writer.stop()
    assert waiter.outcome is InputInterrupted


async def test_the_interruption_says_where_and_why() -> None:
    """Whoever catches it can tell which value was waited for, and what went wrong."""
    writer = Writer('{"files": [{"na')
    writer.cut()
    with pytest.raises(InputInterrupted, match="cut off") as caught:
        await writer.input.field("files", 0, "name")
    assert caught.value.path == ("files", 0, "name")
    assert "['files'][0]['name']" in str(caught.value)


async def test_over_the_limit() -> None:
    """An input over its limit is invalid, and those who wait for the rest are told."""
    writer = Writer(limits=Limits(max_input_chars=10))
    async with waiting(writer.input.text("a")) as (waiter,):
        writer.write('{"a": "', "x" * 100)
    assert waiter.outcome is InputInterrupted


async def test_many_waiters() -> None:
    """Any number of tasks may wait, for the same and for different things."""
    writer = Writer()
    waits = [writer.input.field("a") if number % 2 else writer.input.text("a") for number in range(20)]
    async with waiting(*waits) as waiters:
        for character in '{"a": "lorem"}':
            await all_tasks_blocked()
            writer.write(character)
        writer.stop()
    assert {waiter.outcome for waiter in waiters[1::2]} == {("value", "lorem")}
    assert {"".join(waiter.got) for waiter in waiters[::2]} == {"lorem"}


@pytest.mark.parametrize("wait", WAITS)
async def test_cancelling_a_waiter(wait: str) -> None:
    """A waiter that gives up disturbs neither the others nor the input."""
    writer = Writer('{"late": ')
    async with waiting(writer.input.field("late")) as (other,):
        with anyio.CancelScope() as scope:
            scope.cancel()
            pieces = WAITS[wait](writer.input)
            await (pieces if wait == "field" else anext(pieces))
        assert scope.cancelled_caught
        await all_tasks_blocked()
        writer.write("[1]}")
        writer.stop()
    assert other.outcome == ("value", [1])


@pytest.mark.parametrize("wait", WAITS)
async def test_who_is_told_of_waiting(wait: str) -> None:
    """Of each wait both ends are told, also where the input ends it; afterwards nobody is, and so nobody is kept."""
    writer = Writer()
    told: list[int] = []
    writer.input.on_wait = told.append
    async with waiting(WAITS[wait](writer.input)):
        assert told == [1]
        writer.cut()
    assert told == [1, -1]
    assert writer.input.on_wait != told.append


# --- text and items ---------------------------------------------------------------------------------------------------


async def test_text_comes_as_it_is_written() -> None:
    """Each piece is there as soon as its characters are, half an escape never."""
    writer = Writer()
    fragments = ('{"body": "', "Dear ", "\\u00", "e5", "\\ud83d", "\\ude00", '"', ', "x": 1}')
    steps = await steps_of(writer, writer.input.text("body"), fragments)
    assert steps[1] == ["Dear "]
    assert steps[2] == ["Dear "]
    assert steps[3] == ["Dear ", "å"]
    assert steps[5] == ["Dear ", "å", "😀"]


async def test_an_empty_string_has_no_pieces() -> None:
    """It ends, rather than waiting for a first piece."""
    writer = Writer('{"body": ""')
    assert [piece async for piece in writer.input.text("body")] == []


@pytest.mark.parametrize(
    ("wait", "written", "pieces"), [("text", '{"late": "Dear', ["Dear"]), ("items", '{"late": ["a", "b', ["a"])]
)
async def test_pieces_that_are_cut_off(wait: str, written: str, pieces: list[str]) -> None:
    """What came is handed out, an unfinished item never; then it is said that more should have come."""
    writer = Writer(written)
    writer.cut()
    waiter = Waiter()
    await waiter.run(WAITS[wait](writer.input))
    assert (waiter.got, waiter.outcome) == (pieces, InputInterrupted)


@pytest.mark.parametrize(
    ("wait", "words", "values"),
    [
        ("text", "not a string", ("12,", "null", "true", "[", '{"a":')),
        ("items", "not an array", ("12,", "null", '"abc', '{"a":')),
    ],
)
async def test_pieces_of_something_else(wait: str, words: str, values: tuple[str, ...]) -> None:
    """Told as soon as the value shows, not at the end."""
    for value in values:
        writer = Writer('{"late": ' + value)
        with pytest.raises(TypeError, match=words), anyio.fail_after(SLOWLY_S):
            await anext(WAITS[wait](writer.input))


async def test_items_come_when_they_are_finished() -> None:
    """Each item as soon as nothing of it can change, and not before."""
    writer = Writer()
    fragments = ('{"list": [1', "2", ",", ' "a', '"', ', {"b": [', "]", "}", "]", "}")
    steps = await steps_of(writer, writer.input.items("list"), fragments)
    assert [len(step) for step in steps] == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]
    assert steps[-1] == [12, "a", {"b": []}]


@pytest.mark.parametrize("first", ['"xyz"', "[1, 2, 3]"])
async def test_a_repeated_key_hangs_nobody(first: str) -> None:
    """A key that comes twice starts its value over: whoever waits gets something true of one of them, and ends."""
    for second in ('"q"', '"qrstuvw"', "[1]", "12", '{"x": "y"}', "null"):
        await _a_key_that_is_repeated(first, second)


async def _a_key_that_is_repeated(first: str, second: str) -> None:
    """At each place where the input may be cut, from the end of the first value on."""
    text = f'{{"a": {first}, "a": {second}}}'
    for cut in range(len(first), len(text)):
        writer = Writer()
        waits: list[Any] = [writer.input.field("a"), writer.input.text("a"), writer.input.items("a")]
        async with waiting(*waits) as waiters:
            writer.write(text[:cut], text[cut:])
            await all_tasks_blocked()
            writer.stop()
        assert waiters[0].outcome[1] in (json.loads(first), json.loads(second))
        assert all(waiter.outcome in ("end", TypeError, KeyError) for waiter in waiters[1:]), (second, cut)


async def test_pieces_of_two_values_are_not_mixed() -> None:
    """A reader of a string that is written twice gets no rest of the second value after a part of the first."""
    writer = Writer()
    pieces = writer.input.text("a")
    writer.write('{"a": "first')
    assert await anext(pieces) == "first"
    writer.write(' one", "a": "if not second')
    with pytest.raises(InputInterrupted, match="written twice"):
        await anext(pieces)
    writer.write('"}')
    writer.stop()
    again = [piece async for piece in writer.input.text("a")]
    assert "".join(again) == "if not second"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=6,
)


async def _consume(text: str, places: list[int], paces: list[int], pieces: Callable[[GrowingInput], Any]) -> list[Any]:
    """What one who listens gets of an input that is cut at `places`, and read at some pace."""
    writer = Writer()
    waiter = Waiter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter.run, pieces(writer.input))
        for number, fragment in enumerate(cut_at(text, places)):
            for _ in range(paces[number % len(paces)]):
                await anyio.lowlevel.checkpoint()
            writer.write(fragment)
        writer.stop()
    assert waiter.outcome == "end"
    return waiter.got


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=20)
@given(
    body=st.text(max_size=20),
    ascii=st.booleans(),
    places=st.lists(st.integers(0, 60), max_size=12),
    paces=st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_pieces_of_text_joined_are_the_text(
    backend: str, body: str, *, ascii: bool, places: list[int], paces: list[int]
) -> None:
    """However the input is cut, and however fast it is read."""
    text = json.dumps({"n": 1, "body": body, "last": [body]}, ensure_ascii=ascii)
    got = anyio.run(_consume, text, places, paces, lambda input: input.text("body"), backend=backend)
    assert "".join(got) == body
    assert all(got)


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=20)
@given(
    values=st.lists(_VALUES, max_size=5),
    places=st.lists(st.integers(0, 80), max_size=12),
    paces=st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_items_are_the_list(backend: str, values: list[Any], places: list[int], paces: list[int]) -> None:
    """However the input is cut, and however fast it is read."""
    text = json.dumps({"list": values, "last": values})
    assert anyio.run(_consume, text, places, paces, lambda input: input.items("list"), backend=backend) == values


async def test_a_watcher_that_raises_at_the_end_leaves_nobody_waiting() -> None:
    """Its exception comes out of the feeding; the input is settled all the same, and so is told."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(0))
    growing = accumulator.inputs[0]

    def fail(_: Any) -> None:
        raise LookupError

    growing.watch(callback=fail)
    ends: list[Outcome | None] = []

    async def wait(end: Callable[[], Awaitable[Any]]) -> None:
        await end()
        ends.append(growing.outcome)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, growing.ended)
            tasks.start_soon(wait, growing.finished)
            await all_tasks_blocked()
            accumulator.feed(block_stop(0))
            with pytest.raises(LookupError):
                accumulator.feed(message_delta("tool_use"))
    assert ends == [Outcome.VALID, Outcome.VALID]


async def test_a_lost_fragment_is_heard_of_at_once() -> None:
    """Nobody waits for the end of an input that can only be invalid."""
    writer = Writer()
    waits = [writer.input.field("a"), writer.input.next_text(("a",), 2), writer.input.next_item(("l",), 0)]
    async with waiting(*waits) as waiters:
        writer.write('{"a":"he')
        await all_tasks_blocked()
        writer.lose_a_fragment()
        await all_tasks_blocked()
        assert [waiter.waits for waiter in waiters] == [False] * 3


async def test_a_tolerant_parser_that_shows_less() -> None:
    """What the package does not show yet is waited for, and nothing is raised out of `feed`."""
    for allow in (Allow.ALL, Allow.OBJ, Allow.STR, Allow.ARR):
        writer = Writer(parser=partial(TolerantJSON, allow=allow))
        async with waiting(writer.input.field("a", "b"), writer.input.next_item(("a", "l"), 0)) as (text, item):
            writer.write('{"a"', ': {"b": "he', 'y", "l": [', "1, ", "2", "]}}")
            writer.stop()
        assert text.outcome == ("value", "hey"), allow
        assert item.outcome == ("value", (1,)), allow


async def test_a_field_that_is_written_twice_in_a_fragment() -> None:
    """The value that counts is the one at the end of the fragment."""
    writer = Writer()
    async with waiting(writer.input.field("a"), writer.input.field("b")) as (once, again):
        writer.write("{", '"a": 1, "a": 2, "b": [1], "b": "x', 'y"}')
        writer.stop()
    assert (once.outcome, again.outcome) == (("value", 2), ("value", "xy"))


# --- typed values -----------------------------------------------------------------------------------------------------


class _Line(BaseModel):
    number: int
    text: str = ""


class _File(BaseModel):
    path: str
    lines: list[_Line]


def test_the_input_as_a_model() -> None:
    """It grows with the text, and the fault of an item is known before the input ends."""
    writer = Writer()
    assert writer.input.partial_as(_File).path is None
    writer.write('{"path": "a.py", "lines": [{"number": 1, "te')
    file = writer.input.partial_as(_File)
    writer.write('xt": "on', 'e"}, {"number": "two"}, {"number"')
    assert writer.input.partial_as(_File) is file
    assert file.lines[0] == _Line(number=1, text="one")
    fault = writer.input.fault_as(_File)
    assert fault is not None
    assert fault.place == "lines[1].number"
    writer.cut()
    assert writer.input.outcome is Outcome.INCOMPLETE
    assert writer.input.partial_as(_File) is file


def test_an_input_without_a_text_as_a_model() -> None:
    """One that came complete, and the empty one of a tool without arguments."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    given = {"path": "a", "lines": [{"number": 1}]}
    start = tool_start(0)
    accumulator.feed({**start, "content_block": {**start["content_block"], "input": given}})
    assert accumulator.inputs[0].partial_as(_File) == _File.model_validate(given)
    empty = Writer()
    assert empty.input.partial_as(_Line).text is None
    empty.stop()
    fault = empty.input.fault_as(_Line)
    assert fault is not None
    assert fault.path == ("number",)


def test_the_input_as_the_parameters_of_its_tool() -> None:
    """Models and lists of them are typed; a parameter that has not arrived is absent."""

    @tool
    async def write(path: str, lines: ItemStream[_Line], mode: Literal["new", "add"]) -> None:
        """Write a file."""

    writer = Writer('{"path": "a.py", "lines": [{"number": 1}, {"number": 2, "text": "tw')
    arguments = writer.input.partial_as(write)
    assert arguments.keys() == {"path", "lines"}
    assert arguments["lines"][0] == _Line(number=1)
    assert arguments["lines"][1].text == "tw"
    assert writer.input.fault_as(write) is None
    plain = tool(lambda input: None, definition={"name": "f", "input_schema": {"type": "object"}})
    with pytest.raises(UsageError, match="have no types"):
        writer.input.partial_as(plain)


def test_a_wrong_model_for_an_input() -> None:
    """It is reported at once."""
    writer = Writer()
    for model in (int, {"a": 1}, "text"):
        with pytest.raises(UsageError):
            writer.input.partial_as(cast("Any", model))


def test_a_parser_of_the_users_own() -> None:
    """It has no open path that can be followed at each step."""

    class Own:
        """A parser that derives from nothing."""

        def __init__(self, *, limits: Limits) -> None:
            self._parser = PartialJSON(limits=limits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._parser, name)

    writer = Writer(parser=Own)
    with pytest.raises(UsageError, match="PartialJSON"):
        writer.input.partial_as(_File)


async def test_a_loop_over_items_that_are_all_there_lets_others_run() -> None:
    """They may all come in one fragment. Two million of them blocked the event loop for 3 s."""
    writer = Writer(json.dumps({"a": [1] * 1_000}))
    async with turns_of_others() as turns:
        assert [item async for item in writer.input.items("a")] == [1] * 1_000
    assert turns() > 10
