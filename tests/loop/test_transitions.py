"""Every way in which a reply can end, as a conversation over a real socket: what is sent then, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.errors import LimitError
from eagerstream.loop import Restarted, RunStatus, ToolStart, TurnStart, TurnStop
from eagerstream.recordings import Recording
from eagerstream.testing import block, encode_event, reply, server_tool_use, text, thinking, tool_use
from eagerstream.wire import MessageStop
from tests.loop.serial import (
    ALL_DONE,
    CUT,
    DONE,
    NO_ROUTE,
    NOT_RUN,
    SLOWLY_S,
    TOOLS,
    Message,
    Serial,
    assistant,
    body,
    call,
    checked,
    draw,
    error,
    finished,
    get_weather,
    now,
    result,
    results,
    said,
)
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    Gate,
    LocalAPI,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    one_by_one,
    text_delta,
    tool_start,
)

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "code_execution_20260120", "name": "code_execution"}


def one_call(id: str, **options: Any) -> Recording:
    """A reply that calls `now`."""
    return reply(tool_use("now", {}, id=id), **options)


def told(id: str) -> list[Message]:
    """What it adds to the history."""
    return [assistant(call(id, "now", {})), results(result(id, "noon"))]


def searched(id: str) -> dict[str, Any]:
    """A search of the API's own, in a history."""
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "a"}}


def search(id: str) -> Any:
    """The same, in a reply."""
    return server_tool_use("web_search", {"query": "a"}, id=id)


def found(id: str) -> dict[str, Any]:
    """Its result."""
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": [{"type": "web_search_result", "url": "x"}]}


@dataclass
class Case:
    """A conversation.

    Attributes:
        replies: What the server says.
        bodies: What it must be sent.
        added: What the run adds to the history.
        status: How it ends.
        ran: Ids of calls, and whether each ran.
    """

    replies: list[Recording]
    bodies: list[dict[str, Any]]
    added: list[Message]
    status: RunStatus
    ran: dict[str, bool] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {}

_mixed = reply(
    text("So."),
    tool_use("get_weather", {"city": "Oslo"}, id="a"),
    tool_use("get_weather", '{"city": Oslo}', id="b"),
    tool_use("nope", {"x": 1}, id="c"),
    tool_use("get_weather", {"town": "Oslo"}, id="d"),
    tool_use("fail", {}, id="e"),
    tool_use("now", "", id="f"),
    tool_use("now", "[]", id="g"),
)
_mixed_added = [
    assistant(
        said("So."),
        call("a", "get_weather", {"city": "Oslo"}),
        call("b", "get_weather", {"INVALID_JSON": '{"city": Oslo}'}),
        call("c", "nope", {"x": 1}),
        call("d", "get_weather", {"town": "Oslo"}),
        call("e", "fail", {}),
        call("f", "now", {}),
        call("g", "now", {"INVALID_JSON": "[]"}),
    ),
    results(
        result("a", "15 degrees in Oslo"),
        error("b", '{"INVALID_JSON": "{\\"city\\": Oslo}"}'),
        error("c", "Error: Tool 'nope' not found. Available tools: draw, fail, get_weather, now, write_file"),
        error("d", "Error: Missing required 'city' parameter; Unknown parameter 'town'"),
        error("e", NO_ROUTE),
        result("f", "noon"),
        error("g", '{"INVALID_JSON": "[]"}'),
    ),
]
_mixed_ran = {"a": True, "b": False, "c": False, "d": False, "e": True, "f": True, "g": False}

