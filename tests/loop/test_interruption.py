"""Replies that break off: sent again where nothing had begun, gone on from where something had, and told at the end."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import (
    APIError,
    InputStop,
    Limits,
    Outcome,
    ProtocolError,
    Restarted,
    StreamInterrupted,
    TextDelta,
    TextStream,
    ToolStart,
    TurnStart,
    TurnStop,
)
from eagerstream.calls import RunStatus
from eagerstream.loop import Run, RunResult
from eagerstream.loop._course import Course
from eagerstream.recordings import Recording
from eagerstream.tools import Group, Reject, tool
from eagerstream_testing import http_error, reply, text, tool_use
from eagerstream_wire._assistant_message import empty_message
from tests.loop.serial import (
    DONE,
    END,
    NOT_RUN,
    QUICK,
    SLOWLY_S,
    Endless,
    Listed,
    Remover,
    Serial,
    UntilBlocked,
    assistant,
    call,
    checked,
    error,
    events_in,
    finished,
    refused_for_now,
    result,
    results,
    running,
    said,
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
    text_delta,
    tool_start,
)
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked, anthropic_client, whole_call

pytestmark = pytest.mark.anyio

SOME_TEXT: list[Piece] = [message_start(), block_start(0, "text", text=""), text_delta(0, "So")]
ERROR_EVENT = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


# --- nothing had begun: the same request again ------------------------------------------------------------------------


_BROKEN: dict[str, Sequence[Piece]] = {
    "lost": [*SOME_TEXT, Broken()],
    "error event": [*SOME_TEXT, ERROR_EVENT],
    "no end": SOME_TEXT,
    "in an input": [*SOME_TEXT, tool_start(1, "now"), input_delta(1, '{"a'), Broken()],
    "invalid": [message_start(), *whole_call(0, "now", "[]"), Broken()],
    "unknown": [message_start(), *whole_call(0, "nope"), Broken()],
    "does not fit": [message_start(), *whole_call(0, "get_weather", '{"city": 5}'), Broken()],
    "empty input": [message_start(), tool_start(0, "now"), block_stop(0), Broken()],
    "at once": [Broken()],
    "empty": [b""],
    "comment": [b": comment\n\n"],
    "cut": [b"event: message_start\ndata: {"],
    "nonsense": [*SOME_TEXT, b"data: nonsense\n\n"],
    "nothing but nonsense": [b"data: nonsense\n\n"],
    "an id twice": [
        message_start(),
        tool_start(0),
        input_delta(0, "{"),
        tool_start(0),
        input_delta(0, "{}"),
        block_stop(0),
    ],
}


async def test_the_same_request_again() -> None:
    """What came is forgotten, and said to be; the history knows nothing of it."""
    for name, broken in _BROKEN.items():
        api = LocalAPI(broken, [reply(tool_use("now", {}, id="a"))], [DONE])
        events = await events_in(run := eagerstream.run(api.transport(), **QUICK))
        assert checked(run.result).status is RunStatus.COMPLETED, name
        assert api.exchanges[0].body == api.exchanges[1].body, name
        assert run.result.messages == [
            USER,
            assistant(call("a", "now", {})),
            results(result("a", "noon")),
            assistant(said("Done.")),
        ]
        (restarted,) = [event for event in events if isinstance(event, Restarted)]
        assert (restarted.turn, restarted.reason, restarted.delay_s) == (1, "interrupted", 0), name
        assert isinstance(restarted.error, APIError | ProtocolError)
        assert [event.turn for event in events if isinstance(event, TurnStart)] == [1, 2]
        assert [event.call.id for event in events if isinstance(event, ToolStart)] == ["a"], name
        assert not any(made.ran for made in run.result.calls if made.id != "a"), name
        assert run.result.turns == 2, name


async def test_usage_without_the_final_counts_is_a_lower_bound() -> None:
    """After an interruption, `cancel`, a guard's cut and a message at once; an estimate is beside the placeholder."""
    written: list[Piece] = [message_start(), block_start(0, "text", text=""), *[text_delta(0, "word " * 10)] * 100]

    async def cut(body: Sequence[Piece], at: type, act: Callable[[Any], object], **options: Any) -> list[Any]:
        api = LocalAPI(body, [DONE])
        async with eagerstream.run(api.transport(), **{**QUICK, **options}) as run:
            events = []
            async for event in run:
                if isinstance(event, at) and len(api.exchanges) == 1:
                    await all_tasks_blocked()  # all of it has come
                    act(run)
                events.append(event)
        told = [event for event in events if isinstance(event, Restarted | TurnStop)]
        assert told[0].usage_is_lower_bound
        assert not any(event.usage_is_lower_bound for event in told[1:])
        assert run.result.usage_is_lower_bound
        assert RunResult.from_json(run.result.to_json()).usage_is_lower_bound
        assert 1_000 < run.result.usage["uncounted_output_tokens"] <= 1_300
        return told

    @eagerstream.tool(guard=lambda input: Reject("no", cut=True))
    async def guarded(a: str) -> str:
        """Never run."""
        return a

    def nothing(run: Any) -> None:
        """The peer does it."""

    await cut([*written, Broken()], Restarted, nothing)
    await cut([*written, Gate()], TextDelta, lambda run: run.cancel())
    await cut([*written, Gate()], TextDelta, lambda run: run.say("Stop.", "now"))
    call: list[Piece] = [block_stop(0), tool_start(1, "guarded"), input_delta(1, '{"a": "b'), Gate()]
    await cut([*written, *call], TurnStop, nothing, tools=[guarded])
    whole = await finished(LocalAPI([DONE]).transport())
    assert not whole.result.usage_is_lower_bound


