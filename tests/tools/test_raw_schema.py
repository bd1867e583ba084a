"""`RawSchema`: the check of an input against a schema that was given."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import UsageError
from eagerstream.tools import InputError, Tool, tool
from eagerstream.tools._raw_schema import RawSchema


def fault_of(schema: dict[str, Any], input: dict[str, Any]) -> str:
    """What the model is told."""
    checked = RawSchema(schema)
    assert checked.faults == []
    with pytest.raises(InputError) as caught:
        checked.check(input)
    return str(caught.value)


def an_object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """A schema of an object that takes nothing else."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


async def by_function(location: str, unit: str = "c") -> None:
    """The same tool, made from a function."""


BY_FUNCTION = tool(by_function)
BY_SCHEMA = an_object(("location",), location={"type": "string"}, unit={"type": "string"})


@pytest.mark.parametrize(
    ("input", "expected"),
    [
        ({}, "Error: Missing required 'location' parameter"),
        ({"location": "Oslo", "wind": 1}, "Error: Unknown parameter 'wind'"),
        (
            {"wind": 1},
            "Error: Missing required 'location' parameter; Unknown parameter 'wind'",
        ),
    ],
    ids=["missing", "unknown", "both"],
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
        "Invalid parameter 'days': the value is less than the minimum of 1, got 0",
        "Invalid parameter 'four': expected 4, got 5",
        "Invalid parameter 'code': the value does not match '^[A-Z]+$', got \"x\"",
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


@pytest.mark.parametrize("value", [True, "1", 1.5, None, [1], {"a": 1}])
def test_nothing_is_coerced(value: Any) -> None:
    """Also `true` is no integer."""
    assert "'a'" in fault_of(an_object(a={"type": "integer"}), {"a": value})


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


def with_schema(schema: Any, **options: Any) -> Tool:
    """A tool with a given schema."""

    async def f(input: dict[str, Any]) -> dict[str, Any]:
        return input

    return tool(f, definition={"name": "f", "description": "F.", "input_schema": schema}, **options)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"type": "object", "properties": {"a": {"type": 3}}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": []},
    ],
    ids=repr,
)
def test_what_is_no_schema(schema: Any) -> None:
    """Said when the tool is defined."""
    with pytest.raises(UsageError, match="not a JSON schema"):
        with_schema(schema)


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"properties": {}}, {"type": ["object", "null"]}], ids=repr)
def test_a_schema_of_something_else(schema: Any) -> None:
    """The input of a tool is an object: the API refuses a schema that does not say so."""
    with pytest.raises(UsageError, match="object"):
        with_schema(schema)


def test_a_dialect_that_is_no_text() -> None:
    """A mistake in our words, as all others of a definition."""
    with pytest.raises(UsageError):
        with_schema({"type": "object", "$schema": ["2020-12"]})


def test_a_pattern_that_python_does_not_know() -> None:
    """Servers written in JavaScript have such patterns: no reason to refuse a tool that the API takes."""
    assert with_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}}}).name == "f"


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


@pytest.mark.parametrize(
    "schema",
    [_REMOTE, {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}}],
    ids=["remote", "missing"],
)
def test_references_that_cannot_be_followed(schema: dict[str, Any]) -> None:
    """A fault of the definition, told when it is made; nothing that the model could mend."""
    with pytest.raises(UsageError, match=r"\$ref|reference"):
        with_schema(schema)