CASES["tool_use"] = Case(
    [_mixed, DONE], [body(), body(*_mixed_added)], [*_mixed_added, ALL_DONE], RunStatus.COMPLETED, _mixed_ran
)
CASES["tool_use without a call"] = Case(
    [reply(text("So."), stop_reason="tool_use")], [body()], [assistant(said("So."))], RunStatus.COMPLETED
)
CASES["tool_use of the API's own only"] = Case(
    # Nothing of ours to answer: the run ends, and the call that the API did not run is left out.
    [reply(text("So."), search("srvtoolu_1"), stop_reason="tool_use")],
    [body(tools=[SEARCH])],
    [assistant(said("So."))],
    RunStatus.COMPLETED,
    options={"tools": [SEARCH]},
)
_both = [assistant(searched("srvtoolu_1"), call("a", "now", {})), results(result("a", "noon"))]
CASES["a mixed turn"] = Case(
    [
        reply(search("srvtoolu_1"), tool_use("now", {}, id="a")),
        reply(block(found("srvtoolu_1")), text("Found.")),
    ],
    [body(tools=[now, SEARCH]), body(*_both, tools=[now, SEARCH])],
    [*_both, assistant(found("srvtoolu_1"), said("Found."))],
    RunStatus.COMPLETED,
    {"a": True},
    options={"tools": [now, SEARCH]},
)
CASES["a mixed turn, and its result in a turn with calls"] = Case(
    [
        reply(search("srvtoolu_1"), tool_use("now", {}, id="a")),
        reply(block(found("srvtoolu_1")), tool_use("now", {}, id="b")),
        DONE,
    ],
    [
        body(tools=[now, SEARCH]),
        body(*_both, tools=[now, SEARCH]),
        body(
            *_both,
            assistant(found("srvtoolu_1"), call("b", "now", {})),
            results(result("b", "noon")),
            tools=[now, SEARCH],
        ),
    ],
    [*_both, assistant(found("srvtoolu_1"), call("b", "now", {})), results(result("b", "noon")), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True, "b": True},
    options={"tools": [now, SEARCH]},
)
CASES["end_turn"] = Case([DONE], [body()], [ALL_DONE], RunStatus.COMPLETED)
CASES["end_turn without a word"] = Case([reply()], [body()], [], RunStatus.COMPLETED)
CASES["end_turn with white space"] = Case([reply(text(" \n"))], [body()], [], RunStatus.COMPLETED)
CASES["end_turn with a call"] = Case(
    [one_call("a", stop_reason="end_turn")], [body()], told("a"), RunStatus.COMPLETED, {"a": True}
)
CASES["end_turn after results without a word"] = Case(
    [one_call("a"), reply()], [body(), body(*told("a"))], told("a"), RunStatus.COMPLETED, {"a": True}
)
CASES["stop_sequence"] = Case(
    [reply(text("So."), stop_reason="stop_sequence")], [body()], [assistant(said("So."))], RunStatus.STOP_SEQUENCE
)
CASES["stop_sequence with a call"] = Case(
    [one_call("a", stop_reason="stop_sequence")], [body()], told("a"), RunStatus.STOP_SEQUENCE, {"a": True}
)


def _paused(number: int) -> Recording:
    return reply(
        text(f"Part {number}."), search(f"srvtoolu_{number}"), stop_reason="pause_turn", message_id=f"m{number}"
    )


def _paused_messages(count: int) -> list[Message]:
    return [assistant(said(f"Part {number}."), searched(f"srvtoolu_{number}")) for number in range(count)]


for _count in (1, 3, 5):
    CASES[f"pause_turn, {_count} in a row"] = Case(
        [*map(_paused, range(_count)), DONE],
        [body(*_paused_messages(number), tools=[SEARCH]) for number in range(_count + 1)],
        [*_paused_messages(_count), ALL_DONE],
        RunStatus.COMPLETED,
        options={"tools": [SEARCH]},
    )
for _most in (0, 2, 5):
    CASES[f"pause_turn beyond {_most}"] = Case(
        [*map(_paused, range(_most + 1)), DONE],
        [body(*_paused_messages(number), tools=[SEARCH]) for number in range(_most + 1)],
        _paused_messages(_most + 1),
        RunStatus.PAUSED,
        options={"tools": [SEARCH], "max_continuations": _most},
    )
