"""Of the API's document on handling tool calls: its samples, made by this library and taken by a double of the API.

The double refuses what the API refuses, in the API's words.
"""

from __future__ import annotations

import json
from typing import Any, Final

import anyio
import pytest
from anthropic import BadRequestError

import eagerstream
from eagerstream import HistoryError, RunStatus, ToolError, validate_history
from eagerstream.tools import Tool, document_text, image_bytes
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.support import anthropic_client, check_history

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: it changes nothing about what the messages contain."""
    return "asyncio"


SLOWLY_S: Final = 30
ID: Final = "toolu_01A09q90qw90lq917835lq9"
LOCATION: Final = {"location": "San Francisco, CA", "unit": "celsius"}

RESPONSE: Final[dict[str, Any]] = json.loads("""
{
  "id": "msg_01Aq9w938a90dw8q",
  "model": "claude-opus-4-7",
  "stop_reason": "tool_use",
  "role": "assistant",
  "content": [
    {
      "type": "text",
      "text": "I'll check the current weather in San Francisco for you."
    },
    {
      "type": "tool_use",
      "id": "toolu_01A09q90qw90lq917835lq9",
      "name": "get_weather",
      "input": { "location": "San Francisco, CA", "unit": "celsius" }
    }
  ]
}
""")
SAID: Final = text(RESPONSE["content"][0]["text"])
DONE: Final = reply(text("It is 15 degrees."))
REQUEST: Final[dict[str, Any]] = {
    "model": RESPONSE["model"],
    "max_tokens": 1024,
    "messages": [{"role": "user", "content": "What's the weather like in San Francisco?"}],
}


def the_response(**changed: Any) -> Any:
    """The document's response; its call may have another name, or another input."""
    call = tool_use(changed.get("name", "get_weather"), changed.get("input", LOCATION), id=ID)
    return reply(SAID, call, model=RESPONSE["model"], message_id=RESPONSE["id"])


def weather_tool(answer: Any) -> Tool:
    """`get_weather`, which gives this answer, or raises it."""

    @eagerstream.tool
    async def get_weather(location: str, unit: str = "celsius") -> Any:
        """Current weather."""
        assert {"location": location, "unit": unit} == LOCATION
        if isinstance(answer, Exception):
            raise answer
        return answer

    return get_weather


# --- results of client tools ------------------------------------------------------------------------------------------


async def test_the_response_and_the_three_steps() -> None:
    """By hand: name, id and input are taken from the call, its code is run, and one message continues."""

    def get_weather(location: str, unit: str) -> str:
        return "15 degrees" if (location, unit) == ("San Francisco, CA", "celsius") else "?"

    tools: dict[str, Any] = {"get_weather": get_weather}
    definition = weather_tool("").to_dict()
    with ReplayServer(Scenario(the_response(), DONE)) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.stream(client, **REQUEST, tools=[definition]) as stream:
                await stream.finish()
            message: dict[str, Any] = {**stream.message}
            assert {name: message[name] for name in RESPONSE} == RESPONSE
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": tools[block["name"]](**block["input"]),
                }
                for block in message["content"]
                if block["type"] == "tool_use"
            ]
            history = [
                *REQUEST["messages"],
                {"role": "assistant", "content": message["content"]},
                {"role": "user", "content": results},
            ]
            assert validate_history(history) == []
            async with eagerstream.stream(client, **{**REQUEST, "messages": history}, tools=[definition]) as stream:
                await stream.finish()
    assert stream.message["content"] == [{"type": "text", "text": "It is 15 degrees."}]
    assert history[-1] == json.loads(SAMPLES["a successful result"][1])


IMAGE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQSkZJRg..."},
}

SAMPLES: Final[dict[str, tuple[Any, str]]] = {
    "a successful result": (
        "15 degrees",
        """
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
      "content": "15 degrees"
    }
  ]
}
""",
    ),
    "with an image": (
        ["15 degrees", IMAGE],
        """
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
      "content": [
        { "type": "text", "text": "15 degrees" },
        {
          "type": "image",
          "source": {
            "type": "base64",
            "media_type": "image/jpeg",
            "data": "/9j/4AAQSkZJRg..."
          }
        }
      ]
    }
  ]
}
""",
    ),
    "an empty result": (
        None,
        """
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9"
    }
  ]
}
""",
    ),
    "with a document": (
        ["The weather is", document_text("15 degrees")],
        """
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
      "content": [
        { "type": "text", "text": "The weather is" },
        {
          "type": "document",
          "source": {
            "type": "text",
            "media_type": "text/plain",
            "data": "15 degrees"
          }
        }
      ]
    }
  ]
}
""",
    ),
    "an error of the tool": (
        ConnectionError("the weather service API is not available (HTTP 500)"),
        """
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
      "content": "ConnectionError: the weather service API is not available (HTTP 500)",
      "is_error": true
    }
  ]
}
""",
    ),
}

CONTENTS: Final[dict[str, tuple[Any, Any]]] = {
    "text": ("15 degrees", "15 degrees"),
    "blocks": ([{"type": "text", "text": "15 degrees"}], [{"type": "text", "text": "15 degrees"}]),
    "documents": (
        [document_text("15 degrees")],
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "15 degrees"}}],
    ),
    "bytes of an image": (
        image_bytes(b"\xff\xd8\xff\xe0", "image/jpeg"),
        [{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4A=="}}],
    ),
    "advice": (ToolError.rate_limited(60), "Rate limit exceeded. Retry after 60 seconds."),
}


async def turn(response: Any, tool: Tool) -> list[dict[str, Any]]:
    """How a run goes on from the response: its echo and the results, in a request that the double has taken."""
    with ReplayServer(Scenario(response, DONE)) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=[tool]) as run:
                await run.finish()
        _, second = server.requests
    assert second.status == 200
    assert run.result.status is RunStatus.COMPLETED
    check_history(run.result.messages)
    messages: list[dict[str, Any]] = second.body["messages"][1:]
    return messages


