"""What is said: nowhere unless asked for, and then without secrets, in the conventions' shapes, and bounded."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from packages.adapters.tests.collected import AGENT, CHAT, Collected, attributes, fail, finished
from tests.streams import USER
from tests.tables import rows

from eagerstream import tool
from eagerstream.tools import ToolCall
from eagerstream_adapters.otel._content import (
    MAX_ATTRIBUTE_CHARS,
    MAX_TEXT_CHARS,
    call_attributes,
    input_attributes,
    output_attributes,
)
from eagerstream_adapters.otel._instrumentation import CAPTURE, _asked_for_content
from eagerstream_testing import reply, text, thinking, tool_use

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
SHORT_KEY = "ghp_abcdefghijklmnopqrst"
WORDS = ("PROMPT", "SYSTEM", "ARGUMENT", "RESULT", "RAISED", "THOUGHT", "ANSWER", "DESCRIBED", "INVENTED", KEY)


@tool
async def echo(said: str, api_key: str = "") -> str:
    """DESCRIBED."""
    return f"RESULT {said} {api_key}"


@tool
async def raises() -> None:
    """Fail with words that quote the input."""
    raise ValueError("RAISED over the ARGUMENT")


async def run_with_words(collected: Collected, *, capture_content: bool | None = None) -> None:
    """A run in which each of the words is said by somebody."""
    calls = reply(
        thinking("THOUGHT"),
        tool_use("echo", {"said": "ARGUMENT", "api_key": KEY}, id="first"),
        tool_use("raises", {}, id="second"),
        tool_use("INVENTED", {}, id="third"),
        tool_use("echo", "no ARGUMENT", id="fourth"),
    )
    with collected.tracing(capture_content=capture_content):
        async with collected.serving(calls, reply(text("ANSWER"))) as (client, _):
            messages = [{"role": "user", "content": f"PROMPT {KEY}"}]
            await finished(client, echo, raises, messages=messages, system="SYSTEM")


@pytest.mark.anyio
@pytest.mark.parametrize(("value", "argument"), [(None, None), ("nonsense", None), ("true", False)])
async def test_nothing_by_default(
    value: str | None,
    argument: bool | None,
    collected: Collected,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in spans, events, statuses, metrics, nor in the log; the argument counts before the variable."""
    if value is not None:
        monkeypatch.setenv(CAPTURE, value)
    with caplog.at_level(logging.DEBUG, "eagerstream"):
        await run_with_words(collected, capture_content=argument)
    everything = collected.everything()
    assert len(collected.spans()) > 5
    assert [word for word in WORDS if word in everything or word in caplog.text] == []
    assert ("is none of" in caplog.text) is (value == "nonsense")


@pytest.mark.anyio
@pytest.mark.parametrize("value", [None, "SPAN_ONLY"])
async def test_on_opt_in(value: str | None, collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """By argument, or by the variable: everything that was said, but no secret."""
    if value is not None:
        monkeypatch.setenv(CAPTURE, value)
    await run_with_words(collected, capture_content=True if value is None else None)
    everything = collected.everything()
    assert [word for word in WORDS if word not in everything] == [KEY]
    assert KEY[:20] not in everything
    first, second = collected.spans(CHAT)
    assert said(first, "system_instructions") == [{"type": "text", "content": "SYSTEM"}]
    assert said(first, "input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": "PROMPT [redacted]"}]}
    ]
    (answer,) = said(first, "output.messages")
    assert answer["finish_reason"] == "tool_call"
    arguments = {"said": "ARGUMENT", "api_key": "[redacted]"}
    assert answer["parts"][:2] == [
        {"type": "reasoning", "content": "THOUGHT"},
        {"type": "tool_call", "id": "first", "name": "echo", "arguments": arguments},
    ]
    assert [message["role"] for message in said(second, "input.messages")] == ["user", "assistant", "user"]
    results = said(second, "input.messages")[2]["parts"]
    assert results[0] == {"type": "tool_call_response", "id": "first", "response": "RESULT ARGUMENT [redacted]"}
    assert results[1]["response"] == "ValueError: RAISED over the ARGUMENT"
    assert said(second, "output.messages")[0]["finish_reason"] == "stop"
    tools = {attributes(span)["gen_ai.tool.call.id"]: span for span in collected.spans("execute_tool")}
    assert said(tools["first"], "tool.call.arguments") == arguments
    assert said(tools["first"], "tool.call.result") == "RESULT ARGUMENT [redacted]"
    assert attributes(tools["first"])["gen_ai.tool.description"] == "DESCRIBED."
    assert said(tools["fourth"], "tool.call.arguments") == "no ARGUMENT"
    assert attributes(tools["third"])["gen_ai.tool.name"] == "INVENTED"
    assert tools["third"].name == "execute_tool _other"  # names of spans are few
    assert "gen_ai.input.messages" not in attributes(collected.span(AGENT))


def said(span: Any, name: str) -> Any:
    """An attribute with contents."""
    return json.loads(attributes(span)[f"gen_ai.{name}"])