CASES["pause_turn, a call in between begins the count anew"] = Case(
    [_paused(0), one_call("a"), _paused(1), DONE],
    [
        body(tools=[now, SEARCH]),
        body(*_paused_messages(1), tools=[now, SEARCH]),
        body(*_paused_messages(1), *told("a"), tools=[now, SEARCH]),
        body(*_paused_messages(1), *told("a"), _paused_messages(2)[1], tools=[now, SEARCH]),
    ],
    [*_paused_messages(1), *told("a"), _paused_messages(2)[1], ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    options={"tools": [now, SEARCH], "max_continuations": 1},
)
CASES["pause_turn with a call of the client's"] = Case(
    # It should not happen; the call's result is what goes on then.
    [reply(search("srvtoolu_1"), tool_use("now", {}, id="a"), stop_reason="pause_turn"), DONE],
    [body(tools=[now, SEARCH]), body(*_both, tools=[now, SEARCH])],
    [*_both, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    options={"tools": [now, SEARCH]},
)
CASES["pause_turn without a word"] = Case([reply(stop_reason="pause_turn")], [body()], [], RunStatus.PAUSED)
CASES["pause_turn on the last turn"] = Case(
    [_paused(0)],
    [body(tools=[SEARCH])],
    _paused_messages(1),
    RunStatus.LIMIT,
    options={"tools": [SEARCH], "max_turns": 1},
)
_compacted = {"type": "compaction", "content": "All so far."}
CASES["compaction"] = Case(
    [reply(block(_compacted), stop_reason="compaction"), DONE],
    [body(), body(assistant(_compacted))],
    [assistant(_compacted), ALL_DONE],
    RunStatus.COMPLETED,
)

# --- max_tokens -------------------------------------------------------------------------------------------------------

_cut_input = '{"city": "Os'
_wrapped = '{"INVALID_JSON": "{\\"city\\": \\"Os"}'


def _cut(id: str, *before: Any) -> Recording:
    cut = tool_use("get_weather", _cut_input, id=id, closed=False)
    return reply(*before, cut, stop_reason="max_tokens", message_id=f"m{id}")


def _cut_added(id: str) -> list[Message]:
    return [
        assistant(call(id, "get_weather", {"INVALID_JSON": _cut_input})),
        results(error(id, f"{_wrapped}\n{CUT}")),
    ]


_half = [
    assistant(call("a", "now", {}), call("b", "get_weather", {"INVALID_JSON": _cut_input})),
    results(result("a", "noon"), error("b", f"{_wrapped}\n{CUT}")),
]
_half_cut = _cut("b", tool_use("now", {}, id="a"))
CASES["max_tokens"] = Case([_half_cut], [body()], _half, RunStatus.TRUNCATED, {"a": True, "b": False})
CASES["max_tokens in text"] = Case(
    [reply(text("So it", closed=False), stop_reason="max_tokens")],
    [body()],
    [assistant(said("So it"))],
    RunStatus.TRUNCATED,
)
CASES["max_tokens in thinking"] = Case(
    [reply(thinking("So it", closed=False), stop_reason="max_tokens")], [body()], [], RunStatus.TRUNCATED
)
for _reason in ("report", "stop", "retry"):
    CASES[f"max_tokens with a search that was not run, {_reason}"] = Case(
        [reply(search("srvtoolu_1"), *([] if _reason == "retry" else [text("So")]), stop_reason="max_tokens")],
        [body(tools=[SEARCH])],
        [] if _reason == "retry" else [assistant(said("So"))],
        RunStatus.TRUNCATED,
        options={"tools": [SEARCH], "on_truncated": _reason, "max_tokens_cap": 1},
    )
CASES["retry, nothing begun"] = Case(
    [_cut("a"), one_call("b"), DONE],
    [body(), body(max_tokens=2048), body(*told("b"))],
    [*told("b"), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False, "b": True},
    {"on_truncated": "retry"},
)
CASES["retry, the same id again"] = Case(
    [_cut("a"), one_call("a"), DONE],
    [body(), body(max_tokens=2048), body(*told("a"))],
    [*told("a"), ALL_DONE],
    RunStatus.COMPLETED,
    options={"on_truncated": "retry"},
)
CASES["retry with a cap"] = Case(
    [_cut("a"), DONE],
    [body(), body(max_tokens=1500)],
    [ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 1500},
)
CASES["retry with a cap beyond twice"] = Case(
    [_cut("a"), DONE],
    [body(), body(max_tokens=2048)],
    [ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 9000},
)
CASES["retry with a cap that leaves nothing"] = Case(
    [_cut("a")],
    [body()],
    _cut_added("a"),
    RunStatus.TRUNCATED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 1024},
)
CASES["retry, a second cut"] = Case(
    [_cut("a"), _cut("b")],
    [body(), body(max_tokens=2048)],
    _cut_added("b"),
    RunStatus.TRUNCATED,
    {"a": False, "b": False},
    {"on_truncated": "retry"},
)
CASES["retry, a second cut after a call"] = Case(
    [_cut("x"), _half_cut, DONE],
    [body(), body(max_tokens=2048), body(*_half)],
    [*_half, ALL_DONE],
    RunStatus.COMPLETED,
    {"x": False, "a": True, "b": False},
    {"on_truncated": "retry"},
)
CASES["retry, something begun"] = Case(
    [_half_cut, DONE],
    [body(), body(*_half)],
    [*_half, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True, "b": False},
    {"on_truncated": "retry"},
)
CASES["retry in two turns"] = Case(
    [_cut("a"), one_call("b"), _cut("c"), DONE],
    [body(), body(max_tokens=2048), body(*told("b")), body(*told("b"), max_tokens=2048)],
    [*told("b"), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False, "b": True, "c": False},
    {"on_truncated": "retry"},
)
CASES["retry in the only turn"] = Case(
    [_cut("a"), one_call("b")],
    [body(), body(max_tokens=2048)],
    told("b"),
    RunStatus.LIMIT,
    {"a": False, "b": True},
    {"on_truncated": "retry", "max_turns": 1},
)
CASES["report"] = Case(
    [_half_cut, DONE],
    [body(), body(*_half)],
    [*_half, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True, "b": False},
    {"on_truncated": "report"},
)
CASES["report without a call"] = Case(
    [reply(text("So it", closed=False), stop_reason="max_tokens")],
    [body()],
    [assistant(said("So it"))],
    RunStatus.TRUNCATED,
    options={"on_truncated": "report"},
)
CASES["report again and again"] = Case(
    [_cut("a"), _cut("b"), _cut("c")],
    [body(), body(*_cut_added("a")), body(*_cut_added("a"), *_cut_added("b"))],
    [*_cut_added("a"), *_cut_added("b"), *_cut_added("c")],
    RunStatus.TRUNCATED,
    {"a": False, "b": False, "c": False},
    {"on_truncated": "report", "max_continuations": 2},
)
CASES["report, a whole turn begins the count anew"] = Case(
    [_cut("a"), one_call("b"), _cut("c"), DONE],
    [
        body(),
        body(*_cut_added("a")),
        body(*_cut_added("a"), *told("b")),
        body(*_cut_added("a"), *told("b"), *_cut_added("c")),
    ],
    [*_cut_added("a"), *told("b"), *_cut_added("c"), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False, "b": True, "c": False},
    {"on_truncated": "report", "max_continuations": 1},
)

# --- window, refusal, unknown -----------------------------------------------------------------------------------------

CASES["model_context_window_exceeded"] = Case(
    [
        reply(
            thinking("Hm."),
            text("So."),
            tool_use("get_weather", '{"city"', id="a", closed=False),
            stop_reason="model_context_window_exceeded",
        )
    ],
    [body()],
    [assistant(said("So."))],
    RunStatus.TRUNCATED,
    {"a": False},
    {"on_truncated": "retry"},
)
CASES["refusal"] = Case([reply(text("I"), stop_reason="refusal")], [body()], [], RunStatus.REFUSED)
CASES["refusal in the second turn"] = Case(
    [one_call("a"), reply(text("I"), stop_reason="refusal")],
    [body(), body(*told("a"))],
    told("a"),
    RunStatus.REFUSED,
    {"a": True},
)
CASES["a stop reason of tomorrow"] = Case([reply(text("So."), stop_reason="tomorrow")], [body()], [], RunStatus.UNKNOWN)
CASES["no stop reason"] = Case(
    [
        Recording.from_body(
            b"".join(
                map(
                    encode_event,
                    [
                        message_start(),
                        block_start(0, "text", text=""),
                        text_delta(0, "So."),
                        block_stop(0),
                        MESSAGE_STOP,
                    ],
                )
            )
        )
    ],
    [body()],
    [],
    RunStatus.UNKNOWN,
)

# --- fallback, programmatic calls -------------------------------------------------------------------------------------

_fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
CASES["a call before a fallback"] = Case(
    [reply(text("A"), tool_use("now", {}, id="a"), block(_fallback), tool_use("now", {}, id="b")), DONE],
    [body(), body(assistant(said("A"), _fallback, call("b", "now", {})), results(result("b", "noon")))],
    [assistant(said("A"), _fallback, call("b", "now", {})), results(result("b", "noon")), ALL_DONE],
    RunStatus.COMPLETED,
)
CASES["calls before the last of two fallbacks"] = Case(
    [
        reply(
            tool_use("now", '{"', id="a"),
            block(_fallback),
            tool_use("now", {}, id="b"),
            block(_fallback),
            text("So."),
            stop_reason="end_turn",
        )
    ],
    [body()],
    [assistant(_fallback, _fallback, said("So."))],
    RunStatus.COMPLETED,
)

_caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
_code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "now()"}}
_from_code = call("a", "get_weather", {"city": "Oslo"}, caller=_caller)


