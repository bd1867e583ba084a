"""Messages that are said to a run under way: when they are sent, what stays, and that nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import Conversation, RunningCall, RunResult, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import MessageDelivered, Restarted, Run, ToolProgress, ToolStart, TurnStart, TurnStop
from eagerstream_testing import http_error, reply, server_tool_use, text, tool_use
from eagerstream_wire import InputDelta, MessageStop, TextDelta
from tests.loop.serial import CALLER, DONE, SLOWLY_S, checked, now, result, running
from tests.loop.steered import Steered
from tests.streams import REQUEST, USER, block_start, block_stop, input_delta, message_start, text_delta, tool_start
from tests.support import Broken, Gate, LocalAPI, all_tasks_blocked
from tests.tables import rows

pytestmark = pytest.mark.anyio


CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "now", "input": {}, "caller": CALLER}


def said(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


async def steered(api: LocalAPI, steer: Callable[[Any, Any], object], **options: Any) -> tuple[Any, list[Any]]:
    """A run that went to its end, and its events; `steer` gets the run and each event."""
    events: list[Any] = []
    async with running(api.transport(), **{"tools": [now], "restart_delay_s": 0, **REQUEST, **options}) as run:
        async for event in run:
            events.append(event)
            steer(run, event)
    return run, events


async def observed(api: LocalAPI, steer: Callable[[Any, Any], object], **options: Any) -> Any:
    """A run that went to its end; `steer` gets the run and each event at once, before the run does anything else."""

    async with running(api.transport(), **{"tools": [now], "restart_delay_s": 0, **REQUEST, **options}) as run:
        run.observe(Steered(run, steer))
        await run.finish()
    return run


def once(kind: Any, say: Callable[[Any], object]) -> Callable[[Any, Any], None]:
    """A consumer that says something at the first event of a kind."""
    left = [say]

    def steer(run: Any, event: Any) -> None:
        if isinstance(event, kind) and left:
            left.pop()(run)

    return steer


def bodies(api: LocalAPI) -> list[Any]:
    return [exchange.body["messages"] for exchange in api.exchanges]


async def test_a_message_behind_the_results() -> None:
    """It goes with the next request, behind the results, and an event says so."""
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE])
    run, events = await steered(api, once(ToolStart, lambda run: run.say("In French, please.")))
    assert bodies(api)[1][2:] == [{"role": "user", "content": [result("a", "noon")]}, said("In French, please.")]
    (delivered,) = [event for event in events if isinstance(event, MessageDelivered)]
    assert (delivered.turn, delivered.messages) == (2, [said("In French, please.")])
    assert run.result.undelivered == []
    assert run.result.status is RunStatus.COMPLETED


async def test_many_messages_keep_their_order() -> None:
    """From several tasks, of different times, in all their forms."""
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE], [DONE])

    def say(run: Any) -> None:
        run.say("1")
        run.say("2", when="when_idle")
        run.say({"role": "user", "content": [{"type": "text", "text": "3"}]})
        run.say("4", when="when_idle")
        assert len(run.result.undelivered) == 4

    run, _ = await steered(api, once(ToolStart, say))
    assert [m["content"] for m in bodies(api)[1][3:]] == ["1", [{"type": "text", "text": "3"}]]
    assert [m["content"] for m in bodies(api)[2][6:]] == ["2", "4"]
    assert run.result.turns == 3


async def test_said_by_tools_and_other_tasks() -> None:
    """A tool and its tasks may speak, and nothing of it is lost."""

    @tool(name="now")
    async def talks() -> str:
        """Say something."""
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(say, number)
        return "noon"

    async def say(number: int) -> None:
        runs[0].say(str(number))

    runs: list[Any] = []
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE])
    await steered(api, lambda run, event: runs.append(run), tools=[talks])
    assert sorted(m["content"] for m in bodies(api)[1][3:]) == ["0", "1", "2"]


async def test_what_is_said_before_the_start() -> None:
    """It goes with the first request."""
    api = LocalAPI([DONE])
    run = eagerstream.run(api.transport(), **REQUEST)
    run.say("Be brief.")
    async with run:
        await run.finish()
    assert bodies(api) == [[USER, said("Be brief.")]]


async def test_a_message_prolongs_a_run_only_if_it_should() -> None:
    """With `when_idle` it is one more turn. Otherwise it is handed back, also by a saved result."""
    api = LocalAPI([DONE])
    run = await observed(api, once(TextDelta, lambda run: run.say("And then?")))
    assert run.result.undelivered == [said("And then?")]
    saved = RunResult.from_json(run.result.to_json())
    assert saved.undelivered == [said("And then?")]
    api = LocalAPI([DONE], [DONE])
    run = await observed(api, once(TextDelta, lambda run: run.say("And then?", when="when_idle")))
    assert bodies(api)[1][-1] == said("And then?")
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.turns == 2


async def test_said_at_the_last_event_of_a_turn() -> None:
    """An observer is told before the run looks if it has ended."""
    api = LocalAPI([DONE], [DONE])
    await observed(api, once(TurnStop, lambda run: run.say("One more thing.", when="when_idle")))
    assert bodies(api)[1][-1] == said("One more thing.")


# --- the reader is ahead of the consumer ------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["next_turn", "when_idle", "now"])
async def test_said_when_all_has_come(when: Any) -> None:
    """Whatever event the consumer is at, the run takes the message: it waits for its consumer before it ends."""
    for kind in (TurnStart, TextDelta, MessageStop, TurnStop):
        api = LocalAPI([DONE], [reply(text("Once more."))])

        async def say(run: Any) -> None:
            await all_tasks_blocked()
            assert run.result.status is RunStatus.COMPLETED
            run.say(f"After {kind.__name__}.", when)  # noqa: B023

        run, texts = await answered(api, kind, say)
        message = said(f"After {kind.__name__}.")
        if when == "next_turn":
            assert (len(api.exchanges), run.result.undelivered) == (1, [message])
        else:
            assert (bodies(api)[1][-1], run.result.undelivered) == (message, [])
            assert texts == "Done.Once more."
        assert run.result.status is RunStatus.COMPLETED


async def answered(api: LocalAPI, kind: type, answer: Callable[[Any], Any]) -> tuple[Any, str]:
    """A run whose consumer awaits `answer` at the first event of a kind, and all its text."""
    texts, is_answered = "", False
    async with running(api.transport()) as run:
        async for event in run:
            texts += event.text if isinstance(event, TextDelta) else ""
            if isinstance(event, kind) and not is_answered:
                is_answered = True
                await answer(run)
    return run, texts


async def test_a_conversation_by_iteration() -> None:
    """Each last word is answered, until the bound on turns; what comes then is handed back."""
    api = LocalAPI(*[[DONE]] * 3)
    async with running(api.transport(), max_turns=3) as run:
        async for event in run:
            if isinstance(event, TurnStop):
                run.say(f"Not {event.turn}.", "when_idle")
    assert [body[-1] for body in bodies(api)[1:]] == [said("Not 1."), said("Not 2.")]
    assert run.result.undelivered == [said("Not 3.")]


async def test_said_to_a_run_that_nobody_has_read() -> None:
    """It has ended, and its observers know: the message is handed back."""
    ends: list[Any] = []

    class Observer:
        wants_deltas = False

        def take(self, events: Any) -> None:
            """They are not looked at."""

        def end(self, end: Any) -> None:
            ends.append(end.status)

    async with running(LocalAPI([DONE]).transport()) as run:
        run.observe(Observer())
        await all_tasks_blocked()
        assert ends == ["completed"]
        run.say("And then?", "when_idle")
        assert [event.turn async for event in run if isinstance(event, TurnStop)] == [1]
    assert run.result.undelivered == [said("And then?")]


async def test_said_to_a_run_that_has_failed() -> None:
    """The consumer does not know yet: the message is handed back with the error."""
    api = LocalAPI([message_start(), Broken()])
    with anyio.fail_after(SLOWLY_S), pytest.raises(eagerstream.APIError) as caught:
        async with eagerstream.run(api.transport(), max_restarts=0, **REQUEST) as run:
            async for event in run:
                await all_tasks_blocked()
                run.say(f"At {type(event).__name__}.", "now")
    result: Any = RunResult.of(caught.value)
    assert [message["content"] for message in result.undelivered] == ["At TurnStart.", "At MessageStart."]
    with pytest.raises(UsageError, match="has ended"):
        run.say("Hello?")


async def poll(run: Any) -> None:
    """Ask for the next event without waiting for it, until there is none."""
    with pytest.raises(StopAsyncIteration):
        while True:
            with anyio.move_on_after(0):
                await anext(run)


async def cancel(run: Any) -> None:
    """End a run that has said its last word."""
    run.cancel()


async def converse_elsewhere(run: Any) -> None:
    """Another run begins and ends while this one waits."""
    async with eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST) as other:
        assert (await other.finish()).status is RunStatus.COMPLETED


@pytest.mark.parametrize("act", [Run.finish, Run.get_final_message, cancel, poll, converse_elsewhere])
async def test_a_run_ends_that_waits_for_its_consumer(act: Callable[[Any], Any]) -> None:
    """Whatever the consumer does at the last `TurnStop`, nothing hangs, and the run keeps the status that it has."""

    async def do(run: Any) -> None:
        await all_tasks_blocked()
        assert run.result.status is RunStatus.COMPLETED
        await act(run)

    run, _ = await answered(LocalAPI([DONE]), TurnStop, do)
    assert run.result.status is RunStatus.COMPLETED


async def test_a_run_that_has_ended_stays_so() -> None:
    """What is said behind its end is handed back, and changes no status: not of a cancelled, nor of an unread run."""

    async def say_and_cancel(run: Any) -> None:
        run.say("And then?", "when_idle")
        run.cancel()

    run, _ = await answered(LocalAPI([DONE]), TurnStop, say_and_cancel)
    assert (run.result.status, run.result.undelivered) == (RunStatus.COMPLETED, [said("And then?")])
    async with eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST) as unread:
        await all_tasks_blocked()
        unread.say("And then?", "when_idle")
        await unread.finish()
    assert (unread.result.status, unread.result.undelivered) == (RunStatus.COMPLETED, [said("And then?")])


async def test_a_message_that_nothing_accepts_asks_for_nothing() -> None:
    """A call that the API never ran lets no message follow: the run ends, and hands it back."""
    search = server_tool_use("web_search", {"query": "x"}, id="srvtoolu_1")
    api = LocalAPI([reply(search, stop_reason="pause_turn")], *[[reply(text("End."))]] * 9)
    tool = {"type": "web_search_20250305", "name": "web_search"}
    async with running(api.transport(), tools=[tool]) as run:
        async for event in run:
            if isinstance(event, TurnStop) and event.turn == 2:
                run.say("And then?", "when_idle")
    assert len(api.exchanges) == 2
    assert (run.result.status, run.result.undelivered) == (RunStatus.COMPLETED, [said("And then?")])


async def test_a_finished_conversation_is_idle() -> None:
    """What is said for that time goes with the first request that continues it."""
    run, _ = await answered(LocalAPI([DONE]), TurnStop, all_tasks_blocked_of)
    api = LocalAPI([DONE])
    later = eagerstream.run(api.transport(), **{**REQUEST, "messages": run.result})
    later.say("And then?", "when_idle")
    async with later:
        await later.finish()
    assert bodies(api)[0][-1] == said("And then?")
    assert len(api.exchanges) == 1


async def all_tasks_blocked_of(run: Any) -> None:
    """Let the run do what it can."""
    await all_tasks_blocked()


async def test_a_run_is_left_at_its_last_word() -> None:
    """It has ended by itself, and its observers are told; a message that nobody has waited for is handed back."""
    for words, status in ((None, RunStatus.COMPLETED), ("And then?", RunStatus.CANCELLED)):
        api = LocalAPI([DONE], [DONE])
        async with running(api.transport()) as run:
            async for event in run:
                if isinstance(event, TurnStop):
                    await all_tasks_blocked()
                    if words is not None:
                        run.say(words, "when_idle")
                    break
        assert run.result.status is status
        assert run.result.undelivered == ([said(words)] if words else [])
        checked(run.result)


# --- at once ----------------------------------------------------------------------------------------------------------


async def test_now_in_the_middle_of_a_text() -> None:
    """The text so far stays, and the model gets the message."""
    hanging: list[Any] = [message_start(), block_start(0, "text", text=""), text_delta(0, "It is"), Gate()]
    api = LocalAPI(hanging, [DONE])
    run, events = await steered(api, once(TextDelta, lambda run: run.say("Stop!", when="now")))
    assert bodies(api)[1][1:] == [{"role": "assistant", "content": [{"type": "text", "text": "It is"}]}, said("Stop!")]
    assert [event.turn for event in events if isinstance(event, TurnStart)] == [1, 2]
    assert not any(isinstance(event, Restarted) for event in events)
    assert run.result.status is RunStatus.COMPLETED


async def test_now_in_the_middle_of_an_input() -> None:
    """The cut call does not run and does not stay; the finished one before it does."""
    hanging: list[Any] = [
        message_start(),
        tool_start(0, "now", id="a"),
        input_delta(0, "{}"),
        block_stop(0),
        tool_start(1, "now", id="b"),
        input_delta(1, '{"x'),
        Gate(),
    ]
    api = LocalAPI(hanging, [DONE])

    def at_the_second(run: Any, event: Any) -> None:
        if isinstance(event, InputDelta) and event.input.id == "b":
            run.say("Stop!", when="now")

    run, _ = await steered(api, at_the_second)
    history = bodies(api)[1]
    assert [block["id"] for block in history[1]["content"]] == ["a"]
    assert history[2:] == [{"role": "user", "content": [result("a", "noon")]}, said("Stop!")]
    assert [(call.id, call.ran) for call in run.result.calls] == [("a", True), ("b", False)]


async def test_now_before_the_response() -> None:
    """Nothing of it stays, and nothing has run."""
    api = LocalAPI([Gate()], [DONE])
    await steered(api, once(TurnStart, lambda run: run.say("Wait.", when="now")))
    assert bodies(api)[-1] == [USER, said("Wait.")]


async def test_now_in_the_pause_before_a_restart() -> None:
    """The pause ends, and the message is in the request that is sent again."""
    api = LocalAPI([message_start(), Broken()], [DONE])
    steer = once(Restarted, lambda run: run.say("Still there?", when="now"))
    await steered(api, steer, restart_delay_s=3_600)
    assert bodies(api) == [[USER], [USER, said("Still there?")]]


async def test_now_when_the_message_is_complete() -> None:
    """It is not cut, and the run goes on although it would have ended."""
    api = LocalAPI([DONE], [DONE])
    run = await observed(api, once(MessageStop, lambda run: run.say("Wait!", when="now")))
    assert bodies(api)[1][1]["role"] == "assistant"
    assert bodies(api)[1][2:] == [said("Wait!")]
    assert run.result.turns == 2


async def test_cancelling_and_failing_lose_nothing() -> None:
    """What was not sent is handed back by the result."""

    def both(run: Any) -> None:
        run.say("1")
        run.cancel()
        run.say("2", when="now")

    run = await observed(LocalAPI([DONE]), once(TextDelta, both))
    assert run.result.status is RunStatus.CANCELLED
    assert run.result.undelivered == [said("1"), said("2")]
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], http_error(400, "invalid_request_error", "No."))
    with pytest.raises(eagerstream.APIError, match=r"No\.") as caught:
        await observed(api, once(ToolStart, lambda run: run.say("3", when="when_idle")))
    failed: Any = RunResult.of(caught.value)
    assert failed.undelivered == [said("3")]


async def test_messages_wait_for_code_that_waits_for_results() -> None:
    """Only results may follow a call that code made."""
    code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    asked = [USER, {"role": "assistant", "content": [code, CALL]}, {"role": "user", "content": [result("t", "1")]}]
    conversation = Conversation(**{**REQUEST, "messages": asked})
    conversation.say("Hello?")
    assert conversation.request()["messages"] == asked
    assert conversation.result.undelivered == [said("Hello?")]


@rows(
    "message, when",
    [
        ("", "next_turn"),
        ("Hi", "later"),
        ({"role": "assistant", "content": "Hi"}, "now"),
        ({"role": "user", "content": []}, "now"),
        ({"role": "user", "content": [result("a", "noon")]}, "now"),
        (5, "now"),
    ],
)
def test_what_cannot_be_said(message: Any, when: Any) -> None:
    """Neither empty messages, nor those of others, nor at other times."""
    conversation = Conversation(**REQUEST)
    with pytest.raises(UsageError):
        conversation.say(message, when)
    assert conversation.result.undelivered == []


async def test_after_the_end() -> None:
    """Nobody would hear it: it is refused."""
    run, _ = await steered(LocalAPI([DONE]), lambda run, event: None)
    with pytest.raises(UsageError, match="has ended"):
        run.say("Hello?")


async def test_step_by_step() -> None:
    """The same, with requests that the user sends."""
    conversation = Conversation(**REQUEST, tools=[now])
    api = LocalAPI([DONE], [DONE])
    conversation.say("Be brief.")
    conversation.say("And then?", when="when_idle")
    seen: list[Mapping[str, Any]] = []
    while not conversation.ended:
        request = conversation.request()
        seen.append(request)
        async with eagerstream.stream(api.transport(), **request) as response:
            await response.finish()
        conversation.take(response)
    assert [request["messages"][-1] for request in seen] == [said("Be brief."), said("And then?")]
    assert conversation.result.status is RunStatus.COMPLETED


class Interrupted(LocalAPI):
    """The first response breaks off, the second one calls two tools, and the third one ends; or it answers what was said."""

    def body_for(self, exchange: Any) -> Any:
        """See `LocalAPI.body_for`."""
        messages = exchange.body["messages"]
        if said("Stop!") in messages or len(messages) > 1:
            return [DONE]
        if len(self.exchanges) == 1:
            return [message_start(), block_start(0, "text", text=""), text_delta(0, "I"), Broken()]
        return [reply(text("I look."), tool_use("now", {}, id="a"), tool_use("now", {}, id="b"))]


async def at_the_event(number: int) -> tuple[Any, int, list[str]]:
    """A run to which something is said at one of its events, how many there were, and the calls that ran."""
    ran: list[str] = []

    @tool(name="now")
    async def noted(call: RunningCall) -> str:
        """Note that it runs."""
        ran.append(call.id)
        await anyio.lowlevel.checkpoint()
        return "noon"

    seen = 0

    def steer(run: Any, event: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            run.say("Stop!", when="now")

    return await observed(Interrupted(), steer, tools=[noted]), seen, ran


async def test_now_at_every_event() -> None:
    """Wherever it is said: the history is legal, no call runs twice, and the message is in it exactly once."""
    _, events, ran = await at_the_event(0)
    assert sorted(ran) == ["a", "b"]
    for number in range(1, events):
        run, _, ran = await at_the_event(number)
        assert len(ran) == len(set(ran)), f"said at event {number}"
        assert [call.id for call in run.result.calls if call.ran and call.in_history] == sorted(ran)
        assert run.result.messages.count(said("Stop!")) + run.result.undelivered.count(said("Stop!")) == 1
        assert run.result.messages.count(said("Stop!")) == 1, f"said at event {number} of {events}"
        assert run.result.status is RunStatus.COMPLETED


# --- from other threads -----------------------------------------------------------------------------------------------


async def test_from_a_thread_of_the_program() -> None:
    """`say` and `cancel` do the same as on the event loop: errors are raised in the thread."""
    refused: list[str] = []

    @tool
    def work(call: RunningCall) -> str:
        """Work."""
        call.progress("begun")
        run.say("In euros.")
        try:
            run.say({"role": "assistant", "content": "no"})
        except UsageError as error:
            refused.append(str(error))
        run.cancel()
        run.cancel()
        return "done"

    api = LocalAPI([reply(tool_use("work", {}))], [reply(text("Done."))])
    async with eagerstream.run(api.transport(), tools=[work], **REQUEST) as run:
        events = [event async for event in run]
        assert run.result.status is RunStatus.CANCELLED
    assert [event.value for event in events if isinstance(event, ToolProgress)] == ["begun"]
    assert [message["content"] for message in run.result.undelivered] == ["In euros."]
    assert len(refused) == 1

    def late() -> None:
        run.cancel()  # does nothing
        with pytest.raises(UsageError, match="the run has ended"):
            run.say("late")

    await anyio.to_thread.run_sync(late)


def test_from_a_thread_after_the_event_loop() -> None:
    """Nothing hangs: a run that was never left is over with its loop."""
    entered = []

    async def main() -> None:
        run = eagerstream.run(LocalAPI([Gate()]).transport(), **REQUEST)
        entered.append(await run.__aenter__())

    def late() -> None:
        with pytest.raises(UsageError, match="the run has ended"):
            entered[0].say("late")
        entered[0].cancel()
        refused.append(True)

    refused: list[bool] = []
    asyncio.run(main())
    thread = threading.Thread(target=late)
    thread.start()
    thread.join(30)
    assert refused
