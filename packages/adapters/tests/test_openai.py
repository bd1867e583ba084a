"""OpenAI's protocol, read: chunks and events as servers send them, tools and results as they take them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.support import all_tasks_blocked
from tests.tables import rows

from eagerstream import EarlyCalls, ItemStream, Outcome, ToolResponse, UsageError, tool
from eagerstream.tools import ToolCall
from eagerstream_adapters.openai import ChatChunks, ResponseEvents, to_items, to_messages, to_openai
from eagerstream_wire import InputAccumulator

PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, *, choice: int = 0) -> dict[str, Any]:
    return {"choices": [{"index": choice, "delta": delta, "finish_reason": reason}], "usage": None}


def call(
    arguments: Any, *, index: Any = 0, id: str | None = "call_1", name: str | None = "f", **more: Any
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function, **more}]}


def as_objects(value: Any) -> Any:
    """As clients give it: attributes instead of keys."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_objects(inner) for name, inner in value.items()})
    return [as_objects(inner) for inner in value] if isinstance(value, list) else value


def read(*chunks: Any, **options: Any) -> tuple[list[tuple[str, Any]], ChatChunks[Any]]:
    """The names and values of the calls."""
    accumulator = InputAccumulator()
    read = ChatChunks(accumulator.feed, **options)
    for each in chunks:
        read.feed(each)
    read.close()
    return [(input.name, input.value) for input in accumulator.inputs.values()], read


CHUNKS = [
    chunk({"role": "assistant", "content": "Let me "}),
    chunk({"content": "look."}),
    chunk(call("")),
    chunk(call('{"a":', id=None, name=None)),
    chunk(call(" 1}", id=None, name=None)),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"total_tokens": 3}},
]


@rows("form", [lambda chunk: chunk, as_objects])
def test_chunks(form: Any) -> None:
    """Objects and dicts mean the same."""
    calls, chunks = read(*map(form, CHUNKS))
    assert calls == [("f", {"a": 1})]
    assert chunks.text == "Let me look."
    assert chunks.finish_reason == "tool_calls"


@rows(
    "odd",
    [
        {"choices": None, "usage": {"total_tokens": 3}},
        {"usage": {}},
        {},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}, "finish_reason": ""}]},
        {"choices": [{"delta": {"tool_calls": []}}]},
    ],
)
def test_chunks_that_say_nothing(odd: Any) -> None:
    """They come between others, and change nothing."""
    for place in range(len(CHUNKS)):
        calls, chunks = read(*CHUNKS[:place], odd, *CHUNKS[place:])
        assert (calls, chunks.finish_reason) == ([("f", {"a": 1})], "tool_calls")


def test_several_choices() -> None:
    """Each is a reply of its own: one is read, and the others are not mixed in."""
    both = [
        chunk(call("")),
        chunk(call("", name="g", id="call_2"), choice=1),
        chunk(call('{"a": 2}', id=None, name=None), choice=1),
        chunk(call('{"a": 1}', id=None, name=None)),
        chunk({}, "tool_calls", choice=1),
        chunk({}, "tool_calls"),
    ]
    assert read(*both)[0] == [("f", {"a": 1})]
    assert read(*both, choice=1)[0] == [("g", {"a": 2})]


def test_the_function_call_of_old() -> None:
    """One call without an id."""
    old = [{"name": "f", "arguments": ""}, {"name": None, "arguments": '{"a"'}, {"arguments": ": 1}"}]
    calls, _ = read(*(chunk({"function_call": piece}) for piece in old), chunk({}, "function_call"))
    assert calls == [("f", {"a": 1})]


def test_the_index_inside_the_function() -> None:
    """As in Ollama's own protocol, and from what passes it on."""
    calls = [{"function": {"name": "f", "index": index, "arguments": {"a": index}}} for index in range(2)]
    assert read(chunk({"tool_calls": calls}, "stop"))[0] == [("f", {"a": 0}), ("f", {"a": 1})]


def test_a_call_after_the_finish_reason() -> None:
    """A reply ends with its stream."""
    late = chunk(call('{"a": 2}', index=1, id="call_2"), "tool_calls")
    assert read(chunk(call('{"a": 1}'), "tool_calls"), late)[0] == [("f", {"a": 1}), ("f", {"a": 2})]


def test_a_refusal() -> None:
    """What the model says in it is text."""
    assert read(chunk({"refusal": "I would "}), chunk({"refusal": "rather not."}), chunk({}, "stop"))[1].text == (
        "I would rather not."
    )


# --- early calls ------------------------------------------------------------------------------------------------------


@tool
async def f(a: int) -> str:
    """F."""
    return f"f of {a}"


@tool
async def look() -> ToolResponse:
    """Look."""
    return ToolResponse.success("a picture", content=[PIXEL])