def _with_container(recording: Recording) -> Recording:
    """As the API tells of the container: at the end of the reply."""
    (chunk,) = recording.chunks
    plain = b'"stop_sequence":null},"usage"'
    told = b'"stop_sequence":null,"container":{"id":"c1","expires_at":"2026-11-21T00:00:00Z"}},"usage"'
    assert chunk.data.count(plain) == 1
    return Recording.from_body(chunk.data.replace(plain, told))


_by_code = [assistant(_code, _from_code), results(result("a", "15 degrees in Oslo"))]
_done_by_code = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "15"}}
CASES["a call from code"] = Case(
    [
        _with_container(
            reply(server_tool_use("code_execution", {"code": "now()"}, id="srvtoolu_1"), block(_from_code))
        ),
        reply(block(_done_by_code), text("15")),
    ],
    [body(tools=[get_weather, CODE]), body(*_by_code, tools=[get_weather, CODE], container="c1")],
    [*_by_code, assistant(_done_by_code, said("15"))],
    RunStatus.COMPLETED,
    {"a": True},
    {"tools": [get_weather, CODE]},
)
_drawn = [
    assistant(_code, call("a", "draw", {}, caller=_caller)),
    results(
        {
            **result("a", [said("Error: the tool returned image, and this kind of call takes text only.")]),
            "is_error": True,
        }
    ),
]
CASES["an image for code"] = Case(
    [
        reply(
            server_tool_use("code_execution", {"code": "now()"}, id="srvtoolu_1"),
            block(call("a", "draw", {}, caller=_caller)),
            stop_reason="tool_use",
        ),
        DONE,
    ],
    [body(tools=[draw, CODE]), body(*_drawn, tools=[draw, CODE])],
    [*_drawn, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    {"tools": [draw, CODE]},
)

# --- limits -----------------------------------------------------------------------------------------------------------

CASES["max_turns"] = Case(
    [one_call("a"), one_call("b"), DONE],
    [body(), body(*told("a"))],
    [*told("a"), *told("b")],
    RunStatus.LIMIT,
    {"a": True, "b": True},
    {"max_turns": 2},
)


def _failed(id: str, name: str = "fail") -> Recording:
    return reply(tool_use(name, {}, id=id), message_id=f"m{id}")


def _failed_added(id: str) -> list[Message]:
    return [assistant(call(id, "fail", {})), results(error(id, NO_ROUTE))]


CASES["max_consecutive_tool_errors"] = Case(
    [_failed("a"), _failed("b"), DONE],
    [body(), body(*_failed_added("a"))],
    [*_failed_added("a"), *_failed_added("b")],
    RunStatus.LIMIT,
    {"a": True, "b": True},
    {"max_consecutive_tool_errors": 2},
)
CASES["max_consecutive_tool_errors, not in a row"] = Case(
    [_failed("a"), one_call("b"), _failed("c"), DONE],
    [
        body(),
        body(*_failed_added("a")),
        body(*_failed_added("a"), *told("b")),
        body(*_failed_added("a"), *told("b"), *_failed_added("c")),
    ],
    [*_failed_added("a"), *told("b"), *_failed_added("c"), ALL_DONE],
    RunStatus.COMPLETED,
    options={"max_consecutive_tool_errors": 2},
)
_three_wrong = [reply(tool_use("get_weather", "{}", id=f"w{n}")) for n in range(3)]
_wrong_added = [
    message
    for n in range(3)
    for message in (
        assistant(call(f"w{n}", "get_weather", {})),
        results(error(f"w{n}", "Error: Missing required 'city' parameter")),
    )
]
CASES["three wrong calls, then a right one"] = Case(
    [*_three_wrong, one_call("a"), DONE],
    [body(*_wrong_added[: 2 * n]) for n in range(4)] + [body(*_wrong_added, *told("a"))],
    [*_wrong_added, *told("a"), ALL_DONE],
    RunStatus.COMPLETED,
    {"w0": False, "w1": False, "w2": False, "a": True},
)


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_transition(serial: Serial, case: Case) -> None:
    """Every row of the table: each request whole, the history, the status, what ran, and nothing more is sent."""
    async with serial.conversing(*case.replies) as client:
        run = await finished(client, **case.options)
    assert serial.bodies == case.bodies
    assert run.result.messages == [USER, *case.added]
    assert run.result.status is case.status
    assert run.result.turns == len(case.bodies)
    for made in run.result.calls:
        assert made.result is not None
        if case.ran:
            assert made.ran == case.ran[made.id], made
    if case.ran:
        assert set(case.ran) == {made.id for made in run.result.calls}


# --- what a table does not say ----------------------------------------------------------------------------------------

_TWO_CALLS = [
    *(tool_start(0, "hold"), input_delta(0, "{}"), block_stop(0)),
    *(tool_start(1, "now"), input_delta(1, "{}"), block_stop(1)),
]


@pytest.mark.anyio
async def test_raise(serial: Serial) -> None:
    """`raise`: the iteration raises the limit, the history keeps what ran, the status says that it was cut."""
    async with serial.conversing(_half_cut) as client:
        with anyio.fail_after(SLOWLY_S):
            async with eagerstream.run(client, **REQUEST, tools=TOOLS, on_truncated="raise") as run:
                with pytest.raises(LimitError) as caught:
                    await run.finish()
    assert (caught.value.limit, caught.value.bound) == ("max_tokens", 1024)
    assert serial.bodies == [body()]
    assert checked(run.result).status is RunStatus.TRUNCATED
    assert run.result.messages == [USER, *_half]


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[hold, now], max_concurrency=1) as run:
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


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[hold, now], max_concurrency=1) as run:
            await begun.wait()
            gate.opened.set()
            async for event in run:
                if isinstance(event, MessageStop):
                    ended.set()
    assert [made.ran for made in checked(run.result).calls] == [True, False]


