"""Streaming tools start inside their own input, and their calls are answered however the input ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
import eagerstream_testing
from eagerstream import (
    InputInterrupted,
    ItemStream,
    Outcome,
    RunStatus,
    TextStream,
    ToolStart,
    ToolStop,
    tool,
)
from eagerstream.loop import Run
from eagerstream_testing import encode_event, reply
from tests.loop.serial import DONE, SLOWLY_S, Scribe, ended, finished, only_result, opened, running
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked

pytestmark = pytest.mark.anyio


@tool
async def say(words: TextStream) -> str:
    """Say."""
    return await words


@tool
async def first_word(words: TextStream) -> str:
    """Say the first word."""
    return await anext(aiter(words))


async def test_a_streaming_tool_begins_inside_its_input() -> None:
    """Its items are handled while the model is still writing, and its result is ready with the input's end."""
    scribe = Scribe()
    gates = [Gate(), Gate()]
    body = [
        message_start(),
        *opened("make_file", '{"filename": "poem.txt", '),
        gates[0],
        input_delta(0, '"lines": ["one", "tw'),
        gates[1],
        input_delta(0, 'o"]}'),
        *ended(),
    ]
    api = LocalAPI(body, [DONE])
    starts: list[Outcome | None] = []
    async with running(api.transport(), tools=[scribe.make_file]) as run:
        async with anyio.create_task_group() as tasks:

            async def consume() -> None:
                async for event in run:
                    if isinstance(event, ToolStart):
                        starts.append(event.call.input.outcome)

            tasks.start_soon(consume)
            await scribe.begun.wait()
            assert scribe.got == []
            gates[0].opened.set()
            await scribe.after(1).wait()
            assert scribe.got == ["one"]
            gates[1].opened.set()
    assert starts == [None]
    assert scribe.got == ["one", "two"]
    assert only_result(run) == {"type": "tool_result", "tool_use_id": "toolu_0", "content": "wrote 2 lines to poem.txt"}
    assert run.result.status is RunStatus.COMPLETED


async def _broken(scribe: Scribe, *rest: Piece, tools: Sequence[Any] = (), **options: Any) -> Run:
    """A run whose first reply goes on with `rest` once a line of it has been read."""
    gate = Gate()
    body = [message_start(), *opened("make_file", '{"filename": "a", "lines": ["one", '), gate, *rest]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), **{"tools": [scribe.make_file, *tools], **options}) as run:
        await scribe.after(1).wait()
        gate.opened.set()
        try:
            await run.finish()
        except eagerstream.EagerStreamError:
            pass
    return run


async def test_the_input_turns_invalid() -> None:
    """The tool is interrupted at the wrong character; the call is echoed wrapped, and answered with what it said."""
    scribe = Scribe()
    raw = '{"filename": "a", "lines": ["one", two]}'
    run = await _broken(scribe, input_delta(0, "two]}"), *ended())
    assert scribe.interrupted is not None
    assert run.result.messages[1]["content"][0]["input"] == {"INVALID_JSON": raw}
    result = only_result(run)
    assert result["is_error"] is True
    assert json.dumps({"INVALID_JSON": raw}) in result["content"]
    assert result["content"].endswith("kept 1 lines of a")
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("on_truncated", ["stop", "report", "retry"])
async def test_the_input_is_cut(on_truncated: str) -> None:
    """The call stays in the turn, with what the tool had done; what has begun is never sent again."""
    scribe = Scribe()
    cut = [input_delta(0, '"tw'), message_delta("max_tokens"), MESSAGE_STOP]
    run = await _broken(scribe, *cut, on_truncated=on_truncated)
    assert scribe.got == ["one"]
    assert run.result.status is (RunStatus.TRUNCATED if on_truncated == "stop" else RunStatus.COMPLETED)
    result = only_result(run)
    assert "cut off" in result["content"]
    assert result["content"].endswith("kept 1 lines of a")
    (call,) = run.result.calls
    assert (call.ran, call.in_history, call.input.outcome) == (True, True, Outcome.INCOMPLETE)


async def test_the_connection_is_lost() -> None:
    """The call that had begun is kept, closed with what its tool said or that it was cancelled."""
    scribe = Scribe()
    run = await _broken(scribe, b"", on_interrupt="raise")
    assert run.result.status is RunStatus.ERROR
    assert scribe.got == ["one"]
    assert only_result(run)["is_error"] is True
    assert run.result.calls[0].in_history


