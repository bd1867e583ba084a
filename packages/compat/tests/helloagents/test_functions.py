"""Functions as tools: what an input becomes, and what the model is told of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream import InputInterrupted, TextStream, UsageError
from eagerstream_compat.helloagents import ToolResponse
from eagerstream_compat.helloagents._functions import FunctionTool

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz") | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def my_function(x: int) -> str:
    return f"结果: {x * 2}"


@rows("given", [{"x": 2}, 2, "2", '{"x": 2}', {"x": "2"}, '{"x": "2"}', {"input": 2}, 2.0])
def test_ways_to_say_the_same(given: object) -> None:
    """A dict by name, JSON of it, a bare value, a text that nearly fits."""
    response = FunctionTool(my_function).run(given)
    assert isinstance(response, ToolResponse)
    assert (response.text, response.data) == ("结果: 4", {"output": "结果: 4"})


@rows(
    "given, told",
    [
        ({}, "Missing required 'x' parameter"),  # nothing
        ({"y": 2}, "Missing required 'x' parameter; Unknown parameter 'y'"),  # another name
        ({"x": 2, "y": 2}, "Unknown parameter 'y'"),  # one too many
        ("two", "Invalid parameter 'x': Input should be a valid integer, got \"two\""),  # a word
        (2.5, "Invalid parameter 'x': Input should be a valid integer, got 2.5"),  # no guess
        ({"x": None}, "Invalid parameter 'x': Input should be a valid integer, got null"),  # null
        ({"x": object()}, ""),  # no JSON
        ("9" * 5000, ""),  # a number too large to be read
        ("[" * 100_000, ""),  # deep
    ],
)
def test_inputs_that_do_not_fit(given: object, told: str) -> None:
    """They are answered, and the function is not called."""
    called: list[int] = []

    def takes(x: int) -> None:
        called.append(x)

    response = FunctionTool(takes).run(given)
    assert isinstance(response, ToolResponse)
    assert response.code == "INVALID_PARAM"
    assert response.text.startswith("函数执行失败: ")
    assert told in response.text
    assert not called


def answer(function: Callable[..., Any], given: object) -> Any:
    """What a function gave for an input."""
    response = FunctionTool(function).run(given)
    assert isinstance(response, ToolResponse)
    assert response.code is None, response.text
    return response.data["output"]


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


def test_conversions() -> None:
    """What nearly fits an annotation is converted; what it is then is the function's."""

    def several(
        flag: bool = False,
        share: float = 0.0,
        tags: list[int] | None = None,
        colour: Colour = Colour.RED,
        point: Point | None = None,
        kind: Literal["a", "b"] = "a",
        name: str = "",
        many: int | str = 0,
    ) -> list[Any]:
        return [flag, share, tags, colour, point, kind, name, many]

    default = [False, 0.0, None, Colour.RED, None, "a", "", 0]
    assert answer(several, {}) == default
    assert answer(several, {"flag": "yes", "share": "0.5", "tags": "[1, 2]"})[:3] == [True, 0.5, [1, 2]]
    assert answer(several, {"flag": "False", "share": 1, "tags": None})[:3] == [False, 1.0, None]
    assert answer(several, {"colour": "red", "point": {"x": 1}, "kind": "b"})[3:6] == [Colour.RED, Point(1), "b"]
    assert answer(several, {"name": 5, "many": "7"})[6:] == ["5", "7"]
    assert "kind" in FunctionTool(several).run({"kind": "c"}).text  # type: ignore[union-attr]