@pytest.mark.parametrize("client", ["http", "anthropic"])
async def test_a_request_refused_for_now(client: str) -> None:
    """It is sent again, with the plain transport and with a client that does not itself."""
    html = Recording.from_body(b"<html>502 Bad Gateway</html>")
    for refusal in (
        http_error(429, "rate_limit_error", "Slow down"),
        http_error(500, "api_error", "Internal server error"),
        http_error(529, "overloaded_error", "Overloaded"),
        Recording(html.chunks, status=502, headers={"content-type": "text/html"}),
    ):
        api = Listed(refusal, refusal, DONE)
        run = await finished(api.anthropic() if client == "anthropic" else api.transport(), restart_delay_s=0)
        assert len(api.exchanges) == 3, refusal
        assert run.result.turns == 1, refusal


async def test_a_client_that_retries_itself(serial: Serial) -> None:
    """What the client has tried again in vain is not tried again: one of the two does it, not both."""
    refusal = refused_for_now(529, "overloaded_error", retry_after_ms="1")
    async with serial.conversing(*[refusal] * 9) as client:
        with pytest.raises(APIError) as caught:
            await finished(client.with_options(max_retries=1))
    assert caught.value.retried
    assert len(serial.bodies) == 2


@pytest.mark.parametrize("max_restarts", [0, 1, 2])
async def test_it_gives_up(max_restarts: int) -> None:
    """The last error comes out, with everything that is left: the partial reply, the inputs, and the history."""
    first = reply(tool_use("now", {}, id="a"))
    cut = [*SOME_TEXT, block_stop(0), tool_start(1, "now", id="b"), input_delta(1, '{"a'), Broken()]
    api = LocalAPI([first], cut)
    run = eagerstream.run(api.transport(), **QUICK, max_restarts=max_restarts)
    with pytest.raises(StreamInterrupted) as caught:
        await events_in(run)
    assert len(api.exchanges) == 2 + max_restarts
    left = RunResult.of(caught.value)
    assert left is not None
    assert left is run.result
    assert checked(left).status is RunStatus.ERROR
    assert left.messages == [USER, assistant(call("a", "now", {})), results(result("a", "noon"))]
    assert left.message == caught.value.message
    assert left.message is not None
    assert left.message["content"] == [said("So"), call("b", "now", {"INVALID_JSON": '{"a'})]
    assert left.calls[0].result == result("a", "noon")
    assert [made.input.raw for made in left.calls[1:]] == ['{"a'] * (1 + max_restarts)


async def test_raise() -> None:
    """Who wants to see to it himself gets the error at once."""
    api = LocalAPI([*SOME_TEXT, Broken()], [DONE])
    with pytest.raises(StreamInterrupted):
        await finished(api.transport(), on_interrupt="raise")
    assert len(api.exchanges) == 1


# --- how long it waits ------------------------------------------------------------------------------------------------


def _delays(error: APIError, **options: Any) -> list[float]:
    course = Course(**{**REQUEST, "max_restarts": 20, **options})
    delays = []
    for _ in range(course.options["max_restarts"]):
        course.prepare()
        turn = course.begin()
        delays.append(course.interrupt(turn, empty_message(), error))
    return delays


