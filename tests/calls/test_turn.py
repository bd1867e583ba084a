"""`Turn`: when the calls of a response may start, and what becomes of those that may not."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
import eagerstream_testing
from eagerstream import ItemStream, RunStatus, TextStream, ToolStart, ToolStop, tool
from eagerstream.loop import TurnStop
from eagerstream.recordings import Chunk, Recording
from eagerstream.tools import InProcessExecutor, ToolCall
from eagerstream_testing import ReplayServer, reply, text, tool_use
from eagerstream_wire import MessageStop, TextDelta
from tests.loop.serial import (
    DONE,
    NOT_RUN,
    SLOWLY_S,
    TOOLS,
    assistant,
    call,
    checked,
    ended,
    error,
    events_of,
    finished,
    now,
    only_result,
    opened,
    result,
    results,
    results_in,
    running,
)
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    one_by_one,
    tool_start,
)
from tests.support import Gate, LocalAPI, Piece, all_tasks_blocked, anthropic_client, check_history, whole_call

pytestmark = pytest.mark.anyio

# --- when tools run ---------------------------------------------------------------------------------------------------


async def test_a_call_runs_while_the_server_holds_the_reply() -> None:
    """The same through sockets and the real client: the rest of the reply never comes, the tool runs all the same."""
    body = reply(tool_use("note", {"n": 1}), text("more")).body
    at = body.rindex(b"event:", 0, body.index(b'"index":1'))
    held = Recording((Chunk(0.0, body[:at]), Chunk(3600.0, body[at:])))
    ran = anyio.Event()

    @tool
    async def note(n: int) -> None:
        ran.set()

    async with ReplayServer(held) as server, anthropic_client(server.base_url) as client:
        async with running(client, tools=[note]) as run:
            async for event in run:
                assert not isinstance(event, MessageStop)
                if isinstance(event, ToolStop):
                    break
        (request,) = server.requests
        assert await anyio.to_thread.run_sync(request.wait_ended, SLOWLY_S)
        assert request.disconnected
    assert ran.is_set()
    assert checked(run.result).status is RunStatus.CANCELLED


async def test_an_empty_call_waits_for_what_follows() -> None:
    """No text at all may be a cut: such a call starts with the next block, or with the stop reason, not before."""
    gate = Gate()
    pieces: list[Piece] = [message_start(), tool_start(0, "now"), block_stop(0), gate]
    api = LocalAPI([*pieces, message_delta("tool_use"), MESSAGE_STOP], [DONE])
    seen: list[Any] = []
    async with running(api.transport(), tools=[now]) as run:
        await gate.reached.wait()
        await all_tasks_blocked()
        assert run.result.calls == []
        gate.opened.set()
        seen = [event async for event in run]
    assert any(isinstance(event, ToolStart) for event in seen)
    assert checked(run.result).calls[0].ran
    assert run.result.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "noon"}]


async def test_results_in_call_order() -> None:
    """Whatever finishes first: the results are in the order of the calls."""
    gates = [anyio.Event() for _ in range(4)]
    gates[-1].set()

    @tool
    async def backwards(n: int) -> int:
        await gates[n].wait()
        if n:
            gates[n - 1].set()
        return n

    first = reply(*(tool_use("backwards", {"n": n}, id=f"toolu_{n}") for n in range(4)))
    events, run = await events_of(LocalAPI([first], [DONE]).anthropic(), tools=[backwards])
    assert [event.call.id for event in events if isinstance(event, ToolStop)] == [f"toolu_{n}" for n in (3, 2, 1, 0)]
    assert [result["tool_use_id"] for result in results_in(run.result.messages, 2)] == [f"toolu_{n}" for n in range(4)]
    stop = next(event for event in events if isinstance(event, TurnStop))
    assert [call.id for call in stop.calls] == [f"toolu_{n}" for n in range(4)]


async def test_a_slow_consumer_does_not_hold_up_tools() -> None:
    """Nobody looks at the events: reading, tools and turns go on."""
    calls = reply(*(tool_use("now", "", id=f"toolu_{n}") for n in range(3)), text("long " * 1000, fragment_chars=2))
    end = Gate()
    async with running(LocalAPI([calls], [end, DONE]).anthropic(), tools=TOOLS) as run:
        await end.reached.wait()
        assert len(run.result.messages) == 3
        end.opened.set()
        events = [event async for event in run]
    assert len(checked(run.result).calls) == 3
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "long " * 1000 + "Done."
    assert isinstance(events[-1], TurnStop)


class _Silent:
    """An executor that returns without an answer."""

    def admit(self, call: ToolCall) -> None: ...

    async def execute(self, call: ToolCall) -> None:
        call.start()


async def test_an_executor_without_an_answer() -> None:
    """The run does not wait for ever: the model learns that there is no result."""
    calls = [message_start(), *whole_call(0, "now"), message_delta("tool_use"), MESSAGE_STOP]
    api = LocalAPI(calls, [reply(text("Done."))])
    with anyio.fail_after(10):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now], executor=_Silent()) as run:
            await run.finish()
    assert "gave this call no answer" in str(run.result.messages)
    check_history(run.result.messages)


async def test_an_executor_runs_its_own_tools() -> None:
    """Those of the run describe them, and may have the same names."""

    async def told(input: dict[str, Any]) -> str:
        return f"told {input['n']}"

    definition = {"name": "now", "description": "N.", "input_schema": {"type": "object"}}
    executor = InProcessExecutor([tool(told, definition=definition)])
    api = LocalAPI([reply(tool_use("now", {"n": 7}))], [DONE])
    async with eagerstream.run(api.transport(), **REQUEST, tools=[now], executor=executor) as run:
        await run.finish()
    assert [call.text for call in run.result.calls] == ["told 7"]


async def test_an_executor_that_fails_to_admit_a_call() -> None:
    """The call is answered with the error; the others keep their places, and the run goes on."""

    class Failing(InProcessExecutor):
        def admit(self, call: ToolCall) -> None:
            if call.id == "toolu_1":
                raise LookupError("no place")
            super().admit(call)

    executor = Failing(TOOLS, max_concurrency=1)
    asks = reply(
        tool_use("now", {}, id="toolu_0"), tool_use("now", {}, id="toolu_1"), tool_use("now", {}, id="toolu_2")
    )
    api = LocalAPI([asks], [DONE])
    async with running(api.transport(), tools=TOOLS, executor=executor) as run:
        await run.finish()
    assert [call.is_error for call in run.result.calls] == [False, True, False]
    assert run.result.status is RunStatus.COMPLETED


# --- start rules ------------------------------------------------------------------------------------------------------


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
    async with running(api.transport(), tools=[pay]) as run:
        await gate.reached.wait()
        await all_tasks_blocked()
        assert not ran.is_set()
        gate.opened.set()
        await run.finish()
    assert ran.is_set() is runs
    assert run.result.calls[0].ran is runs


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

    call = eagerstream_testing.tool_use("pay", {"amount": 3}, id="toolu_0")
    run = await finished(LocalAPI([reply(call)], [DONE]).transport(), tools=[pay])
    assert [call.input.value for call in asked] == [{"amount": 3}]
    result = only_result(run)
    assert result["content"] == (told or "paid 3")
    assert result.get("is_error", False) is (told is not None)
    assert run.result.calls[0].ran is (told is None)


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

    calls = [eagerstream_testing.tool_use(name, {}) for name in ("pay", "now")]
    run = await finished(LocalAPI([reply(*calls)], [DONE]).transport(), tools=[pay, now], max_concurrency=1)
    first, second = run.result.messages[2]["content"]
    assert first["content"] == "Not executed: nobody approved the call within 0.05 seconds."
    assert second["content"] == "noon"


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
    await finished(LocalAPI(body, [DONE]).transport(), tools=[first, second, third])
    assert order == ["first", "second", "third"]


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
    async with running(api.transport(), tools=[pay]) as run:
        await asked.wait()
        gate.opened.set()
        await run.finish()
    assert only_result(run) == {"type": "tool_result", "tool_use_id": "toolu_2", "content": "paid"}


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
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[say])
    assert seen == [{"words": "Good day"}]
    assert only_result(run)["content"] == "Good day"


_TWO_CALLS = [
    *(tool_start(0, "hold"), input_delta(0, "{}"), block_stop(0)),
    *(tool_start(1, "now"), input_delta(1, "{}"), block_stop(1)),
]


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("model_context_window_exceeded", RunStatus.TRUNCATED),
        ("tomorrow", RunStatus.UNKNOWN),
        (None, RunStatus.UNKNOWN),
    ],
)
async def test_what_ran_stays(reason: str | None, status: RunStatus) -> None:
    """A call that ran before a bad end keeps its turn; one that could not begin is answered as such."""
    begun = anyio.Event()

    @eagerstream.tool
    async def hold() -> str:
        """Hold."""
        begun.set()
        await gate.reached.wait()  # both calls are there
        await run.result.calls[1].answered.wait()  # the reply has ended, and the other call was refused
        return "held"

    gate = Gate()
    api = LocalAPI([message_start(), *_TWO_CALLS, gate, message_delta(reason), MESSAGE_STOP])
    async with running(api.transport(), tools=[hold, now], max_concurrency=1) as run:
        await begun.wait()
        await gate.reached.wait()
        gate.opened.set()
        await run.finish()
    assert checked(run.result).status is status
    assert run.result.messages == [
        USER,
        assistant(call("toolu_0", "hold", {}), call("toolu_1", "now", {})),
        results(result("toolu_0", "held"), error("toolu_1", NOT_RUN)),
    ]
    assert [made.ran for made in run.result.calls] == [True, False]


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("reason", ["refusal", "model_context_window_exceeded", "tomorrow"])
async def test_nothing_begins_after_the_end(reason: str) -> None:
    """Once the reply has ended badly no call begins, also while a peer holds its body open."""
    begun, ended = anyio.Event(), anyio.Event()

    @eagerstream.tool
    async def hold() -> str:
        """Hold."""
        begun.set()
        await ended.wait()
        return "held"

    gate = Gate()
    api = LocalAPI([message_start(), *_TWO_CALLS, gate, message_delta(reason), MESSAGE_STOP, Gate()])
    async with running(api.transport(), tools=[hold, now], max_concurrency=1) as run:
        await begun.wait()
        gate.opened.set()
        async for event in run:
            if isinstance(event, MessageStop):
                ended.set()
    assert [made.ran for made in checked(run.result).calls] == [True, False]


# --- timing never decides ---------------------------------------------------------------------------------------------


async def test_a_call_that_does_not_fit_has_not_begun() -> None:
    """`retry` where only a call was made that its schema refuses: nothing ran, however the reply was cut up."""
    wrong = tool_use("write_file", {"file": "x"}, id="a")
    cut = reply(wrong, text("So", closed=False), stop_reason="max_tokens").body
    sent = []
    for pieces in ([cut], one_by_one(cut)):
        api = LocalAPI(pieces, [DONE])
        await finished(api.transport(), on_truncated="retry")
        sent.append([exchange.body for exchange in api.exchanges])
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    "bad", [tool_use("nope", {}, id="a"), tool_use("now", "[]", id="a")], ids=["unknown", "invalid"]
)
async def test_a_call_that_cannot_run_stands_in_nobody_s_way(bad: Any) -> None:
    """With one slot: a call behind one that is only answered with an error is admitted, however the reply was cut up."""
    cut = reply(bad, tool_use("now", {}, id="b"), stop_reason="max_tokens").body
    histories = []
    for pieces in ([cut], one_by_one(cut)):
        run = await finished(LocalAPI(pieces).transport(), max_concurrency=1)
        histories.append(run.result.messages)
    assert histories[0] == histories[1]
