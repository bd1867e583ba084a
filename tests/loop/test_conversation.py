"""`Conversation`: the loop driven by hand makes the same requests as `run`, and says what was done wrong."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import Limits, UsageError
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError, HistoryError, LimitError, ProtocolError
from eagerstream.loop import Conversation
from eagerstream.recordings import Recording
from eagerstream.tools import tool
from eagerstream_testing import error_event, reply, text, tool_use
from tests.loop.cases import CASES
from tests.loop.serial import (
    ALL_DONE,
    DONE,
    SLOWLY_S,
    TOOLS,
    Listed,
    assistant,
    body,
    by_hand,
    call,
    checked,
    error,
    finished,
    next_response,
    next_turn,
    now,
    result,
    results,
)
from tests.streams import REQUEST, USER
from tests.support import LocalAPI, all_tasks_blocked, check_history
from tests.tables import rows

pytestmark = pytest.mark.anyio

_RUNS_WHAT_WAS_ADMITTED = (
    "stop_sequence with a call",
    "max_tokens",
    "retry, something begun",
    "retry, a second cut after a call",
)
"""Where `run` has begun with calls while the reply went on; by hand nothing begins before it has ended."""


async def by_hand_for(replies: list[Recording], **options: Any) -> tuple[list[Any], Conversation]:
    """The bodies and the conversation of a script that is driven by hand."""
    api = Listed(*replies)
    conversation = await by_hand(api.transport(), **options)
    return api.bodies, conversation


async def test_the_same_requests() -> None:
    """Every scenario of the loop, step by step: the same bodies, the same history, the same status."""
    for name, case in CASES.items():
        if name in _RUNS_WHAT_WAS_ADMITTED:
            continue
        api = Listed(*case.replies)
        conversation = await by_hand(api.transport(), **case.options)
        assert api.bodies == case.bodies, name
        assert conversation.result.messages == [USER, *case.added], name
        assert conversation.result.status is case.status, name
        assert conversation.result.turns == len(case.bodies), name


async def test_parallel_calls() -> None:
    """`execute` runs them beside one another: each of these waits for the other."""
    arrived: list[int] = []
    both = anyio.Event()

    @tool
    async def meet(n: int) -> int:
        arrived.append(n)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return n

    first = reply(tool_use("meet", {"n": 1}, id="a"), tool_use("meet", {"n": 2}, id="b"))
    bodies, _ = await by_hand_for([first, DONE], tools=[meet])
    added = [
        assistant(call("a", "meet", {"n": 1}), call("b", "meet", {"n": 2})),
        results(result("a", "1"), result("b", "2")),
    ]
    assert bodies == [body(tools=[meet]), body(*added, tools=[meet])]


_GROUP_FAILED = reply(
    tool_use("write_file", {"path": "/"}, id="a"),
    tool_use("write_file", '{"pa', id="b", closed=False),
    stop_reason="max_tokens",
)


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ([reply(tool_use("now", {}, id=f"c{n}")) for n in range(3)], {"cache": "auto", "system": "Be brief."}),
        ([_GROUP_FAILED], {"on_truncated": "report"}),
    ],
    ids=["breakpoints move along", "a cut call of a group that failed"],
)
async def test_the_same_requests_as_a_run(script: list[Recording], options: dict[str, Any]) -> None:
    """Both forms mark what is cached alike, and answer a cut call as cut although an earlier call of its group failed."""
    api = Listed(*script, DONE)
    await finished(api.transport(), **options)
    bodies, _ = await by_hand_for([*script, DONE], **options)
    assert bodies == api.bodies


async def test_own_answers() -> None:
    """What the user answers is sent, its tool does not run; what is left is run, or refused."""
    first = reply(
        tool_use("get_weather", {"city": "Oslo"}, id="a"),
        tool_use("now", {}, id="b"),
        tool_use("nope", {}, id="c"),
        tool_use("now", "{", id="d"),
    )
    api = Listed(first, DONE)
    client = api.transport()
    conversation = Conversation(**REQUEST, tools=TOOLS)
    with anyio.fail_after(SLOWLY_S):
        while not conversation.ended:
            turn = await next_turn(client, conversation)
            for made in turn.calls:
                if made.name == "get_weather":
                    made.answer({"degrees": 15})
                    made.answer("too late")
                elif made.name == "nope":
                    made.fail(LookupError("no such tool"))
            await conversation.execute(turn)
            blocks = turn.results()
            assert turn.results() == blocks
    answers = [
        result("a", '{"degrees": 15}'),
        result("b", "noon"),
        error("c", "LookupError: no such tool"),
        error(
            "d", '{"INVALID_JSON": "{"}\nNot executed: the input of this call was cut off before its JSON was complete.'
        ),
    ]
    assert api.bodies[1]["messages"][2] == results(*answers)
    assert [made.ran for made in checked(conversation.result).calls] == [False, True, False, False]


async def test_nothing_executed() -> None:
    """Whoever does not execute sends results that say so; whoever answers too late is not heard."""
    api = Listed(reply(tool_use("now", {}, id="a")), DONE)
    client = api.transport()
    conversation = Conversation(**REQUEST, tools=TOOLS)
    turn = await next_turn(client, conversation)
    request = conversation.request()
    turn.calls[0].answer("too late")
    await conversation.execute(turn)
    assert conversation.request() == request
    assert request["messages"][-1] == results(error("a", "Not executed: the response ended before this call was run."))
    assert not turn.calls[0].ran


# --- misuse -----------------------------------------------------------------------------------------------------------


async def _taken(*replies: Recording, **options: Any) -> tuple[Conversation, Any]:
    """A conversation whose first reply was taken in, and its stream."""
    conversation = Conversation(**{**REQUEST, "tools": TOOLS, **options})
    stream = await next_response(LocalAPI(replies).transport(), conversation)
    conversation.take(stream)
    return conversation, stream


async def test_a_request_after_the_end() -> None:
    """There is nothing more to send, and the error says how it ended."""
    conversation, _ = await _taken(DONE)
    with pytest.raises(UsageError, match="completed"):
        conversation.request()


@pytest.mark.parametrize(
    "first", [DONE, reply(text("So."), stop_reason="pause_turn"), reply(tool_use("now", {}, id="a"))]
)
async def test_a_reply_taken_twice(first: Recording) -> None:
    """A reply is taken once, whether its calls are there already or it has ended the conversation."""
    conversation, stream = await _taken(first)
    with pytest.raises((UsageError, ProtocolError) if conversation.result.calls else UsageError):
        conversation.take(stream)
    checked(conversation.result)


async def test_a_reply_that_was_not_read_to_its_end() -> None:
    """`take` wants a whole reply; taking half of one is a mistake that is told."""
    conversation = Conversation(**REQUEST, tools=TOOLS)
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE])
    async with eagerstream.stream(api.transport(), **conversation.request()) as stream:
        with pytest.raises(UsageError):
            conversation.take(stream)


async def test_a_reply_that_broke_off() -> None:
    """The request can be made again after an error: nothing of the broken reply was taken."""
    conversation = Conversation(**REQUEST, tools=TOOLS)
    request = conversation.request()
    api = LocalAPI([reply(text("So"), error_event("overloaded_error", "Later"))])
    with pytest.raises(EagerStreamError):
        async with eagerstream.stream(api.transport(), **request) as stream:
            await stream.finish()
    assert conversation.request() == request


async def test_the_end_without_results() -> None:
    """`while not ended: request()` never raises because it has ended, also where nobody looks at the results."""
    api = LocalAPI([reply(tool_use("fail", {}, id="a"))], [DONE])
    conversation = Conversation(**REQUEST, tools=TOOLS, max_consecutive_tool_errors=1)
    while not conversation.ended:
        await conversation.execute(await next_turn(api.transport(), conversation))
    assert conversation.result.status is RunStatus.LIMIT


async def test_raise_by_hand() -> None:
    """`take` raises the limit; no call ran, the history can be sent, the conversation is over."""
    cut = reply(tool_use("now", {}, id="a"), tool_use("now", "{", id="b", closed=False), stop_reason="max_tokens")
    conversation = Conversation(**REQUEST, tools=TOOLS, on_truncated="raise")
    stream = await next_response(LocalAPI([cut]).transport(), conversation)
    with pytest.raises(LimitError):
        conversation.take(stream)
    assert conversation.ended
    assert checked(conversation.result).status is RunStatus.TRUNCATED
    assert not any(made.ran for made in conversation.result.calls)


async def test_retry_by_hand_runs_nothing() -> None:
    """A reply that is to be sent for again: `execute` runs none of its calls, and there are no results."""
    cut = reply(tool_use("now", {}, id="a"), tool_use("now", "{", id="b", closed=False), stop_reason="max_tokens")
    conversation = Conversation(**REQUEST, tools=TOOLS, on_truncated="retry")
    api = LocalAPI([cut], [DONE])
    turn = await next_turn(api.transport(), conversation)
    assert turn.is_discarded
    await conversation.execute(turn)
    assert turn.results() == []
    assert not any(made.ran for made in turn.calls)
    assert conversation.request() == {**REQUEST, "max_tokens": 2048, "tools": [made.to_dict() for made in TOOLS]}


# --- settings ---------------------------------------------------------------------------------------------------------

_BAD_SETTINGS: list[dict[str, Any]] = [
    {"max_turns": 0},
    {"max_turns": -1},
    {"max_continuations": -1},
    {"max_consecutive_tool_errors": 0},
    {"max_tokens_cap": 0},
    {"on_truncated": "ignore"},
    {"on_truncated": None},
    {"cache": "always"},
    {"cache": True},
    {"max_concurrency": 0},
    {"max_concurrency": -3},
    {"stream": True},
    {"tools": [print]},
    {"tools": [now, now]},
    {"tools": [now.to_dict()]},
    {"tools": ["now"]},
    {"tools": [{"type": "web_search_20250305", "name": "now"}, now]},
    {"on_interrupt": "retry"},
    {"max_restarts": -1},
    {"max_restarts": 1.5},
    {"restart_delay_s": float("inf")},
    {"max_turns": "3"},
    {"max_turns": 1.5},
    {"max_continuations": "5"},
    {"max_concurrency": "16"},
    {"max_concurrency": 2.5},
    {"max_tokens_cap": "2048"},
    {"max_tokens": "1024", "on_truncated": "retry"},
    {"tools": now},
    {"limits": None},
    {"limits": {"max_depth": 5}},
]


@rows("options", _BAD_SETTINGS)
@rows("form", ["run", "by hand"])
def test_bad_settings(form: str, options: dict[str, Any]) -> None:
    """Each is refused at once, as our caller's error, before anything is sent."""
    api = LocalAPI([DONE])
    with pytest.raises(UsageError):
        if form == "run":
            eagerstream.run(api.transport(), **{**REQUEST, **options})
        else:
            Conversation(**{**REQUEST, **options})
    assert api.exchanges == []


