"""The bounds on what is looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream._support.inspecting import TooMuchError, check_size, head
from tests.tables import rows

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_JSON)
def test_what_fits_as_text_fits(value: Any) -> None:
    """No value is taken for larger than its JSON text is."""
    check_size(value, max_chars=2 * len(json.dumps(value)), max_depth=100)


@rows("value", ["x" * 101, ["x"] * 60, {"x" * 101: 1}, [[[]] * 40] * 3, {"a": ["x" * 60, "x" * 60]}])
def test_too_large(value: Any) -> None:
    """Texts, keys and members count."""
    with pytest.raises(TooMuchError, match="more than 100 characters"):
        check_size(value, max_chars=100, max_depth=10)


def test_too_deep() -> None:
    """Any depth is told without recursion."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TooMuchError, match="more than 10 containers"):
        check_size(value, max_chars=1_000, max_depth=10)
    check_size([[[]]], max_chars=1_000, max_depth=3)
    with pytest.raises(TooMuchError):
        check_size([[[[]]]], max_chars=1_000, max_depth=3)


def test_the_work_is_bounded() -> None:
    """A list that holds itself a million times over ends at the bound."""
    value: list[Any] = []
    value += [value] * 50
    with pytest.raises(TooMuchError):
        check_size(value, max_chars=100_000, max_depth=1_000)


def test_head() -> None:
    """The beginning, or all of it."""
    assert (head("abc", 2), head("abc", 3), head("", 1)) == ("ab", "abc", "")