def test_pauses_grow() -> None:
    """Doubled each time up to a bound, and spread: half of it is chance."""
    for number, delay_s in enumerate(_delays(StreamInterrupted("lost"))):
        longest_s = min(0.5 * 2**number, 30)
        assert longest_s / 2 <= delay_s <= longest_s
    assert len(set(_delays(StreamInterrupted("lost")))) == 20
    assert set(_delays(StreamInterrupted("lost"), restart_delay_s=0)) == {0}


def test_the_peer_says_how_long() -> None:
    """Never sooner than it asks for; and what is too long is not waited out."""
    asked = APIError("slow down", status_code=429, retryable=True, retry_after_s=20)
    assert all(20 <= delay_s <= 20 + 30 for delay_s in _delays(asked))
    asked.retry_after_s = 61
    with pytest.raises(APIError, match="slow down"):
        _delays(asked)
    assert len(_delays(asked, limits=Limits(max_retry_after_s=100))) == 20


async def test_it_waits_as_long_as_it_is_asked_to(serial: Serial) -> None:
    """Over a real socket: the header of a 429 is honoured, and the event says so."""
    refusal = refused_for_now(429, "rate_limit_error", retry_after="0.2")
    async with serial.conversing(refusal, DONE) as client:
        started_s = anyio.current_time()
        events = await events_in(eagerstream.run(client, **QUICK))
        took_s = anyio.current_time() - started_s
    (restarted,) = [event for event in events if isinstance(event, Restarted)]
    assert restarted.delay_s == 0.2
    assert took_s >= 0.2


async def test_pings_are_no_progress() -> None:
    """A peer that only says that it is there is given up after a while; every byte counts against the shorter limit."""
    pings: list[Piece] = [message_start()]
    for _ in range(100):
        pings += [{"type": "ping"}, 0.01, b": comment\n\n", 0.01]
    api = LocalAPI(pings, [DONE])
    limits = Limits(idle_timeout_s=5, progress_timeout_s=0.1)
    events = await events_in(run := eagerstream.run(api.transport(), **QUICK, limits=limits))
    assert run.result.status is RunStatus.COMPLETED
    (restarted,) = [event for event in events if isinstance(event, Restarted)]
    assert "nothing but pings came for 0.1 s" in str(restarted.error)


async def test_silence() -> None:
    """No byte at all for too long, at any place: before the reply too."""
    api = LocalAPI([message_start(), Gate()], [Gate()], [DONE])
    limits = Limits(idle_timeout_s=0.1, max_reply_s=math.inf)
    events = await events_in(run := eagerstream.run(api.transport(), **QUICK, limits=limits))
    assert run.result.status is RunStatus.COMPLETED
    reasons = [str(event.error) for event in events if isinstance(event, Restarted)]
    assert len(reasons) == 2
    assert all("no byte came for 0.1 s" in reason for reason in reasons)


# --- something had begun: on with its results -------------------------------------------------------------------------


async def test_what_was_whole_becomes_the_turn() -> None:
    """Running tools finish, whole calls that waited for their turn run, and what was cut is left out."""
    begun, goes_on = anyio.Event(), anyio.Event()

    @tool(group=Group("files"))
    async def slow(n: int) -> str:
        begun.set()
        await goes_on.wait()
        return f"slow {n}"

    @tool(start="message")
    async def held() -> str:
        raise AssertionError("the reply did not end")

    gate = Gate()
    api = LocalAPI(
        [
            message_start(),
            block_start(0, "text", text=""),
            text_delta(0, "So."),
            block_stop(0),
            *whole_call(1, "slow", '{"n": 1}'),
            *whole_call(2, "slow", '{"n": 2}'),
            *whole_call(3, "held"),
            *whole_call(4, "slow", "[]"),
            block_start(5, "text", text=""),
            text_delta(5, "And"),
            block_stop(5),
            tool_start(6, "slow"),
            input_delta(6, '{"n": '),
            gate,
            Broken(),
        ],
        [DONE],
    )
    run = eagerstream.run(api.transport(), **{**QUICK, "tools": [slow, held]})
    with anyio.fail_after(SLOWLY_S):
        async with run:
            await begun.wait()
            gate.opened.set()
            await all_tasks_blocked()
            goes_on.set()
            events = [event async for event in run]
    assert checked(run.result).status is RunStatus.COMPLETED
    assert run.result.messages[1:3] == [
        assistant(
            said("So."),
            call("toolu_1", "slow", {"n": 1}),
            call("toolu_2", "slow", {"n": 2}),
            call("toolu_3", "held", {}),
            call("toolu_4", "slow", {"INVALID_JSON": "[]"}),
        ),
        results(
            result("toolu_1", "slow 1"),
            result("toolu_2", "slow 2"),
            error("toolu_3", NOT_RUN),
            error("toolu_4", '{"INVALID_JSON": "[]"}'),
        ),
    ]
    assert api.exchanges[1].body["messages"] == run.result.messages[:3]
    assert not any(isinstance(event, Restarted) for event in events)
    first, second = [event for event in events if isinstance(event, TurnStop)]
    assert isinstance(first.error, StreamInterrupted)
    assert (first.turn, second.turn, second.error) == (1, 2, None)
    cut = [
        event.input for event in events if isinstance(event, InputStop) and event.input.outcome is Outcome.INCOMPLETE
    ]
    assert [each.index for each in cut] == [6]