@pytest.mark.anyio
async def test_a_refusal_after_a_call_that_ran() -> None:
    """The turn is left out whole, its call is told with its result, and `stop_details` are there."""
    ran = anyio.Event()

    @eagerstream.tool
    async def act() -> str:
        ran.set()
        return "acted"

    gate = Gate()
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    api = LocalAPI(
        [message_start(), tool_start(0, "act"), input_delta(0, "{}"), block_stop(0), gate, end, MESSAGE_STOP]
    )
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[act]) as run:
            await ran.wait()
            gate.opened.set()
            await run.finish()
    assert checked(run.result).status is RunStatus.REFUSED
    assert run.result.messages == [USER]
    (made,) = run.result.calls
    assert (made.ran, made.in_history, made.result) == (True, False, result("toolu_0", "acted"))
    assert run.result.message is not None
    assert run.result.message["stop_details"] == details


@pytest.mark.anyio
async def test_a_retry_is_told(serial: Serial) -> None:
    """Who watches learns that what came is void: one `Restarted`, no second `TurnStart`, one `TurnStop`."""
    async with serial.conversing(_cut("a"), one_call("b"), DONE) as client:
        with anyio.fail_after(SLOWLY_S):
            async with eagerstream.run(client, **REQUEST, tools=TOOLS, on_truncated="retry") as run:
                events = [event async for event in run]
    marks = [event for event in events if isinstance(event, TurnStart | TurnStop | Restarted | ToolStart)]
    assert [type(event).__name__ for event in marks] == [
        "TurnStart",
        "Restarted",
        "ToolStart",
        "TurnStop",
        "TurnStart",
        "TurnStop",
    ]
    assert marks[1] == Restarted(1, "max_tokens")
    assert [made.turn for made in run.result.calls] == [1, 1]
    checked(run.result)


