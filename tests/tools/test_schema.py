"""`Parameters`: the schema of a function's parameters, and the check of an input against it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from eagerstream.inputs import InputError
from eagerstream.tools import Tool, tool
from tests.tables import rows
from tests.tools.calls import answer_to


class Color(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="With its number.")
    zip: str | None = None


class Person(BaseModel):
    name: str
    addresses: list[Address] = []


class Input(BaseModel):
    """A model with the name that the schema itself might use."""

    title: str
    type: int = 0


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check_even(cls, n: int) -> int:
        if n == 13:
            raise KeyError("unlucky")  # a mistake of the validator's author
        if n % 2:
            raise ValueError("it must be even")
        return n


def schema_of(function: Callable[..., Awaitable[Any]]) -> Any:
    return tool(function).input_schema


def properties_of(function: Callable[..., Awaitable[Any]]) -> Any:
    return schema_of(function)["properties"]


def fault_of(checked: Tool, input: dict[str, Any]) -> str:
    """What the model is told about an input."""
    with pytest.raises(InputError) as caught:
        checked.check(input)
    return str(caught.value)


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_types() -> None:
    """Each ordinary annotation has the schema that one would write by hand."""

    async def f(
        a: str,
        b: int,
        c: float,
        d: bool,
        e: list[str],
        f: dict[str, int],
        g: Literal["x", "y"],
        h: int | None,
        i: Any,
        j: dt.date,
    ) -> None: ...

    assert properties_of(f) == {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "number"},
        "d": {"type": "boolean"},
        "e": {"type": "array", "items": {"type": "string"}},
        "f": {"type": "object", "additionalProperties": {"type": "integer"}},
        "g": {"type": "string", "enum": ["x", "y"]},
        "h": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "i": {},
        "j": {"type": "string", "format": "date"},
    }
    assert schema_of(f)["required"] == list("abcdefghij")


def test_defaults() -> None:
    """A parameter with a default is not required, and the model may know the default, if JSON can show it."""

    async def f(
        a: str = "x", b: int | None = None, c: Color = Color.RED, d: Any = ..., *, e: list[int], f: int = 3
    ) -> None: ...

    schema = schema_of(f)
    assert schema["required"] == ["e"]
    assert {name: field["default"] for name, field in schema["properties"].items() if "default" in field} == {
        "a": "x",
        "b": None,
        "c": "red",
        "f": 3,
    }


def test_defaults_of_fields() -> None:
    """The schema shows a default that pydantic's `Field` gives or makes, and the field is not required."""

    async def f(
        a: int = Field(3, ge=1),
        b: list[int] = Field(default_factory=lambda: [1, 2]),
        c: str = Field(description="Given."),
        d: object = Field(default_factory=object),
    ) -> None: ...

    schema = schema_of(f)
    assert schema["required"] == ["c"]
    assert schema["properties"] == {
        "a": {"type": "integer", "minimum": 1, "default": 3},
        "b": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
        "c": {"type": "string", "description": "Given."},
        "d": {},
    }


@pytest.mark.anyio
async def test_each_call_has_a_default_of_its_own() -> None:
    """A default that is made is made for the call: what a tool does to it does not reach the next call."""

    @tool
    async def f(b: list[int] = Field(default_factory=lambda: [1, 2])) -> list[int]:
        b.append(3)
        return b

    for _ in range(2):
        assert await answer_to(f, "{}") == ("[1, 2, 3]", False)
    assert await answer_to(f, '{"b": []}') == ("[3]", False)


@rows("default", [math.inf, -math.inf, math.nan, [math.inf]])
def test_a_default_that_is_no_json(default: Any) -> None:
    """Infinity is a fair default in Python, and no JSON: a request must not fail because of it."""

    async def f(limit: Any = default) -> None: ...

    json.dumps(schema_of(f), allow_nan=False)


def test_descriptions() -> None:
    """One in the annotation counts more than the docstring's; constraints are kept."""

    async def f(
        a: Annotated[int, Field(description="From the annotation.", ge=1)],
        b: Annotated[int, Field(le=9)],
        c: Annotated[str, "any other note"],
    ) -> None:
        """F.

        Args:
            a: From the docstring.
            b: From the docstring too.
            c: And this.
        """

    assert properties_of(f) == {
        "a": {"type": "integer", "description": "From the annotation.", "minimum": 1},
        "b": {"type": "integer", "description": "From the docstring too.", "maximum": 9},
        "c": {"type": "string", "description": "And this."},
    }


async def everything(
    person: Person,
    color: Color,
    level: Level,
    point: Point,
    options: Options,
    input: Input,
    strict: Strict | None = None,
) -> None:
    """All kinds of nested types."""