async def test_a_streaming_call_that_was_cut() -> None:
    """It stays in the turn, as what came of it, with what its tool said when its input broke off."""
    remover = Remover()
    gate = Gate()
    api = LocalAPI([message_start(), tool_start(0, "write"), input_delta(0, '{"words": "one'), gate, Broken()], [DONE])
    async with running(api.transport(), **{**QUICK, "tools": [remover.tool]}) as run:
        await remover.begun.wait()
        gate.opened.set()
        await run.finish()
    assert checked(run.result).status is RunStatus.COMPLETED
    assert run.result.messages[1] == assistant(call("toolu_0", "write", {"INVALID_JSON": '{"words": "one'}))
    (answer,) = run.result.messages[2]["content"]
    assert answer["is_error"] is True
    assert answer["content"].endswith("removed it again")


async def test_interrupted_again_and_again() -> None:
    """Each time something had begun: after `max_restarts` in a row the error is raised, and nothing of it is lost."""
    bodies = [[message_start(id=f"m{at}"), *_called(f"t{at}"), UntilBlocked(), Broken()] for at in range(4)]
    api = LocalAPI(*bodies)
    run = eagerstream.run(api.transport(), **QUICK)
    with pytest.raises(StreamInterrupted):
        await events_in(run)
    assert checked(run.result).status is RunStatus.ERROR
    assert len(api.exchanges) == 3
    assert [made.id for made in run.result.calls if made.ran and made.in_history] == ["t0", "t1", "t2"]


def _called(id: str) -> list[Piece]:
    return [tool_start(0, "now", id=id), input_delta(0, "{}"), block_stop(0)]


async def test_the_last_turn_is_interrupted() -> None:
    """With `max_turns` its calls run and close the history; nothing more is sent."""
    api = LocalAPI([message_start(), *_called("a"), UntilBlocked(), Broken()], [DONE])
    async with running(api.transport(), **QUICK, max_turns=1) as run:
        await run.finish()
    assert checked(run.result).status is RunStatus.LIMIT
    assert run.result.messages[1:] == [assistant(call("a", "now", {})), results(result("a", "noon"))]
    assert len(api.exchanges) == 1


async def test_an_interruption_is_no_mistake_of_the_tools() -> None:
    """A turn whose only call was cut does not count as one in which every call failed."""

    @tool
    async def write(words: TextStream) -> str:
        return await words

    body: list[Piece] = [
        message_start(),
        tool_start(0, "write"),
        input_delta(0, '{"words": "one'),
        UntilBlocked(),
        Broken(),
    ]
    api = LocalAPI(body, [DONE])
    run = await finished(api.transport(), tools=[write], restart_delay_s=0, max_consecutive_tool_errors=1)
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.calls[0].ran


async def test_what_may_run_twice_is_sent_again() -> None:
    """A call of an idempotent tool that has begun does not keep the request from being sent again."""
    ran: list[str] = []

    @tool(idempotent=True)
    async def look(n: int) -> str:
        ran.append("look")
        return str(n)

    body = [message_start(), *whole_call(0, "look", '{"n": 1}'), UntilBlocked(), Broken()]
    api = LocalAPI(body, [reply(tool_use("look", {"n": 1}, id="toolu_0"))], [DONE])
    events = await events_in(run := eagerstream.run(api.transport(), **{**QUICK, "tools": [look]}))
    assert [type(event).__name__ for event in events].count("Restarted") == 1
    assert ran == ["look", "look"]
    assert checked(run.result).messages[2] == results(result("toolu_0", "1"))


async def test_a_restart_waits_for_nobody() -> None:
    """An idempotent call of a reply that was forgotten does not hold up the next request."""
    endless = Endless()
    api = LocalAPI([message_start(), *whole_call(0, "endless"), endless.gate, Broken()], [DONE])
    run = await endless.finish(api, **{**QUICK, "tools": [endless.tool]})
    assert run.result.status is RunStatus.COMPLETED


