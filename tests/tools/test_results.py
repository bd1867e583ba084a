"""What goes back to the model: results, content, and the texts of errors."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import logging
import math
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from eagerstream.errors import ToolError, UsageError
from eagerstream.limits import Limits
from eagerstream.streaming import GrowingInput
from eagerstream.tools import (
    ToolCall,
    ToolResponse,
    ToolStatus,
    content_of,
    document_bytes,
    document_text,
    dump_json,
    error_response,
    error_text,
    image_bytes,
    invalid_result,
    rendered,
    tool_result,
)
from eagerstream.wire import InputAccumulator, ToolInput
from tests.support import anthropic_since, block_stop, input_delta, tool_start


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
        ({"type": "text", "value": "a"}, '{"type": "text", "value": "a"}'),
        ([{"type": "image"}], '[{"type": "image"}]'),
    ],
    ids=repr,
)
def test_content(returned: Any, expected: str) -> None:
    """Text as it is, everything else as JSON that keeps its letters, never as Python would print it."""
    assert content_of(returned) == expected


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "a"},
        {"type": "image", "source": {}},
        {"type": "document", "source": {}},
        {"type": "search_result", "content": []},
        {"type": "tool_reference", "tool_name": "f"},
        {"type": "browser_state"},
    ],
    ids=lambda block: block["type"],
)
def test_kinds_of_blocks(block: dict[str, Any]) -> None:
    """What counts as content, alone and in a list: the kinds that a result may have, with what each must have."""
    assert content_of(block) == content_of([block]) == [block]


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


@pytest.mark.parametrize("depth", [200, 300, 512])
def test_a_deep_value(depth: int) -> None:
    """As deep as the input of a call may be: a tool may return what it was given."""
    deep: Any = ["x", math.nan]
    expected: Any = ["x", None]
    for _ in range(depth):
        deep, expected = {"x": deep}, {"x": expected}
    assert json.loads(dump_json(deep)) == expected


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
    """Up to 64 KiB is sent back whole. Of more, the beginning and the end; the note of it is no part of the value."""
    whole = "[" + "x" * (64 * 1024 - 1)
    assert json.loads(invalid_result(an_input(whole))["content"]) == {"INVALID_JSON": whole}
    long = "[" + "ab" * 100_000 + "end"
    value, note = invalid_result(an_input(long))["content"].split("\n")
    half = 32 * 1024
    assert json.loads(value) == {"INVALID_JSON": long[:half] + long[-half:]}
    assert note == f"(Left out of this text: characters {half} to {len(long) - half} of {len(long)}.)"


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


def _raised(function: Callable[[], object]) -> tuple[BaseException, str]:
    """What a function raises, and its traceback."""
    try:
        function()
    except BaseException as error:
        return error, traceback.format_exc()
    raise AssertionError("it raises")


def _divide() -> None:
    try:
        _ = 1 / int("0")
    except ZeroDivisionError as error:
        raise ValueError("no quotient") from error


def _many() -> None:
    failures = [_raised(_divide)[0], KeyError("k")]
    raise ExceptionGroup("all of it", [failure for failure in failures if isinstance(failure, Exception)])


class _Point(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_divide, "ValueError: no quotient"),
        (_many, "ValueError: no quotient; KeyError: 'k'"),
        (lambda: compile("x = = secret", "/srv/app/secret.py", "exec"), "SyntaxError: invalid syntax (line 1)"),
        (lambda: exec("from json import nope"), "ImportError: cannot import name 'nope' from 'json'"),
    ],
)
def test_nothing_of_the_program(function: Callable[[], object], told: str) -> None:
    """Neither a cause, nor a traceback, nor a file, nor a line of it."""
    assert error_text(_raised(function)[0]) == told


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_divide, "ZeroDivisionError: division by zero\nValueError: no quotient"),
        (lambda: compile("x = = secret", "/srv/app/secret.py", "exec"), "SyntaxError: invalid syntax"),
        (
            _many,
            (
                "ExceptionGroup: all of it (2 sub-exceptions)\nZeroDivisionError: division by zero\n"
                "ValueError: no quotient\nKeyError: 'k'"
            ),
        ),
    ],
)
@pytest.mark.parametrize(("before", "said"), [("", ""), ("the worker died: ", "the worker died:\n")])
def test_a_message_that_quotes_a_traceback(function: Callable[[], object], told: str, before: str, said: str) -> None:
    """As of a worker's process: what is left are its last lines."""
    message = before + _raised(function)[1]
    assert error_text(RuntimeError(message)) == f"RuntimeError: {said}{told}"


