"""Of the API's document on fine-grained tool streaming: its programs as they stand, and what they are with this library.

The programs run on the anthropic package's own client, over a socket, against a double of the API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import anthropic
import anyio
import pytest

import eagerstream
from eagerstream import InputAccumulator, InputDelta, InputStart, InputStop, Outcome, Recording
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.documents.requests import GET_WEATHER_REQUEST, MAKE_FILE_REQUEST
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_stop,
    blocks_of,
    input_delta,
    message_delta,
    message_start,
    tool_start,
)
from tests.support import anthropic_client, check_history
from tests.virtual_time import in_virtual_time, timed

POEM: Final = ["The harbour keeps its hours,", 'a bell says "so",', "the water knows\tthe way.", "—"]
MAKE_FILE_INPUT: Final = {"filename": "poem.txt", "lines_of_text": POEM}
USAGE: Final = {"input_tokens": 377, "output_tokens": 72}
SLOWLY_S: Final = 30


@contextmanager
def api(monkeypatch: pytest.MonkeyPatch, *replies: Recording) -> Iterator[ReplayServer]:
    """A double of the API, at the place where `anthropic.Anthropic()` looks for it; the programs close no client."""
    with ExitStack() as clients, ReplayServer(Scenario(*replies)) as server:

        class Client(anthropic.Anthropic):
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                clients.callback(self.close)

        monkeypatch.setattr(anthropic, "Anthropic", Client)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        yield server


# --- how to use it: `make_file` ---------------------------------------------------------------------------------------

POEM_REPLY: Final = reply(text("Gladly."), tool_use("make_file", MAKE_FILE_INPUT), usage=USAGE)


def make_file_program() -> anthropic.types.Message:
    """As the document has it."""
    client = anthropic.Anthropic()

    with client.messages.stream(
        max_tokens=65536,
        model="claude-opus-4-7",
        tools=[
            {
                "name": "make_file",
                "description": "Write text to a file",
                "eager_input_streaming": True,
                "input_schema": {
                    "type": "object",
                    "properties": {
                        "filename": {
                            "type": "string",
                            "description": "The filename to write text to",
                        },
                        "lines_of_text": {
                            "type": "array",
                            "description": "An array of lines of text to write to the file",
                        },
                    },
                    "required": ["filename", "lines_of_text"],
                },
            }
        ],
        messages=[
            {
                "role": "user",
                "content": "Can you write a long poem and make a file called poem.txt?",
            }
        ],
    ) as stream:
        for event in stream:  # noqa: B007  # so it stands there
            pass
        final_message = stream.get_final_message()

    print(final_message.usage)
    return final_message


@pytest.mark.slow
def test_make_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The program asks for eager input in the request alone, without a beta, and prints the usage of the whole reply."""
    with api(monkeypatch, POEM_REPLY) as server:
        message = make_file_program()
        (request,) = server.requests
    assert "output_tokens=72" in capsys.readouterr().out
    assert message.content[-1].to_dict()["input"] == MAKE_FILE_INPUT
    assert request.body == {**MAKE_FILE_REQUEST, "stream": True}
    assert "anthropic-beta" not in request.headers


@pytest.mark.anyio
async def test_make_file_with_the_async_client() -> None:
    """The same with `AsyncAnthropic`."""
    with ReplayServer(POEM_REPLY) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            async with client.messages.stream(**MAKE_FILE_REQUEST) as stream:
                async for _ in stream:
                    pass
                message = await stream.get_final_message()
        (request,) = server.requests
    assert message.content[-1].to_dict()["input"] == MAKE_FILE_INPUT
    assert message.usage.output_tokens == 72
    assert request.body == {**MAKE_FILE_REQUEST, "stream": True}


@pytest.mark.anyio
async def test_make_file_with_eagerstream() -> None:
    """The same request and the same message; on the way to it, the poem is there as far as it has come."""
    lines: list[list[str]] = []
    with ReplayServer(POEM_REPLY) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.stream(client, **MAKE_FILE_REQUEST) as stream:
                async for event in stream:
                    if isinstance(event, InputDelta):
                        lines.append(list(event.input.partial.get("lines_of_text", ())))
        (request,) = server.requests
    assert request.body == {**MAKE_FILE_REQUEST, "stream": True}
    assert lines[-1] == POEM
    for view in lines:
        *finished, growing = view or [""]
        assert finished == POEM[: len(finished)]
        assert POEM[len(finished)].startswith(growing)
    assert blocks_of(stream.message)[-1]["input"] == MAKE_FILE_INPUT
    assert stream.message["usage"]["output_tokens"] == 72


