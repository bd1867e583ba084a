"""What goes back to the model: results, content, and the texts of errors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from eagerstream.tools.results import content_of, error_text, invalid_result, tool_result
from eagerstream.wire import InputAccumulator, ToolInput
from tests.support import block_stop, input_delta, tool_start


def an_input(*fragments: str) -> ToolInput:
    """A call whose input is closed."""
    accumulator = InputAccumulator()
    for event in (tool_start(0), *(input_delta(0, fragment) for fragment in fragments), block_stop(0)):
        accumulator.feed(event)
    return accumulator.inputs[0]


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_success() -> None:
    """Golden: the API's own example. No `is_error` where there is no error."""
    assert json.dumps(tool_result("toolu_01A09q90qw90lq917835lq9", "15 degrees")) == (
        '{"type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "content": "15 degrees"}'
    )


def test_failure() -> None:
    """Golden: a failure says so."""
    text = "ConnectionError: the weather service API is not available (HTTP 500)"
    assert tool_result("toolu_1", text, is_error=True) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": text,
        "is_error": True,
    }


def test_blocks() -> None:
    """Golden: text, image and document blocks go as they are."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQSkZJRg=="}}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "15 degrees"}}
    blocks = [{"type": "text", "text": "15 degrees"}, image, document]
    assert tool_result("toolu_1", content_of(blocks)) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": blocks,
    }


@pytest.mark.parametrize("returned", [None, "", []])
def test_empty_results(returned: Any) -> None:
    """An empty result has no content at all: null and an empty text are not taken."""
    assert tool_result("toolu_1", content_of(returned)) == {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert set(tool_result("toolu_1", content_of(returned), is_error=True)) == {"type", "tool_use_id", "is_error"}


# --- content ----------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    OSLO = "Oslo"


class Model(BaseModel):
    a: int
    when: dt.date


@dataclasses.dataclass
class Data:
    a: int
    inner: Any = None


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("15 degrees", "15 degrees"),
        (Name.OSLO, "Oslo"),
        (15, "15"),
        (1.5, "1.5"),
        (True, "true"),
        (0, "0"),
        (False, "false"),
        ({}, "{}"),
        ({"a": "ä", "b": [1, None]}, '{"a": "ä", "b": [1, null]}'),
        ([1, "b"], '[1, "b"]'),
        ((1, 2), "[1, 2]"),
        (Color.RED, '"red"'),
        (dt.date(2025, 2, 28), '"2025-02-28"'),
        (Model(a=1, when=dt.date(2025, 2, 28)), '{"a": 1, "when": "2025-02-28"}'),
        (Data(1, Data(2, Color.RED)), '{"a": 1, "inner": {"a": 2, "inner": "red"}}'),
        ([Model(a=1, when=dt.date(2025, 2, 28))], '[{"a": 1, "when": "2025-02-28"}]'),
        (b"abc", "abc"),
        ([{"type": "text", "text": "a"}, {"b": 1}], '[{"type": "text", "text": "a"}, {"b": 1}]'),
        ([{"type": "row"}], '[{"type": "row"}]'),
        ([{"type": "tool_use", "id": "x"}], '[{"type": "tool_use", "id": "x"}]'),
        ({"type": "text", "text": "a"}, '{"type": "text", "text": "a"}'),
    ],
    ids=repr,
)
def test_content(returned: Any, expected: str) -> None:
    """Text as it is, everything else as JSON that keeps its letters, never as Python would print it."""
    assert content_of(returned) == expected


@pytest.mark.parametrize("type", ["text", "image", "document", "search_result", "tool_reference", "browser_state"])
def test_kinds_of_blocks(type: str) -> None:
    """A list counts as blocks where each item is one of the kinds that a result may have."""
    blocks = [{"type": type}]
    assert content_of(blocks) == blocks


@pytest.mark.parametrize("returned", [object(), Data, Model, lambda: None, {"a": object()}])
def test_no_json_form(returned: Any) -> None:
    """Nothing is sent as its repr: a mistake of the tool is one."""
    with pytest.raises(TypeError, match="no JSON form"):
        content_of(returned)


def test_an_array_of_another_library() -> None:
    """Comparing such an array gives an array: it must not be asked whether it is true."""

    class Array:
        def __eq__(self, other: object) -> Any:
            return self

        def __bool__(self) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = object.__hash__

    with pytest.raises(TypeError, match="no JSON form"):
        content_of(Array())


def test_something_that_holds_itself() -> None:
    """So is a value that never ends."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="no JSON form"):
        content_of(endless)


