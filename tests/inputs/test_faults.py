"""`InputFaults`: the faults of an input, in words for the model."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream.inputs import InputError
from eagerstream.tools import tool
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of


async def by_function(location: str, unit: str = "c") -> None:
    """The same tool, made from a function."""


BY_FUNCTION = tool(by_function)

BY_SCHEMA = an_object(("location",), location={"type": "string"}, unit={"type": "string"})


@rows(
    "input, expected",
    [
        ({}, "Error: Missing required 'location' parameter"),
        ({"location": "Oslo", "wind": 1}, "Error: Unknown parameter 'wind'"),
        (
            {"wind": 1},
            "Error: Missing required 'location' parameter; Unknown parameter 'wind'",
        ),
    ],
)
def test_wording(input: dict[str, Any], expected: str) -> None:
    """One wording, whether a schema was given or made from a function."""
    assert fault_of(BY_SCHEMA, input) == expected
    with pytest.raises(InputError) as caught:
        BY_FUNCTION.check(input)
    assert str(caught.value) == expected


def test_wording_of_wrong_types() -> None:
    """Which parameter, what was expected, what came: of a given schema and of a function."""
    text = fault_of(BY_SCHEMA, {"location": "Oslo", "unit": 3})
    assert text == "Error: Invalid parameter 'unit': expected string, got 3"
    with pytest.raises(InputError) as caught:
        BY_FUNCTION.check({"location": "Oslo", "unit": 3})
    assert str(caught.value).startswith("Error: Invalid parameter 'unit': ")
    assert str(caught.value).endswith(", got 3")
    assert fault_of(an_object(("a", "b")), {}).startswith("Error: Missing required parameters: 'a', 'b'")


def test_all_faults_at_once() -> None:
    """Golden: every fault with its path, in one line."""
    schema = an_object(
        ("location",),
        location={"type": "string"},
        unit={"enum": ["c", "f"]},
        days={"type": "integer", "minimum": 1},
        four={"const": 4},
        code={"type": "string", "pattern": "^[A-Z]+$"},
        spots={"type": "array", "items": an_object(("name",), name={"type": "string"}, height={"type": "number"})},
    )
    spots = [{"name": "a"}, {"height": "high", "wide": 1}, 7]
    text = fault_of(schema, {"unit": "k", "days": 0, "four": 5, "code": "x", "spots": spots, "wind": None})
    assert text.startswith("Error: Missing required parameters: ")
    told = set(text.removeprefix("Error: ").split("; "))
    first = next(part for part in told if part.startswith("Missing"))
    assert {"'location'", "'spots[1].name'"} == set(first.removeprefix("Missing required parameters: ").split(", "))
    assert told - {first} == {
        "Unknown parameter 'wind'",
        "Unknown parameter 'spots[1].wide'",
        'Invalid parameter \'unit\': expected ["c", "f"], got "k"',
        "Invalid parameter 'days': expected minimum 1, got 0",
        "Invalid parameter 'four': expected 4, got 5",
        'Invalid parameter \'code\': expected pattern "^[A-Z]+$", got "x"',
        "Invalid parameter 'spots[1].height': expected number, got \"high\"",
        "Invalid parameter 'spots[2]': expected object, got 7",
    }


def test_names_that_look_like_something_else() -> None:
    """A missing name with quotes in it, a pattern that allows one, a property that is called like a keyword."""
    assert "it's" in fault_of({"type": "object", "required": ["it's"]}, {})
    schema = {
        "type": "object",
        "properties": {"required": {"type": "string"}},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    assert fault_of(schema, {"x-a": 1, "y": 2}) == "Error: Unknown parameter 'y'"
    assert fault_of(schema, {"required": 1}) == "Error: Invalid parameter 'required': expected string, got 1"


def test_a_missing_name_is_told_once() -> None:
    """Schemas that are put together say things twice; the model needs it once."""
    schema = {"type": "object", "required": ["a"], "allOf": [{"required": ["a"]}]}
    assert fault_of(schema, {}) == "Error: Missing required 'a' parameter"


def test_expected_values_are_told_as_json() -> None:
    """The model writes JSON: it is told of `null` and `true`, as the rest of the message does."""
    text = fault_of(an_object(a={"enum": ["x", None, True]}), {"a": "y"})
    assert "null" in text
    assert "None" not in text


def test_long_values_are_not_repeated() -> None:
    """A fault in a large input, or with a large schema, is told in a few words."""
    assert len(fault_of(an_object(a={"type": "integer"}), {"a": "x" * 1_000_000})) < 400
    assert len(fault_of(an_object(a={"anyOf": [{"type": "integer"}]}), {"a": ["x" * 1_000_000]})) < 1000
    assert len(fault_of(an_object(a={"enum": [str(n) for n in range(10_000)]}), {"a": 1})) < 1000


def test_many_faults() -> None:
    """A hundred are told, and that there are more: to look for them all may cost more than they are worth."""
    schema = an_object(a={"type": "array", "items": {"type": "integer"}})
    text = fault_of(schema, {"a": ["x"] * 5000})
    assert text.count("expected integer") == 100
    assert text.endswith("; and more faults")
