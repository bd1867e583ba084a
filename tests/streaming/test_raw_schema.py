"""`RawSchema`: the check of an input against a schema that was given."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import UsageError
from eagerstream.streaming._raw_schema import RawSchema
from eagerstream.tools import InputError
from tests.tables import rows
from tests.tools.schemas import an_object, doubled, fault_of, with_schema


@rows("value", [True, "1", 1.5, None, [1], {"a": 1}])
def test_nothing_is_coerced(value: Any) -> None:
    """Also `true` is no integer."""
    assert "'a'" in fault_of(an_object(a={"type": "integer"}), {"a": value})


def test_arguments_are_a_copy() -> None:
    """What a tool changes never reaches the input that is echoed; the values stay as they are."""
    input: dict[str, Any] = {"a": {"b": [1, 2.0, "x", None, True]}}
    arguments = RawSchema({"type": "object"}).check(input)
    assert arguments == input
    arguments["a"]["b"].clear()
    assert input == {"a": {"b": [1, 2.0, "x", None, True]}}
    assert RawSchema({"type": "object"}).check({"a": "\ud83d"}) == {"a": "\ufffd"}


def test_deep_inputs() -> None:
    """As deep as the limits allow: taken, or explained."""
    recursive = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    deep: dict[str, Any] = {}
    for _ in range(511):
        deep = {"a": deep}
    try:
        assert RawSchema(recursive).check(deep) == deep
    except InputError as error:
        assert "nested too deeply" in str(error)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)

_CHECKED = RawSchema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "array", "items": {"type": "string"}},
            "c": {"oneOf": [{"type": "integer"}, {"type": "object", "required": ["x"]}]},
            "d": {"not": {"type": "null"}},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
)


@given(input=st.dictionaries(st.sampled_from("abcd") | st.text(max_size=2), _ANY))
def test_any_input_is_taken_or_explained(input: dict[str, Any]) -> None:
    """Whatever the model writes: the same input, or one text that starts as all do."""
    try:
        assert _CHECKED.check(input) == input
    except InputError as error:
        assert str(error).startswith("Error: ")


# --- the schema itself ------------------------------------------------------------------------------------------------


@rows("schema", [{}, {"type": "array"}, {"properties": {}}, {"type": ["object", "null"]}])
def test_a_schema_of_something_else(schema: Any) -> None:
    """The input of a tool is an object: the API refuses a schema that does not say so."""
    with pytest.raises(UsageError, match="object"):
        with_schema(schema)


def test_dialects() -> None:
    """Draft 2020-12, unless the schema says otherwise; an unknown one is no reason to fail."""
    pair = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}
    fault_of({"type": "object", "properties": {"a": pair}}, {"a": [1, 2]})
    old = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": old}}
    fault_of(draft_7, {"a": [1, 2]})
    assert RawSchema({"$schema": "http://local/own", "type": "object"}).check({"a": 1}) == {"a": 1}


def test_local_references() -> None:
    """References inside the schema are followed, circles too."""
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


def test_a_definition_that_changes_afterwards() -> None:
    """Whoever gave the definition may use it for something else: the tool stays what it is."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = with_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    assert made.to_dict()["input_schema"] == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert made.check({"a": 1}) == {"a": 1}


# --- schemas that are made to take long -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        (doubled("allOf"), {"a": "s"}),
        (doubled("anyOf"), {"a": 1}),
        (doubled("oneOf"), {"a": 1}),
        (an_object(a={"anyOf": [{"type": "string"}] * 4_000}), {"a": ["a"] * 20_000}),
        (an_object(a={"allOf": [{"enum": [["a"] * 10_000]}] * 2 + [{"uniqueItems": True}] * 3_000}), {"a": [[]] * 1_000}),
        (an_object(a={"allOf": [{"$ref": "#/$defs/e"}] * 500}) | {"$defs": {"e": {"const": ["a"] * 5_000}}},
         {"a": ["a"] * 5_000}),
    ],
    ids=["allOf", "anyOf", "oneOf", "large faults", "uniqueItems", "const"],
)  # fmt: skip
def test_a_schema_that_asks_for_too_many_steps(
    schema: dict[str, Any], input: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check ends after as many as the size of the input allows, and the model is told."""
    monkeypatch.setattr("eagerstream.streaming._raw_schema._STEPS", 20_000)  # a 25th
    monkeypatch.setattr("eagerstream.streaming._raw_schema._STEPS_PER_CHAR", 1)
    start = time.thread_time()
    with pytest.raises(InputError):
        RawSchema(schema).check(input)
    assert time.thread_time() - start < 4  # 0.1 s at most; without a bound it takes minutes or years
