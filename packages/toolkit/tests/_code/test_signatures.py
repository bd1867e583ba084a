"""The stubs that the model sees: the types of all schemas, and nothing that a schema or a text could break."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from functools import cache
from time import thread_time
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel
from tests.tables import rows

from eagerstream.tools import Tool, tool
from eagerstream_toolkit import Calculator
from eagerstream_toolkit._code.signatures import parameters_of, stubs_of


async def answer(input: dict[str, Any]) -> str:
    """Take anything."""
    return str(input)


def made(schema: dict[str, Any], description: str = "Ask.", name: str = "ask") -> Tool:
    return Tool(answer, definition={"name": name, "description": description, "input_schema": schema})


@cache
def blank() -> Tool:
    """A tool whose schema a test replaces: to make one takes longer than the rest of the test."""
    return made({"type": "object"}, "")


def type_of(schema: dict[str, Any], **root: Any) -> str:
    """The type of a parameter `x` with this schema."""
    asked = blank()
    asked.input_schema = {"type": "object", "properties": {"x": schema}, "required": ["x"], **root}
    return stubs_of({"ask": asked}).rpartition("ask(x: ")[2].partition(") -> Any:")[0]


POINT: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@rows(
    "schema, expected",
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"type": "object", "additionalProperties": False}, "dict[str, Any]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": "string", "format": "date-time"}, "str"),
        ({"enum": ["a", 'b"', 3, True, None]}, "Literal['a', 'b\"', 3, True, None]"),
        ({"enum": [None]}, "None"),
        ({"enum": [1.5, "a"]}, "float | str"),
        ({"enum": [*map(str, range(100))]}, "str"),
        ({"const": "a"}, "Literal['a']"),
        ({"const": "x" * 1000}, "str"),
        ({"const": 1 << 100_000}, "int"),
        ({"const": {"a": 1}}, "dict[str, Any]"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "integer"}]}, "int | None"),
        ({"oneOf": [{"const": "a", "description": "first"}, {"const": "b"}]}, "Literal['a', 'b']"),
        ({"anyOf": [{"type": "integer"}, {}]}, "Any"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "str"),
        ({"$ref": "#/$defs/Color"}, "Literal['red']"),
        ({"$ref": "#/definitions/no~1where"}, "Any"),
        ({"$ref": "#/$defs/Itself"}, "Any"),
        ({"$ref": "https://example.com/schema"}, "Any"),
        ({"$ref": "#/$defs/Point"}, "Point"),
        ({"allOf": [{"$ref": "#/$defs/Point"}]}, "Point"),
        (POINT, "AskX"),
        ({**POINT, "title": "a point!"}, "APoint"),
        ({**POINT, "type": ["object", "null"]}, "AskX | None"),
        ({"type": "array", "items": POINT}, "list[AskXItem]"),
        ({}, "Any"),
        ({"not": {"type": "string"}}, "Any"),
    ],
)
def test_types(schema: dict[str, Any], expected: str) -> None:
    """Each form of a schema is a type that the model knows."""
    defs = {"Color": {"enum": ["red"]}, "Point": POINT, "Itself": {"$ref": "#/$defs/Itself"}}
    assert type_of(schema, **{"$defs": defs}) == expected


class Node(BaseModel):
    value: int
    children: list[Node] = []


def test_functions_of_the_library() -> None:
    """The page that a model reads: classes that two tools share, defaults, results by their annotation."""

    @tool
    async def weather(city: str, days: int = 3, *, near: dict[str, Node] | None = None) -> dict[str, float]:
        r"""Weather with a \d.

        Args:
            city: City and country.
            days: Number of days.
        """
        return {}

    @tool
    async def grown(root: Node) -> AsyncIterator[Node]:
        """Grow."""
        yield root

    @tool
    def plain(a: object = object) -> None: ...

    assert (
        stubs_of({"weather": weather, "grown": grown, "plain": plain, "calculator": Calculator(description="C.")})
        == '''\
class ToolResult(TypedDict):
    text: str
    data: dict[str, Any]

class Node(TypedDict):
    value: int
    children: NotRequired[list[Node]]

async def weather(city: str, days: int = 3, near: dict[str, Node] | None = None) -> dict[str, float]:
    """Weather with a \\\\d.

    Args:
        city: City and country.
        days: Number of days.
    """

async def grown(root: Node) -> Node:
    """Grow."""

async def plain(a: Any = ...) -> None: ...

async def calculator(expression: str) -> str | ToolResult:
    """C.

    Args:
        expression: For example: (2 + 3) * sqrt(16) / 7 ** 2
    """'''
    )


def test_schemas_of_others() -> None:
    """Keys that are no names, constraints, and the output schema of an MCP server."""
    schema = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "default": 5},
            "user-id": {"type": "string", "description": "The id."},
            "class": {"type": "integer"},
            "at": {"type": "object", "properties": {"x-y": {"type": "number", "description": "Of\nboth."}}},
            "day": {"type": "string", "format": "date"},
        },
        "required": ["day", "user-id"],
    }
    asked = made(schema)
    asked.output_schema = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    assert parameters_of(asked) == ("day", "size", "at")
    assert (
        stubs_of({"ask": asked})
        == '''\
AskAt = TypedDict("AskAt", {
    'x-y': NotRequired[float],  # Of both.
})

class AskResult(TypedDict):
    rows: list[Any]

async def ask(day: str, size: int = 5, at: AskAt = ..., **arguments: Any) -> AskResult:
    """Ask.

    Args:
        day: (format: date)
        size: (minimum: 1)
        **{'user-id': str}, required: The id.
        **{'class': int}, optional
    """'''
    )


@rows("default, shown", [([], "[]"), ({}, "{}"), (None, "None"), (True, "True"), (1.5, "1.5"), ("a", "'a'")])
@rows("long", [[1], {"a": 1}, "x" * 81, 1 << 300, float("inf")])
def test_defaults(default: Any, shown: str, long: Any) -> None:
    """Short ones are shown."""
    asked = made({"type": "object", "properties": {"x": {"default": default}, "y": {"default": long}}})
    assert f"ask(x: Any = {shown}, y: Any = ...)" in stubs_of({"ask": asked})


def test_parameters_that_are_inherited() -> None:
    """The root of a schema may itself be a reference, or consist of several parts."""
    base = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    asked = made(
        {"type": "object", "properties": {"b": {}}, "allOf": [{"$ref": "#/$defs/Base"}], "$defs": {"Base": base}}
    )
    assert parameters_of(asked) == ("a", "b")
    assert stubs_of({"ask": asked}).startswith("async def ask(a: str, b: Any = ...) ->")
    assert stubs_of({"ask": made({"type": "object"})}).startswith("async def ask(**arguments: Any) ->")


# --- what may not break -----------------------------------------------------------------------------------------------

NASTY: Final = st.sampled_from(
    [
        '"""\nimport os\n"""',
        "\\",
        '"',
        '\\"""',
        "\r\x00\x0c\x1b[2J",
        "\ud800",
        "\u2028\u202e",
        "#'{",
        "x y",
        "class",
        "ﬁ",
        "__debug__",
    ]
)
TEXTS: Final = st.text(max_size=5) | NASTY | st.lists(NASTY, max_size=3).map("".join)
REFERENCES: Final = st.sampled_from(["#", "#/$defs/A", "#/$defs/B", "#/properties/a", "#/$defs/A/items", "#//"])
VALUES: Final = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
KINDS: Final = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "other"])