@pytest.mark.anyio
async def test_usage_is_summed_over_all_replies(serial: Serial) -> None:
    """Also of a reply that was discarded, also nested; a figure that is no count is the last one."""
    first = reply(
        tool_use("get_weather", '{"c', id="a", closed=False),
        stop_reason="max_tokens",
        usage={
            "input_tokens": 10,
            "output_tokens": 5,
            "server_tool_use": {"web_search_requests": 2},
            "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0},
            "service_tier": "batch",
        },
    )
    second = reply(
        text("Done."),
        usage={
            "input_tokens": 20,
            "output_tokens": 6,
            "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 1},
            "cache_creation": {"ephemeral_5m_input_tokens": 1},
            "service_tier": "standard",
        },
    )
    async with serial.conversing(first, second) as client:
        usage = (await finished(client, on_truncated="retry")).result.usage
    assert usage == {
        "input_tokens": 30,
        "output_tokens": 11,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 5, "web_fetch_requests": 1},
        "cache_creation": {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


@pytest.mark.anyio
async def test_empty_is_told(serial: Serial) -> None:
    """A model that ends without a word is told of as such, and nothing is sent again."""
    async with serial.conversing(one_call("a"), reply()) as client:
        run = await finished(client)
    assert run.result.is_empty
    assert len(serial.bodies) == 2


@pytest.mark.anyio
async def test_the_user_s_container_stays() -> None:
    """Skills that the user asked for are sent along with the id of the container that the reply named."""
    skills = {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}
    api = LocalAPI([_with_container(one_call("a"))], [DONE])
    await finished(api.transport(), container=skills)
    assert [exchange.body["container"] for exchange in api.exchanges] == [skills, {**skills, "id": "c1"}]


@pytest.mark.anyio
async def test_the_container_is_remembered(serial: Serial) -> None:
    """The container of an earlier reply goes with every later request: its files are there."""
    async with serial.conversing(_with_container(one_call("a")), one_call("b"), DONE) as client:
        await finished(client)
    assert [sent.get("container") for sent in serial.bodies] == [None, "c1", "c1"]


# --- timing never decides ---------------------------------------------------------------------------------------------


@pytest.mark.anyio
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


@pytest.mark.anyio
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(
            tool_use("nope", {}, id="a"),
            id="unknown",
            # Not strict: on trio the order of tasks is random, and with it the outcome.,
        ),
        pytest.param(tool_use("now", "[]", id="a"), id="invalid"),
    ],
)
async def test_a_call_that_cannot_run_stands_in_nobody_s_way(bad: Any) -> None:
    """With one slot: a call behind one that is only answered with an error is admitted, however the reply was cut up."""
    cut = reply(bad, tool_use("now", {}, id="b"), stop_reason="max_tokens").body
    histories = []
    for pieces in ([cut], one_by_one(cut)):
        run = await finished(LocalAPI(pieces).transport(), max_concurrency=1)
        histories.append(run.result.messages)
    assert histories[0] == histories[1]