async def test_a_refusal_after_it_had_begun() -> None:
    """The turn is left out; what the tool did is in `calls`, marked as not in the history."""
    scribe = Scribe()
    run = await _broken(scribe, input_delta(0, '"two"]}'), *ended("refusal"))
    assert run.result.status is RunStatus.REFUSED
    assert len(run.result.messages) == 1
    (call,) = run.result.calls
    assert (call.ran, call.in_history) == (True, False)
    assert call.response is not None
    assert call.response.text == "wrote 2 lines to a"


async def test_an_item_that_does_not_fit() -> None:
    """The input is JSON, but not what the schema says: the model is told, and what the tool made of it."""
    scribe = Scribe()
    run = await _broken(scribe, input_delta(0, "2]}"), *ended())
    result = only_result(run)
    assert result["is_error"] is True
    assert result["content"].startswith("Error: Invalid parameter 'lines[1]': Input should be a valid string, got 2")
    assert result["content"].endswith("kept 1 lines of a")
    assert run.result.messages[1]["content"][0]["input"] == {"filename": "a", "lines": ["one", 2]}


async def test_a_parameter_that_is_written_twice() -> None:
    """The tool had begun with the first value, the input has the second: that is told, not passed over."""
    scribe = Scribe()
    run = await _broken(scribe, input_delta(0, '"two"], "filename": "b"}'), *ended())
    result = only_result(run)
    assert result["is_error"] is True
    assert "'filename' was written twice" in result["content"]


async def test_a_tool_that_ends_before_its_input() -> None:
    """It is answered once the input is whole: only then is it known that what it was given was right."""

    gate = Gate()
    ran = anyio.Event()
    body = [message_start(), *opened("first_word", '{"words": "Good'), gate, input_delta(0, ' day"}'), *ended()]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[first_word]) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                call = event.call
                ran.set()
                await all_tasks_blocked()
                assert call.result is None
                gate.opened.set()
    assert only_result(run)["content"] == "Good"
    assert not only_result(run).get("is_error")


async def test_a_tool_that_is_slower_than_the_model() -> None:
    """Reading goes on: the next call begins while the slow one is still at its first item."""
    release = anyio.Event()
    read: list[int] = []

    @tool
    async def slow(items: ItemStream[int]) -> int:
        """Sum."""
        async for item in items:
            read.append(item)
            await release.wait()
        return sum(read)

    @tool
    async def now() -> str:
        """The time."""
        release.set()
        return "noon"

    gate = Gate()
    body = [
        message_start(),
        *opened("slow", '{"items": [1, '),
        gate,
        input_delta(0, "2, 3]}"),
        block_stop(0),
        *opened("now", index=1),
        *ended(index=1),
    ]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[slow, now], buffer="wait") as run:
        async for event in run:
            if isinstance(event, ToolStart) and event.call.name == "slow":
                gate.opened.set()
    contents = [result["content"] for result in run.result.messages[2]["content"]]
    assert contents == ["6", "noon"]


async def test_what_came_at_once_is_not_risked() -> None:
    """Where the whole input is there before the tool could begin, it is judged first: nothing of a wrong one runs."""
    scribe = Scribe()
    whole = reply(eagerstream_testing.tool_use("make_file", '{"filename": "a", "lines": ["x", y]}', id="toolu_0"))
    run = await finished(LocalAPI([whole], [DONE]).transport(), tools=[scribe.make_file])
    assert not scribe.begun.is_set()
    assert not run.result.calls[0].ran


async def test_the_time_limit_counts_from_the_end_of_the_input() -> None:
    """A model that takes its time does not cost the tool its own."""
    release = anyio.Event()

    @tool(timeout_s=0.05)
    async def endless(items: ItemStream[int]) -> None:
        """Never end."""
        async for _ in items:
            pass
        await release.wait()

    body = [message_start(), *opened("endless", '{"items": [1, '), 0.2, input_delta(0, "2]}"), *ended()]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[endless])
    assert only_result(run)["content"].startswith("TimeoutError")


async def test_streaming_calls_of_a_group() -> None:
    """One at a time, in call order: the second begins when the first has ended, and misses nothing."""
    order: list[str] = []

    @tool(group="files")
    async def write(name: str, lines: ItemStream[str]) -> str:
        """Write."""
        order.append(f"{name} begins")
        count = len(await lines)
        order.append(f"{name} ends")
        return str(count)

    body = [
        message_start(),
        *opened("write", '{"name": "a", "lines": ["x"', index=0),
        *opened("write", '{"name": "b", "lines": ["y", "z"]}', index=1),
        block_stop(1),
        input_delta(0, "]}"),
        *ended(index=0),
    ]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[write])
    assert order == ["a begins", "a ends", "b begins", "b ends"]
    assert [result["content"] for result in run.result.messages[2]["content"]] == ["1", "2"]