async def early(*chunks: Any, tools: Any = (f, look)) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """The calls, and what goes on the conversation."""
    with anyio.fail_after(20):
        async with EarlyCalls(tools) as calls:
            read = ChatChunks(calls.feed)
            for each in chunks:
                read.feed(each)
            read.close()
            done = await calls.finish()
    return done, to_messages(done, read.text)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_call_begins_before_the_reply_ends() -> None:
    """When the next one begins, and the last one with the finish reason, before the stream is over."""
    started: list[str] = []
    async with EarlyCalls([f], on_start=lambda call: started.append(call.id)) as calls:
        chunks = ChatChunks(calls.feed)
        chunks.feed(chunk(call('{"a": 1}')))
        await all_tasks_blocked()
        assert started == []
        chunks.feed(chunk(call("", index=1, id="call_2")))
        await all_tasks_blocked()
        assert started == ["call_1"]
        chunks.feed(chunk(call('{"a": 2}', index=1, id=None, name=None)))
        chunks.feed(chunk({}, "stop"))
        await all_tasks_blocked()
        assert started == ["call_1", "call_2"]
        chunks.close()
        assert [call.response.text for call in await calls.finish() if call.response] == ["f of 1", "f of 2"]


@pytest.mark.anyio
async def test_a_streaming_tool_begins_inside_its_arguments() -> None:
    """Items come one by one, as from the Messages API."""
    items: list[str] = []

    @tool
    async def write(lines: ItemStream[str]) -> int:
        """Write."""
        async for line in lines:
            items.append(line)
        return len(items)

    async with EarlyCalls([write]) as calls:
        chunks = ChatChunks(calls.feed)
        for count, piece in enumerate(['{"lines": ["a', '", "b", "', 'c"]}'], 1):
            chunks.feed(chunk(call(piece, id="call_1" if count == 1 else None, name="write" if count == 1 else None)))
            await all_tasks_blocked()
            assert items == [[], ["a", "b"], ["a", "b", "c"]][count - 1]
        chunks.feed(chunk({}, "tool_calls"))
        chunks.close()
        await calls.finish()


@pytest.mark.anyio
async def test_what_a_filter_stopped_does_not_begin() -> None:
    """It is known at that moment that the reply does not count."""
    (done,), _ = await early(chunk(call('{"a": 1}')), chunk({}, "content_filter"))
    assert not done.ran
    assert done.is_error


@pytest.mark.anyio
@pytest.mark.parametrize("reason", ["length", None])
async def test_a_cut_reply(reason: str | None) -> None:
    """What is whole runs, the rest is answered as cut, and the history can be sent, each call with its message."""
    chunks = [chunk(call('{"a": 1}')), chunk(call('{"a": 2', index=1, id="call_2")), chunk({}, reason)]
    done, (reply, *results) = await early(*chunks)
    assert [call.ran for call in done] == [True, False]
    assert [json.loads(call["function"]["arguments"]) for call in reply["tool_calls"]] == [
        {"a": 1},
        {"INVALID_JSON": '{"a": 2'},
    ]
    assert [message["tool_call_id"] for message in results] == ["call_1", "call_2"]
    assert results[0]["content"] == "f of 1"
    assert "cut off" in results[1]["content"]


@pytest.mark.anyio
async def test_arguments_that_are_not_json() -> None:
    """The model sees its own text, and no server meets arguments that it cannot parse."""
    (done,), (reply, result) = await early(chunk(call('{"a": one}')), chunk({}, "tool_calls"))
    assert done.input.outcome is Outcome.INVALID
    assert json.loads(reply["tool_calls"][0]["function"]["arguments"]) == {"INVALID_JSON": '{"a": one}'}
    assert json.loads(result["content"]) == {"INVALID_JSON": '{"a": one}'}


@pytest.mark.anyio
async def test_messages() -> None:
    """Arguments go back verbatim, pictures follow in a message that may have some, and what Gemini adds is kept."""
    signed = {"google": {"thought_signature": "c2ln"}}
    chunks = [chunk({"content": "I look."}), chunk(call("{ }", name="look", extra_content=signed)), chunk({}, "stop")]
    _, messages = await early(*chunks)
    function = {"name": "look", "arguments": "{ }"}
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert messages[:2] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function, "extra_content": signed}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a picture\n[image]"},
    ]
    assert messages[2]["role"] == "user"
    assert messages[2]["content"][1:] == [url]
    assert to_messages([]) == []
    assert to_messages([], "Hi.") == [{"role": "assistant", "content": "Hi."}]


