"""Numbers that JavaScript would round, and JSON in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream_progress import _exact as writing
from eagerstream_progress._exact import dumps, json_pieces, marked, unmarked

LARGEST = 2**53 - 1
INTEGERS = [0, -1, LARGEST, -LARGEST, LARGEST + 1, -LARGEST - 1, 2**53 + 1, 10**300, -(10**4000)]
KEYS = ["$number", "$$number", "$$$number", "number", "$", "__proto__", "10", "2", "a~/b"]
DEEP: Any = ["x" * 300] * 100
for _ in range(600):  # as deep as an input may be, and more
    DEEP = [DEEP, 1]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(INTEGERS)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=["L", "N", "P", "Cs", "Cf"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner),
    max_leaves=20,
)


def as_javascript(text: str) -> Any:
    """JSON as a reader has it whose numbers are doubles."""
    return json.loads(text, parse_int=float)


@rows("number", INTEGERS)
def test_no_integer_is_rounded(number: int) -> None:
    """A reader with doubles has either the very number, or its digits as text."""
    read = as_javascript(dumps({"n": number}))["n"]
    assert read == ({"$number": str(number)} if abs(number) > LARGEST else number)


@given(VALUES)
def test_marks_come_and_go(value: Any) -> None:
    """What is marked is the same value again; no data is taken for a mark, whatever its keys are."""
    before = json.dumps(value)
    assert json.dumps(unmarked(marked(value))) == before
    assert json.dumps(unmarked(json.loads(dumps(value)))) == before
    assert json.dumps(value) == before


@rows("value", [{"$number": "5"}, {"$number": 5}, {"$number": "9007199254740993", "x": 1}])
def test_data_that_looks_like_a_mark(value: dict[str, Any]) -> None:
    """A key of the data that is the mark's own is written in another way."""
    assert marked(value) == {f"${key}" if key == "$number" else key: inner for key, inner in value.items()}
    assert unmarked(marked(value)) == value


@rows("mark", [5, "", "x", "1.5", "1e5", "0x10", "٣", "007", " 1", "9" * 4_301, None, {"$number": "5"}])
def test_marks_that_are_no_numbers(mark: Any) -> None:
    """A file may have been changed by anybody."""
    with pytest.raises(ValueError, match="is not a number"):
        unmarked({"a": [{"$number": mark}]})
    with pytest.raises(ValueError, match="is not a number"):
        unmarked({"$number": "5", "other": 1})


def test_what_has_no_marks_is_not_copied() -> None:
    """Nearly all values: they cost one look at their text."""
    value: Any = {"a": [1, 2.5, "x" * 100]}
    assert marked(value) is value


@given(VALUES)
def test_pieces_are_the_text(value: Any) -> None:
    """However the value is taken apart."""
    assert b"".join(json_pieces(value)).decode() == dumps(value)


@rows(
    "value",
    [
        "é" * 20_000,
        {"k" * 10_000: 1, "a": ["x"] * 10_000},
        [{"a": number, "$number": [number] * 70} for number in range(2**53 - 100, 2**53 + 100)],
        ["9" * 300, *range(1000)],
        [[]] * 200,
        DEEP,
    ],
)
def test_pieces_of_much(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece is long, and none takes long to write: other threads wait for each step of it."""
    steps: list[int] = []

    def counted(part: Any) -> str:
        text = dumps(part)
        steps.append(len(text))
        return text

    monkeypatch.setattr(writing, "dumps", counted)
    monkeypatch.setattr(writing, "PIECE_BYTES", 4_096)
    monkeypatch.setattr(writing, "_STEP_CHARS", 2_048)
    pieces = json_pieces(value)
    assert b"".join(pieces).decode() == dumps(value)
    longest = 6 * 2_048 + 2  # an escape for each character, and the quotes
    assert max(steps) <= longest
    assert max(map(len, pieces)) <= 4_096 + longest