def test_no_bound_on_continuations() -> None:
    """It is refused at the start, and does not end a run in its middle."""
    with pytest.raises(UsageError, match="max_continuations"):
        Conversation(**REQUEST, max_continuations=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_continuations"):
        eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST, max_continuations=None)  # type: ignore[call-overload]


# --- histories --------------------------------------------------------------------------------------------------------

_CALL = assistant(call("a", "now", {}))
_TEXT = {"type": "text", "text": "And?"}
_WRONG: dict[str, list[Any]] = {
    "nothing": [],
    "a call without a result": [USER, _CALL],
    "a role of others": [USER, _CALL, {"role": "tool", "content": "noon"}],
}


@rows("name, messages", _WRONG.items())
@rows("form", ["run", "by hand"])
def test_wrong_histories(form: str, name: str, messages: list[Any]) -> None:
    """What the API would refuse is found before anything is sent."""
    api = LocalAPI([DONE])
    with pytest.raises(HistoryError) as caught:
        if form == "run":
            eagerstream.run(api.transport(), **{**REQUEST, "messages": messages}, tools=TOOLS)
        else:
            Conversation(**{**REQUEST, "messages": messages}, tools=TOOLS)
    assert caught.value.faults, name
    assert api.exchanges == []


async def test_a_right_history() -> None:
    """Text behind the results is lawful (S1.19), and the conversation goes on from there as it is."""
    messages = [USER, _CALL, results(result("a", "noon"), _TEXT)]
    api = LocalAPI([DONE])
    run = await finished(api.transport(), messages=messages)
    assert api.exchanges[0].body["messages"] == messages
    assert run.result.messages == [*messages, ALL_DONE]