@pytest.mark.anyio
async def test_other_content_of_results() -> None:
    """Each kind of block is told in words, or as a part that OpenAI has."""
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    blocks: list[dict[str, Any]] = [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "the text"}},
        {"type": "document", "source": pdf, "title": "a.pdf"},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "found"}]},
        {"type": "tool_reference", "tool_name": "f"},
    ]

    @tool
    async def all() -> list[dict[str, Any]]:
        """All."""
        return blocks

    done, (_, result, media) = await early(chunk(call("{}", name="all")), chunk({}, "stop"), tools=[all])
    assert result["content"] == "the text\n[document]\n[image]\nT (s)\nfound\n[tool_reference]"
    assert media["content"][1:] == [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    (item,) = to_items(done)
    assert item["call_id"] == "call_1"
    assert [part["type"] for part in item["output"]] == ["input_text", "input_file", "input_image"]
    assert item["output"][2]["image_url"] == "https://example.com/a.png"


@pytest.mark.anyio
async def test_calls_without_results_make_no_messages() -> None:
    """A history with a call and without its result is refused by every server."""
    async with EarlyCalls([f]) as calls:
        chunks = ChatChunks(calls.feed)
        chunks.feed(chunk(call('{"a": 1}'), "tool_calls"))
        with pytest.raises(UsageError, match="has no result yet"):
            to_messages(calls.calls)
        await calls.finish()


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools() -> None:
    """The schema as the model would get it, nothing that only Anthropic's API knows, and both forms."""
    chat, flat = to_openai(f), to_openai(f, api="responses")
    assert chat["function"]["parameters"] == f.input_schema
    assert chat == {"type": "function", "function": {"name": "f", "description": "F.", "parameters": f.input_schema}}
    assert flat == {"type": "function", **chat["function"]}

    @tool(strict=True, cache_control={"type": "ephemeral"})
    async def g(a: int) -> None:
        """G."""

    assert to_openai(g)["function"].keys() == {"name", "description", "parameters", "strict"}


API_TOOL = tool(lambda input: input, definition={"type": "bash_20250124", "name": "bash"}, eager=None)


@rows("made", [API_TOOL, {"type": "web_search_20250305", "name": "web_search"}])
def test_tools_without_a_schema_of_their_own(made: Any) -> None:
    """Nobody but Anthropic's API knows their schema."""
    with pytest.raises(UsageError, match="input_schema"):
        to_openai(made)


# --- the Responses API ------------------------------------------------------------------------------------------------


def item(arguments: str = "", *, status: str = "completed", number: int = 1) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "f",
        "arguments": arguments,
        "status": status,
    }


def response_events(*fragments: str, number: int = 1) -> list[dict[str, Any]]:
    place = {"output_index": number, "item_id": f"fc_{number}"}
    raw = "".join(fragments)
    return [
        {"type": "response.output_item.added", **place, "item": item(number=number, status="in_progress")},
        *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in fragments),
        {"type": "response.function_call_arguments.done", **place, "arguments": raw},
        {"type": "response.output_item.done", **place, "item": item(raw, number=number)},
    ]


CREATED = {"type": "response.created", "response": {"id": "resp_1"}}
COMPLETED = {"type": "response.completed", "response": {"incomplete_details": None}}
TEXT = [
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Let me look."},
    {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message"}},
]


async def responded(*said: Any) -> list[ToolCall]:
    """The calls of a response with these events."""
    async with EarlyCalls([f]) as calls:
        events = ResponseEvents(calls.feed)
        for event in (CREATED, *said):
            events.feed(event)
        return await calls.finish()


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("form", [lambda event: event, as_objects], ids=["dicts", "objects"])
async def test_response_events(form: Any) -> None:
    """Each call begins at the end of its own item."""
    started: list[str] = []
    async with EarlyCalls([f], on_start=lambda call: started.append(call.id)) as calls:
        events = ResponseEvents(calls.feed)
        for event in (CREATED, *TEXT, *response_events('{"a"', ": 1}")):
            events.feed(form(event))
        await all_tasks_blocked()
        assert started == ["call_1"]
        for event in (*response_events('{"a": 2}', number=2), COMPLETED):
            events.feed(form(event))
        assert to_items(await calls.finish()) == [
            {"type": "function_call_output", "call_id": f"call_{n}", "output": f"f of {n}"} for n in (1, 2)
        ]


@pytest.mark.anyio
async def test_response_events_of_other_servers() -> None:
    """The arguments come whole with the end of the item, or there is no beginning of it."""
    added, _, _, done = response_events('{"a": 1}')
    for some in ([added, done], [done]):
        assert [call.input.value for call in await responded(*some, COMPLETED)] == [{"a": 1}]


@pytest.mark.anyio
@pytest.mark.parametrize("has_item_end", [True, False])
async def test_a_response_that_is_cut(has_item_end: bool) -> None:
    """The call does not run, and is told to be cut."""
    end = {"type": "response.output_item.done", "output_index": 1, "item": item('{"a": 1', status="incomplete")}
    cut = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    (done,) = await responded(*response_events('{"a": 1')[:2], *([end] if has_item_end else []), cut)
    assert done.input.outcome is Outcome.INCOMPLETE
    assert not done.ran