# --- accumulating by hand: `get_weather` ------------------------------------------------------------------------------


def get_weather_program() -> None:
    """As the document has it."""
    client = anthropic.Anthropic()

    tool_inputs = {}  # index -> accumulated JSON string

    with client.messages.stream(
        model="claude-opus-4-7",
        max_tokens=1024,
        tools=[
            {
                "name": "get_weather",
                "description": "Get current weather for a city",
                "eager_input_streaming": True,
                "input_schema": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
            }
        ],
        messages=[{"role": "user", "content": "Weather in Paris?"}],
    ) as stream:
        for event in stream:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                tool_inputs[event.index] = ""
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                tool_inputs[event.index] += event.delta.partial_json
            elif event.type == "content_block_stop" and event.index in tool_inputs:
                parsed = json.loads(tool_inputs[event.index])
                print(f"Tool input: {parsed}")


def with_the_accumulator() -> None:
    """The contract kept by `InputAccumulator`, over the raw events: the client's own helper raises at invalid JSON."""
    accumulator = InputAccumulator()
    with anthropic.Anthropic() as client:
        for event in client.messages.create(stream=True, **GET_WEATHER_REQUEST):
            for change in accumulator.feed(event):
                if isinstance(change, InputStop):
                    print(f"Tool input: {change.input.wrapped}")


def with_a_stream() -> None:
    """The whole program in this library's words."""

    async def main() -> None:
        async with (
            anthropic.AsyncAnthropic() as client,
            eagerstream.stream(client, **GET_WEATHER_REQUEST) as stream,
        ):
            async for event in stream:
                if isinstance(event, InputStop):
                    print(f"Tool input: {event.input.wrapped}")

    anyio.run(main)


each_program = pytest.mark.parametrize(
    "program", [get_weather_program, with_the_accumulator, with_a_stream], ids=lambda program: program.__name__
)
OURS: Final = [with_the_accumulator, with_a_stream]