async def test_an_id_of_the_history_again() -> None:
    """Some gateways count their calls from 0 in each response: a call of a later one runs, under an id of its own."""
    messages = [USER, _CALL, results(result("a", "noon"))]
    run = eagerstream.run(
        LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE]).transport(),
        **{**REQUEST, "messages": messages},
        tools=TOOLS,
    )
    async with run:
        await run.finish()
    (call,) = run.result.calls
    assert (call.id, call.ran) == ("a", True)
    (echoed,) = run.result.messages[3]["content"]
    assert echoed["id"] != "a"
    assert run.result.messages[4] == results(result(echoed["id"], "noon"))
    check_history(run.result.messages)


async def test_execution_that_is_cancelled_and_done_again() -> None:
    """What was running is answered as cancelled, and does not run a second time; what had not begun is run."""
    begun: list[int] = []
    started = anyio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        begun.append(n)
        if n == 1:
            started.set()
            await anyio.sleep_forever()
        return n

    calls = [tool_use("work", {"n": n}, id=f"c{n}") for n in (1, 2)]
    api = LocalAPI([reply(*calls)], [DONE])
    conversation = Conversation(**REQUEST, tools=[work], max_concurrency=1)
    with anyio.fail_after(SLOWLY_S):
        turn = await next_turn(api.transport(), conversation)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(conversation.execute, turn)
            await started.wait()
            tasks.cancel_scope.cancel()
        assert [call.result is not None for call in turn.calls] == [True, False]
        await conversation.execute(turn)
        await conversation.execute(turn)
    assert begun == [1, 2]
    first, second = turn.results()
    assert first["is_error"] is True
    assert "cancelled" in first["content"]
    assert second["content"] == "2"
    (await next_turn(api.transport(), conversation)).results()
    assert checked(conversation.result).messages[-1] == ALL_DONE


