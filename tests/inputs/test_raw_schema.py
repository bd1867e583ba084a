"""`RawSchema`: the check of an input against a schema that was given."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream._support import warn_once
from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream.inputs._raw_schema import RawSchema
from eagerstream.tools import ForeignDefinition, tool
from tests.tables import rows
from tests.tools.schemas import an_object, fault_of, nested, with_schema


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


def test_lone_surrogates() -> None:
    """They are replaced before the check, in the schema too: what the tool gets is what was checked."""
    assert RawSchema({"type": "object"}).check({"a": "\ud83d"}) == {"a": "\ufffd"}
    schema = an_object(a={"enum": ["\ud83d"]}, b={"pattern": "^\ufffd$"}, c={"maxLength": 1})
    input = {"a": "\ud83d", "b": "\ud83d", "c": "\udc00"}
    assert RawSchema(schema).check(input) == dict.fromkeys("abc", "\ufffd")


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
        assert len(str(error)) > 20


# --- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("^[A-Z]+$", "AB", "ab"),
        ("^(a|b)*c$", "abac", "ZZZ"),
        ("^(a+)+$", "aaa", "a" * 60 + "!"),
        ("^(ab?)+$", "aab", "ZZZ"),
        (r"^\p{L}+$", "é", "7"),
        (r"^\d+$", "7", "\u0663"),  # as in JavaScript, no digits of other scripts
        ("^a$", "a", "a\n"),
        (r"^\/a\-[[]$", "/a-[", "/a-"),
        ("b", "abc", "ac"),
        (r"^[\p{L}\p{N} ]{1,64}$", "é 1", "!"),
        (r"\S{300}[cd]", "x" * 300 + "c", "x" * 300),  # a large one
        ("^(?!x)[a-z]+$", "ax", "xa"),
        (r"^(.)\1$", "aa", "ab"),
        (
            r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
            "some.body+tag@mail.example.org",
            "some..body@example.org",
        ),
    ],
)
def test_patterns(pattern: str, fits: str, does_not: str) -> None:
    """All are matched, also those that would take for ever in Python."""
    start = time.thread_time()
    schema = an_object(a={"type": ["string", "integer"], "pattern": pattern})
    for value in (fits, 7):
        assert RawSchema(schema).check({"a": value}) == {"a": value}
    assert "Invalid parameter 'a': expected pattern" in fault_of(schema, {"a": does_not})
    named = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}
    assert RawSchema(named).check({fits: 1}) == {fits: 1}
    assert fault_of(named, {does_not: 1}).startswith("Error: Unknown parameter ")
    assert "expected a value that fits" in fault_of(named, {fits: "x"})
    assert time.thread_time() - start < 2  # 0.02 s


def test_a_large_pattern_beside_one_that_looks_around() -> None:
    """Each needs another engine, and one engine has to take both."""
    schema = an_object(a={"pattern": r"\S{300}[cd]"}, b={"pattern": "^(?!x)"})
    assert RawSchema(schema).check({"a": "x" * 300 + "c", "b": "y"})
    assert fault_of(schema, {"a": "x", "b": "x"}).count("expected pattern") == 2
    assert RawSchema(an_object(b={"pattern": "^(?!x)"}, a={"pattern": r"\S{300}[cd]"})).faults == []


@rows("pattern", ["(", "[z-a]", r"^a\Z", "(?P<x>a)(?P=y)", "(a{1000}){1000}", "(?<=a+b*)c("])
def test_patterns_that_no_engine_takes(
    pattern: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of a definition of one's own. What another program wrote is used, and the log says what is not checked."""
    monkeypatch.setattr(warn_once, "_warned", set())
    text = an_object(a={"type": "string", "pattern": pattern})
    named = {"type": "object", "patternProperties": {pattern: {}, "^b": {}}, "additionalProperties": False}
    for schema, input in ((text, {"a": "?"}), (named, {"?": 1})):
        with pytest.raises(UsageError) as caught:
            with_schema(schema)
        assert f"the pattern {pattern!r}, which cannot be checked" in str(caught.value)
        for _ in range(2):
            assert RawSchema(schema, is_foreign=True).check(input) == input
    told = [message for message in caplog.messages if repr(pattern) in message]
    assert told == [f"the inputs of a tool are not checked for the pattern {pattern!r} of its schema"]


def test_the_rest_of_a_foreign_definition_is_checked() -> None:
    """One part that nobody can check is no reason to check nothing."""

    async def f(input: dict[str, Any]) -> None: ...

    schema = an_object(("a",), a={"type": "string", "pattern": "(foreign"}, b={"type": "integer"})
    definition = ForeignDefinition(name="f", description="F.", input_schema=schema)
    made = tool(f, definition=definition)
    assert made.check({"a": "ZZZ"}) == {"a": "ZZZ"}
    with pytest.raises(InputError, match="expected integer"):
        made.check({"a": "ZZZ", "b": "x"})
    assert made.to_dict()["input_schema"] == schema