def containing(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(schemas, max_size=3)
    keyed = st.dictionaries(TEXTS | st.sampled_from("ab"), schemas, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, max_size=3) | VALUES,
            "title": TEXTS | VALUES,
            "description": TEXTS | VALUES,
            "default": VALUES | st.lists(VALUES, max_size=2),
            "const": VALUES,
            "enum": st.lists(VALUES, max_size=4) | VALUES,
            "format": TEXTS | VALUES,
            "pattern": TEXTS,
            "minimum": VALUES,
            "nullable": st.booleans(),
            "required": st.lists(TEXTS | st.sampled_from("ab"), max_size=2) | VALUES,
            "properties": keyed | VALUES,
            "$ref": REFERENCES | VALUES,
            "items": schemas | lists,
            "prefixItems": lists | VALUES,
            "additionalProperties": schemas,
            "anyOf": lists | VALUES,
            "oneOf": lists,
            "allOf": lists | VALUES,
            "$defs": st.fixed_dictionaries({}, optional={"A": schemas, "B": schemas}),
        },
    )


SCHEMAS: Final = st.recursive(containing(st.booleans() | VALUES), containing, max_leaves=8)


@settings(max_examples=20)
@given(SCHEMAS, SCHEMAS, TEXTS)
def test_any_schema_gives_one_function(schema: dict[str, Any], output: dict[str, Any], description: str) -> None:
    """Valid Python, with the function and its docstring, classes with fields, and nothing else; the same each time."""
    check_one_function(schema, output, description)


