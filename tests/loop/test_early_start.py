"""When calls begin: inside their own input, at its end, at the end of the message, with an approval, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import (
    InputInterrupted,
    InputStop,
    ItemStream,
    Later,
    Limits,
    Outcome,
    Reject,
    RunStatus,
    TextStream,
    ToolCall,
    ToolResponse,
    ToolStart,
    ToolStop,
    tool,
    validate_history,
)
from eagerstream.loop import Run
from eagerstream.testing import encode_event, reply, text
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    Broken,
    Gate,
    LocalAPI,
    Piece,
    all_tasks_blocked,
    block_start,
    block_stop,
    check_history,
    input_delta,
    message_delta,
    message_start,
    tool_start,
)

SLOWLY_S = 20
DONE = reply(text("Done."), message_id="msg_done")


class Scribe:
    """A streaming tool that remembers what it got, and when its reading ended how."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.has: dict[int, anyio.Event] = {}
        self.begun = anyio.Event()
        self.interrupted: InputInterrupted | None = None

    def after(self, count: int) -> anyio.Event:
        """Set when so many lines have been read."""
        return self.has.setdefault(count, anyio.Event())

    @tool
    async def make_file(self, filename: str, lines: ItemStream[str]) -> str:
        """Write a file."""
        self.begun.set()
        try:
            async for line in lines:
                self.got.append(line)
                self.after(len(self.got)).set()
        except InputInterrupted as error:
            self.interrupted = error
            return f"kept {len(self.got)} lines of {filename}"
        return f"wrote {len(self.got)} lines to {filename}"


def opened(name: str, *fragments: str, index: int = 0) -> list[Piece]:
    return [tool_start(index, name), *(input_delta(index, fragment) for fragment in fragments)]


def ended(reason: str = "tool_use", index: int = 0) -> list[Piece]:
    return [block_stop(index), message_delta(reason), MESSAGE_STOP]


async def finished(api: LocalAPI, tools: Sequence[Any], **options: Any) -> Run:
    """A run that went to its end, with a history that can be sent."""
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **{**REQUEST, "tools": tools, **options}) as run:
            await run.finish()
    check_history(run.result.messages)
    assert validate_history(run.result.messages) == []
    return run


def only_result(run: Run) -> Mapping[str, Any]:
    (result,) = run.result.messages[2]["content"]
    found: Mapping[str, Any] = result
    return found


# --- inside the input -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[scribe.make_file]) as run:
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


@pytest.mark.anyio
async def test_the_file_grows_on_disk(tmp_path: Path) -> None:
    """The main example: a line that the model has finished stands in the file, while the next is being written."""
    path = tmp_path / "poem.txt"
    wrote = anyio.Event()

    @tool
    async def make_file(lines: ItemStream[str]) -> str:
        """Write a file."""
        async with await anyio.open_file(path, "w") as file:
            async for line in lines:
                await file.write(f"{line}\n")
                await file.flush()
                wrote.set()
        return "written"

    gate = Gate()
    api = LocalAPI(
        [message_start(), *opened("make_file", '{"lines": ["one", "t'), gate, input_delta(0, 'wo"]}'), *ended()], [DONE]
    )
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[make_file]) as run:
            await wrote.wait()
            assert await anyio.to_thread.run_sync(path.read_text) == "one\n"
            gate.opened.set()
            await run.finish()
    assert path.read_text() == "one\ntwo\n"


async def _broken(scribe: Scribe, *rest: Piece, tools: Sequence[Any] = (), **options: Any) -> Run:
    """A run whose first reply goes on with `rest` once a line of it has been read."""
    gate = Gate()
    body = [message_start(), *opened("make_file", '{"filename": "a", "lines": ["one", '), gate, *rest]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(
            api.transport(), **{**REQUEST, "tools": [scribe.make_file, *tools], **options}
        ) as run:
            await scribe.after(1).wait()
            gate.opened.set()
            try:
                await run.finish()
            except eagerstream.EagerStreamError:
                pass
    check_history(run.result.messages)
    assert validate_history(run.result.messages) == []
    return run


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_the_connection_is_lost() -> None:
    """The call that had begun is kept, closed with what its tool said or that it was cancelled."""
    scribe = Scribe()
    run = await _broken(scribe, b"", on_interrupt="raise")
    assert run.result.status is RunStatus.ERROR
    assert scribe.got == ["one"]
    assert only_result(run)["is_error"] is True
    assert run.result.calls[0].in_history


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_an_item_that_does_not_fit() -> None:
    """The input is JSON, but not what the schema says: the model is told, and what the tool made of it."""
    scribe = Scribe()
    run = await _broken(scribe, input_delta(0, "2]}"), *ended())
    result = only_result(run)
    assert result["is_error"] is True
    assert result["content"].startswith("Error: Invalid parameter 'lines[1]': Input should be a valid string, got 2")
    assert result["content"].endswith("kept 1 lines of a")
    assert run.result.messages[1]["content"][0]["input"] == {"filename": "a", "lines": ["one", 2]}


