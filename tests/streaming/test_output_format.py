"""`OutputFormat`: the schema that is sent, and the check of values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

import anthropic
import pytest
from pydantic import BaseModel, ConfigDict, Field

from eagerstream.errors import UsageError
from eagerstream.inputs._faults import InputError
from eagerstream.streaming._output_format import OutputFormat
from tests.tables import rows

SENT = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False, "required": ["a"]}


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    name: str = Field(min_length=1, description="Its name.")
    colour: Colour | None = None
    kind: Literal["a", "b"] = "a"


class Basket(BaseModel):
    items: list[Item] = Field(min_length=3)
    total: float


@dataclass
class Point:
    x: int


class Named(TypedDict):
    name: str


class Free(BaseModel):
    counts: dict[str, int]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Empty(BaseModel):
    model_config = ConfigDict(extra="forbid")


def format_of(output: Any, **request: Any) -> Any:
    return OutputFormat(output).request(request)["output_config"]["format"]


def test_the_schema_of_a_model_has_the_form_of_the_anthropic_package() -> None:
    """Both libraries send the same, so the API accepts it: closed objects, and bounds in the descriptions."""
    assert format_of(Basket) == {"type": "json_schema", "schema": anthropic.transform_schema(Basket)}
    name = format_of(Basket)["schema"]["$defs"]["Item"]["properties"]["name"]
    assert name == {"type": "string", "title": "Name", "description": "Its name.\n\n{minLength: 1}"}


@rows("output", [Point, Named, list[Point], Open, Empty])
def test_types_with_a_schema(output: Any) -> None:
    """Each object in it is closed, as the API demands."""
    text = repr(format_of(output))
    assert text.count("'object'") == text.count("'additionalProperties': False") == 1


def test_a_plain_schema_is_closed_too() -> None:
    """The API refuses an open object, and few people write `additionalProperties`. Theirs stays as it is."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}
    assert format_of(schema)["schema"]["additionalProperties"] is False
    assert format_of(SENT)["schema"] == SENT
    assert "additionalProperties" not in schema
    assert format_of({"type": "array", "items": SENT})["schema"]["items"] == SENT


@rows(
    "output, said",
    [
        (Free, "counts: the API takes no object with names of its own"),
        ({"type": "object"}, "the API takes no object with names"),
        ({"type": "array", "items": {"anyOf": [{"type": "object"}]}}, "items: the API takes no object"),
        ({"type": ["object", "null"]}, "no form that the API takes"),
        ({}, "no form that the API takes"),
        ({"type": "wrong"}, "^output is not a JSON schema"),
        ({"type": "object", "properties": {"a": {"pattern": 3}}}, "pattern"),
        (3, "is no type"),
        ("Basket", "is no type"),
    ],
)
def test_what_no_request_can_ask_for(output: Any, said: str) -> None:
    """An error in the caller's own line, before anything is paid for."""
    with pytest.raises(UsageError, match=said):
        OutputFormat(output)


def test_prompted_takes_what_the_api_does_not() -> None:
    """No schema is sent, so any will do."""
    assert OutputFormat(Free, "prompted").check({"counts": {"a": 1}}) == Free(counts={"a": 1})
    assert OutputFormat({"type": ["object", "null"]}, "prompted").check(None) is None
    with pytest.raises(UsageError, match="output_mode"):
        OutputFormat(Free, "fenced")  # type: ignore[arg-type]  # a wrong mode


def test_the_rest_of_output_config_stays() -> None:
    """The effort and the budget are the user's."""
    request = {"output_config": {"effort": "low", "format": None}, "model": "m"}
    formatted = OutputFormat(SENT).request(request)
    assert formatted == {
        "model": "m",
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SENT}},
    }
    assert request["output_config"] == {"effort": "low", "format": None}
    # The same format is no conflict.
    assert OutputFormat(SENT).request(formatted) == formatted
    assert OutputFormat(SENT, "prompted").request(request) == request


@rows(
    "parameters, said",
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "both give a format"),
        ({"output_format": {"type": "json_schema"}}, "both give a format"),
        ({"output_config": "low"}, "must be a mapping"),
    ],
)
def test_two_formats(parameters: dict[str, Any], said: str) -> None:
    """None of them wins in silence."""
    with pytest.raises(UsageError, match=said):
        OutputFormat(SENT).request(parameters)


def test_values_are_not_converted() -> None:
    """A text that holds a number is no number, for a type and for a schema."""
    assert OutputFormat(Point).check({"x": 1}) == Point(1)
    assert OutputFormat(SENT).check({"a": 1}) == {"a": 1}
    wrong: list[tuple[Any, Any]] = [
        (Point, {"x": "1"}),
        (SENT, {"a": "1"}),
        (SENT, {"a": 1, "b": 2}),
        (SENT, []),
        (Point, {}),
    ]
    for output, value in wrong:
        with pytest.raises(InputError):
            OutputFormat(output).check(value)