@pytest.mark.parametrize("uncheckable", [{"pattern": "(?P<n>a)(?P=n)"}, {"$dynamicRef": "#s"}, {"$ref": "#/$defs/x"}])
@pytest.mark.parametrize("around", ["not", "oneOf", "if", "contains"])
def test_what_is_removed_refuses_nothing(around: str, uncheckable: dict[str, Any]) -> None:
    """Without a part inside, a keyword by which a value must not fit would say more, not less."""
    inside: Any = [uncheckable, False] if around == "oneOf" else uncheckable
    beside = {"then": False} if around == "if" else {"maxContains": 0} if around == "contains" else {}
    defs = {"x": {"pattern": "(?P<n>a)(?P=n)"}, "s": {"$dynamicAnchor": "s", "type": "null"}}
    schema = {"type": "object", "properties": {"a": {around: inside, **beside}, "b": {"type": "null"}}, "$defs": defs}
    checked = RawSchema(schema, is_foreign=True)
    for value in ("aa", 1, ["aa"], ["x"]):
        assert checked.check({"a": value}) == {"a": value}
    with pytest.raises(InputError, match="'b': expected null"):
        checked.check({"b": 1})


def test_what_is_left_over_in_a_foreign_schema() -> None:
    """It is not checked if it is not known what other parts evaluate."""
    named = {"allOf": [{"patternProperties": {"(?P<n>a)(?P=n)": {}}}], "unevaluatedProperties": False}
    dynamic = {
        "$defs": {"s": {"$dynamicAnchor": "s", "properties": {"q": {}}}},
        "$dynamicRef": "#s",
        "unevaluatedProperties": False,
    }
    for part in (named, dynamic, {"unevaluatedProperties": {"type": "integer"}}):
        assert RawSchema({"type": "object", **part}, is_foreign=True).check({"aa": 1, "q": "x"}) == {"aa": 1, "q": "x"}


def test_unevaluated_schemas_inside_one_another(caplog: pytest.LogCaptureFixture) -> None:
    """The library checks what is inside three times at each level."""
    schema: dict[str, Any] = {}
    for _ in range(25):
        schema = {"allOf": [schema], "unevaluatedProperties": {"minimum": 0}}
    assert "unevaluatedProperties" in RawSchema({"type": "object", **schema}).faults[0]
    assert RawSchema({"type": "object", **schema}, is_foreign=True).check({"a": 1}) == {"a": 1}
    flags: dict[str, Any] = {}
    for _ in range(25):
        flags = {"allOf": [flags], "unevaluatedProperties": True}
    start = time.thread_time()
    assert RawSchema({"type": "object", **flags}).check({"a": 1}) == {"a": 1}
    assert time.thread_time() - start < 2  # 0.001 s


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "eagerstream-reference": "foo"},
        {"type": "object", "properties": {"a": {"eagerstream-reference": {}}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": {"prefixItems": 5}},
        },
        {"type": "object", "example": {"pattern": "("}, "x-meta": {"$ref": "http://foo/bar"}},
    ],
)
def test_what_means_nothing(schema: dict[str, Any]) -> None:
    """Keywords of others, also our own for references, and those of other dialects."""
    assert RawSchema(schema).check({"a": [1]}) == {"a": [1]}


def test_items_in_old_dialects() -> None:
    """Nothing is invented of `prefixItems`, which they do not have."""
    part = {"prefixItems": [{"type": "string"}], "minItems": 3}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": part}}
    assert fault_of(old, {"a": [1]}) == "Error: Invalid parameter 'a': expected minItems 3, got [1]"


