"""Results as the API gets them: blocks, invalid inputs, and the texts of errors."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable
from typing import Any

from hypothesis import given, strategies as st
from pydantic import BaseModel

from eagerstream.errors import ToolError
from eagerstream.tools import ToolResponse, ToolStatus, content_of, error_response, error_text, rendered
from eagerstream.tools._results import invalid_result
from eagerstream_wire import InputAccumulator, ToolInput
from eagerstream_wire._block_rules import tool_result
from tests.missing import anthropic_since
from tests.streams import block_stop, input_delta, tool_start
from tests.tables import rows
from tests.tools.calls import WEATHER_ID, a_call, answered
from tests.tools.contents import HALF, JPEG, JPEG_BLOCK


def an_input(*fragments: str) -> ToolInput:
    """A call whose input is closed."""
    accumulator = InputAccumulator()
    for event in (tool_start(0), *(input_delta(0, fragment) for fragment in fragments), block_stop(0)):
        accumulator.feed(event)
    return accumulator.inputs[0]


# --- blocks -----------------------------------------------------------------------------------------------------------


@rows("returned", [None, "", []])
def test_empty_results(returned: Any) -> None:
    """An empty result has no content at all: null and an empty text are not taken."""
    assert tool_result("toolu_1", content_of(returned)) == {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert set(tool_result("toolu_1", content_of(returned), is_error=True)) == {"type", "tool_use_id", "is_error"}


# --- invalid inputs ---------------------------------------------------------------------------------------------------


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


@rows(
    "error, expected",
    [
        (
            ConnectionError("the weather service API is not available (HTTP 500)"),
            "ConnectionError: the weather service API is not available (HTTP 500)",
        ),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (RuntimeError("two\nlines"), "RuntimeError: two\nlines"),
    ],
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


@rows(
    "function, told",
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


@rows(
    "function, told",
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
@rows("before, said", [("", ""), ("the worker died: ", "the worker died:\n")])
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
    group = ExceptionGroup("many", [ValueError(long)] * 25)
    assert len(error_text(group)) < 10_200
    assert error_text(ExceptionGroup("many", [ValueError("x")] * 25)).endswith("and 5 more errors")
    assert error_text(ToolError(long)) == long


def test_groups_in_groups() -> None:
    """Groups may be nested deeper than Python recurses."""
    error: Exception = ValueError("inside")
    for _ in range(2_000):
        error = ExceptionGroup("around", [error])
    assert error_response(error).to_dict()["error"] == {"code": "EXECUTION_ERROR", "message": "ValueError: inside"}


@rows("message", ['Traceback (most recent call last):\n  File "a.py", line 1\nE: x', "see /srv/a.py"])
def test_a_tools_own_words(message: str) -> None:
    """What a tool's author writes for the model is the author's business: the log of a program it ran, say."""
    assert error_text(ToolError(message)) == message


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
    blocks = [JPEG_BLOCK]
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


@rows(
    "given",
    [
        ToolResponse.success("", content=[{"type": "text", "text": ""}]),
        ToolResponse.success("", content=[{"type": "text", "text": ""}, JPEG_BLOCK]),
        ToolError("", content=[{"type": "text", "text": ""}]),
    ],
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
    call.answer(JPEG, include_data=True)
    assert call.result is not None
    assert call.result["content"] == [JPEG_BLOCK]


@anthropic_since("0.84")
def test_a_watcher_reads_what_the_anthropic_package_s_error_says() -> None:
    """The blocks are for the model; whoever watches calls reads `error_info`."""
    from anthropic.lib.tools import ToolError as AnthropicToolError

    call = a_call()
    call.fail(AnthropicToolError([{"type": "text", "text": "no such city"}]))
    assert call.response is not None
    assert call.response.error_info is not None
    assert call.response.error_info["message"] == "no such city"
