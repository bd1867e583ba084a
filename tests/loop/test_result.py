"""What is left of a run can be saved, and gone on from: in another process, after any end."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import InputInterrupted, RunResult, StreamInterrupted, TextStream, ToolResponse, TurnStop, UsageError
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError
from eagerstream.loop import Conversation, RunEndedError
from eagerstream.streaming import EventFeed
from eagerstream.tools import Tool, tool
from eagerstream_testing import reply, text, tool_use
from tests.continuing import CutModel
from tests.loop.serial import (
    DONE,
    SLOWLY_S,
    TOOLS,
    UntilBlocked,
    assistant,
    call,
    checked,
    finished,
    only_new_garbage,
    result,
    results,
    running,
    said,
)
from tests.streams import REQUEST, USER, block_start, block_stop, input_delta, message_start, text_delta, tool_start
from tests.support import Broken, LocalAPI, Piece
from tests.tables import rows

pytestmark = pytest.mark.anyio


class Odd:
    """What a tool may have in its data: it has no JSON form."""

    def __str__(self) -> str:
        return "odd"


async def test_after_an_error() -> None:
    """What had run is in the saved history: the run that goes on from it does not repeat it."""
    ran: list[str] = []

    @tool
    async def pay(to: str) -> ToolResponse:
        ran.append(to)
        return ToolResponse.success(f"paid {to}", data={"odd": Odd(), "nan": float("nan")})

    @tool
    async def write(words: TextStream) -> str:
        try:
            return await words
        except InputInterrupted:
            return "kept some"

    broken: list[Piece] = [
        message_start(container={"id": "container_1"}),
        *[tool_start(0, "pay"), input_delta(0, '{"to": "Ann"}'), block_stop(0)],
        *[tool_start(1, "nope"), input_delta(1, "{"), block_stop(1)],
        tool_start(2, "write"),
        input_delta(2, '{"words": "\\ud83d'),
        UntilBlocked(),
        Broken(),
    ]
    api = LocalAPI([reply(tool_use("pay", {"to": "Bob"}, id="b"), message_id="m")], broken)
    run = eagerstream.run(api.transport(), **REQUEST, tools=[pay, write], on_interrupt="raise")
    with anyio.fail_after(SLOWLY_S), pytest.raises(StreamInterrupted) as caught:
        async with run:
            await run.finish()
    assert RunResult.of(caught.value) is run.result
    saved = RunResult.from_json(json.dumps(run.result.to_dict()))
    assert checked(saved).status is RunStatus.ERROR
    assert saved.error is not None
    assert saved.error == caught.value.to_dict()
    assert saved.error["type"] == "StreamInterrupted"
    assert saved.to_dict() == run.result.to_dict()
    assert saved.messages == run.result.messages
    assert [(made.name, made.ran, made.input.outcome) for made in saved.calls] == [
        (made.name, made.ran, made.input.outcome) for made in run.result.calls
    ]
    assert [made.input.raw for made in saved.calls] == [made.input.raw for made in run.result.calls]
    assert saved.calls[0].response is not None
    assert saved.calls[0].response.data == {"odd": "odd", "nan": None}
    assert saved.calls[0].answered.is_set()

    later = LocalAPI([DONE])
    again = await finished(later.transport(), tools=[pay, write], messages=saved)
    assert ran == ["Bob", "Ann"]
    assert again.result.messages == [*saved.messages, assistant(said("Done."))]
    assert later.exchanges[0].body["messages"] == saved.messages


async def test_the_container_goes_along() -> None:
    """Code that the API runs goes on where it was; a container that the user names himself counts."""
    first = reply(text("So."), message_id="m")
    body = first.body.replace(b'"content":[]', b'"content":[],"container":{"id":"container_1"}')
    run = await finished(LocalAPI([body]).transport())
    saved = RunResult.from_json(run.result.to_json())
    assert saved.container == {"id": "container_1"}
    saved.messages.append(USER)
    api = LocalAPI([DONE])
    await finished(api.transport(), messages=saved)
    assert api.exchanges[0].body["container"] == "container_1"


async def test_saved_at_each_turn() -> None:
    """At a `TurnStop` the result has the whole turn: a process that dies after it has lost nothing."""
    saved: list[str] = []
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [reply(tool_use("now", {}, id="b"))], [DONE])
    async with running(api.transport(), tools=TOOLS) as run:
        async for event in run:
            if isinstance(event, TurnStop):
                saved.append(run.result.to_json())
    first = RunResult.from_json(saved[0])
    assert first.status is RunStatus.RUNNING
    assert checked(first).messages == [USER, assistant(call("a", "now", {})), results(result("a", "noon"))]
    again = await finished(LocalAPI([DONE]).transport(), messages=first)
    assert again.result.messages == [*first.messages, assistant(said("Done."))]


def test_step_by_step() -> None:
    """The form without input and output takes a result, too."""
    saved = RunResult(RunStatus.ERROR, None, [USER], container="container_1")
    conversation = Conversation(model="m", max_tokens=5, messages=RunResult.from_json(saved.to_json()))
    request = conversation.request()
    assert (request["messages"], request["container"]) == ([USER], "container_1")


class Frozen(Mapping[str, Any]):
    """A message that is a mapping, and no dict."""

    def __getitem__(self, key: str) -> Any:
        return USER[key]

    def __iter__(self) -> Any:
        return iter(USER)

    def __len__(self) -> int:
        return len(USER)


def test_what_cannot_be_saved() -> None:
    """It is said, instead of half of it being written."""
    assert RunResult.from_json(RunResult(RunStatus.ERROR, None, [Frozen()]).to_json()).messages == [USER]
    with pytest.raises(UsageError, match="no JSON form"):
        RunResult(RunStatus.ERROR, None, [{"role": "user", "content": [{"type": "text", "text": object()}]}]).to_json()


@rows("bad", ["", "[]", "{}", "nope", "[" * 100_000, '{"eagerstream_run": 2}', '{"eagerstream_run": 1}', b"\xff"])
def test_what_is_no_saved_run(bad: Any) -> None:
    """Anything else is refused in our own words."""
    with pytest.raises(UsageError, match="not a saved run"):
        RunResult.from_json(bad)


def test_a_saved_run_that_was_changed() -> None:
    """A field of the wrong kind is refused, too."""
    plain = RunResult(RunStatus.COMPLETED, None, [USER]).to_dict()
    for name, bad in (("status", "nope"), ("messages", 5), ("messages", [5]), ("calls", [5]), ("usage", "x")):
        with pytest.raises(UsageError, match="not a saved run"):
            RunResult.from_dict({**plain, name: bad})


def test_a_saved_run_of_another_version() -> None:
    """It is refused as a whole, although all its fields are there."""
    plain = RunResult(RunStatus.COMPLETED, None, [USER]).to_dict()
    with pytest.raises(UsageError, match="expected an object with 'eagerstream_run': 1"):
        RunResult.from_dict({**plain, "eagerstream_run": 2})


async def test_going_on_with_a_text() -> None:
    """Half an answer is kept by asking for the rest, in a message of the user's."""
    api = LocalAPI([message_start(), block_start(0, "text", text=""), text_delta(0, "Once upon"), Broken()])
    run = eagerstream.run(api.transport(), **REQUEST, max_restarts=0)
    with anyio.fail_after(SLOWLY_S), pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()
    asked = RunResult.from_json(run.result.to_json()).continuation
    assert asked is not None
    assert "Once upon" in asked["content"]
    later = LocalAPI([DONE])
    await finished(later.transport(), messages=[*run.result.messages, asked])
    assert run.result.messages == [USER]
    whole = await finished(LocalAPI([DONE]).transport())
    assert whole.result.continuation is None
    assert RunResult(RunStatus.ERROR, None, [USER]).continuation is None