@pytest.mark.slow
@settings(max_examples=100)
@given(SCHEMAS, SCHEMAS, TEXTS)
def test_many_schemas_give_one_function(schema: dict[str, Any], output: dict[str, Any], description: str) -> None:
    """As above, of more schemas."""
    check_one_function(schema, output, description)


def check_one_function(schema: dict[str, Any], output: dict[str, Any], description: str) -> None:
    asked = made({"type": "object"}, description)
    asked.input_schema, asked.output_schema = schema, output
    stubs = stubs_of({"ask": asked})
    assert stubs == stubs_of({"ask": asked})
    *classes, function = ast.parse(stubs).body
    for each in classes:
        assert isinstance(each, ast.ClassDef | ast.Assign)
        assert not isinstance(each, ast.ClassDef) or all(isinstance(field, ast.AnnAssign) for field in each.body)
    assert isinstance(function, ast.AsyncFunctionDef)
    assert [type(each) for each in function.body] == [ast.Expr]
    assert tuple(each.arg for each in function.args.args) == parameters_of(asked)
    names = [each.name if isinstance(each, ast.ClassDef) else ast.unparse(each).partition(" ")[0] for each in classes]
    assert len({*names, "ask"}) == len(names) + 1


@given(TEXTS)
def test_a_docstring_says_what_the_tool_says(text: str) -> None:
    """No text ends the docstring or disappears from it."""
    [function] = ast.parse(stubs_of({"ask": made({"type": "object"}, f"Ask{text}.")})).body
    assert isinstance(function, ast.AsyncFunctionDef)
    docstring = ast.get_docstring(function)
    assert docstring is not None
    for shown in ("import os", "\\", '"""', "#'{"):
        assert (shown in docstring) == (shown in text)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "properties": {"a": schema}}
    return schema


DOUBLING: Final = {
    f"D{number}": {
        "anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/D{number + 1}"}}, {"$ref": f"#/$defs/D{number + 1}"}]
    }
    for number in range(60)
}


@rows(
    "schema",
    [
        nested(50),
        {"$ref": "#/$defs/D0"},
        {"anyOf": [POINT] * 5_000},
        {"enum": [*range(20_000)]},
        {"type": "object", "properties": {f"k{number}": POINT for number in range(2_000)}},
        {"allOf": [{"allOf": [{"allOf": [POINT] * 20}] * 20}] * 20},
        {"type": "string", "description": "x" * 100_000, "default": "y" * 100_000, "pattern": "z" * 100_000},
        {"type": "object", "title": "t" * 50_000, "properties": {"k" * 100_000: POINT}},
    ],
)
def test_large_schemas(schema: dict[str, Any]) -> None:
    """Time and size stay small, whatever a peer sends."""
    asked = made({"type": "object"})
    asked.input_schema = {"type": "object", "properties": {"x": schema}, "$defs": DOUBLING}
    started_s = thread_time()
    stubs = stubs_of({"ask": asked})
    assert thread_time() - started_s < 1
    assert len(stubs) < 130_000
    ast.parse(stubs)
