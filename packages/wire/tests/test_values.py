"""`copy_json` and `find`: two walks that must neither recurse nor mix up kinds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from tests.streams import written
from tests.tables import rows

from eagerstream_wire import JSON, Path, copy_json
from eagerstream_wire._values import MISSING, find

json_values: st.SearchStrategy[JSON] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
)


def containers(value: JSON) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(inner for item in value.values() for inner in containers(item))]
    if isinstance(value, list):
        return [value, *(inner for item in value for inner in containers(item))]
    return []


@given(json_values)
def test_a_copy_is_equal_and_shares_no_container(value: JSON) -> None:
    """What a caller does to a copy must never reach the value that still grows."""
    copied = copy_json(value)
    assert written(copied) == written(value)
    assert not {id(container) for container in containers(copied)} & {id(container) for container in containers(value)}


def test_a_container_that_stands_in_two_places_is_copied_twice() -> None:
    """A copy is a tree: a change in one place shows in no other."""
    shared: JSON = [1]
    copied = copy_json([shared, shared])
    assert isinstance(copied, list)
    assert copied[0] is not copied[1]


def test_a_copy_of_a_deep_value() -> None:
    """`copy.deepcopy` raises RecursionError at depths that the parser accepts."""
    value: JSON = []
    for _ in range(20_000):
        value = [value]
    copied: Any = copy_json(value)
    depth = 0
    while copied:
        (copied,) = copied
        depth += 1
    assert depth == 20_000


@rows(
    "path, found",
    [
        ((), {"a": [1, {"b": None}], "0": "x"}),
        (("a",), [1, {"b": None}]),
        (("a", 0), 1),
        (("a", 1, "b"), None),
        (("0",), "x"),
        ((0,), MISSING),
        (("a", "0"), MISSING),
        (("a", 2), MISSING),
        (("a", -1), MISSING),
        (("a", True), MISSING),
        (("a", 0, 0), MISSING),
        (("0", 0), MISSING),
        (("a", 1, "c"), MISSING),
        (("a", 1, "b", "c"), MISSING),
    ],
)
def test_find(path: Path, found: object) -> None:
    """A path leads to one place or to none: no negative indexes, no characters of strings, no booleans for indexes."""
    assert find({"a": [1, {"b": None}], "0": "x"}, path) == found