async def test_a_text_that_max_tokens_cut_is_continued() -> None:
    """The history has it, so it is not quoted again. After a call, the results are the next message already."""
    half = reply(text("Half of"), stop_reason="max_tokens")
    run = await finished(LocalAPI([half]).transport())
    rest = run.result.continuation
    assert rest is not None
    assert "Half of" not in str(rest)
    messages = [*run.result.messages, rest]
    assert eagerstream.validate_history(messages, model="claude-opus-4-7") == []
    called = reply(text("So."), tool_use("now", {}, id="a"), stop_reason="max_tokens")
    assert (await finished(LocalAPI([called]).transport())).result.continuation is None


async def test_going_on_takes_text_only() -> None:
    """Thinking and calls that were cut cannot be recovered: no request repeats them by itself."""
    body: list[Piece] = [message_start(), block_start(0, "thinking", thinking="Hm", signature=""), block_stop(0)]
    body += [tool_start(1, "now"), input_delta(1, '{"city": "Par'), Broken()]
    api = LocalAPI(body)
    run = eagerstream.run(api.transport(), **REQUEST, tools=TOOLS, max_restarts=0)
    with anyio.fail_after(SLOWLY_S), pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()
    assert len(api.exchanges) == 1
    assert run.result.continuation is None
    assert run.result.messages == [USER]


async def in_a_task(converse: Callable[[], Awaitable[Any]]) -> Any:
    """What a task of its own gives. From Python 3.12 on, one that was cancelled keeps its callers' frames while it lives."""
    made = []

    async def task() -> None:
        made.append(await converse())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(task)
    return made.pop()


async def kept_of(converse: Callable[[], Awaitable[EventFeed[Any]]]) -> RunResult:
    """The result of a run of which nothing else is left, without the garbage collector."""

    async def referred() -> tuple[RunResult, list[weakref.ref[Any]]]:
        run: Any = await converse()
        return run.result, [weakref.ref(each) for each in (run, run._driver, run._delivery, run._driver.course)]

    gc.disable()
    try:
        with only_new_garbage(), anyio.fail_after(SLOWLY_S):
            kept, others = await in_a_task(referred)
            assert [other() for other in others] == [None] * 4
    finally:
        gc.enable()
    return checked(kept)