def test_a_traceback_that_was_cut() -> None:
    """Frames are left out without the line above them, too."""
    quoted = 'died\n  File "/srv/app/secret.py", line 3, in f\n    x = secret\n        ^^^^\nValueError: no'
    assert error_text(RuntimeError(quoted)) == "RuntimeError: died\nValueError: no"


def test_pydantic_errors() -> None:
    """What is wrong is told, without a link for each fault."""
    text = error_text(_raised(lambda: _Point.model_validate({"x": "a"}))[0])
    assert "Input should be a valid integer" in text
    assert "https://" not in text


def test_long_errors() -> None:
    """Their middle is left out, of each and of all of them; a tool's own error is as long as it wants to be."""
    long = "x" * 100_000
    assert len(error_text(ValueError(long))) < 10_200
    group = ExceptionGroup("many", [ValueError(long)] * 100)
    assert len(error_text(group)) < 10_200
    assert error_text(ExceptionGroup("many", [ValueError("x")] * 100)).endswith("and 80 more errors")
    assert error_text(ToolError(long)) == long


def test_groups_in_groups() -> None:
    """Groups may be nested deeper than Python recurses."""
    error: Exception = ValueError("inside")
    for _ in range(5_000):
        error = ExceptionGroup("around", [error])
    assert error_response(error).to_dict()["error"] == {"code": "EXECUTION_ERROR", "message": "ValueError: inside"}


@pytest.mark.parametrize(
    "message", ['Traceback (most recent call last):\n  File "a.py", line 1\nE: x', "see /srv/a.py"]
)
def test_a_tools_own_words(message: str) -> None:
    """What a tool's author writes for the model is the author's business: the log of a program it ran, say."""
    assert error_text(ToolError(message)) == message


# --- the source document's examples, one by one -----------------------------------------------------------------------

WEATHER_ID = "toolu_01A09q90qw90lq917835lq9"


def answered(returned: Any = None, *, raised: Exception | None = None, id: str = WEATHER_ID) -> dict[str, Any]:
    """The whole way: what a tool returned or raised, in its call's `tool_result`, as JSON says it."""
    call = a_call(id=id)
    if raised is None:
        call.answer(returned)
    else:
        call.fail(raised)
    assert call.result is not None
    result: dict[str, Any] = json.loads(json.dumps(call.result, allow_nan=False))
    return result


def a_call(raw: str = "{}", *, max_chars: int = 1024 * 1024, **fields: Any) -> ToolCall:
    """A call with a valid input; `fields` are added to its block."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    for event in (tool_start(0, **fields), input_delta(0, raw), block_stop(0)):
        accumulator.feed(event)
    return ToolCall(accumulator.inputs[0], turn=1, limits=Limits(max_result_chars=max_chars))


_JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
_JPEG_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQSkZJRgA="},
}
_DOCUMENT_BLOCK = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "15 degrees"}}


def test_golden_results() -> None:
    """The document's four successful examples: text, text with an image, nothing, text with a document."""
    head = {"type": "tool_result", "tool_use_id": WEATHER_ID}
    assert answered("15 degrees") == {**head, "content": "15 degrees"}
    text = {"type": "text", "text": "15 degrees"}
    assert answered([text]) == {**head, "content": [text]}
    assert answered([text, image_bytes(_JPEG, "image/jpeg")]) == {**head, "content": [text, _JPEG_BLOCK]}
    assert answered(["15 degrees", _JPEG]) == {**head, "content": [text, _JPEG_BLOCK]}
    for nothing in (None, "", [], (), b"", [{"type": "text", "text": ""}], ToolResponse.success("")):
        assert answered(nothing) == head
    assert answered([text, document_text("15 degrees")]) == {**head, "content": [text, _DOCUMENT_BLOCK]}