@pytest.mark.anyio
async def test_a_parameter_that_is_written_twice() -> None:
    """The tool had begun with the first value, the input has the second: that is told, not passed over."""
    scribe = Scribe()
    run = await _broken(scribe, input_delta(0, '"two"], "filename": "b"}'), *ended())
    result = only_result(run)
    assert result["is_error"] is True
    assert "'filename' was written twice" in result["content"]


@pytest.mark.anyio
async def test_a_tool_that_ends_before_its_input() -> None:
    """It is answered once the input is whole: only then is it known that what it was given was right."""

    @tool
    async def first_word(words: TextStream) -> str:
        """Say the first word."""
        async for piece in words:
            return piece
        return ""

    gate = Gate()
    ran = anyio.Event()
    body = [message_start(), *opened("first_word", '{"words": "Good'), gate, input_delta(0, ' day"}'), *ended()]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[first_word]) as run:
            async for event in run:
                if isinstance(event, ToolStart):
                    call = event.call
                    ran.set()
                    await all_tasks_blocked()
                    assert call.result is None
                    gate.opened.set()
    assert only_result(run)["content"] == "Good"
    assert not only_result(run).get("is_error")


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[slow, now], buffer="wait") as run:
            async for event in run:
                if isinstance(event, ToolStart) and event.call.name == "slow":
                    gate.opened.set()
    contents = [result["content"] for result in run.result.messages[2]["content"]]
    assert contents == ["6", "noon"]


@pytest.mark.anyio
async def test_what_came_at_once_is_not_risked() -> None:
    """Where the whole input is there before the tool could begin, it is judged first: nothing of a wrong one runs."""
    scribe = Scribe()
    whole = reply(eagerstream.testing.tool_use("make_file", '{"filename": "a", "lines": ["x", y]}', id="toolu_0"))
    run = await finished(LocalAPI([whole], [DONE]), [scribe.make_file])
    assert not scribe.begun.is_set()
    assert not run.result.calls[0].ran


@pytest.mark.anyio
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
    run = await finished(LocalAPI(body, [DONE]), [endless])
    assert only_result(run)["content"].startswith("TimeoutError")


@pytest.mark.anyio
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
    run = await finished(LocalAPI(body, [DONE]), [write])
    assert order == ["a begins", "a ends", "b begins", "b ends"]
    assert [result["content"] for result in run.result.messages[2]["content"]] == ["1", "2"]


# --- start rules ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reason", "runs"),
    [
        ("tool_use", True),
        ("end_turn", True),
        ("max_tokens", False),
        ("stop_sequence", False),
        ("refusal", False),
        ("model_context_window_exceeded", False),
        ("something_new", False),
    ],
)
async def test_start_at_the_end_of_the_message(reason: str, runs: bool) -> None:
    """A tool that must not run in vain waits until the reply has ended, and for the right reason."""
    ran = anyio.Event()

    @tool(start="message")
    async def pay() -> str:
        """Pay."""
        ran.set()
        return "paid"

    gate = Gate()
    body = [message_start(), *opened("pay", "{}"), block_stop(0), gate, message_delta(reason), MESSAGE_STOP]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            await gate.reached.wait()
            await all_tasks_blocked()
            assert not ran.is_set()
            gate.opened.set()
            await run.finish()
    check_history(run.result.messages)
    assert ran.is_set() is runs
    assert run.result.calls[0].ran is runs


