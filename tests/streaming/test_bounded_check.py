"""The check of an input against a schema of a peer: its time is bounded, whatever the schema asks for."""

from __future__ import annotations

import time
from typing import Any

import pytest

from eagerstream.streaming import _raw_schema
from eagerstream.streaming._raw_schema import RawSchema
from eagerstream.tools import InputError
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of


def test_patterns_and_unique_items() -> None:
    """Both are checked by our own code: a pattern says nothing of a number, and equal items may be written differently."""
    schema = an_object(
        code={"type": ["string", "integer"], "pattern": "^[A-Z]+$"},
        tags={"type": "array", "uniqueItems": True},
        words={"type": "array", "uniqueItems": False},
    )
    RawSchema(schema).check({"code": "AB", "tags": [1, 2, {"a": 1}], "words": ["a", "a"]})
    RawSchema(schema).check({"code": 7, "tags": []})
    assert "does not match '^[A-Z]+$'" in fault_of(schema, {"code": "ab"})
    assert "must differ from one another" in fault_of(schema, {"tags": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]})


def test_a_pattern_that_python_does_not_know_says_nothing() -> None:
    """Of any text: the tool's own server checks it."""
    RawSchema(an_object(a={"type": "string", "pattern": "^\\p{L}+$"})).check({"a": "7"})


_SLOW = "^(a+)+$"

_FOR_EVER = "a" * 60 + "!"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"pattern": _SLOW}}},
        {"type": "object", "patternProperties": {_SLOW: {"type": "null"}}, "additionalProperties": False},
        {"type": "object", "propertyNames": {"pattern": _SLOW}},
        {
            "type": "object",
            "properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": _SLOW}},
        },
        {
            "type": "object",
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}},
            "$defs": {"a": {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": _SLOW}},
        },
    ],
    ids=["pattern", "patternProperties", "propertyNames", "another dialect", "reference"],
)
def test_a_pattern_that_backtracks_is_not_matched(schema: dict[str, Any]) -> None:
    """Wherever it stands: it would take for ever, and nothing can stop it. The tool itself checks it."""
    input: dict[str, Any] = {"a": _FOR_EVER, _FOR_EVER: 1}
    assert RawSchema(schema).check(input) == input