async def test_last_words_after_a_lost_connection() -> None:
    """The tool cleans up, in its own time, and what it says is in the history: the error waits for that."""
    removed: list[bool] = []

    @tool
    async def write(text: TextStream) -> str:
        """Write."""
        try:
            return await text
        except InputInterrupted:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            removed.append(True)
            return "removed it again"

    gate = Gate()
    api = LocalAPI([message_start(), *opened("write", '{"text": "one '), gate, Broken()])
    with anyio.fail_after(SLOWLY_S):
        with pytest.raises(eagerstream.StreamInterrupted):
            async with eagerstream.run(api.transport(), **REQUEST, tools=[write], on_interrupt="raise") as run:
                async for event in run:
                    if isinstance(event, ToolStart):
                        gate.opened.set()
    assert removed == [True]
    assert only_result(run)["content"].endswith("removed it again")


async def test_work_that_was_done_before_the_run_was_left() -> None:
    """A tool that has ended and waits only for the end of its input: its answer is kept."""

    gate = Gate()
    api = LocalAPI([message_start(), *opened("first_word", '{"words": "Good'), gate])
    async with running(api.transport(), tools=[first_word]) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                await all_tasks_blocked()
                break
    assert only_result(run)["content"].endswith("Good")


async def test_waiting_events_stay_bounded_while_a_tool_reads() -> None:
    """With buffer="wait" the reader goes on for the tool, and the events that wait are merged."""
    read = anyio.Event()

    @tool
    async def count(items: ItemStream[int]) -> int:
        """Count."""
        number = len(await items)
        read.set()
        return number

    deltas = [input_delta(0, f"{n}, ") for n in range(3000)]
    body = [message_start(), *opened("count", '{"items": ['), *deltas, input_delta(0, "0]}"), *ended()]
    async with running(LocalAPI(body, [DONE]).transport(), tools=[count], buffer="wait") as run:
        await read.wait()
        waiting = len(run._delivery.buffer)
        await run.finish()
    assert waiting < 300
    assert only_result(run)["content"] == "3001"


async def test_it_never_begins_with_half_a_value() -> None:
    """Of a key that is written twice, the tool gets the first value, whole; that this was not all is told."""
    got: list[str] = []

    @tool
    async def remove(path: str, mode: str, text: TextStream) -> None:
        """Remove."""
        got.append(path)

    gates = [Gate(), Gate()]
    body = [
        message_start(),
        *opened("remove", '{"path": "/tmp/a", '),
        gates[0],
        input_delta(0, '"mode": "w", "path": "/ho'),
        gates[1],
        input_delta(0, 'me/x", "text": "y"}'),
        *ended(),
    ]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[remove]) as run:
        for gate in gates:
            await gate.reached.wait()
            await all_tasks_blocked()
            gate.opened.set()
        await run.finish()
    assert got == ["/tmp/a"]
    assert "'path' was written twice" in only_result(run)["content"]


async def test_a_streaming_call_that_the_peer_repeats() -> None:
    """It runs once, and its result is that of the repeated call."""
    begun: list[str] = []

    @tool
    async def say(words: TextStream) -> str:
        """Say."""
        begun.append(await words)
        return begun[-1]

    gate = Gate()
    once = [message_start(), *opened("say", '{"words": "Good', ' day"}'), block_stop(0)]
    api = LocalAPI([*once, gate, *once, message_delta("tool_use"), MESSAGE_STOP], [DONE])
    async with running(api.transport(), tools=[say], restart_delay_s=0) as run:
        async for event in run:
            if isinstance(event, ToolStop):
                gate.opened.set()
    assert begun == ["Good day"]
    assert only_result(run)["content"] == "Good day"


async def test_a_whole_streaming_call_before_max_tokens() -> None:
    """It runs like any other whole call, however the bytes were cut."""

    body: list[Any] = [message_start(), *opened("say", '{"words": "Good day"}'), *ended("max_tokens")]
    for pieces in (body, [b"".join(map(encode_event, body))]):
        run = await finished(LocalAPI(pieces, [DONE]).transport(), tools=[say])
        assert only_result(run)["content"] == "Good day"


@pytest.mark.parametrize("raw", ["[1", '"x', " "])
async def test_it_does_not_begin_on_what_is_no_object(raw: str) -> None:
    """The first character proves it, or nothing is proved yet."""

    gate = Gate()
    body = [message_start(), *opened("say", raw), gate, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI(body)
    async with running(api.transport(), tools=[say]) as run:
        await gate.reached.wait()
        await all_tasks_blocked()
        gate.opened.set()
        await run.finish()
    assert not run.result.calls[0].ran
