"""`References`: what each `$ref` of a schema leads to, and nothing is fetched."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.inputs._raw_schema import RawSchema
from eagerstream.inputs._schema_references import References, schemas_in
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of, with_schema


def test_schemas_and_values() -> None:
    """A property may have the name of a keyword, and a default may look like a schema."""
    inner: dict[str, Any] = {"title": "inner"}
    value: dict[str, Any] = {"title": "value"}
    schema = {
        "properties": {"default": inner, "enum": inner},
        "items": [inner, True],
        "x-unknown": {"not": inner},
        "default": value,
        "enum": [value],
        "dependencies": {"a": ["b"], "c": inner},
    }
    found = list(schemas_in(schema))
    assert [item for item in found if item is inner] == [inner] * 4  # nobody knows what an unknown keyword has
    assert value not in found


_REMOTE = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}


def test_remote_references_are_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema comes from others: checking an input must not send anything anywhere."""

    def refuse(*_: Any, **__: Any) -> Any:
        pytest.fail("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    (fault,) = RawSchema(_REMOTE).faults
    assert "schema.json" in fault


@rows(
    "schema",
    [
        _REMOTE,
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "#missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/required/1"}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"$ref": "#/required/0"}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"$ref": "#/required/x"}}, "required": ["b"]},
    ],
)
def test_references_that_cannot_be_followed(schema: dict[str, Any]) -> None:
    """A fault of the definition, told when it is made; nothing that the model could mend."""
    with pytest.raises(UsageError, match=r"has a \$ref to what is not in it"):
        with_schema(schema)


@rows(
    "schema",
    [
        {"type": "object", "allOf": [{"type": "object"}, {"$ref": "#"}]},
        an_object(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}},
        an_object(a={"$ref": "#/$defs/a"})
        | {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
        an_object(a=True) | {"$defs": {"a": {"oneOf": [True, {"if": {"$ref": "#/$defs/a"}}]}}},
        an_object(a={"dependentSchemas": {"b": {"anyOf": [{"$ref": "#/properties/a"}]}}}),
    ],
)
def test_loops(schema: dict[str, Any]) -> None:
    """A value would have to fit in order to fit: every validator says something else about that."""
    for is_foreign in (False, True):
        (fault,) = RawSchema(schema, is_foreign=is_foreign).faults
        assert fault == "input_schema has a part that refers to itself for the same value"


def test_what_an_old_reference_replaces_is_no_loop() -> None:
    """It is not looked at."""
    part = {"$ref": "#/definitions/b", "allOf": [{"$ref": "#/definitions/a"}]}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": part}}
    assert RawSchema({**old, "definitions": {"a": part, "b": {}}}).faults == []