def _titles(schema: Any, *, names: bool = False) -> list[Any]:
    """The `title` keywords in a schema; a property may well be called so."""
    if isinstance(schema, list):
        return [found for item in schema for found in _titles(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["title"]] if "title" in schema and not names else []
    return own + [
        found for key, item in schema.items() for found in _titles(item, names=key in ("properties", "$defs"))
    ]


def test_no_title_noise() -> None:
    """Titles repeat the names and cost tokens: there is none, nested types included."""
    assert _titles(schema_of(everything)) == []
    assert "title" in json.dumps(schema_of(everything))  # the property of `Input`


def test_nested_types() -> None:
    """Models, enums, dataclasses and typed dicts are there with their own descriptions."""
    schema = schema_of(everything)
    definitions = schema["$defs"]
    assert definitions["Address"]["description"] == "Where somebody lives."
    assert definitions["Address"]["properties"]["street"]["description"] == "With its number."
    assert definitions["Color"]["enum"] == ["red", "blue"]
    assert definitions["Level"]["enum"] == [1, 2]
    assert definitions["Point"]["required"] == ["x"]
    assert definitions["Options"]["required"] == ["deep"]
    assert definitions["Strict"]["additionalProperties"] is False
    assert schema["additionalProperties"] is False
    assert schema["properties"]["input"] == {"$ref": "#/$defs/Input"}


def test_a_recursive_type() -> None:
    """A tree refers to itself in its schema, and an input of it is checked all the way down."""
    checked = tool(plant)
    assert checked.input_schema["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}
    arguments = checked.check({"tree": {"name": "a", "children": [{"name": "b"}]}})
    assert arguments["tree"].children[0].name == "b"
    assert "tree.children[0].name" in fault_of(checked, {"tree": {"name": "a", "children": [{"name": 1}]}})


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


async def plant(tree: Tree) -> None: ...


@pytest.mark.anyio
async def test_any_name() -> None:
    """Names that mean something to a model library are ordinary names of parameters."""

    @tool
    async def f(
        schema: str,
        model_config: int,
        json: str,
        model_fields: str,
        copy: bool,
        self: str,
        cls: str,
        input: str,
        title: str,
        _private: int = 0,
        *,
        validate: int,
        class_: str = "",
    ) -> str:
        return (
            f"{schema} {model_config} {json} {model_fields} {copy} {self} {cls} {input} {title} {_private} {validate}"
        )

    arguments = {"schema": "s", "model_config": 1, "json": "j", "model_fields": "f", "copy": True, "self": "me"}
    arguments |= {"cls": "c", "input": "i", "title": "t", "_private": 4, "validate": 5}
    properties: Any = f.input_schema["properties"]
    assert set(properties) == {*arguments, "class_"}
    assert await f.call(arguments) == "s 1 j f True me c i t 4 5"


# --- inputs -----------------------------------------------------------------------------------------------------------


@tool
async def weather(location: str, unit: Literal["c", "f"] = "c", days: int = 1) -> None:
    """Weather."""


def test_missing_parameters() -> None:
    """The API's own wording, for one and for several."""

    @tool
    async def f(a: str, b: int, c: int = 0) -> None: ...

    assert fault_of(weather, {}) == "Error: Missing required 'location' parameter"
    assert fault_of(f, {}) == "Error: Missing required parameters: 'a', 'b'"
    assert fault_of(f, {"b": 1, "c": 2}) == "Error: Missing required 'a' parameter"


def test_all_faults_of_an_input() -> None:
    """The model mends them in one go: which parameter, what was expected, what came."""
    text = fault_of(weather, {"unit": "k", "days": "many", "wind": True})
    assert text.startswith("Error: Missing required 'location' parameter; ")
    for part in ("'unit'", "'c' or 'f'", '"k"', "'days'", "valid integer", '"many"', "Unknown parameter 'wind'"):
        assert part in text
    assert "\n" not in text
    assert "pydantic" not in text


def test_nested_faults_have_a_path() -> None:
    """A fault deep inside is found by its path."""
    checked = tool(everything)
    text = fault_of(checked, {"person": {"name": "Ann", "addresses": [{"street": 1}]}})
    assert "'person.addresses[0].street'" in text


def test_a_fault_of_a_union_names_the_parameter() -> None:
    """The model knows its parameters, not how a library tells the members of a union apart."""

    @tool
    async def f(value: int | str | None = None) -> None: ...

    text = fault_of(f, {"value": []})
    assert "'value'" in text
    assert "value.int" not in text

    @tool
    async def g(value: Strict | int) -> None: ...

    text = fault_of(g, {"value": {}})
    assert "'value.a'" in text
    assert "value.int" not in text
    assert "Strict" not in text


def test_long_values_are_not_repeated_in_full() -> None:
    """A fault in a large input is told in a few words."""
    assert len(fault_of(weather, {"location": ["x" * 10_000]})) < 400


@tool
async def typed(
    i: int = 0,
    f: float = 0,
    s: str = "",
    b: bool = False,
    n: None = None,
    li: list[int] = [],  # noqa: B006
    d: dict[str, int] = {},  # noqa: B006
) -> None: ...


@rows(
    "input",
    [
        {"i": "3"},
        {"i": 3.5},
        {"i": True},
        {"i": None},
        {"s": 3},
        {"s": None},
        {"f": "3"},
        {"f": True},
        {"b": 1},
        {"b": "true"},
        {"n": 0},
        {"li": [1, "2"]},
        {"li": {}},
        {"li": "[1]"},
        {"d": {"a": "1"}},
        {"d": []},
    ],
)
def test_json_types_are_not_coerced(input: dict[str, Any]) -> None:
    """What is not of the schema's type is a mistake of the model, to be told and not to be guessed at."""
    (name,) = input
    assert f"Invalid parameter '{name}" in fault_of(typed, input)


def test_an_integer_is_a_number() -> None:
    """JSON has one kind of number: `1` is good where a float is wanted, and comes as one."""
    value = typed.check({"f": 3})["f"]
    assert value == 3
    assert isinstance(value, float)


def test_conversion() -> None:
    """Types that JSON does not have come out as Python has them."""

    @tool
    async def f(
        color: Color,
        level: Level,
        day: dt.date,
        at: dt.datetime,
        id: uuid.UUID,
        path: Path,
        point: Point,
        person: Person,
        pair: tuple[int, str],
        names: set[str],
        options: Options,
    ) -> None: ...

    arguments = f.check(
        {
            "color": "blue",
            "level": 2,
            "day": "2025-02-28",
            "at": "2025-02-28T12:00:00Z",
            "id": "12345678-1234-5678-1234-567812345678",
            "path": "a/b",
            "point": {"x": 1},
            "person": {"name": "Ann", "addresses": [{"street": "Main St 1"}]},
            "pair": [1, "a"],
            "names": ["a", "b", "a"],
            "options": {"deep": True},
        }
    )
    assert arguments["color"] is Color.BLUE
    assert arguments["level"] is Level.HIGH
    assert arguments["day"] == dt.date(2025, 2, 28)
    assert arguments["at"] == dt.datetime(2025, 2, 28, 12, tzinfo=dt.UTC)
    assert arguments["id"] == uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert arguments["path"] == Path("a/b")
    assert arguments["point"] == Point(1.0)
    assert arguments["person"].addresses[0].street == "Main St 1"
    assert arguments["pair"] == (1, "a")
    assert arguments["names"] == {"a", "b"}
    assert arguments["options"] == {"deep": True}
    for name, bad in (("color", "green"), ("day", "2025-02-30"), ("id", "x"), ("pair", [1])):
        assert f"'{name}" in fault_of(f, {name: bad})


def test_a_missing_optional_parameter_stays_missing() -> None:
    """The function's own default counts, whatever it is: it is not replaced by a copy that went through JSON."""
    assert weather.check({"location": "Oslo"}) == {"location": "Oslo"}


def test_arguments_are_a_copy() -> None:
    """What a tool changes in its arguments never reaches the input that is echoed."""

    @tool
    async def f(items: list[Any], options: dict[str, Any], whatever: Any) -> None: ...

    input: dict[str, Any] = {"items": [[1]], "options": {"a": {}}, "whatever": {"deep": [1]}}
    arguments = f.check(input)
    arguments["items"][0].append(2)
    arguments["options"]["a"]["b"] = 1
    arguments["whatever"]["deep"].clear()
    assert input == {"items": [[1]], "options": {"a": {}}, "whatever": {"deep": [1]}}


def test_a_validator_of_the_user_s_own() -> None:
    """What it says reaches the model."""

    @tool
    async def f(even: Even) -> None: ...

    assert "it must be even" in fault_of(f, {"even": {"n": 3}})


def test_half_a_surrogate_pair() -> None:
    """JSON can say it, UTF-8 cannot: no reason to refuse a valid input."""
    value = weather.check({"location": "half \ud83d"})["location"]
    assert value in ("half \ufffd", "half \ud83d")


def test_a_deep_input() -> None:
    """A valid input within the limits reaches its tool, or is answered; it never breaks the run."""

    @tool
    async def f(value: Any) -> None: ...

    deep: Any = []
    for _ in range(500):
        deep = [deep]
    try:
        f.check({"value": deep})
    except InputError as error:
        assert str(error).startswith("Error: ")


def test_big_numbers() -> None:
    """Integers are exact; one that is beyond all floats is none."""

    @tool
    async def f(i: int = 0, x: float = 0) -> None: ...

    assert f.check({"i": 10**400})["i"] == 10**400
    assert fault_of(f, {"x": 10**400})


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)


@given(value=_ANY_JSON)
def test_any_json_goes_through_unchanged(value: Any) -> None:
    """A parameter that takes anything gets exactly what the model wrote."""
    assert anything.check({"value": value}) == {"value": value}


@tool
async def anything(value: Any) -> None: ...


@given(input=st.dictionaries(st.sampled_from(["i", "f", "s", "b", "n", "li", "d", "z"]), _ANY_JSON))
def test_any_input_is_taken_or_explained(input: dict[str, Any]) -> None:
    """Whatever the model writes: arguments of the right types, or one line that says what is wrong."""
    try:
        arguments = typed.check(input)
    except InputError as error:
        assert str(error).startswith("Error: ")
        return
    assert type(arguments.get("i", 0)) is int
    assert type(arguments.get("s", "")) is str
    assert all(type(item) is int for item in arguments.get("li", []))