def test_golden_errors() -> None:
    """The document's failures: an exception, advice for the model, and an input that is not JSON."""
    head = {"type": "tool_result", "tool_use_id": WEATHER_ID, "is_error": True}
    text = "the weather service API is not available (HTTP 500)"
    assert answered(raised=ConnectionError(text)) == {**head, "content": f"ConnectionError: {text}"}
    advice = ToolError.rate_limited(60)
    assert answered(raised=advice) == {**head, "content": "Rate limit exceeded. Retry after 60 seconds."}
    call = a_call('{"keywords": Dave, "r": 1}', id=WEATHER_ID)
    call.refuse()
    assert call.result == {**head, "content": '{"INVALID_JSON": "{\\"keywords\\": Dave, \\"r\\": 1}"}'}


@given(id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_id_of_a_result_is_legal_and_tells_calls_apart(id: str) -> None:
    """A legal id stays; any other has a stand-in, the same each time, which the API takes."""
    answer_id = answered("x", id=id)["tool_use_id"]
    if re.fullmatch("[a-zA-Z0-9_-]+", id):
        assert answer_id == id
    else:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", answer_id)
        assert answer_id == answered("y", id=id)["tool_use_id"] != answered("y", id=f"{id} ")["tool_use_id"]


# --- responses --------------------------------------------------------------------------------------------------------


def test_rendered_success() -> None:
    """Its text, and nothing more; its data only where the tool says so, after the text or alone."""
    made = ToolResponse.success("3 files", {"files": ["ä"]}, {"count": 3}, {"cwd": "/"})
    assert rendered(made) == "3 files"
    assert rendered(made, include_data=True) == '3 files\n{"files": ["ä"]}'
    assert rendered(ToolResponse.success("", {"n": 1}), include_data=True) == '{"n": 1}'
    assert rendered(ToolResponse.success("x"), include_data=True) == "x"


def test_rendered_partial() -> None:
    """The model is told that it is a part, with the reason where there is one; it is no error."""
    assert rendered(ToolResponse.partial("100 rows")) == "[PARTIAL] 100 rows"
    made = ToolResponse.partial("100 rows", {"n": 100}, reason="too many")
    assert rendered(made) == "[PARTIAL] too many\n100 rows"
    assert rendered(made, include_data=True) == '[PARTIAL] too many\n100 rows\n{"n": 100}'
    assert "is_error" not in answered(made)


def test_rendered_error() -> None:
    """A returned error shows its code, a raised one speaks for itself."""
    made = ToolResponse.error("NOT_FOUND", "no such file")
    assert rendered(made) == "[NOT_FOUND] no such file"
    assert rendered(made, raised=True) == "no such file"
    assert answered(made) == {
        "type": "tool_result",
        "tool_use_id": WEATHER_ID,
        "content": "[NOT_FOUND] no such file",
        "is_error": True,
    }


def test_rendered_content() -> None:
    """Blocks follow the text, of every status; without a text they are alone."""
    blocks = [_JPEG_BLOCK]
    assert rendered(ToolResponse.success("", content=blocks)) == blocks
    for made, text in (
        (ToolResponse.success("a", content=blocks), "a"),
        (ToolResponse.partial("a", content=blocks), "[PARTIAL] a"),
        (ToolResponse.error("TIMEOUT", "a", content=blocks), "[TIMEOUT] a"),
    ):
        assert rendered(made) == [{"type": "text", "text": text}, *blocks]


def test_is_error_follows_the_status() -> None:
    """A SUCCESS is none, whatever it carries beside."""
    made = ToolResponse(ToolStatus.SUCCESS, "fine", error_info={"code": "TIMEOUT", "message": "the first try"})
    assert "is_error" not in answered(made)


@pytest.mark.parametrize(
    "given",
    [
        ToolResponse.success("", content=[{"type": "text", "text": ""}]),
        ToolResponse.success("", content=[{"type": "text", "text": ""}, _JPEG_BLOCK]),
        ToolError("", content=[{"type": "text", "text": ""}]),
    ],
    ids=["alone", "before an image", "raised"],
)
def test_empty_text_blocks_of_a_response(given: Any) -> None:
    """The API refuses them: one such block would end the run with its next request."""
    result = answered(raised=given) if isinstance(given, Exception) else answered(given)
    content = result.get("content", "")
    assert isinstance(content, str) or {"type": "text", "text": ""} not in content


@anthropic_since("0.84")
def test_empty_text_blocks_of_the_anthropic_package_s_error() -> None:
    """An MCP server that fails without a word gives just this; the API would refuse the next request."""
    from anthropic.lib.tools import ToolError as AnthropicToolError

    content = answered(raised=AnthropicToolError([{"type": "text", "text": ""}])).get("content", "")
    assert isinstance(content, str) or all(block.get("text") != "" for block in content)


def test_content_of_a_response_is_json() -> None:
    """NaN in a block makes a request that is no JSON; in a list that is returned it becomes null."""
    call = a_call()
    call.answer(ToolResponse.success("", content=[{"type": "text", "text": "a", "score": math.nan}]))
    json.dumps(call.result, allow_nan=False)


def test_a_plain_return_and_its_response() -> None:
    """Watchers find what was returned in `data`, the error of an exception in `error_info`."""
    call = a_call()
    call.answer({"n": 1})
    assert call.response is not None
    assert (call.response.status, call.response.text, call.response.data) == (
        "success",
        '{"n": 1}',
        {"output": {"n": 1}},
    )
    failed = a_call()
    failed.fail(FileNotFoundError("a.txt"))
    assert failed.response is not None
    assert failed.response.error_info == {"code": "NOT_FOUND", "message": "FileNotFoundError: a.txt"}


def test_include_data_does_not_repeat_a_plain_return() -> None:
    """A plain return has no data beside its text."""
    call = a_call()
    call.answer("15 degrees", include_data=True)
    assert call.result is not None
    assert call.result["content"] == "15 degrees"


def test_include_data_with_an_image() -> None:
    """A tool that includes its data may still return an image."""
    call = a_call()
    call.answer(_JPEG, include_data=True)
    assert call.result is not None
    assert call.result["content"] == [_JPEG_BLOCK]


@anthropic_since("0.84")
def test_a_watcher_reads_what_the_anthropic_package_s_error_says() -> None:
    """The blocks are for the model; whoever watches calls reads `error_info`."""
    from anthropic.lib.tools import ToolError as AnthropicToolError

    call = a_call()
    call.fail(AnthropicToolError([{"type": "text", "text": "no such city"}]))
    assert call.response is not None
    assert call.response.error_info is not None
    assert call.response.error_info["message"] == "no such city"


# --- files ------------------------------------------------------------------------------------------------------------

_FILES = {
    "image/png": b"\x89PNG\r\n\x1a\n rest",
    "image/jpeg": _JPEG,
    "image/gif": b"GIF89a rest",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    "application/pdf": b"%PDF-1.7 rest",
}


@pytest.mark.parametrize("media_type", _FILES)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_files(media_type: str, kind: Any) -> None:
    """The bytes of an image or a PDF become a block, told by how they begin."""
    blocks = content_of(kind(_FILES[media_type]))
    assert isinstance(blocks, list)
    (block,) = blocks
    assert block["type"] == ("document" if media_type == "application/pdf" else "image")
    assert block["source"]["media_type"] == media_type
    assert base64.b64decode(block["source"]["data"]) == _FILES[media_type]


@pytest.mark.parametrize("media_type", _FILES)
def test_files_among_texts(media_type: str) -> None:
    """In a list, texts between them become text blocks, empty ones nothing; blocks stay where they are."""
    returned = ["before", _FILES[media_type], "", "after", {"type": "text", "text": "end"}]
    blocks = content_of(returned)
    assert [block if block.get("type") == "text" else "file" for block in blocks if isinstance(block, dict)] == [
        {"type": "text", "text": "before"},
        "file",
        {"type": "text", "text": "after"},
        {"type": "text", "text": "end"},
    ]
    assert content_of(tuple(returned)) == blocks


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_files_of_other_kinds_in_a_list(kind: Any) -> None:
    """What is a file alone is one in a list."""
    assert content_of([kind(_JPEG)]) == [_JPEG_BLOCK]


def test_bytes_that_are_text_beside_a_file() -> None:
    """They are text alone, and so beside an image."""
    assert content_of([b"a photo", _JPEG]) == [{"type": "text", "text": "a photo"}, _JPEG_BLOCK]


def test_bytes_that_are_text() -> None:
    """UTF-8 is text; anything else that is no file is a mistake of the tool's."""
    assert content_of("größe".encode()) == "größe"
    assert content_of(b"RIFF1234WAVE") == "RIFF1234WAVE"
    assert content_of([b"abc"]) == '["abc"]'
    for data in (b"\xff\xfe", b"\x89PNX\r\n", "größe".encode("latin-1")):
        with pytest.raises(TypeError, match="neither UTF-8 text"):
            content_of(data)


def test_making_blocks() -> None:
    """The helpers refuse what the API would refuse."""
    assert image_bytes(_JPEG) == _JPEG_BLOCK
    assert document_text("15 degrees") == _DOCUMENT_BLOCK
    assert document_text("x", title="T")["title"] == "T"
    assert document_bytes(b"%PDF-1.7", title="T")["title"] == "T"
    with pytest.raises(UsageError, match="unknown kind"):
        image_bytes(b"BM6")
    with pytest.raises(UsageError, match="image/bmp"):
        image_bytes(b"BM6", "image/bmp")
    with pytest.raises(UsageError, match="document_text"):
        document_bytes(b"plain")


# --- what a call takes ------------------------------------------------------------------------------------------------

_CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}