# --- a group that stops on an error -----------------------------------------------------------------------------------

_wrote = result("c", "wrote x")
_POISONED = "a failure is remembered by the number of its turn: {} has the same number"


@pytest.mark.anyio
async def test_a_group_begins_anew_with_a_retry() -> None:
    """What failed in a reply that was discarded does not keep a call of the next one from running."""
    first = reply(
        tool_use("write_file", '{"path": }', id="a"),
        tool_use("write_file", '{"pa', id="b", closed=False),
        stop_reason="max_tokens",
    )
    api = LocalAPI([first], [reply(tool_use("write_file", {"path": "x"}, id="c"))], [DONE])
    run = await finished(api.transport(), on_truncated="retry")
    assert run.result.messages[2] == results(_wrote)


@pytest.mark.anyio
async def test_a_group_begins_anew_with_a_restarted_reply() -> None:
    """The same where the peer itself begins again."""
    gate = Gate()
    begun = [message_start(), tool_start(0, "write_file"), input_delta(0, '{"path": }'), block_stop(0)]
    api = LocalAPI([*begun, gate, reply(tool_use("write_file", {"path": "x"}, id="c"))], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=TOOLS) as run:
            await gate.reached.wait()
            await run.result.calls[0].answered.wait()
            gate.opened.set()
            await run.finish()
    assert checked(run.result).messages[2] == results(_wrote)


