"""Values that are made up for schemas: valid, plausible, and long enough to be seen growing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from tests.tables import rows

from eagerstream import ItemStream, Tool, tool
from eagerstream.errors import UsageError
from eagerstream_testing._made_up import LINES, made_up, made_up_input


class Node(BaseModel):
    """Refers to itself."""

    name: str
    children: list[Node] = []
    parent: Node | None = None


async def plain(path: str, mode: Literal["r", "w"], count: int, share: float, really: bool) -> None:
    """Plain."""


async def bounded(
    code: Annotated[str, Field(min_length=3, max_length=5)],
    number: Annotated[int, Field(gt=10, lt=20)],
    half: Annotated[float, Field(ge=0, le=0.25)],
    few: Annotated[list[int], Field(min_length=2, max_length=3)],
) -> None:
    """Bounded."""


async def nested(node: Node, pairs: dict[str, int], maybe: int | None = None) -> None:
    """Nested."""


async def streaming(title: str, lines: ItemStream[str]) -> None:
    """Streaming."""


@rows("function", [plain, bounded, nested, streaming])
def test_made_up_inputs(function: Callable[..., Any]) -> None:
    """Whatever the signature, the tool takes what was made up for it."""
    made = tool(function)
    input = made_up_input(made)
    assert made.check(input)
    assert set(made.input_schema["required"]) <= set(input)


def test_examples_are_taken() -> None:
    """An example of the tool's own is better than anything made up."""

    @tool(input_examples=[{"code": "AB-12"}])
    async def find(code: Annotated[str, Field(pattern="^[A-Z]{2}-[0-9]{2}$")]) -> None:
        """Find."""

    assert made_up_input(find) == {"code": "AB-12"}


def test_what_cannot_be_made_up() -> None:
    """If no value fits a required parameter, the error says what to do."""

    schema = {"type": "object", "properties": {"n": {"minimum": 5, "maximum": 4, "type": "integer"}}, "required": ["n"]}

    async def find(_: dict[str, Any]) -> None:
        """Find."""

    with pytest.raises(UsageError, match="input_examples"):
        made_up_input(Tool(find, definition={"name": "find", "description": "", "input_schema": schema}))


def test_an_optional_part_that_cannot_be_made_up() -> None:
    """It is left out: the tool is called all the same."""
    never = {"type": "integer", "minimum": 5, "maximum": 4}
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": never}, "required": ["q"]}

    async def find(_: dict[str, Any]) -> None:
        """Find."""

    made = made_up_input(Tool(find, definition={"name": "find", "description": "", "input_schema": schema}))
    assert set(made) == {"q"}


PATTERNS = [
    *("^[0-9]{5}$", r"^(INV|ORD)-\d{3,}[a-z]?$", "[^a-z/]+", r"^\S+@\S+\.com$", "^(?:a|b)*c?$", r"(x)\1{2}"),
    *("^[A-Z]{2}-[0-9]{2}$", "^.{3,}$", "^[^1]$", r"^[\w.-]+$", r"^[\W]$", "^#[0-9a-fA-F]{6}$", "^/(?P<a>[a-z]+)/$"),
]


@rows("pattern", PATTERNS)
def test_patterns(pattern: str) -> None:
    """A text that the pattern is found in, by Python's own reading of it."""
    made = made_up({"properties": {"x": {"type": "string", "pattern": pattern}}})["x"]
    assert re.search(pattern, made)
    assert len(made) < 20


@rows("pattern", ["[", "a{99999}", "(" * 99 + ")" * 99, "(a{9999}){9999}", "(?<x>a)"])
def test_patterns_that_are_not_supported(pattern: str) -> None:
    """No pattern of a request takes long, or much memory; the text is then any."""
    assert made_up({"properties": {"x": {"type": "string", "pattern": pattern}}})["x"] == "\n".join(LINES)


@rows(
    "schema, made",
    [
        ({"examples": ["a", "b"], "default": "c"}, "a"),
        ({"default": "c", "enum": ["d", "c"]}, "c"),
        ({"default": None, "type": "integer"}, 1),
        ({"const": 7}, 7),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": "string", "format": "email"}, "ada@example.com"),
        ({"type": "string", "maxLength": 11}, "The harbour"),
        ({"type": "integer", "exclusiveMinimum": 10, "multipleOf": 5}, 15),
        ({"type": "integer", "minimum": 5, "multipleOf": 7}, 7),
        ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}, {"key_1": 1, "key_2": 1}),
        ({"type": "object", "required": ["a"]}, {"a": "\n".join(LINES)}),
        ({"type": "array", "items": {"type": "string"}}, list(LINES)),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True}, ["x", "y"]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, [1]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "maxItems": 1}, [1]),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1}, [1]),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "null"}, None),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "The"),
        (True, "\n".join(LINES)),
    ],
)
def test_values(schema: Any, made: Any) -> None:
    """Examples, defaults and choices come first, then the format, then a text."""
    assert made_up({"properties": {"x": schema}}) == {"x": made}


@rows(
    "name, description, made",
    [
        ("city", "", ["Oslo", "Vienna", "Lima"]),
        ("city_name", "", ["Oslo", "Vienna", "Lima"]),
        ("recipientEmail", "", ["ada@example.com", "grace@example.com", "edsger@example.com"]),
        ("q", "The city to look for", ["Oslo", "Vienna", "Lima"]),
        ("lines_of_text", "The text of the file", ["\n".join(LINES)] * 3),
        ("remarks", "", ["\n".join(LINES)] * 3),
    ],
)
def test_names(name: str, description: str, made: list[str]) -> None:
    """A name or a description hints at a short value. Anything else is a text of several lines."""
    schema = {"properties": {name: {"type": "string", "description": description}}}
    assert [made_up(schema, number)[name] for number in range(3)] == made


def test_lists_of_names() -> None:
    """An array of things that have a name has a few of them."""
    schema = {"properties": {"cities": {"type": "array", "items": {"type": "string"}}}}
    assert made_up(schema) == {"cities": ["Oslo", "Vienna", "Lima"]}


def test_a_schema_that_requires_itself() -> None:
    """No finite input fits: that is said."""
    schema: dict[str, Any] = {"type": "object", "properties": {"inner": {"$ref": "#"}}, "required": ["inner"]}
    with pytest.raises(RecursionError):
        made_up(schema)
