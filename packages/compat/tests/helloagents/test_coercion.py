"""Values that nearly fit: what is converted, and what would be a guess."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream_compat.helloagents._binding import ALL, SCALARS, coerced, kinds_of


@rows(
    "kind, value, converted",
    [
        ("integer", " 3 ", 3),
        ("integer", 3.0, 3),
        ("number", "1e3", 1000.0),
        ("number", 2, 2.0),
        ("boolean", "True", True),
        ("boolean", "1", True),
        ("boolean", "yes", True),
        ("boolean", "no", False),
        ("boolean", 0, False),
        ("string", 2.5, "2.5"),
        ("array", "[1]", [1]),
        ("object", '{"a": 1}', {"a": 1}),
    ],
)
def test_what_is_converted(kind: str, value: object, converted: object) -> None:
    """To the very type."""
    found = coerced(value, [kind], ALL)
    assert found == converted
    assert type(found) is type(converted)


@rows(
    "kind, value",
    [
        ("integer", "3.7"),
        ("integer", 3.7),
        ("integer", math.inf),
        ("integer", "9" * 5000),
        ("number", "nan"),
        ("number", "1e999"),
        ("number", [1]),
        ("boolean", "perhaps"),
        ("boolean", []),
        ("string", True),
        ("string", ["a"]),
        ("array", '{"a": 1}'),
        ("array", "[" * 100_000),
        ("object", "[1]"),
        ("null", "null"),
        ("unheard of", "x"),
    ],
)
def test_what_would_be_a_guess(kind: str, value: object) -> None:
    """It stays itself."""
    assert coerced(value, [kind], ALL) is value


def test_several_types() -> None:
    """A value of one of them stays; else the first that fits counts."""
    assert coerced("3", ["integer", "string"], ALL) == "3"
    assert coerced("3", ["null", "boolean", "integer"], ALL) == 3
    assert coerced(None, ["integer", "null"], ALL) is None


def test_only_the_converters_that_are_given() -> None:
    """Tools that ask for conversion get numbers and booleans, and no more."""
    for value, kind in ((5, "string"), ("[1]", "array"), ('{"a": 1}', "object")):
        assert coerced(value, [kind], SCALARS) is value


def test_types_of_a_schema() -> None:
    """By itself, by its branches, or by what it refers to."""
    definitions = {"Colour": {"type": "string", "enum": ["red"]}}
    assert kinds_of({"type": "integer"}, {}) == ["integer"]
    assert kinds_of({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Colour"}, {"type": "null"}]}, definitions) == [
        "integer",
        "null",
    ]
    assert kinds_of({"$ref": "#/$defs/Colour"}, definitions) == ["string"]
    assert kinds_of({}, {}) == []


_ANY: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(_ANY, st.lists(st.sampled_from([*ALL, "null"])))
def test_nothing_is_half_converted(value: Any, kinds: list[str]) -> None:
    """What comes out is of one of the types, or is what came in; converting it again changes nothing."""
    found = coerced(value, kinds, ALL)
    of = {"number": float, "integer": int, "boolean": bool, "string": str, "array": list, "object": dict}
    assert found is value or type(found) in [of.get(kind) for kind in kinds]
    assert coerced(found, kinds, ALL) is found