def answer_in(returned: Any, **fields: Any) -> dict[str, Any]:
    """The result of a call whose block has `fields`."""
    call = a_call(**fields)
    call.answer(returned)
    assert call.result is not None
    return call.result


def test_calls_from_code_take_text_only() -> None:
    """A string or text blocks go as they are; of images and documents it says that they cannot be taken."""
    text = {"type": "text", "text": "a"}
    assert answer_in("a", caller=_CALLER)["content"] == "a"
    assert answer_in([text], caller=_CALLER)["content"] == [text]
    result = answer_in(["a", _JPEG, document_text("b")], caller=_CALLER)
    assert result["is_error"] is True
    assert [block["type"] for block in result["content"]] == ["text", "text"]
    assert "document, image" in result["content"][0]["text"]
    assert result["content"][1] == {"type": "text", "text": "a"}
    assert answer_in([_JPEG], caller=_CALLER)["is_error"] is True
    assert answer_in([_JPEG], caller={"type": "direct"})["content"] == [_JPEG_BLOCK]


def test_members_of_a_toolset() -> None:
    """Each result names the toolset, refusals and invalid inputs included; text and images are what they take."""
    result = answer_in(["a", _JPEG], toolset_name="computer")
    assert result == {
        "type": "tool_result",
        "tool_use_id": "toolu_0",
        "content": [{"type": "text", "text": "a"}, _JPEG_BLOCK],
        "toolset_name": "computer",
    }
    result = answer_in([document_text("x"), _JPEG], toolset_name="computer")
    assert result["is_error"] is True
    assert {block["type"] for block in result["content"]} == {"text"}, "an error takes text only"
    assert "image and text only" in result["content"][0]["text"]
    state = {"type": "browser_state", "url": "http://local"}
    assert answer_in([state], toolset_name="browser")["content"] == [state]
    assert answer_in([state], toolset_name="computer")["is_error"] is True
    invalid = a_call("[1]", toolset_name="computer")
    invalid.refuse()
    refused = a_call(toolset_name="computer")
    refused.refuse("no")
    for call in (invalid, refused):
        assert call.result is not None
        assert call.result["toolset_name"] == "computer"
    assert "toolset_name" not in answer_in("a")