@pytest.mark.parametrize(("answer", "sample"), SAMPLES.values(), ids=SAMPLES)
async def test_samples(answer: Any, sample: str) -> None:
    """Each message of the document is what a run sends for a tool that answers so."""
    echo, results = await turn(the_response(), weather_tool(answer))
    assert echo == {name: RESPONSE[name] for name in ("role", "content")}
    assert results == json.loads(sample)


async def test_forms_of_content() -> None:
    """The forms that the document names in its text, as the results of one response."""

    @eagerstream.tool
    async def get_weather(form: str) -> Any:
        """Current weather."""
        answer, _ = CONTENTS[form]
        if isinstance(answer, Exception):
            raise answer
        return answer

    calls = [tool_use("get_weather", {"form": form}, id=f"toolu_{number}") for number, form in enumerate(CONTENTS)]
    _, message = await turn(reply(*calls), get_weather)
    results = dict(zip(CONTENTS, message["content"], strict=True))
    assert {form: result["content"] for form, result in results.items()} == {
        form: content for form, (_, content) in CONTENTS.items()
    }
    assert [form for form, result in results.items() if result.get("is_error", False)] == ["advice"]


# --- the order of blocks ----------------------------------------------------------------------------------------------

TOOL_CALL: Final[dict[str, Any]] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": LOCATION}],
}
TEXT_BEFORE: Final[dict[str, Any]] = json.loads("""
{
  "role": "user",
  "content": [
    { "type": "text", "text": "Here are the results:" },
    { "type": "tool_result", "tool_use_id": "toolu_01", "content": "15 degrees" }
  ]
}
""")
TEXT_AFTER: Final[dict[str, Any]] = json.loads("""
{
  "role": "user",
  "content": [
    { "type": "tool_result", "tool_use_id": "toolu_01", "content": "15 degrees" },
    { "type": "text", "text": "What should I do next?" }
  ]
}
""")
BETWEEN: Final[dict[str, Any]] = {"role": "user", "content": "One moment."}
REFUSED: Final = "tool_use ids were found without tool_result blocks immediately after"


@pytest.mark.parametrize(
    "messages", [[TOOL_CALL, TEXT_BEFORE], [TOOL_CALL, BETWEEN, TEXT_AFTER]], ids=["text before", "a message between"]
)
async def test_a_wrong_order(messages: list[dict[str, Any]]) -> None:
    """Both that the document forbids: found here before anything is sent, and refused by the API in its words."""
    request = {**REQUEST, "messages": [*REQUEST["messages"], *messages], "tools": [weather_tool("").to_dict()]}
    fault, *_ = validate_history(request["messages"])
    assert REFUSED in str(fault).replace("`", "")
    with ReplayServer(Scenario.of(DONE)) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            with pytest.raises(HistoryError, match="toolu_01"):
                async with eagerstream.run(client, **{**request, "tools": [weather_tool("")]}):
                    raise AssertionError("nothing is sent")
            assert not server.requests
            with pytest.raises(BadRequestError) as caught:
                async with client.messages.stream(**request):
                    raise AssertionError("nothing is played")
    assert REFUSED in str(caught.value).replace("`", "")


async def test_text_after_the_results() -> None:
    """The order that the document calls right is taken, and the conversation goes on from it."""
    messages = [*REQUEST["messages"], TOOL_CALL, TEXT_AFTER]
    assert validate_history(messages) == []
    with ReplayServer(Scenario.of(DONE)) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            request = {**REQUEST, "messages": messages}
            async with eagerstream.run(client, **request, tools=[weather_tool("15 degrees")]) as run:
                await run.finish()
        (sent,) = server.requests
    assert sent.body["messages"] == messages
    assert run.result.status is RunStatus.COMPLETED


# --- invalid calls ----------------------------------------------------------------------------------------------------


async def test_a_missing_parameter() -> None:
    """The document's message for a call without its `location`; the tool is not called."""
    _, message = await turn(the_response(input={"unit": "celsius"}), weather_tool(AssertionError("not called")))
    assert message == json.loads("""
{
  "role": "user",
  "content": [
    {
      "type": "tool_result",
      "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
      "content": "Error: Missing required 'location' parameter",
      "is_error": true
    }
  ]
}
""")


async def test_an_unknown_tool() -> None:
    """A name that nobody has is answered in the same way, with the names that there are."""
    _, message = await turn(the_response(name="get_wether"), weather_tool(AssertionError("not called")))
    assert message["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": ID,
            "content": "Error: Tool 'get_wether' not found. Available tools: get_weather",
            "is_error": True,
        }
    ]


async def test_the_model_corrects_itself() -> None:
    """Two or three wrong calls and then a right one: the run goes along, and the tool is called once."""
    calls: list[dict[str, Any]] = [{}, {"location": 5}, {"place": "San Francisco, CA"}, LOCATION]
    replies = [reply(tool_use("get_weather", input)) for input in calls]
    with ReplayServer(Scenario(*replies, DONE)) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=[weather_tool("15 degrees")]) as run:
                await run.finish()
    results = [call.result or {} for call in run.result.calls]
    assert [result.get("is_error", False) for result in results] == [True, True, True, False]
    assert [call.ran for call in run.result.calls] == [False, False, False, True]
    assert results[-1]["content"] == "15 degrees"
    assert run.result.status is RunStatus.COMPLETED
    check_history(run.result.messages)