@pytest.mark.parametrize("ends", ["by itself", "cancelled", "left", "left early"])
async def test_a_result_keeps_no_run(ends: str) -> None:
    """Results are kept for long: with them stays what was said, and not the client, the buffer and all other calls.

    Nor does it take the garbage collector to get rid of a run: what waits for it adds up where many end.
    """
    asks = reply(text("Let me see."), tool_use("get_weather", {"city": "Oslo"}), tool_use("fail", {}))

    async def converse() -> EventFeed[Any]:
        async with eagerstream.run(LocalAPI([asks], [DONE]).transport(), tools=TOOLS, **REQUEST) as run:
            async for event in run:
                if isinstance(event, TurnStop) and ends == "cancelled":
                    run.cancel()
                elif ends == "left early" or (isinstance(event, TurnStop) and ends == "left"):
                    break
        return run

    made = [call.name for call in (await kept_of(converse)).calls]
    assert made == ["get_weather", "fail"] or (ends == "left early" and not made)


@pytest.mark.parametrize("on_truncated", ["report", "continue_input"])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_cut_response_keeps_no_run(on_truncated: Any, is_lost: bool) -> None:
    """Nor does the error of a lost connection keep it, or a response that further ones continue."""
    model = CutModel({"city": "Oslo"}, (12, is_lost), name="get_weather")

    async def converse() -> EventFeed[Any]:
        async with eagerstream.run(
            model.transport(), tools=TOOLS, on_truncated=on_truncated, restart_delay_s=0.0, **REQUEST
        ) as run:
            await run.finish()
        return run

    assert (await kept_of(converse)).status is RunStatus.COMPLETED


# --- data and files ---------------------------------------------------------------------------------------------------


async def saved_after(used: Tool) -> RunResult:
    """The result of a run that calls a tool, saved and read again, with nothing lost."""
    run = await finished(LocalAPI([reply(tool_use(used.name, {}, id="a"))], [DONE]).transport(), tools=[used])
    saved = RunResult.from_json(run.result.to_json())
    assert saved.to_dict() == run.result.to_dict()
    assert saved.messages == run.result.messages
    return saved


class _NoWords:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def _cycle() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["again"] = data
    return data


_DATA: dict[str, dict[Any, Any]] = {
    "bytes": {"b": b"\xff"},
    "surrogates": {"\ud83d": "\ud83d"},
    "a long integer": {"n": 10**5_000},
    "a cycle": _cycle(),
    "no words": {"x": _NoWords()},
    "keys": {("a", 1): 2, 3: 4},
}


@pytest.mark.parametrize("data", _DATA.values(), ids=_DATA)
async def test_data_that_has_no_json_form(data: dict[Any, Any]) -> None:
    """Whatever a tool puts beside its answer, the run can be saved."""

    @tool
    async def odd() -> ToolResponse:
        return ToolResponse.success("odd", data=data)

    saved = await saved_after(odd)
    assert saved.messages[2] == results(result("a", "odd"))


async def test_an_image_is_saved() -> None:
    """The bytes that a tool returns are content, and data."""

    @tool
    async def draw() -> bytes:
        return b"\x89PNG\r\n\x1a\n" + b"\0\xff" * 10

    saved = await saved_after(draw)
    (answer,) = saved.messages[2]["content"]
    assert answer["content"][0]["type"] == "image"


# --- how it ended -----------------------------------------------------------------------------------------------------


async def test_a_model_that_never_stops_calling() -> None:
    """It is asked 50 times, unless the program wants it otherwise; the history can be continued."""
    again = reply(tool_use("get_weather", {"city": "Oslo"}))
    api = LocalAPI([again])
    async with eagerstream.run(api.transport(), tools=TOOLS, **REQUEST) as run:
        result = await run.finish()
    assert result is run.result
    assert (result.status, result.turns, len(api.exchanges)) == (RunStatus.LIMIT, 50, 50)
    with pytest.raises(RunEndedError, match="status limit after 50 turns: a bound was reached") as raised:
        result.raise_for_status()
    assert raised.value.result is result
    bodies = [[again]] * 60
    async with eagerstream.run(LocalAPI(*bodies, [DONE]).transport(), tools=TOOLS, max_turns=None, **REQUEST) as run:
        assert (await run.finish()).raise_for_status().turns == 61


@rows("status", list(RunStatus))
def test_raise_for_status(status: RunStatus) -> None:
    """Only two of the ways to end are asked for. Each other one says what it is."""
    result: RunResult[Any] = RunResult(status, None, [], error={"type": "APIError", "text": "Overloaded"})
    if status in (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE):
        assert result.raise_for_status() is result
        return
    with pytest.raises(RunEndedError) as raised:
        result.raise_for_status()
    assert str(raised.value).startswith(f"the run ended with the status {status.value} after 0 turns: ")
    assert str(raised.value).endswith(" (APIError: Overloaded)")
    assert isinstance(raised.value, EagerStreamError)
    assert pickle.loads(pickle.dumps(raised.value)).result.status is status
