"""No key, header, tool argument, result or text of a model in any repr, str or log record, unless asked for.

Not looked at are: `Scripted` and `Scenario`, which are made by hand and are there to be looked at; `InputError`,
`InputInterrupted` and `ToolError`, whose text is what the model is told; `Reject`, whose words are the guard's own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import (
    APIError,
    HTTPTransport,
    ItemStream,
    ProtocolError,
    Recording,
    StreamInterrupted,
    ToolResponse,
    UsageError,
    tool,
)
from eagerstream.loop import Conversation, RunEvent, TurnStop
from eagerstream.progress import RunRecorder, RunView
from eagerstream.recordings import Chunk
from eagerstream.streaming import GrowingInput
from eagerstream.testing import encode_event, error_event, reply, text, thinking, tool_use
from eagerstream.testing._received import RequestLog
from eagerstream.tools import Tool, ToolCall
from eagerstream.wire import MessageAssembler, PartialJSON, SSEDecoder, TextDelta, WireEvent, decode_event
from tests.streams import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import REQUEST, Broken, LocalAPI, Piece
from tests.tables import rows

CANARY = "hunter2"
KEY = f"sk-ant-api03-{CANARY}"
BODY: list[WireEvent] = [
    message_start(container={"id": CANARY}),
    block_start(0, "text", text=CANARY),
    text_delta(0, CANARY),
    block_delta(0, "citations_delta", citation={"type": "char_location", "cited_text": CANARY}),
    block_stop(0),
    block_start(1, "thinking", thinking="", signature=""),
    block_delta(1, "thinking_delta", thinking=CANARY),
    block_delta(1, "signature_delta", signature=CANARY),
    block_stop(1),
    block_start(2, "web_search_tool_result", content=[{"url": CANARY}]),
    block_stop(2),
    tool_start(3, input={}),
    input_delta(3, f'{{"{CANARY}": "{CANARY}"'),
    input_delta(3, "}"),
    block_stop(3),
    tool_start(4),
    input_delta(4, f'{{"a": {CANARY}}}'),
    block_stop(4),
    tool_start(5, input={"a": CANARY}),
    block_stop(5),
    tool_start(6, kind="server_tool_use"),
    input_delta(6, f'{{"query": "{CANARY}"}}'),
    block_stop(6),
    block_start(7, "web_fetch_tool_result", tool_use_id="toolu_6", content={"type": CANARY, "error_code": CANARY}),
    block_stop(7),
    {"type": "new_event", "data": CANARY},
    block_delta(9, "new_delta", data=CANARY),
    message_delta("tool_use"),
    MESSAGE_STOP,
]
WHOLE = b"".join(map(encode_event, BODY))


def shown(value: object) -> str:
    """Both ways in which a value is shown."""
    return f"{value!r} {value!s}"


def events() -> list[Any]:
    """One of each event of a stream, and more."""
    assembler = MessageAssembler(input_type=GrowingInput, reports=True)
    return [event for wire_event in BODY for event in assembler.feed(wire_event)]


def test_there_is_an_event_of_each_class() -> None:
    """What is not built here is not looked at."""
    names = {type(event).__name__ for event in events()}
    public = {name for name in eagerstream.__all__ if is_dataclass(getattr(eagerstream, name))}
    of_runs = {"ToolStart", "ToolStop", "ToolProgress", "TurnStart", "TurnStop", "Restarted", "RunResult"}
    others = {"Limits", "Recording", "ToolCall", "ToolResponse", "Group", "Reject", "HistoryFault", "OutputDelta"}
    assert public - of_runs - others == names


def test_events_and_inputs() -> None:
    """An event tells its kind, its place and its size. Only the text for the user is shown, to whoever prints it."""
    for event in events():
        assert isinstance(event, TextDelta) or CANARY not in shown(event)
        assert f"{type(event).__name__}(" in repr(event)


def test_parsers_and_faults() -> None:
    """What reads the input, at any point of it, and what is wrong with it; a fault has one character of it."""
    decoder = SSEDecoder()
    parser = PartialJSON()
    parser.feed(f'{{"a": "{CANARY}", "b": {CANARY}')
    assembler = MessageAssembler()
    for found in (*decoder.feed(WHOLE), decoder, parser, parser.error, assembler, assembler.state):
        assert CANARY not in shown(found)
    for wire_event in BODY:
        assembler.feed(wire_event)
        for input in assembler.inputs.values():
            assert CANARY not in shown(input)
            assert CANARY not in shown(input.error)


def _objects() -> Iterator[object]:
    (call_input,) = [event.input for event in events() if getattr(event, "input", None) and event.input.index == 3][:1]
    call = ToolCall(call_input, turn=1)
    call.reject(CANARY)
    yield call
    call = ToolCall(call_input, turn=1)
    call.answer(CANARY)
    yield call
    call = ToolCall(call_input, turn=1)
    call.fail(ValueError(CANARY))
    yield call
    yield call.response
    yield ToolResponse.success(CANARY, {"a": CANARY}, {"b": CANARY}, {"c": CANARY})
    yield ToolResponse.partial(CANARY, reason=CANARY, content=[{"type": "text", "text": CANARY}])
    yield ToolResponse.error("NOT_FOUND", CANARY, data={"a": CANARY})
    recording = Recording((Chunk(0.5, WHOLE),), headers={"set-cookie": CANARY}, note=CANARY)
    yield from (recording, recording.redacted(), recording.chunks)
    received = RequestLog().add({"x-api-key": CANARY, "x": CANARY}, f"api_key={CANARY}")
    received.body = {"messages": [CANARY]}
    yield received
    yield HTTPTransport(base_url=f"https://me:{CANARY}@host", api_key=KEY, headers={"x": CANARY})
    view = RunView()
    recorder = RunRecorder(lambda records: [view.feed(record) for record in records], id="run_1")
    recorder.take([*events()])
    yield from (recorder, view, *view.calls)
    yield ProtocolError("the data is wrong", excerpt=CANARY)
    yield APIError(f"{KEY} is wrong", message={"content": CANARY})
    yield StreamInterrupted("lost", message={"content": CANARY})
    yield Tool(_echo)
    yield Conversation(**REQUEST, tools=[Tool(_echo)], system=CANARY)
    yield eagerstream.run(recording, **REQUEST, system=CANARY)
    yield eagerstream.stream(recording, **REQUEST, system=CANARY)


async def _echo(text: str) -> str:
    """Say it again."""
    return text


@rows("value", _objects())
def test_objects(value: object) -> None:
    """Calls, results, requests, recordings, transports, errors."""
    assert CANARY not in shown(value)


@rows("data", [CANARY, f'"{CANARY}"', f'{{"a": "{CANARY}"}}', f'{{"type": "x", "a": "{CANARY}'])
def test_events_that_are_none(data: str) -> None:
    """What breaks the protocol may be a piece of an input: the error has it, its text does not."""
    with pytest.raises(ProtocolError) as caught:
        decode_event(data)
    assert CANARY in caught.value.excerpt
    assert CANARY not in shown(caught.value)


def test_refused_settings() -> None:
    """What was handed in wrongly may be a key that was put into the wrong place."""
    with pytest.raises(UsageError) as caught:
        HTTPTransport(base_url=KEY)
    assert CANARY not in shown(caught.value)
    with pytest.raises(UsageError) as caught:
        Recording((), headers={"set-cookie": f"{CANARY}\n"})
    assert CANARY not in shown(caught.value)


def test_what_a_peer_says_of_its_error() -> None:
    """Its words are shown, without secrets, at a length that people read, and without acting on a terminal."""
    error = APIError(f"\x1b[2J{KEY} {'x' * 100_000} Bearer a.b.c end", error_type="\x1b" * 1000, request_id="y" * 1000)
    assert CANARY not in shown(error)
    assert "\x1b" not in shown(error)
    assert len(str(error)) < 2_500
    assert error.reason.startswith("\x1b[2J[redacted] xxx")
    assert error.reason.endswith(" characters left out)")
    assert CANARY not in repr(error.args)
    assert str(APIError("Overloaded", status_code=529, request_id="req_1")) == "Overloaded (HTTP 529, request req_1)"


# --- a whole run --------------------------------------------------------------------------------------------------------


@tool
async def say(text: str) -> ToolResponse:
    """Say it again."""
    return ToolResponse.partial(text, {"data": CANARY}, reason=CANARY)


@tool
async def fail(text: str) -> str:
    """Fail with it."""
    raise ValueError(text)


@tool(timeout_s=0.01)
async def wait(text: str) -> str:
    """Take too long."""
    await anyio.sleep_forever()
    return text


_BLOCKED_S = 0.01
"""Instead of a tenth of a second, from which on a run warns of a tool that keeps the event loop."""


@tool
async def block(text: str) -> str:
    """Keep the event loop."""
    until_s = time.perf_counter() + 2 * _BLOCKED_S
    while time.perf_counter() < until_s:
        pass
    return text


@tool
async def lines(items: ItemStream[str]) -> str:
    """Read what is being written."""
    return " ".join([item async for item in items])


@tool(guard=lambda _input: CANARY)
async def guarded(text: str) -> str:
    """Never runs."""
    return text


_INPUT = {"text": CANARY}
_REPLY = reply(
    text(f"I was told {CANARY}."),
    thinking(CANARY, signature=CANARY),
    *(tool_use(name, _INPUT) for name in ("say", "fail", "wait", "block", "guarded", "unknown")),
    tool_use("lines", {"items": [CANARY, CANARY]}),
    tool_use("lines", f'{{"items": ["{CANARY}", {CANARY}'),
    tool_use("say", f'{{"text": {CANARY}}}'),
    tool_use("say", {"text": [CANARY], CANARY: CANARY}),
)
_END = reply(text(CANARY))


async def _run(client: Any) -> tuple[list[str], Exception | None, Any]:
    """What a run shows of its events, while they come; its failure; and its result."""
    seen: list[str] = []
    tools: list[Tool] = [say, fail, wait, block, lines, guarded]
    failure = None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("eagerstream.tools._invoke.BLOCKED_S", _BLOCKED_S)
        async with eagerstream.run(client, tools=tools, **REQUEST, restart_delay_s=0) as running:
            try:
                async for event in running:
                    seen += _shown_of(event)
            except Exception as error:
                failure = error
    return seen, failure, running.result


def _shown_of(event: RunEvent) -> Iterator[str]:
    if not isinstance(event, TextDelta):  # shows the text
        yield shown(event)
    if isinstance(event, TurnStop):
        yield from map(shown, event.calls)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["plain", "anthropic"])
@pytest.mark.parametrize(
    "end",
    [
        [_END],
        [b"data: " + CANARY.encode() + b"\n\n"],
        [reply(text(CANARY), error_event("overloaded_error", f"{KEY} is overloaded"))],
        [message_start(), text_delta(0, CANARY), Broken()],
    ],
    ids=["whole", "garbage", "error event", "broken off"],
)
@pytest.mark.sample(3)
async def test_a_run(kind: str, end: list[Piece], caplog: pytest.LogCaptureFixture) -> None:
    """With calls that are valid, invalid, unknown, failing, late, blocking and guarded, and endings of all kinds."""
    caplog.set_level(logging.DEBUG)
    api = LocalAPI([_REPLY], end, headers={"set-cookie": CANARY, "anthropic-organization-id": CANARY})
    seen, failure, result = await _run(api.transport() if kind == "plain" else api.anthropic())
    assert len(result.calls) == 10
    assert all(call.result for call in result.calls)
    for line in (*seen, shown(failure), shown(result), *map(shown, result.calls)):
        assert CANARY not in line
    # The anthropic package's own loggers write requests as they are at this level; that is asked for by it.
    records = [record for record in caplog.records if kind == "plain" or record.name.startswith("eagerstream")]
    assert any("blocked the event loop" in record.getMessage() for record in records)
    for record in records:
        assert CANARY not in f"{record.getMessage()} {record.args!r} {record.exc_info!r}"


@pytest.mark.anyio
async def test_what_the_model_is_told_is_told() -> None:
    """Only logs do without: the model gets its results, and its own text where it made a mistake."""
    _, _, result = await _run(LocalAPI([_REPLY], [_END]).transport())
    for call in result.calls:
        assert CANARY in str(call.result["content"]) or call.name in ("wait", "unknown")


def test_differences_can_still_be_seen() -> None:
    """Equality, which tests use, looks at what the repr leaves out."""
    one, other = (Recording.from_body(body) for body in (b"a", b"b"))
    assert one != other
    assert repr(one) == repr(other) == "<Recording 200, 1 bytes in 1 chunks, 0 s>"
    assert replace(one, chunks=other.chunks) == other