def test_a_definition_that_changes_afterwards() -> None:
    """Whoever gave the definition may use it for something else: the tool stays what it is."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = with_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    assert made.to_dict()["input_schema"] == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert made.check({"a": 1}) == {"a": 1}


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


# --- schemas that are made to take long -------------------------------------------------------------------------------

_SLOW = "^(a+)+$"
_FOR_EVER = "a" * 60 + "!"


def _nested(depth: int) -> dict[str, Any]:
    return {"not": _nested(depth - 1)} if depth else {}


def _doubled(keyword: str) -> dict[str, Any]:
    """A schema of 3 KB that asks for 2^40 steps."""
    schemas: dict[str, Any] = {
        f"d{number}": {keyword: [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)
    }
    return {
        "type": "object",
        "$defs": schemas | {"d40": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/d0"}},
    }


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


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        (_doubled("allOf"), {"a": "s"}),
        (_doubled("anyOf"), {"a": 1}),
        (_doubled("oneOf"), {"a": 1}),
        (an_object(a={"anyOf": [{"type": "string"}] * 4_000}), {"a": ["a"] * 20_000}),
        (an_object(a={"allOf": [{"enum": [["a"] * 10_000]}] * 2 + [{"uniqueItems": True}] * 3_000}), {"a": [[]] * 1_000}),
        (an_object(a={"allOf": [{"$ref": "#/$defs/e"}] * 3_000}) | {"$defs": {"e": {"const": ["a"] * 9_000}}},
         {"a": ["a"] * 9_000}),
    ],
    ids=["allOf", "anyOf", "oneOf", "large faults", "uniqueItems", "const"],
)  # fmt: skip
def test_a_schema_that_asks_for_too_many_steps(schema: dict[str, Any], input: dict[str, Any]) -> None:
    """The check ends after as many as the size of the input allows, and the model is told."""
    start = time.thread_time()
    with pytest.raises(InputError):
        RawSchema(schema).check(input)
    assert time.thread_time() - start < 20  # 1 s at most; without a bound it takes minutes or years


def test_a_large_input_of_a_common_schema_is_checked() -> None:
    """The bound on the steps grows with the input: what is only long is not refused."""
    item = {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]}
    input: dict[str, Any] = {"a": [1] * 12_000}
    assert RawSchema(an_object(a={"type": "array", "items": item})).check(input) == input


def test_a_union_of_many_types() -> None:
    """As editors of documents have them: each item is one of many types, and none of the others."""
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
    input: dict[str, Any] = {"a": [{"type": "t39", "text": "Words."}] * 100}
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
        (_chain(100, {"$dynamicAnchor": "z", "allOf": [{"$dynamicRef": "#y"}] * 1_000,
                      "$defs": {"y": {"$dynamicAnchor": "y"}}}), {"a": 1}),
        (_chain(100, {"allOf": [{"$ref": "#y"}] * 2_000, "$defs": {"y": {"$anchor": "y"}}}), {"a": 1}),
        (an_object(a={"items": {"enum": [{}] * 20_000 + [7]}}), {"a": [7] * 20}),
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
        assert time.thread_time() - start < 8  # 0.3 s at most


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        ({"enum": [{}] * 24_000 + [7]}, [7] * 1_000),
        ({"enum": [{"a": {}}] * 10_000 + [{"a": {"b": 1}}]}, [{"a": {"b": 1}}] * 100),
        ({f"k{n}": 0 for n in range(8_000)}, [1] * 20_000),
    ],
    ids=["enum", "enum of objects", "keywords that nobody knows"],
)
def test_the_price_of_a_keyword(schema: dict[str, Any], input: list[Any]) -> None:
    """A step is counted for each microsecond or so, whatever is compared: without that, they take ten times as long."""
    start = time.thread_time()
    with pytest.raises(InputError, match="too long"):
        RawSchema(an_object(a={"items": schema})).check({"a": input})
    assert time.thread_time() - start < 15  # 1 s


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


def test_patterns_are_compiled_when_they_are_needed() -> None:
    """A tool whose inputs others check never needs them."""
    checked = RawSchema(an_object(a={"pattern": "^a$"}))
    assert "patterns" not in vars(checked._form)
    checked.check({"a": "a"})
    assert "patterns" in vars(checked._form)


@pytest.mark.parametrize("frames", range(0, 60, 7))
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


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (an_object(a={"enum": [*range(200_000)]}), "too large: .* 100,000 char"),
        (an_object(a=_nested(70)), "too large: .* 64 containers"),
        (an_object(a={"type": [number if number % 2 else str(number) for number in range(9_000)]}), "name of a type"),
        (an_object(a={"multipleOf": 7**9_000}), "positive number"),
        (an_object(a={"allOf": [{"$ref": f"#a{n}"} for n in range(5_000)]}), r"\$ref"),
        (an_object(a={"allOf": [{"$ref": f"http://y/{n}"} for n in range(3_000)]}), r"\$ref"),
        (an_object(a={"allOf": [{"$id": "a"}] * 5_000}) | {"$id": "http://x/" + "a/" * 25_000}, "long URIs"),
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
    assert time.thread_time() - start < 10  # 0.3 s at most; a crawl for each reference takes a minute


def test_a_number_that_jsonschema_cannot_divide() -> None:
    """What jsonschema fails at is a fault of the input, in words for the model."""
    text = fault_of(an_object(a={"multipleOf": 0.1}), {"a": 10**400})
    assert text.startswith("Error: the input cannot be checked")