@pytest.mark.anyio
async def test_a_fallback_before_the_message_ends() -> None:
    """Another model takes over: a held call of the first is neither run nor answered."""

    @tool(start="message")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("must not run")

    body = [
        message_start(),
        *opened("pay", "{}"),
        block_stop(0),
        block_start(1, "fallback", **{"from": "a", "to": "b"}),
        block_stop(1),
        block_start(2, "text", text="So."),
        *ended("end_turn", index=2),
    ]
    run = await finished(LocalAPI(body), [pay])
    assert [block["type"] for block in run.result.messages[1]["content"]] == ["fallback", "text"]
    assert len(run.result.messages) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (True, None),
        (False, "Not executed: the call was not approved."),
        ("Ask the treasurer.", "Ask the treasurer."),
        (None, "Not executed: the call was not approved."),
        (LookupError("nobody there"), "Not executed: the call could not be approved: LookupError: nobody there"),
    ],
)
async def test_approval(kind: str, answer: Any, told: str | None) -> None:
    """Asked with the call; only True lets it run, anything else is the model's answer."""
    asked: list[ToolCall] = []

    def decide(call: ToolCall) -> Any:
        asked.append(call)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def decide_async(call: ToolCall) -> Any:
        return decide(call)

    @tool(approve=decide if kind == "sync" else decide_async)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    call = eagerstream.testing.tool_use("pay", {"amount": 3}, id="toolu_0")
    run = await finished(LocalAPI([reply(call)], [DONE]), [pay])
    assert [call.input.value for call in asked] == [{"amount": 3}]
    result = only_result(run)
    assert result["content"] == (told or "paid 3")
    assert result.get("is_error", False) is (told is not None)
    assert run.result.calls[0].ran is (told is None)


@pytest.mark.anyio
async def test_an_approval_that_does_not_come() -> None:
    """It has a time limit, keeps no slot from others, and is no obstacle to the end of the run."""

    async def never(_: ToolCall) -> bool:
        await anyio.sleep_forever()
        return True

    @tool(approve=never, approve_timeout_s=0.05)
    async def pay() -> str:
        """Pay."""
        return "paid"

    @tool
    async def now() -> str:
        """The time."""
        return "noon"

    calls = [eagerstream.testing.tool_use(name, {}) for name in ("pay", "now")]
    run = await finished(LocalAPI([reply(*calls)], [DONE]), [pay, now], max_concurrency=1)
    first, second = run.result.messages[2]["content"]
    assert first["content"] == "Not executed: nobody approved the call within 0.05 seconds."
    assert second["content"] == "noon"


# --- guards -----------------------------------------------------------------------------------------------------------


def in_root(partial: Mapping[str, Any]) -> str | None:
    """A guard: no absolute paths."""
    return "Only paths inside the root." if str(partial.get("filename", "")).startswith("/") else None


@pytest.mark.anyio
async def test_a_guard_rejects_a_call_while_it_is_written() -> None:
    """The call never runs and is answered with the reason; the rest of the reply goes on."""
    scribe = Scribe()

    @tool(guard=in_root)
    async def remove(filename: str) -> str:
        """Remove a file."""
        raise AssertionError("must not run")

    rejected = anyio.Event()
    gate = Gate()
    body = [
        message_start(),
        *opened("remove", '{"filename": "/et'),
        gate,
        input_delta(0, 'c"}'),
        block_stop(0),
        *opened("make_file", '{"filename": "a", "lines": []}', index=1),
        *ended(index=1),
    ]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[remove, scribe.make_file]) as run:
            await gate.reached.wait()
            (call,) = run.result.calls
            assert call.is_error
            rejected.set()
            gate.opened.set()
            await run.finish()
    check_history(run.result.messages)
    refused, written = run.result.messages[2]["content"]
    assert refused["content"] == "Only paths inside the root."
    assert refused["is_error"] is True
    assert written["content"] == "wrote 0 lines to a"
    assert run.result.messages[1]["content"][0]["input"] == {"filename": "/etc"}
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_a_guard_is_asked_where_nobody_wants_events() -> None:
    """About the first fragments, too, that come in one chunk with the beginning of the call, and then nothing for long."""
    asked = anyio.Event()

    def guard(partial: Mapping[str, Any]) -> str | None:
        if "x" in partial:
            asked.set()
            return "No."
        return None

    @tool(guard=guard)
    async def remove(x: int) -> None:
        """Remove."""

    gate = Gate()
    events = (message_start(), tool_start(0, "remove"), input_delta(0, '{"x": 1,'))
    api = LocalAPI([b"".join(map(encode_event, events)), gate, input_delta(0, ' "y": 2}'), *ended()], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[remove]) as run:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.finish)
                await asked.wait()
                gate.opened.set()
    assert run.result.calls[0].is_error