@rows(
    "value, is_captured, is_known",
    [
        ("", False, True),
        ("0", False, True),
        ("false", False, True),
        ("no_content", False, True),
        ("EVENT_ONLY", False, True),
        ("nonsense", False, False),
        ("1", True, True),
        ("true", True, True),
        (" SPAN_ONLY ", True, True),
        ("span_and_event", True, True),
    ],
)
def test_values_of_the_variable(
    value: str, is_captured: bool, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of OpenTelemetry's own packages, in any case; another one records nothing, and is reported."""
    caplog.clear()
    assert _asked_for_content({CAPTURE: value}) is is_captured
    assert ("is none of" in caplog.text) is not is_known


# --- shapes and bounds ------------------------------------------------------------------------------------------------


def test_kinds_of_blocks() -> None:
    """Images and documents are only named; what is no block at all does not stop anything."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "see"}, image]}
    content = [image, result, {"no": "type"}, "text", 5, None]
    (message,) = json.loads(
        str(input_attributes({"messages": [{"role": "user", "content": content}]})["gen_ai.input.messages"])
    )
    assert message["parts"] == [
        {"type": "image"},
        {"type": "tool_call_response", "id": "a", "response": [{"type": "text", "content": "see"}, {"type": "image"}]},
        *[{"type": "unknown"}] * 4,
    ]


def test_blocks_of_the_client() -> None:
    """A history may hold the objects of the anthropic package."""
    from anthropic.types import TextBlock

    messages = [{"role": "assistant", "content": [TextBlock(type="text", text="so")]}]
    (message,) = json.loads(str(input_attributes({"messages": messages})["gen_ai.input.messages"]))
    assert message["parts"] == [{"type": "text", "content": "so"}]


@rows(
    "content",
    [
        "x" * 10_000_000,
        [{"type": "text", "text": "x" * 1000}] * 10_000,
        [{"type": "tool_use", "id": "a", "name": "b", "input": {str(n): "x" * 100 for n in range(100_000)}}],
        [{"type": "tool_use", "id": "a", "name": "b", "input": {"list": [0] * 1_000_000}}],
        [{"type": "tool_use", "id": "a" * 10_000_000, "name": "b" * 10_000_000, "input": {}}],
        [{"type": "x" * 10_000_000}],
        [{}] * 1_000_000,
    ],
)
def test_bounds(content: Any) -> None:
    """However much was said, an attribute has room for so much; escapes and punctuation come on top of it."""
    most = 24 * MAX_ATTRIBUTE_CHARS
    message = {"role": "assistant", "content": content}
    assert len(str(output_attributes(message)["gen_ai.output.messages"])) < most
    for attribute in input_attributes({"messages": [USER, message] * 3, "system": content}).values():
        assert len(str(attribute)) < most


def test_the_newest_stays() -> None:
    """Of a long conversation the end is kept; a text keeps its beginning, and says that it was cut."""
    messages = [{"role": "user", "content": f"{number} " + "x" * MAX_TEXT_CHARS} for number in range(100)]
    listed = json.loads(str(input_attributes({"messages": messages})["gen_ai.input.messages"]))
    numbers = [int(message["parts"][0]["content"].split()[0]) for message in listed]
    assert numbers[-1] == 99
    assert len(numbers) < 10
    assert numbers == sorted(numbers)
    assert listed[-1]["parts"][0]["content"].endswith("x...")


@rows("shown", range(len(SHORT_KEY) + 1))
def test_a_secret_across_the_cut(shown: int) -> None:
    """What would be left of it may be too short to be known as one: it goes as a whole."""
    content = "x" * (MAX_TEXT_CHARS - shown - 1) + " " + SHORT_KEY + "x" * MAX_TEXT_CHARS
    for said in (content, [{"type": "tool_use", "id": "a", "name": "b", "input": {"a": content}}]):
        written = str(output_attributes({"content": said})["gen_ai.output.messages"])
        assert SHORT_KEY[:5] not in written


@rows("given", [10**5000, float("inf"), "\ud800", {"a": "\udfff"}, object(), b"bytes"])
def test_values_without_a_json_form(given: Any) -> None:
    """They become something that an exporter can encode."""
    content = [{"type": "tool_use", "id": "a", "name": "b", "input": {"value": given}}]
    str(output_attributes({"content": content})["gen_ai.output.messages"]).encode()


def test_a_deep_value() -> None:
    """It is cut off at some depth instead of being followed to its end."""
    value: Any = 1
    for _ in range(10_000):
        value = {"a": value}
    written = str(output_attributes({"content": [{"type": "tool_use", "id": "", "name": "", "input": value}]}))
    assert "[left out]" in written


@pytest.mark.anyio
async def test_a_call_that_was_cut(collected: Collected) -> None:
    """Its text as far as it had come."""
    cut = reply(tool_use("echo", '{"said": "ARG', closed=False), stop_reason="max_tokens")
    with collected.tracing(capture_content=True):
        async with collected.serving(cut) as (client, _):
            run = await finished(client, echo, fail)
    (call,) = run.result.calls
    assert isinstance(call, ToolCall)
    assert json.loads(str(call_attributes(call)["gen_ai.tool.call.arguments"])) == '{"said": "ARG'