@pytest.mark.anyio
async def test_a_group_begins_anew_with_a_fallback() -> None:
    """Calls of the model that gave up, never run, do not keep those of the one that took over from running."""
    first = reply(
        tool_use("write_file", {"path": "a"}, id="a"),
        tool_use("write_file", {"path": "b"}, id="b"),
        block(_fallback),
        tool_use("write_file", {"path": "x"}, id="c"),
    )
    run = await finished(LocalAPI([first], [DONE]).transport())
    assert run.result.messages[2] == results(_wrote)


@pytest.mark.anyio
async def test_an_executor_of_two_runs() -> None:
    """A failure in one run does not keep a call of another from running, which shares its executor."""
    from eagerstream.tools import InProcessExecutor

    executor = InProcessExecutor(TOOLS)
    bad = reply(tool_use("write_file", {"path": "/"}, id="a"))
    await finished(LocalAPI([bad], [DONE]).transport(), executor=executor)
    good = reply(tool_use("write_file", {"path": "x"}, id="c"))
    run = await finished(LocalAPI([good], [DONE]).transport(), executor=executor)
    assert run.result.messages[2] == results(_wrote)


# --- peers that break the format --------------------------------------------------------------------------------------

_ODD_BLOCKS: dict[str, dict[str, Any]] = {
    "a call without an id": {"type": "tool_use", "name": "now", "input": {}},
    "a call whose id is a number": {"type": "tool_use", "id": 5, "name": "now", "input": {}},
    "a call without a name": {"type": "tool_use", "id": "x", "input": {}},
    "thinking without a signature": {"type": "thinking", "thinking": "x"},
    "text that is a number": {"type": "text", "text": 5},
    "a block without a type": {"what": 1},
}


@pytest.mark.anyio
@pytest.mark.parametrize("odd", _ODD_BLOCKS.values(), ids=_ODD_BLOCKS)
async def test_a_block_that_cannot_be_sent_back(odd: dict[str, Any]) -> None:
    """Whatever a peer sends: the history can be sent, and keeps the call that ran."""
    start = {"type": "content_block_start", "index": 0, "content_block": odd}
    whole = [tool_start(1, "now", id="b"), input_delta(1, "{}"), block_stop(1), message_delta("tool_use"), MESSAGE_STOP]
    api = LocalAPI([message_start(), start, block_stop(0), *whole], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=TOOLS) as run:
            try:
                await run.finish()
            except eagerstream.EagerStreamError:
                pass
    assert eagerstream.validate_history(run.result.messages) == []
    assert any(made.id == "b" and made.in_history for made in run.result.calls if made.ran)


@pytest.mark.anyio
async def test_a_repeated_call_of_another_tool() -> None:
    """A reply that is begun anew with the same id and input for another tool is not answered with the first one's work."""
    gate = Gate()
    begun = [message_start(), tool_start(0, "now", id="a"), input_delta(0, "{}"), block_stop(0)]
    api = LocalAPI([*begun, gate, reply(tool_use("fail", {}, id="a"))], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=TOOLS) as run:
            await gate.reached.wait()
            await run.result.calls[0].answered.wait()
            gate.opened.set()
            try:
                await run.finish()
            except eagerstream.ProtocolError:
                pass
    assert (
        assistant(call("a", "fail", {})) not in run.result.messages
        or results(error("a", NO_ROUTE)) in run.result.messages
    )