@pytest.mark.anyio
async def test_a_guard_has_the_reply_cut() -> None:
    """The connection is closed there; what was whole before is kept and answered, and the run goes on."""

    @tool(guard=lambda partial: Reject("No.", cut=True) if "bad" in partial.get("text", "") else None)
    async def post(text: str) -> str:
        """Post."""
        return f"posted {text}"

    unreachable = Gate()
    body = [
        message_start(),
        *opened("post", '{"text": "good"}'),
        block_stop(0),
        *opened("post", '{"text": "bad w', index=1),
        unreachable,
    ]
    api = LocalAPI(body, [DONE])
    stopped: list[Outcome | None] = []
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[post]) as run:
            async for event in run:
                if isinstance(event, InputStop):
                    stopped.append(event.input.outcome)
    check_history(run.result.messages)
    assert stopped == [Outcome.VALID, Outcome.INCOMPLETE]
    assert run.result.status is RunStatus.COMPLETED
    assert api.exchanges[0].closed
    assert len(api.exchanges) == 2
    whole, cut = run.result.messages[1]["content"]
    assert whole["input"] == {"text": "good"}
    assert cut["input"] == {"INVALID_JSON": '{"text": "bad w'}
    assert [result["content"] for result in run.result.messages[2]["content"]] == ["posted good", "No."]
    assert [call.ran for call in run.result.calls] == [True, False]


@pytest.mark.anyio
async def test_a_guard_interrupts_a_tool_that_has_begun() -> None:
    """A streaming tool gets `InputInterrupted`, may clean up, and the model is told both."""
    told: list[str] = []

    @tool(guard=lambda partial: "No swearing." if "damn" in partial.get("words", "") else None)
    async def say(words: TextStream) -> str:
        """Say."""
        try:
            async for piece in words:
                told.append(piece)
        except InputInterrupted as error:
            return f"stopped: {error.reason}"
        return "said"

    gate = Gate()
    body = [message_start(), *opened("say", '{"words": "Well, '), gate, input_delta(0, 'damn"}'), *ended()]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[say]) as run:
            async for event in run:
                if isinstance(event, ToolStart):
                    await all_tasks_blocked()
                    gate.opened.set()
                if isinstance(event, ToolStop):
                    assert event.call.is_error
    check_history(run.result.messages)
    content = only_result(run)["content"]
    assert content.startswith("No swearing.")
    assert content.endswith("stopped: No swearing.")
    assert told == ["Well, "]


@pytest.mark.anyio
async def test_a_guard_that_fails() -> None:
    """It was to keep something out: a call that it could not judge does not run."""

    def broken(partial: Mapping[str, Any]) -> str | None:
        raise LookupError(len(partial))

    @tool(guard=broken)
    async def pay() -> ToolResponse:
        """Pay."""
        raise AssertionError("must not run")

    call = eagerstream.testing.tool_use("pay", {}, id="toolu_0")
    run = await finished(LocalAPI([reply(call)], [DONE]), [pay], limits=Limits())
    assert "the guard of this tool failed: LookupError" in only_result(run)["content"]


@pytest.mark.anyio
@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_may_run_twice(idempotent: bool) -> None:
    """A call that has begun keeps a cut reply from being sent for again, unless running it twice does no harm."""
    ran: list[str] = []

    @tool(idempotent=idempotent)
    async def look(call: ToolCall) -> str:
        """Look."""
        ran.append(call.id)
        return "seen"

    def body(*rest: Piece) -> list[Piece]:
        return [message_start(), *opened("look", "{}"), block_stop(0), *rest]

    gate = Gate()
    cut = body(gate, *opened("look", "{", index=1), message_delta("max_tokens"), MESSAGE_STOP)
    api = LocalAPI(cut, body(message_delta("tool_use"), MESSAGE_STOP) if idempotent else [DONE], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[look], on_truncated="retry") as run:
            async for event in run:
                if isinstance(event, ToolStop):
                    gate.opened.set()
    check_history(run.result.messages)
    assert run.result.status is RunStatus.COMPLETED
    assert ran == (["toolu_0", "toolu_0"] if idempotent else ["toolu_0"])
    assert api.exchanges[1].body["max_tokens"] == REQUEST["max_tokens"] * (2 if idempotent else 1)
    assert [call.in_history for call in run.result.calls if call.ran] == ([False, True] if idempotent else [True])