# --- what UTF-8 cannot carry ------------------------------------------------------------------------------------------

HALF = "\ud83d"


@pytest.mark.parametrize(
    "returned",
    [
        f"a{HALF}b",
        {"a": f"a{HALF}b"},
        {f"a{HALF}b": 1},
        [f"a{HALF}b"],
        [{"type": "text", "text": f"a{HALF}b"}],
        [{"type": "document", "source": {"data": [f"a{HALF}b"]}}],
        Data(1, f"a{HALF}b"),
    ],
    ids=ascii,
)
def test_half_a_surrogate_pair(returned: Any) -> None:
    """U+FFFD stands in its place, wherever it is; the rest stays."""
    sent = json.dumps(tool_result("toolu_1", content_of(returned)), ensure_ascii=False)
    sent.encode()
    assert "a\ufffdb" in sent


def test_the_tool_s_own_value_is_not_changed() -> None:
    """Blocks that a tool returns stay as they were, in its hands."""
    blocks = [{"type": "text", "text": HALF}]
    assert tool_result("toolu_1", content_of(blocks))["content"] == [{"type": "text", "text": "\ufffd"}]
    assert blocks == [{"type": "text", "text": HALF}]


@given(text=st.text(st.characters(), max_size=20))
def test_any_text_can_be_sent(text: str) -> None:
    """Text without halves goes through unchanged, any other can be encoded and is as long."""
    content = tool_result("toolu_1", text).get("content", "")
    content.encode()
    if all(not 0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert content == text


# --- invalid inputs ---------------------------------------------------------------------------------------------------


def test_invalid_json() -> None:
    """Golden: the wrapper is the content of an error result, as a text that is JSON itself."""
    assert invalid_result(an_input('{"keywords": Dave, "r', '": 1}')) == {
        "type": "tool_result",
        "tool_use_id": "toolu_0",
        "content": '{"INVALID_JSON": "{\\"keywords\\": Dave, \\"r\\": 1}"}',
        "is_error": True,
    }


@given(raw=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_the_wrapper_keeps_every_character(raw: str) -> None:
    """Quotes, backslashes, line ends, NUL: what the model wrote is found again in what it is sent."""
    raw = "[" + raw  # never a valid input
    content = invalid_result(an_input(raw))["content"]
    assert json.loads(content) == {"INVALID_JSON": raw}


def test_half_a_surrogate_pair_in_an_invalid_input() -> None:
    """It is sent as U+FFFD."""
    content = invalid_result(an_input(f"[{HALF}"))["content"]
    assert json.loads(content.encode()) == {"INVALID_JSON": "[\ufffd"}


def test_long_invalid_inputs_are_cut_in_the_middle() -> None:
    """Up to 64 KiB is sent back whole; of more, the beginning, the end, and how much is left out."""
    whole = "[" + "x" * (64 * 1024 - 1)
    assert json.loads(invalid_result(an_input(whole))["content"]) == {"INVALID_JSON": whole}
    long = "[" + "ab" * 100_000 + "end"
    wrapped = json.loads(invalid_result(an_input(long))["content"])["INVALID_JSON"]
    assert len(wrapped) < 66 * 1024
    assert wrapped.startswith("[abab")
    assert wrapped.endswith("ababend")
    assert f"{len(long) - 64 * 1024} characters left out" in wrapped


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ConnectionError("the weather service API is not available (HTTP 500)"),
            "ConnectionError: the weather service API is not available (HTTP 500)",
        ),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (RuntimeError("two\nlines"), "RuntimeError: two\nlines"),
    ],
    ids=repr,
)
def test_error_text(error: Exception, expected: str) -> None:
    """The class and the message, as the API's own example has them; never a traceback."""
    assert error_text(error) == expected


def test_an_error_that_cannot_say_what_it_is() -> None:
    """An exception whose own text fails is told by its class."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_text(Broken()) == "Broken"


def test_a_group_of_errors() -> None:
    """A tool with a task group raises a group: what went wrong is inside it, and the model must see that."""
    text = error_text(ExceptionGroup("unhandled errors in a TaskGroup", [ConnectionError("no route")]))
    assert "ConnectionError: no route" in text