def test_a_large_input_of_a_common_schema_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on the steps grows with the input: what is only long is not refused."""
    monkeypatch.setattr(_raw_schema, "_STEPS", 0)  # only what each character adds
    item = {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]}
    input: dict[str, Any] = {"a": [1] * 600}
    assert RawSchema(an_object(a={"type": "array", "items": item})).check(input) == input


def test_a_union_of_many_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """As editors of documents have them: each item is one of many types, and none of the others."""
    monkeypatch.setattr(_raw_schema, "_STEPS", _raw_schema._STEPS // 10)
    types = {
        f"t{number}": {
            "type": "object",
            "properties": {"type": {"const": f"t{number}"}, "text": {"type": "string"}, "level": {"type": "integer"}},
            "required": ["type", "text"],
            "additionalProperties": False,
        }
        for number in range(40)
    }
    item = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in types]}
    schema = an_object(a={"type": "array", "items": item}) | {"$defs": types}
    input: dict[str, Any] = {"a": [{"type": "t39", "text": "Words."}] * 10}
    assert RawSchema(schema).check(input) == input


def test_keywords_that_are_left_to_the_tool() -> None:
    """The time that jsonschema takes for them cannot be counted."""
    schema = {"type": "object", "unevaluatedProperties": False, "properties": {"a": {"unevaluatedItems": False}}}
    RawSchema(schema).check({"a": [1], "b": 1})
    inner = {"$recursiveAnchor": True, "properties": {"b": {"$recursiveRef": "#"}}, "type": "object"}
    old = "https://json-schema.org/draft/2019-09/schema"
    RawSchema({"$schema": old, "type": "object", "properties": {"a": inner}}).check({"a": {"b": 1}})
    new = {"$dynamicAnchor": "n", "type": "object", "properties": {"a": {"$dynamicRef": "#n"}}}
    RawSchema(new).check({"a": 1})


def _chain(length: int, last: dict[str, Any]) -> dict[str, Any]:
    """A schema whose references go through many schemas, each with a URI of its own."""
    named: dict[str, Any] = {f"d{n}": {"$id": f"http://x/{n}", "$ref": f"http://x/{n + 1}"} for n in range(length)}
    named["last"] = {"$id": f"http://x/{length}", **last}
    return {"type": "object", "$id": "http://x/root", "$defs": named, "properties": {"a": {"$ref": "http://x/0"}}}


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        (_chain(20, {"$dynamicAnchor": "z", "allOf": [{"$dynamicRef": "#y"}] * 100,
                     "$defs": {"y": {"$dynamicAnchor": "y"}}}), {"a": 1}),
        (_chain(20, {"allOf": [{"$ref": "#y"}] * 200, "$defs": {"y": {"$anchor": "y"}}}), {"a": 1}),
        (an_object(a={"items": {"enum": [{}] * 1_000 + [7]}}), {"a": [7] * 20}),
        (an_object(a={"allOf": [
            {"patternProperties": {f"^{n}_{m}$": {} for m in range(100)}, "additionalProperties": {}}
            for n in range(3)
        ] * 5}), {"a": {"b": 1}}),
    ],
    ids=["dynamic references", "references", "enum", "patterns"],
)  # fmt: skip
def test_what_no_check_does(schema: dict[str, Any], input: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """References are followed and patterns compiled before a check, or at the first one, so a check never does that."""
    checked = RawSchema(schema)
    assert checked.faults == []
    checked.check(input)
    with monkeypatch.context() as patched:  # no longer: pytest compiles patterns, too
        patched.setattr("referencing._core.Registry.crawl", lambda _: pytest.fail("the schema was crawled"))
        patched.setattr("referencing._core.Resolver.lookup", lambda *_: pytest.fail("a reference was looked up"))
        patched.setattr("re._compiler.compile", lambda *_: pytest.fail("a pattern was compiled"))
        start = time.thread_time()
        assert checked.check(input) == input
        assert time.thread_time() - start < 5  # 0.02 s at most


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        ({"enum": [{}] * 4_000 + [7]}, [7] * 100),
        ({"enum": [{"a": {}}] * 2_000 + [{"a": {"b": 1}}]}, [{"a": {"b": 1}}] * 50),
        ({f"k{n}": 0 for n in range(4_000)}, [1] * 2_000),
    ],
    ids=["enum", "enum of objects", "keywords that nobody knows"],
)
def test_the_price_of_a_keyword(schema: dict[str, Any], input: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is counted for each microsecond or so, whatever is compared: without that, they take ten times as long."""
    monkeypatch.setattr("eagerstream.streaming._raw_schema._STEPS", 20_000)  # a 25th
    monkeypatch.setattr("eagerstream.streaming._raw_schema._STEPS_PER_CHAR", 2)
    checked = RawSchema(an_object(a={"items": schema}))
    start = time.thread_time()
    with pytest.raises(InputError, match="too long"):
        checked.check({"a": input})
    assert time.thread_time() - start < 1.5  # 0.05 s


@rows("frames", range(0, 60, 7))
def test_a_reference_to_itself(frames: int) -> None:
    """It ends before Python's own bound: a panic in jsonschema's look-ups, which is no `Exception`, would pass all by."""
    schema = {
        "type": "object",
        "allOf": [{"type": "object"}, {"$ref": "#"}],
        "anyOf": [{"$ref": "#"}, {"type": "array"}],
    }

    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)
        else:
            RawSchema(schema).check({"a": 1})

    with pytest.raises(InputError, match="nested too deeply"):
        deeper(frames)


def test_a_number_that_jsonschema_cannot_divide() -> None:
    """What jsonschema fails at is a fault of the input, in words for the model."""
    text = fault_of(an_object(a={"multipleOf": 0.1}), {"a": 10**400})
    assert text.startswith("Error: the input cannot be checked")