def test_many_ways_are_no_loop() -> None:
    """Two ways to the same part, and a way back through what is in a value."""
    both = {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]}
    parts = {"a": both, "b": {"$ref": "#/$defs/c"}, "c": {"properties": {"k": {"$ref": "#/$defs/a"}}}}
    schema = an_object(a={"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}) | {"$defs": parts}
    assert RawSchema(schema).faults == []


def test_names_with_marks_in_them() -> None:
    """As JSON pointers in URIs write them; and items of lists."""
    name = 'a/b~c% ü"'
    schema: dict[str, Any] = {
        "$defs": {name: {"allOf": [True, {"title": "found"}]}},
        "$ref": "#/$defs/a~1b~0c%25%20%C3%BC%22/allOf/1",
    }
    (target,) = References(schema, "").targets.values()
    assert target == {"title": "found"}


@rows("place", ["#/default/x", "#/x-parts/x", "#/examples/0/x"])
def test_a_reference_to_a_place_of_no_schema(place: str) -> None:
    """What is found there is a schema, with references of its own, and all that is said of schemas holds for it."""
    part: dict[str, Any] = {"items": {"$ref": "#/$defs/n"}, "$schema": "http://127.0.0.1:9/never-fetched"}
    schema = an_object(a={"$ref": place}) | {"$defs": {"n": {"type": "integer"}}}
    schema |= {"default": {"x": part}, "x-parts": {"x": part}, "examples": [{"x": part}]}
    assert RawSchema(schema).check({"a": [1]}) == {"a": [1]}
    assert "expected integer" in fault_of(schema, {"a": ["x"]})
    for wrong, told in (
        ({"pattern": "("}, "the pattern '('"),
        ({"type": 5}, "type cannot be 5"),
        ({"$dynamicRef": "#"}, "$d"),
    ):
        part.clear()
        part.update(wrong)
        (fault,) = RawSchema(schema).faults
        assert told in fault


def test_a_value_that_is_also_a_schema() -> None:
    """It stays as it is: what it says of references is a text there."""
    schema = {"type": "object", "properties": {"a": {"const": {"$ref": "#"}}, "b": {"$ref": "#/properties/a/const"}}}
    assert RawSchema(schema).check({"a": {"$ref": "#"}, "b": {}}) == {"a": {"$ref": "#"}, "b": {}}
    assert 'expected {"$ref": "#"}' in fault_of(schema, {"a": 1})
    assert "'b': expected object" in fault_of(schema, {"b": 1})


def test_many_places_of_no_schema() -> None:
    """Each is copied, so their size is bounded."""
    inner: dict[str, Any] = {}
    for number in range(40):
        inner = {"k": inner, "n": list(range(300)), "x": number}
    places = ["#/default" + "/k" * depth + "?" * n for depth in range(40) for n in range(2)]
    schema = an_object(a={"allOf": [{"$ref": place} for place in places if "?" not in place]}) | {"default": inner}
    (fault,) = RawSchema(schema).faults
    assert "too many references to what is no schema" in fault


def test_references_through_other_uris() -> None:
    """By the URI of a schema, by an anchor in it, by a relative one, and by a place in it; each in its own base URI."""
    inner = {"$id": "http://x/dir/inner", "$anchor": "top", "$defs": {"n": {"$anchor": "n", "type": "integer"}},
             "properties": {"own": {"$ref": "#n"}, "place": {"$ref": "#/$defs/n"}}}  # fmt: skip
    outer = {"n": {"$anchor": "n", "type": "string"}, "inner": inner}
    references = {"uri": "dir/inner", "anchor": "http://x/dir/inner#n", "relative": "/dir/inner#top", "mine": "#n"}
    given: dict[str, Any] = {name: {"$ref": reference} for name, reference in references.items()}
    schema = {"type": "object", "properties": given, "$id": "http://x/root", "$defs": outer}
    good: dict[str, Any] = {"own": 1, "place": 1}
    input = {"uri": good, "anchor": 1, "relative": good, "mine": "a"}
    assert RawSchema(schema).check(input) == input
    bad: dict[str, Any] = {"own": "a", "place": "a"}
    text = fault_of(schema, {"uri": bad, "anchor": "a", "relative": bad, "mine": 1})
    assert text.count("expected integer") == 5
    assert text.count("expected string") == 1


def test_references_in_a_schema_with_a_uri_of_its_own() -> None:
    """They start at its URI, and at the URI of the schema around it, also if no reference leads there."""

    def schema_of(kind: str, **properties: Any) -> dict[str, Any]:
        return {"$defs": {"n": {"type": kind}}, "properties": {"own": {"$ref": "#/$defs/n"}, **properties}}

    deepest = {"$id": "deepest", **schema_of("boolean")}
    inner = {"$id": "dir/inner", **schema_of("integer", deepest=deepest, beside={"$ref": "deepest#/$defs/n"})}
    schema = {"type": "object", "$id": "http://x/root", **schema_of("string", inner=inner)}
    input = {"own": "a", "inner": {"own": 1, "deepest": {"own": True}, "beside": True}}
    assert RawSchema(schema).check(input) == input
    text = fault_of(schema, {"own": None, "inner": {"own": None, "deepest": {"own": None}, "beside": None}})
    told = [text.count(f"expected {kind}") for kind in ("string", "integer", "boolean")]
    assert told == [1, 1, 2]


def test_a_urn() -> None:
    """References are relative to it, although nothing can be joined with it."""
    schema = an_object(a={"$ref": "#n"}, b={"$ref": "urn:x:root#/$defs/n"}) | {"$id": "urn:x:root"}
    schema["$defs"] = {"n": {"$anchor": "n", "type": "integer"}}
    assert fault_of(schema, {"a": "a", "b": "b"}).count("expected integer") == 2


@rows("number", [4, 6, 7])
def test_what_is_beside_a_reference(number: int) -> None:
    """Old dialects ignore it, its URI too; new ones do not."""
    beside = {"$ref": "#/definitions/n", "id": "http://y", "$id": "http://y", "maximum": 1}
    schema = {"type": "object", "properties": {"a": beside}, "definitions": {"n": {"type": "integer"}}}
    old = {"$schema": f"http://json-schema.org/draft-0{number}/schema#", **schema}
    assert RawSchema(old).check({"a": 2}) == {"a": 2}
    assert "expected integer" in fault_of(old, {"a": "x"})
    del beside["$id"]
    assert "expected maximum 1" in fault_of(schema, {"a": 2})


@rows(
    "schema",
    [
        an_object(a={"allOf": [{"$ref": f"#a{n}"} for n in range(2_000)]}),
        an_object(a={"allOf": [{"$ref": f"http://y/{n}"} for n in range(1_500)]}),
        an_object(a={"allOf": [{"$id": "a"}] * 500}) | {"$id": "http://x/" + "a/" * 25_000},
        an_object(a={"properties": {f"p{n}": {"$ref": f"#/$defs/{'a' * n}"} for n in range(400)}}),
    ],
)
def test_a_schema_that_is_refused_before_it_costs_time(schema: dict[str, Any]) -> None:
    """The first fault is told in a few words."""
    start = time.thread_time()
    (fault,) = RawSchema(schema).faults
    assert "$ref" in fault or "1,000 characters" in fault
    assert len(fault) < 400
    assert time.thread_time() - start < 5  # 0.02 s at most