# --- found by attack --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["text", "later"])
async def test_a_guard_keeps_the_value_from_the_tool(kind: str) -> None:
    """What finishes with the fragment that the guard rejects is not handed out either, however it is awaited."""
    got: list[str] = []

    def guard(partial: Mapping[str, Any]) -> str | None:
        return "No." if "bad" in partial.get("value", "") else None

    @tool(guard=guard)
    async def text_tool(value: TextStream) -> None:
        """Act."""
        got.append(await value)

    @tool(guard=guard)
    async def later_tool(lines: ItemStream[str], value: Later[str]) -> None:
        """Act."""
        got.append(await value)

    used = text_tool if kind == "text" else later_tool
    gate = Gate()
    body = [message_start(), *opened(used.name, '{"lines": ["a"], "value": "b'), gate, input_delta(0, 'ad"}'), *ended()]
    if kind == "text":
        body[1:3] = opened(used.name, '{"value": "b')
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[used]) as run:
            async for event in run:
                if isinstance(event, ToolStart):
                    await all_tasks_blocked()
                    gate.opened.set()
    assert got == []
    assert only_result(run)["content"].startswith("No.")


@pytest.mark.anyio
async def test_a_guard_step_by_step() -> None:
    """Whoever drives the conversation by hand is guarded all the same."""

    @tool(guard=in_root)
    async def remove(filename: str) -> str:
        """Remove."""
        raise AssertionError("must not run")

    call = eagerstream.testing.tool_use("remove", {"filename": "/etc"}, id="toolu_0")
    conversation = eagerstream.Conversation(**REQUEST, tools=[remove])
    async with eagerstream.stream(LocalAPI([reply(call)]).transport(), **conversation.request()) as stream:
        await stream.finish()
    turn = conversation.take(stream)
    await turn.execute()
    assert turn.results()[0]["content"] == "Only paths inside the root."


@pytest.mark.anyio
@pytest.mark.parametrize("verdict", [False, True, 0, "", ["x"]])
async def test_a_guard_that_gives_something_else(verdict: Any) -> None:
    """Only None lets a call go on."""

    @tool(guard=lambda _: verdict)
    async def pay() -> str:
        """Pay."""
        raise AssertionError("must not run")

    call = eagerstream.testing.tool_use("pay", {}, id="toolu_0")
    run = await finished(LocalAPI([reply(call)], [DONE]), [pay])
    assert "neither None nor a reason" in only_result(run)["content"]


@pytest.mark.anyio
async def test_a_held_call_of_a_reply_that_a_guard_cut() -> None:
    """The reply never ended, so what waits for its end does not run; what is rejected at its end is cut there too."""

    @tool(start="message")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("must not run")

    @tool(guard=lambda partial: Reject("No.", cut=True) if partial else None)
    async def post(text: str) -> str:
        """Post."""
        return text

    body = [message_start(), *opened("pay", "{}"), block_stop(0), *opened("post", '{"text": "x"}', index=1)]
    run = await finished(LocalAPI([*body, *ended(index=1)], [DONE]), [pay, post])
    contents = [result["content"] for result in run.result.messages[2]["content"]]
    assert contents == ["Not executed: the reply ended before this call was run.", "No."]


@pytest.mark.anyio
async def test_a_group_with_a_held_call() -> None:
    """In call order: the later ones of the group wait for it, streaming ones as well."""
    order: list[str] = []

    @tool(group="g", start="message")
    async def first() -> None:
        """First."""
        order.append("first")

    @tool(group="g")
    async def second() -> None:
        """Second."""
        order.append("second")

    @tool(group="g")
    async def third(items: ItemStream[int]) -> None:
        """Third."""
        order.append("third")

    body = [
        message_start(),
        *opened("first", "{}"),
        block_stop(0),
        *opened("second", "{}", index=1),
        block_stop(1),
        *opened("third", '{"items": [1', index=2),
        input_delta(2, "]}"),
        *ended(index=2),
    ]
    await finished(LocalAPI(body, [DONE]), [first, second, third])
    assert order == ["first", "second", "third"]


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_work_that_was_done_before_the_run_was_left() -> None:
    """A tool that has ended and waits only for the end of its input: its answer is kept."""

    @tool
    async def first_word(words: TextStream) -> str:
        """Say the first word."""
        return await anext(aiter(words))

    gate = Gate()
    api = LocalAPI([message_start(), *opened("first_word", '{"words": "Good'), gate])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[first_word]) as run:
            async for event in run:
                if isinstance(event, ToolStart):
                    await all_tasks_blocked()
                    break
    check_history(run.result.messages)
    assert only_result(run)["content"].endswith("Good")


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(LocalAPI(body, [DONE]).transport(), **REQUEST, tools=[count], buffer="wait") as run:
            await read.wait()
            waiting = len(run._buffer._ready) + len(run._buffer._held)
            await run.finish()
    assert waiting < 300
    assert only_result(run)["content"] == "3001"


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[remove]) as run:
            for gate in gates:
                await gate.reached.wait()
                await all_tasks_blocked()
                gate.opened.set()
            await run.finish()
    assert got == ["/tmp/a"]
    assert "'path' was written twice" in only_result(run)["content"]