def test_a_single_parameter() -> None:
    """A text stays one where one is wanted; a dict is the value where a dict is, or nothing says what is."""

    def text(content: str) -> str:
        return content

    def mapping(data: dict[str, Any]) -> dict[str, Any]:
        return data

    def anything(value):  # type: ignore[no-untyped-def]
        return value

    assert answer(text, '{"a": 1}') == '{"a": 1}'
    assert answer(text, "{}") == "{}"
    assert answer(text, "2") == "2"
    assert answer(text, '{"content": "x"}') == "x"
    assert answer(text, {"input": "x"}) == "x"
    assert answer(mapping, {"a": 1}) == {"a": 1}
    assert answer(mapping, '{"a": 1}') == {"a": 1}
    assert answer(mapping, {"data": {"a": 1}}) == {"a": 1}
    assert [answer(anything, each) for each in ("2", {"a": 1}, {"input": 3}, {"value": 4}, [5])] == [
        "2",
        {"a": 1},
        3,
        4,
        [5],
    ]


def test_parameters_without_annotations_of_use() -> None:
    """They get what they are given, itself."""

    class Own:
        pass

    own = Own()

    def takes(a, b: Own, c=None, /, *rest, d: int, **more):  # type: ignore[no-untyped-def]
        return [a, b, c, d, more]

    takes.__annotations__["c"] = "Unknown"

    assert answer(takes, {"a": [own], "b": own, "d": "4", "z": own}) == [[own], own, None, 4, {"z": own}]
    response = FunctionTool(takes).run({"d": "x"})
    assert "Missing required parameters: 'a', 'b'; Invalid parameter 'd'" in response.text  # type: ignore[union-attr]


def test_what_has_no_signature() -> None:
    """It gets the value."""
    assert answer(max, [1, 3, 2]) == 3
    assert answer(max, {"input": [1, 3]}) == 3
    assert answer(lambda *values: values, "x") == ("x",)
    assert answer(lambda: "nothing", "") == "nothing"
    assert answer(lambda: "nothing", {}) == "nothing"
    assert answer(partial(my_function, x=4), {}) == "结果: 8"


def text_itself(content: str) -> str:
    return content


def fits(x: int, y: list[str] | None = None, z: float = 0) -> str:
    assert type(x) is int
    assert y is None or all(type(each) is str for each in y)
    assert type(z) is float or z == 0
    return "fits"


TEXT_ITSELF, FITS = FunctionTool(text_itself), FunctionTool(fits)


@given(st.text() | JSON_VALUES)
def test_a_text_parameter_gets_every_text(value: Any) -> None:
    """Whatever a text looks like, a function of one text gets that text, by name and bare."""
    written = value if isinstance(value, str) else json.dumps(value)
    for each in ({"content": written}, written):
        response = TEXT_ITSELF.run(each)
        assert isinstance(response, ToolResponse)
        assert response.data == {"output": written}


@given(JSON_VALUES)
def test_any_input_is_answered(value: Any) -> None:
    """Whatever a model writes, there is a response, and the function gets what its annotations say, or nothing."""
    for each in (value, {"x": value}, {"x": 1, "y": value, "z": value}, json.dumps(value)):
        response = FITS.run(each)
        assert isinstance(response, ToolResponse)
        assert response.text == "fits" or response.code == "INVALID_PARAM"


def test_what_is_returned() -> None:
    """A response as it is, anything else as its text, and as data."""
    own = ToolResponse.partial("half", {"a": 1}, reason="cut")
    assert FunctionTool(lambda: own).run({}) is own
    for value in (None, 3, {"a": [1]}):
        response = FunctionTool(lambda value=value: value).run({})
        assert isinstance(response, ToolResponse)
        assert (response.text, response.data) == (str(value), {"output": value})


def test_what_is_raised() -> None:
    """An error in the function's name, with the code that the exception stands for."""

    def fails(kind: str) -> None:
        raise FileNotFoundError("a.txt") if kind == "file" else RuntimeError("boom")

    tool = FunctionTool(fails)
    given: Any = "other"
    response = tool.run_with_timing(given)
    assert (response.code, response.text) == ("EXECUTION_ERROR", "函数执行失败: boom")
    assert response.context == {"tool_name": "fails", "input": "other"}
    assert set(response.stats or {}) == {"time_ms"}
    response = tool.run_with_timing({"kind": "file"})
    assert (response.code, response.text) == ("NOT_FOUND", "函数执行失败: a.txt")