# --- how much ---------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_in_the_middle() -> None:
    """10 MB of text: beginning and end stay, a notice says how much there was, and the call is no error."""
    text = "<" + "x" * 10_000_000 + ">"
    result = answer_in(text)
    assert "is_error" not in result
    content = result["content"]
    assert content.startswith("[PARTIAL] The result has 10000002 characters; its middle was left out.\n<x")
    assert content.endswith("x>")
    assert 1024 * 1024 <= len(content) < 1024 * 1024 + 300
    assert f"({len(text) - 1024 * 1024} characters left out)" in content


@pytest.mark.parametrize("max_chars", [1, 2, 7, 100])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 100, 101])
def test_exactly_at_the_limit(max_chars: int, length: int) -> None:
    """What fits is not touched; what does not says so, at any size."""
    call = a_call(max_chars=max_chars)
    call.answer("x" * length)
    assert call.result is not None
    content = call.result.get("content", "")
    assert (content == "x" * length) == (length <= max_chars)
    assert content.startswith("[PARTIAL]") == (length > max_chars)


def test_the_limit_is_for_all_blocks_together() -> None:
    """Many texts are no way around it, errors neither; images keep their place."""
    call = a_call(max_chars=10)
    call.answer(["a" * 6, _JPEG, "b" * 6, "c" * 6])
    assert call.result is not None
    texts = [block.get("text", "image") for block in call.result["content"]]
    assert texts[:2] == ["a" * 6, "image"]
    assert texts[2].startswith("[PARTIAL] The result has 6 characters")
    assert texts[2].endswith("bb")
    assert len(texts) == 3
    failed = a_call(max_chars=10)
    failed.fail(ValueError("x" * 1000))
    assert failed.result is not None
    assert failed.result["is_error"] is True
    assert failed.result["content"].startswith("[PARTIAL]")