def test_a_schema_is_never_fetched() -> None:
    """Neither by a reference, nor by a dialect, wherever that is written."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/s"
        named = {"$schema": url, "$id": url, "type": "integer"}
        schema = {"type": "object", "properties": {"a": {"$ref": "#/default"}, "b": named}, "default": named}
        for dialect in ({}, {"$schema": url}):
            RawSchema({**schema, **dialect}).check({"a": 1, "b": 1})
        with suppress(TimeoutError):
            asked.append(listener.accept()[0].recv(100))
    assert asked == []


def test_many_large_patterns() -> None:
    """They are compiled up to a bound: a schema of 100 KB could have some that take a minute."""
    patterns: dict[str, Any] = {f"p{n}": {"pattern": f"(a{{{900 + n}}}){{{900}}}"} for n in range(1_000)}
    start = time.thread_time()
    faults = RawSchema(an_object(**patterns)).faults
    assert len(faults) == 10
    assert time.thread_time() - start < 10  # 0.4 s


# --- the schema itself ------------------------------------------------------------------------------------------------


@rows("schema", [{}, {"type": "array"}, {"properties": {}}, {"type": ["object", "null"]}])
def test_a_schema_of_something_else(schema: Any) -> None:
    """The input of a tool is an object: the API refuses a schema that does not say so."""
    with pytest.raises(UsageError, match="object"):
        with_schema(schema)


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"type": "strin"}, 'type cannot be "strin"'),
        ({"type": "object", "properties": {"a": {"type": 3}}}, r"properties\.a\.type cannot be 3"),
        ({"type": "object", "required": "a"}, 'required cannot be "a"'),
        ({"type": "object", "properties": []}, r"properties cannot be \[\]"),
        (an_object(a={"multipleOf": 0}), r"properties\.a\.multipleOf cannot be 0"),
        ({"type": "object", "$schema": ["2020-12"]}, r"\$schema cannot be \[\"2020-12\"\]"),
        (an_object(a={"type": [str(number) for number in range(9_000)]}), r"properties\.a\.type cannot be"),
        (an_object(a={"multipleOf": 7**9_000}), "integer"),
    ],
)
def test_what_is_no_schema(schema: Any, what: str) -> None:
    """Said when the tool is defined, with the place, in a few words."""
    with pytest.raises(UsageError, match=f"input_schema is not a JSON schema: .*{what}") as caught:
        with_schema(schema)
    assert len(str(caught.value)) < 500


@rows("schema", [an_object(a={"enum": [*range(101_000)]}), an_object(a=nested(70))])
def test_a_large_schema(schema: Any) -> None:
    """Refused before any other code reads it."""
    start = time.thread_time()
    with pytest.raises(UsageError, match="too large"):
        with_schema(schema)
    assert time.thread_time() - start < 5  # 0.1 s


def test_dialects() -> None:
    """Draft 2020-12, unless the schema says otherwise; an unknown one is no reason to fail."""
    pair = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}
    fault_of({"type": "object", "properties": {"a": pair}}, {"a": [1, 2]})
    old = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": old}}
    fault_of(draft_7, {"a": [1, 2]})
    draft_4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"id": "#x"}},
    }
    assert RawSchema(draft_4).check({"a": 1}) == {"a": 1}
    unknown = {
        "$schema": "http://local/own",
        "type": "object",
        "properties": {"a": {"$schema": "?", "type": "integer"}},
    }
    assert RawSchema(unknown).check({"a": 1}) == {"a": 1}
    assert "expected integer" in fault_of(unknown, {"a": "x"})


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "object", "$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}}, "$dynamicRef"),
        (
            {
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "type": "object",
                "properties": {"a": {"$recursiveRef": "#"}},
            },
            "$recursiveRef",
        ),
        (
            {
                "type": "object",
                "allOf": [{"if": {"$ref": "#/$defs/n"}}],
                "unevaluatedProperties": False,
                "$defs": {"n": {"properties": {"a": True}}},
            },
            "unevaluatedProperties",
        ),
        (
            an_object(a={"anyOf": [{"$ref": "#/$defs/n"}], "unevaluatedItems": False}) | {"$defs": {"n": {}}},
            "unevaluatedItems",
        ),
    ],
)
def test_keywords_that_cannot_be_checked(
    schema: dict[str, Any], keyword: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What they ask for depends on the way to them, or on what a reference has evaluated."""
    assert RawSchema(schema).faults == [f"input_schema has the keyword {keyword}, which cannot be checked"]
    assert RawSchema(schema, is_foreign=True).check({"a": [1]}) == {"a": [1]}
    assert all(f"the keyword {keyword} of its schema" in message for message in caplog.messages)


def test_what_is_left_over() -> None:
    """It is known without references, beside those that are for other values."""
    schema: dict[str, Any] = {
        "type": "object",
        "allOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}],
        "unevaluatedProperties": False,
        "$defs": {"n": {"type": "integer"}},
    }
    assert RawSchema(schema).check({"a": 1}) == {"a": 1}
    assert 'fits {"unevaluatedProperties": false}' in fault_of(schema, {"a": 1, "b": 1})


def test_a_definition_that_changes_afterwards() -> None:
    """Whoever gave the definition may use it for something else: the tool stays what it is."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = with_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    assert made.to_dict()["input_schema"] == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert made.check({"a": 1}) == {"a": 1}


def test_the_schema_is_sent_as_it_was_given() -> None:
    """Not as it is checked: references stay references."""
    schema = an_object(a={"$ref": "#/$defs/n"}) | {"$defs": {"n": {"type": "integer"}}, "$schema": "http://local/own"}
    assert with_schema(schema).to_dict()["input_schema"] == schema
    assert RawSchema(schema).schema == schema


def test_a_number_that_cannot_be_written() -> None:
    """What the library fails at is a fault of the input, in words for the model."""
    text = fault_of(an_object(a={"multipleOf": 0.1}), {"a": 10**5_000})
    assert text.startswith("Error: the input cannot be checked")
