"""`faults_of`: all faults of an input, each at its place, found with a bounded amount of work."""

from __future__ import annotations

import time
from typing import Any

import pytest

from eagerstream.inputs import InputError, _schema_faults
from eagerstream.inputs._raw_schema import RawSchema
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of


def test_through_references() -> None:
    """Circles too."""
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "#/$defs/Tree"}}},
            }
        },
    }
    text = fault_of(schema, {"tree": {"name": "a", "children": [{"name": "b"}, {"name": 1}]}})
    assert text == "Error: Invalid parameter 'tree.children[1].name': expected string, got 1"


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": ["string", "null"]}, 1, "expected string or null, got 1"),
        ({"minLength": 3}, "x", 'expected minLength 3, got "x"'),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "expected uniqueItems true, got"),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}, None,
         'expected a value that fits {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}, got null'),
        ({"not": {"const": 1}, "title": "T"}, 1, 'expected a value that fits {"not": {"const": 1}}, got 1'),
        (False, 1, "expected a value that fits false, got 1"),
        ({"contains": {"const": 1}, "description": "D."}, [2], 'expected a value that fits {"contains": {"const": 1}}'),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, 1, "expected string, got 1"),
        ({"items": {"type": "integer"}, "prefixItems": [{"type": "string"}]}, [1], None),
        ({"additionalProperties": {"type": "integer"}}, {"k": "x"}, None),
    ],
)  # fmt: skip
def test_what_is_told(schema: Any, value: Any, told: str | None) -> None:
    """In the words of the schema, without what only describes it."""
    whole = an_object(a=schema) | {"$defs": {"n": {"type": "integer"}}}
    text = fault_of(whole, {"a": value})
    assert text.startswith("Error: Invalid parameter 'a")
    assert told is None or told in text
    assert told is not None or "expected string, got 1" in text or "'a.k': expected integer" in text


def test_the_same_part_by_two_ways() -> None:
    """It is told once."""
    schema = an_object(a={"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}) | {
        "$defs": {"n": {"type": "integer"}}
    }
    assert fault_of(schema, {"a": "x"}) == "Error: Invalid parameter 'a': expected integer, got \"x\""


def test_one_fault_behind_many_values() -> None:
    """It is found: what fits is passed by quickly."""
    schema = an_object(a={"items": {"type": "string"}})
    text = fault_of(schema, {"a": ["x"] * 50_000 + [1]})
    assert text == "Error: Invalid parameter 'a[50000]': expected string, got 1"


def test_faults_at_every_level() -> None:
    """An expression, 20 levels of it: an engine that lists the faults of all alternatives takes 4^20 steps."""
    either = {"anyOf": [{"$ref": "#/$defs/add"}, {"$ref": "#/$defs/mul"}, {"type": "number"}]}
    operations = {
        name: {
            "type": "object",
            "properties": {"op": {"const": name}, "a": either, "b": either},
            "required": ["op", "a"],
        }
        for name in ("add", "mul")
    }
    value: Any = "x"
    for _ in range(20):
        value = {"op": "mul", "a": value, "b": 1}
    start = time.thread_time()
    text = fault_of(an_object(x=either) | {"$defs": operations}, {"x": value})
    assert text.startswith("Error: Invalid parameter 'x': expected a value that fits")
    assert time.thread_time() - start < 2  # 0.01 s


@rows("steps", [0, 20_000, 1_000_000])
def test_a_search_that_is_stopped(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is told, and that there may be more; at least, where something does not fit."""
    monkeypatch.setattr(_schema_faults, "MAX_STEPS", steps)
    item = an_object(("b",), b={"type": "array", "items": {"type": "integer"}})
    input = {"a": [{"b": [1, "x"]} for _ in range(90)]}
    text = fault_of(an_object(a={"type": "array", "items": item}), input)
    assert text.startswith("Error: Invalid ")
    assert text.endswith("; and more faults")


def test_what_the_faults_cost() -> None:
    """Many of them, in a large value, by a schema that says all of it often."""
    schema = an_object(a={"allOf": [{"items": {"type": "string"}}, {"maxItems": 1}] * 100})
    start = time.thread_time()
    with pytest.raises(InputError) as caught:
        RawSchema(schema).check({"a": [1] * 50_000})
    assert len(str(caught.value)) < 20_000
    assert time.thread_time() - start < 5  # 0.5 s


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": {"items": {"type": "string"}}},
        {"additionalProperties": {"additionalProperties": False}},
        {"additionalProperties": {"required": [f"r{number}" for number in range(4_000)]}},
        {"additionalProperties": False},
    ],
)
def test_long_names(schema: dict[str, Any]) -> None:
    """They are cut, and told a hundred times at most: the text goes to the model."""
    name = "k" * 300_000
    values: list[Any] = [[1] * 150, {f"u{number}": 1 for number in range(1_000)}, {}]
    for value in values:
        try:
            RawSchema({"type": "object", **schema}).check({name: value})
        except InputError as error:
            assert len(str(error)) < 100_000