@pytest.mark.anyio
async def test_an_approval_that_nobody_needs_any_more() -> None:
    """Another model takes over while somebody is asked: the group goes on at once."""
    asked = anyio.Event()

    async def ask(call: ToolCall) -> bool:
        if call.id == "toolu_0":
            asked.set()
            await anyio.sleep_forever()
        return True

    @tool(group="g", approve=ask)
    async def pay() -> str:
        """Pay."""
        return "paid"

    gate = Gate()
    body = [
        message_start(),
        *opened("pay", "{}"),
        block_stop(0),
        gate,
        block_start(1, "fallback"),
        block_stop(1),
        *opened("pay", "{}", index=2),
        *ended(index=2),
    ]
    api = LocalAPI(body, [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            await asked.wait()
            gate.opened.set()
            await run.finish()
    assert only_result(run) == {"type": "tool_result", "tool_use_id": "toolu_2", "content": "paid"}


@pytest.mark.anyio
async def test_approval_is_for_the_whole_input() -> None:
    """A streaming tool that asks first begins at the end of its input: nobody approves what is not written yet."""
    seen: list[Any] = []

    def look(call: ToolCall) -> bool:
        seen.append(call.input.value)
        return True

    @tool(approve=look)
    async def say(words: TextStream) -> str:
        """Say."""
        return await words

    body = [message_start(), *opened("say", '{"words": "Good'), input_delta(0, ' day"}'), *ended()]
    run = await finished(LocalAPI(body, [DONE]), [say])
    assert seen == [{"words": "Good day"}]
    assert only_result(run)["content"] == "Good day"


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[say]) as run:
            async for event in run:
                if isinstance(event, ToolStop):
                    gate.opened.set()
    assert begun == ["Good day"]
    assert only_result(run)["content"] == "Good day"


@pytest.mark.anyio
async def test_a_whole_streaming_call_before_max_tokens() -> None:
    """It runs like any other whole call, however the bytes were cut."""

    @tool
    async def say(words: TextStream) -> str:
        """Say."""
        return await words

    body: list[Any] = [message_start(), *opened("say", '{"words": "Good day"}'), *ended("max_tokens")]
    for pieces in (body, [b"".join(map(encode_event, body))]):
        run = await finished(LocalAPI(pieces, [DONE]), [say])
        assert only_result(run)["content"] == "Good day"


@pytest.mark.anyio
@pytest.mark.parametrize("raw", ["[1", '"x', " "])
async def test_it_does_not_begin_on_what_is_no_object(raw: str) -> None:
    """The first character proves it, or nothing is proved yet."""

    @tool
    async def say(words: TextStream) -> str:
        """Say."""
        raise AssertionError("must not run")

    gate = Gate()
    body = [message_start(), *opened("say", raw), gate, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI(body)
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[say]) as run:
            await gate.reached.wait()
            await all_tasks_blocked()
            gate.opened.set()
            await run.finish()
    assert not run.result.calls[0].ran


def test_an_executor_that_asks_nobody() -> None:
    """A tool that must not run unseen is not given to an executor that would run it unseen."""

    class Remote:
        def admit(self, call: ToolCall) -> None: ...

        async def execute(self, call: ToolCall) -> None: ...

    @tool(approve=lambda _: True)
    async def pay() -> None:
        """Pay."""

    with pytest.raises(eagerstream.UsageError, match="does not ask for approval"):
        eagerstream.Conversation(**REQUEST, tools=[pay], executor=Remote())