def test_huge_images() -> None:
    """More than a request takes is left out, with a word in its place; what still fits stays."""
    huge = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x" * 15_000_000}}
    result = answer_in([huge, huge, _JPEG_BLOCK])
    first, second, third = result["content"]
    assert first == huge
    assert second["type"] == "text"
    assert second["text"].startswith("[PARTIAL]")
    assert third == _JPEG_BLOCK


@pytest.mark.parametrize(
    "block",
    [
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x" * 40_000_000}]},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "x" * 40_000_000}]},
        },
    ],
    ids=["search_result", "document"],
)
def test_texts_inside_blocks_count(block: dict[str, Any]) -> None:
    """40 MB are over the API's 32 MB, wherever they stand."""
    assert len(json.dumps(answer_in([block]))) < 32_000_000


def test_halves_of_pairs_everywhere() -> None:
    """Whatever a tool says and however it fails, its result can be written as UTF-8."""
    half = f"a{HALF}b"
    for result in (
        answer_in(half),
        answer_in([half, _JPEG]),
        answer_in(ToolResponse.partial(half, {half: half}, reason=half)),
        answer_in(ToolResponse.error(half, half, content=[document_text(half)])),
        answer_in([half, _JPEG], caller=_CALLER),
        answered(raised=ValueError(half)),
        answered(raised=ToolError(half, hint=half)),
    ):
        assert "a\ufffdb" in json.dumps(result, ensure_ascii=False).encode().decode()


def test_two_halves_that_make_one() -> None:
    """A pair that came in two pieces is one character again."""
    assert tool_result("toolu_1", "\ud83d\ude00")["content"] == "😀"


# --- content of kinds that are not known here -------------------------------------------------------------------------


def test_content_of_an_unknown_kind_passes() -> None:
    """A kind that the API takes tomorrow must not turn a finished call into an error."""
    audio = {"type": "audio", "source": {"type": "url", "url": "u"}}
    result = answered(ToolResponse.success("42 rows written", content=[audio]))
    assert result["content"] == [{"type": "text", "text": "42 rows written"}, audio]
    assert "is_error" not in result


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"type": "tool_use", "id": "x", "name": "y", "input": {}}, "tool_use"),
        ({"type": "thinking", "thinking": "Hm.", "signature": ""}, "thinking"),
        ({"type": "image"}, "image"),
        ({"type": "audio", "data": object()}, "audio"),
        ({"type": ["audio"]}, "['audio']"),
        ({"text": "x"}, "None"),
        ("text", "str"),
        (None, "NoneType"),
    ],
)
def test_content_that_a_result_cannot_have_is_left_out(block: Any, kind: str) -> None:
    """The call has done its work: its text is kept, it is no error, and the model is told what is missing."""
    response = ToolResponse.success("42 rows written")
    response.content = [block]
    result = answered(response)
    assert result["content"] == [
        {"type": "text", "text": "42 rows written"},
        {"type": "text", "text": f"(Left out, since it is no block that a result can have: {kind}.)"},
    ]
    assert "is_error" not in result


@pytest.mark.parametrize("content", [["x"], {"type": "text", "text": "y"}])
def test_content_that_is_no_list_of_blocks(content: Any) -> None:
    """One block alone is taken as such, and what is no block is left out: the text stays."""
    blocks = answered(ToolResponse.success("42 rows written", content=content))["content"]
    assert [block["text"] for block in blocks] in (
        ["42 rows written", "y"],
        ["42 rows written", "(Left out, since it is no block that a result can have: str.)"],
    )


def test_an_unknown_code_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A precise code lets programs act on an error; a raised exception has one already."""
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            call = a_call(name="vague")
            call.answer(ToolResponse.error("UNKNOWN", "It broke."))
        answered(raised=ValueError("x"))
    assert [record.message for record in caplog.records] == [
        "the tool 'vague' answered with the code UNKNOWN: one of the others of ToolErrorCode says more"
    ]