async def test_execution_by_two_tasks() -> None:
    """Each call runs once, and both wait for all of them, also where one comes while the other's tools run."""
    begun: list[int] = []
    runs, goes_on = anyio.Event(), anyio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        begun.append(n)
        runs.set()
        await goes_on.wait()
        return n

    calls = [tool_use("work", {"n": n}, id=f"c{n}") for n in (1, 2)]
    api = LocalAPI([reply(*calls)], [DONE])
    conversation = Conversation(**REQUEST, tools=[work])
    with anyio.fail_after(SLOWLY_S):
        turn = await next_turn(api.transport(), conversation)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(conversation.execute, turn)
            await runs.wait()
            tasks.start_soon(conversation.execute, turn)
            await all_tasks_blocked()
            goes_on.set()
    assert sorted(begun) == [1, 2]
    assert [result["content"] for result in turn.results()] == ["1", "2"]


@rows("messages", ["hi", ["hi"], [5], None, 5, USER])
def test_messages_that_are_none(messages: Any) -> None:
    """Said in our own words, before anything is sent."""
    for start in (eagerstream.run, eagerstream.stream):
        with pytest.raises(UsageError, match="message"):
            start(LocalAPI([DONE]).transport(), **{**REQUEST, "messages": messages})


@rows("name", ["restart_delay_s", "min_interval_s", "min_chars", "buffer"])
@rows("value", ["1", None, float("nan"), -1])
def test_numbers_that_are_none(name: str, value: Any) -> None:
    """The same of settings that are numbers."""
    with pytest.raises(UsageError, match=name):
        eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST, **{name: value})


@rows("value", ["5", None, True])
def test_limits_that_are_none(value: Any) -> None:
    """The same of limits."""
    with pytest.raises(UsageError, match="idle_timeout_s"):
        Limits(idle_timeout_s=value)
