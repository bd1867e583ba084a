"""`SchemaForm`: a schema of a peer is refused before it can cost time, and its references are followed."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.streaming._raw_schema import RawSchema
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of, nested, with_schema


@rows(
    "schema",
    [
        {"type": "strin"},
        {"type": "object", "properties": {"a": {"type": 3}}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"multipleOf": 0}}},
    ],
)
def test_what_is_no_schema(schema: Any) -> None:
    """Said when the tool is defined."""
    with pytest.raises(UsageError, match="not a JSON schema"):
        with_schema(schema)


def test_a_dialect_that_is_no_text() -> None:
    """A mistake in our words, as all others of a definition."""
    with pytest.raises(UsageError):
        with_schema({"type": "object", "$schema": ["2020-12"]})


def test_a_pattern_that_python_does_not_know() -> None:
    """Servers written in JavaScript have such patterns: no reason to refuse a tool that the API takes."""
    assert with_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}}}).name == "f"


_REMOTE = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}


def test_remote_references_are_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema comes from others: checking an input must not send anything anywhere."""

    def refuse(*_: Any, **__: Any) -> Any:
        pytest.fail("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    checked = RawSchema(_REMOTE)
    with pytest.raises(Exception, match=r"schema\.json"):
        checked.check({"a": 1})


@rows(
    "schema",
    [_REMOTE, {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}}],
)
def test_references_that_cannot_be_followed(schema: dict[str, Any]) -> None:
    """A fault of the definition, told when it is made; nothing that the model could mend."""
    with pytest.raises(UsageError, match=r"\$ref|reference"):
        with_schema(schema)


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


def test_patterns_are_compiled_when_they_are_needed() -> None:
    """A tool whose inputs others check never needs them."""
    checked = RawSchema(an_object(a={"pattern": "^a$"}))
    assert "patterns" not in vars(checked._form)
    checked.check({"a": "a"})
    assert "patterns" in vars(checked._form)


def test_a_pattern_that_is_not_checked_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    schema = an_object(a={"pattern": "^(x|yy)*logged$"}, b={"pattern": "^[a-z]+$"})
    for _ in range(2):
        checked = RawSchema(schema)
        assert checked.check({"a": "ZZZ", "b": "z"}) == {"a": "ZZZ", "b": "z"}
        checked.check({"a": "again", "b": "z"})
    (told,) = caplog.messages
    assert "'^(x|yy)*logged$'" in told


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (an_object(a={"enum": [*range(101_000)]}), "too large: .* 100,000 char"),
        (an_object(a=nested(70)), "too large: .* 64 containers"),
        (an_object(a={"type": [number if number % 2 else str(number) for number in range(9_000)]}), "name of a type"),
        (an_object(a={"multipleOf": 7**9_000}), "positive number"),
        (an_object(a={"allOf": [{"$ref": f"#a{n}"} for n in range(2_000)]}), r"\$ref"),
        (an_object(a={"allOf": [{"$ref": f"http://y/{n}"} for n in range(1_500)]}), r"\$ref"),
        (an_object(a={"allOf": [{"$id": "a"}] * 500}) | {"$id": "http://x/" + "a/" * 25_000}, "long URIs"),
        ({"type": "object", "$ref": "https://json-schema.org/draft/2020-12/schema"}, r"\$ref"),
    ],
    ids=["chars", "depth", "types", "number", "anchors", "URIs", "long URIs", "dialect"],
)
def test_a_schema_that_is_refused_before_it_costs_time(schema: dict[str, Any], what: str) -> None:
    """The fault is told in a few words, and however many there are, only a few are looked for."""
    start = time.thread_time()
    with pytest.raises(UsageError, match=what) as caught:
        with_schema(schema)
    assert len(str(caught.value)) < 1_000
    assert time.thread_time() - start < 5  # 0.1 s at most; a crawl for each reference takes 10 s