async def waits(x: int) -> int:
    await anyio.lowlevel.checkpoint()
    return x * 2


async def counts(x: int) -> AsyncIterator[int]:
    for each in range(x):
        yield each


def steps(x: int) -> Iterator[int]:
    yield from range(x)


@pytest.mark.parametrize(
    ("function", "output"),
    [(waits, 8), (counts, 3), (steps, 3), (lambda x: waits(int(x)), 8), (my_function, "结果: 8")],
)
@pytest.mark.anyio
async def test_kinds_of_functions(function: Callable[..., Any], output: object) -> None:
    """Asynchronous ones, generators, and plain ones; awaited here, and called plainly in a thread without a loop."""
    tool = FunctionTool(function)
    response = await tool.arun_with_timing({"x": 4})
    assert response.data == {"output": output}
    response = await anyio.to_thread.run_sync(tool.run_with_timing, {"x": 4})
    assert response.data == {"output": output}


@pytest.mark.anyio
async def test_an_asynchronous_function_that_does_not_fit() -> None:
    """It is answered as a plain one is."""
    given: Any = "x"
    response = await FunctionTool(waits).arun_with_timing(given)
    assert response.code == "INVALID_PARAM"


def test_the_definition() -> None:
    """The signature's schema, with the docstring's words; without annotations any value fits."""

    def search(query: str, limit: int = 10, within=None) -> str:  # type: ignore[no-untyped-def]
        """Search the notes.

        All of them.

        Args:
            query: What to look for,
                in words.
            limit: How many.
        """
        raise NotImplementedError

    tool = FunctionTool(search)
    assert tool.to_anthropic() == {
        "name": "search",
        "description": "Search the notes.",
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for, in words."},
                "limit": {"type": "integer", "description": "How many.", "default": 10},
                "within": {},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    }
    assert [
        (each.name, each.type, each.description, each.required, each.default) for each in tool.get_parameters()
    ] == [
        ("query", "string", "What to look for, in words.", True, None),
        ("limit", "integer", "How many.", False, 10),
        ("within", "string", "参数 within", False, None),
    ]
    assert FunctionTool(lambda: None, "named", "said").to_anthropic()["name"] == "named"


def test_the_definition_of_one_value() -> None:
    """A function of one value that nothing is said of takes `input`, a text."""
    definition = FunctionTool(lambda text: text, "old").to_anthropic()
    assert definition["description"] == "执行 old"
    assert definition["input_schema"] == {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "输入文本"}},
        "required": ["input"],
        "additionalProperties": False,
    }


def test_streams() -> None:
    """A parameter that streams gets its text whole: this protocol hands over finished inputs."""

    async def copy(text: TextStream) -> str:
        try:
            return "".join([piece async for piece in text])
        except InputInterrupted:
            return "interrupted"

    assert FunctionTool(copy).run_with_timing({"text": "abc"}).text == "abc"


def test_parameters_that_do_not_go_together() -> None:
    """It is told when the tool is made."""

    def odd(text: TextStream, after: int = 3) -> None: ...

    with pytest.raises(UsageError, match="must be Later"):
        FunctionTool(odd)


def test_values_for_any_number_of_arguments() -> None:
    """A value without a name is the first of them, not the first option behind them; names are for the options."""

    def join(*words: Any, sep: str = "-") -> str:
        return sep.join(["<", *map(str, words), ">"])

    def wrapper(*args: Any, **kwargs: Any) -> str:
        return f"{args} {kwargs}"

    assert answer(join, "a") == "<-a->"
    assert answer(join, 5) == "<-5->"
    assert answer(join, {"sep": "+"}) == "<+>"
    assert answer(join, '{"sep": "+"}') == "<+>"
    assert answer(wrapper, "a") == "('a',) {}"
    assert answer(wrapper, {"x": 1}) == "() {'x': 1}"