# --- a reply that is too large ----------------------------------------------------------------------------------------


async def test_an_endless_reply() -> None:
    """A body that does not end is given up at its limit, whatever is in it."""

    @asynccontextmanager
    async def limited(*pieces: Piece) -> AsyncIterator[Run]:
        api = LocalAPI(list(pieces))
        async with eagerstream.run(api.transport(), **QUICK, limits=Limits(max_reply_bytes=10_000)) as run:
            yield run

    pieces: list[Piece] = [input_delta(0, "x" * 50), {"type": "ping"}, {"type": "tomorrow"}, b": comment\n\n"]
    for endless in pieces:
        async with limited(message_start(), tool_start(0, "now"), *[endless] * 1_000, MESSAGE_STOP) as run:
            with pytest.raises(eagerstream.LimitError, match="max_reply_bytes"):
                await run.finish()
        assert checked(run.result).status is RunStatus.ERROR


async def test_over_a_real_socket() -> None:
    """The anthropic client and a connection that is cut: the run goes on where it was."""
    whole = reply(tool_use("now", {}, id="a"), text("and then"))
    cut = Recording.from_body(whole.body[: whole.body.index(b"and")])
    serial = Serial()
    async with serial.server, anthropic_client(serial.server.base_url) as client:
        serial._replies = [cut, DONE]
        run = await finished(client, restart_delay_s=0)
    assert run.result.messages[2] == results(result("a", "noon"))
    assert [made.id for made in run.result.calls] == ["a"]


# --- what is counted, and what is kept --------------------------------------------------------------------------------


async def test_what_failed_was_paid_for_too() -> None:
    """Three requests that each cost ten tokens cost thirty, and where code ran is known."""
    start = message_start(container={"id": "container_1"}, usage={"input_tokens": 10, "output_tokens": 0})
    run = eagerstream.run(LocalAPI([start, Broken()]).transport(), **QUICK)
    with pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()
    assert checked(run.result).usage["input_tokens"] == 30
    assert run.result.container == {"id": "container_1"}


async def test_code_goes_on_after_an_interruption() -> None:
    """The container of a reply that broke off is named in the next request."""
    start = message_start(container={"id": "container_1"})
    api = LocalAPI([start, *whole_call(0, "now"), UntilBlocked(), Broken()], [DONE])
    await finished(api.transport(), restart_delay_s=0)
    assert api.exchanges[1].body["container"] == "container_1"


async def test_each_turn_has_its_retry() -> None:
    """After a retried reply that was interrupted, the next turn asks for what the user said, and may be retried."""
    text = [block_start(0, "text", text=""), text_delta(0, "So"), block_stop(0)]
    cut: list[Piece] = [message_start(), *text, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI(cut, [message_start(), *whole_call(0, "now"), UntilBlocked(), Broken()], cut, [DONE])
    run = await finished(api.transport(), restart_delay_s=0, on_truncated="retry")
    assert [exchange.body["max_tokens"] for exchange in api.exchanges] == [1024, 2048, 1024, 2048]
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.slow
async def test_a_thousand_restarts() -> None:
    """A night without a network is an error at its end, and no overflow."""
    run = eagerstream.run(LocalAPI([Broken()]).transport(), **QUICK, max_restarts=1_100)
    with pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()


async def test_an_id_comes_again_where_nothing_of_it_stayed() -> None:
    """A call that was about to run, and then did not fit, leaves its id free for the reply that is sent for again."""

    @tool
    async def big(a: int, s: str) -> str:
        raise AssertionError

    call = whole_call(0, "big", json.dumps({"a": "no", "s": "x" * 20_000}))
    api = LocalAPI([message_start(), *call, Broken()], [message_start(), *call, *END], [DONE])
    run = await finished(api.transport(), tools=[big], restart_delay_s=0)
    assert run.result.status is RunStatus.COMPLETED


async def test_a_client_s_own_pause_is_no_silence(serial: Serial) -> None:
    """The client waits as long as the peer asks it to before it tries again, although that is longer than a silence."""
    refusal = refused_for_now(429, "rate_limit_error", retry_after="0.5")
    async with serial.conversing(refusal, DONE) as client:
        run = await finished(client.with_options(max_retries=1), limits=Limits(idle_timeout_s=0.2))
    assert len(serial.bodies) == 2
    assert run.result.turns == 1