@each_program
def test_get_weather(
    program: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All three send the same request and print the same inputs: of each call its own, of a text none."""
    calls = [tool_use("get_weather", {"city": city}, fragment_chars=3) for city in ("Paris", "Saint-Étienne 🌧")]
    with api(monkeypatch, reply(text('Let me look: {"city"'), *calls)) as server:
        program()
        (request,) = server.requests
    assert request.body == {**GET_WEATHER_REQUEST, "stream": True}
    assert capsys.readouterr().out == "Tool input: {'city': 'Paris'}\nTool input: {'city': 'Saint-Étienne 🌧'}\n"


UNUSABLE: Final = {
    "invalid": reply(tool_use("get_weather", '{"city": Paris}')),
    "cut": reply(tool_use("get_weather", '{"city": "Pa'), stop_reason="max_tokens"),
}
each_unusable = pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)


@each_unusable
def test_the_document_s_program_fails(answer: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the document warns of: nothing promises JSON, and `max_tokens` may end the input anywhere."""
    with api(monkeypatch, answer), pytest.raises(ValueError, match=r"(?i)expect|unterminated|parse"):
        get_weather_program()


@each_unusable
@pytest.mark.parametrize("program", OURS, ids=lambda program: program.__name__)
def test_what_cannot_be_used_is_wrapped(
    program: Callable[[], None],
    answer: Recording,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same inputs with this library: no exception, and an object that can go back to the model."""
    with api(monkeypatch, answer):
        program()
    printed = capsys.readouterr().out
    assert printed in (
        "Tool input: {'INVALID_JSON': '{\"city\": Paris}'}\n",
        "Tool input: {'INVALID_JSON': '{\"city\": \"Pa'}\n",
    )
    assert ("Paris" in printed) == (answer is UNUSABLE["invalid"])


def test_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its three steps beside the accumulator's, on the raw events: an object as the placeholder, texts, one parse."""
    by_hand: dict[int, str] = {}
    accumulator = InputAccumulator()
    seen: list[tuple[str, dict[str, Any]]] = []
    with api(monkeypatch, POEM_REPLY), anthropic.Anthropic() as client:
        for event in client.messages.create(stream=True, **MAKE_FILE_REQUEST):
            changes = accumulator.feed(event)
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                assert event.content_block.input == {}
                by_hand[event.index] = ""
                assert [type(change) for change in changes] == [InputStart]
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                by_hand[event.index] += event.delta.partial_json
                (tool_input,) = accumulator.inputs.values()
                assert tool_input.raw == by_hand[event.index]
                seen.append((tool_input.raw, json.loads(json.dumps(tool_input.partial))))
            elif event.type == "content_block_stop" and event.index in by_hand:
                (change,) = changes
                assert isinstance(change, InputStop)
                assert change.input.value == json.loads(by_hand[event.index]) == MAKE_FILE_INPUT
                assert change.input.outcome is Outcome.VALID
    assert list(by_hand) == [1]
    # A line shows while it is being written: with the contract alone there is nothing before the block is closed.
    half = next(partial for raw, partial in seen if raw.endswith(("keeps i", "keeps it")))
    assert half["filename"] == "poem.txt"
    assert POEM[0].startswith(half["lines_of_text"][0])


# --- the chunks -------------------------------------------------------------------------------------------------------

BUFFERED_CHUNKS: Final = ['{"', 'query": "Ty', "peScri", "pt 5.0 5.1 ", "5.2 5", ".3", " new f", "eatur"]
EAGER_CHUNKS: Final = ['{"query": "TypeScript 5.0 5.1 5.2 5.3', " new features comparison"]


def queries(chunks: list[str], *, after_s: float) -> list[tuple[float, str]]:
    """The query as it is known whenever a chunk has come, and how many seconds after the request that is."""
    whole = '{"query": "TypeScript 5.0 5.1 5.2 5.3 new features comparison"}'
    fragments = [*chunks, whole.removeprefix("".join(chunks))]  # the document leaves the last ones out
    assert "".join(fragments) == whole
    every_s = 0.1
    end_s = after_s + every_s * len(fragments)
    recording = timed(
        (0.5, message_start()),
        (0.5, tool_start(0, "search")),
        *((after_s + every_s * number, input_delta(0, fragment)) for number, fragment in enumerate(fragments)),
        (end_s, block_stop(0)),
        (end_s, message_delta("tool_use")),
        (end_s, MESSAGE_STOP),
    )

    async def main() -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []
        started_s = anyio.current_time()
        async with eagerstream.stream(recording, **REQUEST) as stream:
            async for event in stream:
                if isinstance(event, InputDelta):
                    query = event.input.partial.get("query", "")
                    seen.append((round(anyio.current_time() - started_s, 6), str(query)))
        return seen

    return in_virtual_time(main)


def test_the_two_profiles() -> None:
    """The document's two examples at its own times: after 3 s the eager one shows what the other has after 15.5."""
    eager, held_back = queries(EAGER_CHUNKS, after_s=3), queries(BUFFERED_CHUNKS, after_s=15)
    assert eager[0] == (3.0, "TypeScript 5.0 5.1 5.2 5.3")
    assert eager[1] == (3.1, "TypeScript 5.0 5.1 5.2 5.3 new features comparison")
    assert held_back[:3] == [(15.0, ""), (15.1, "Ty"), (15.2, "TypeScri")]
    assert next(at_s for at_s, query in held_back if query == eager[0][1]) == 15.5
    assert held_back[-1][1] == eager[-1][1]


# --- invalid JSON in tool responses -----------------------------------------------------------------------------------

INVALID: Final = [
    "<your invalid json string>",
    '{"keywords": Dave, "r": 1}',
    '{"path": "C:\\new", quote: "\\""}',
    '{"a": "tab\tand\nline"}',
    "[1, 2]",
]


@pytest.mark.anyio
async def test_invalid_json_goes_back_wrapped() -> None:
    """To the model in an error result, and in the call's echo: an object with one key, which keeps every character."""
    ran: list[str] = []

    @eagerstream.tool
    async def get_weather(city: str) -> str:
        """Get current weather for a city."""
        ran.append(city)
        return "15 degrees"

    bad = [tool_use("get_weather", raw, id=f"toolu_bad{number}") for number, raw in enumerate(INVALID)]
    scenario = Scenario(reply(*bad), reply(tool_use("get_weather", {"city": "Paris"})), reply(text("15 degrees.")))
    with ReplayServer(scenario) as server, anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            request = {**GET_WEATHER_REQUEST, "tools": [get_weather]}
            async with eagerstream.run(client, **request) as run:
                await run.finish()
        _, second, _ = server.requests
    echo, answer = second.body["messages"][1:]
    assert echo["content"] == [
        {"type": "tool_use", "id": f"toolu_bad{number}", "name": "get_weather", "input": {"INVALID_JSON": raw}}
        for number, raw in enumerate(INVALID)
    ]
    for number, (result, raw) in enumerate(zip(answer["content"], INVALID, strict=True)):
        assert (result["type"], result["tool_use_id"]) == ("tool_result", f"toolu_bad{number}")
        assert result["is_error"] is True
        assert json.loads(result["content"]) == {"INVALID_JSON": raw}
    assert ran == ["Paris"]
    check_history(run.result.messages)
