"""One conversation for each way in which a response can end: what is sent, what is left, and what has run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagerstream.calls import RunStatus
from eagerstream.recordings import Recording
from eagerstream_testing import block, encode_event, reply, server_tool_use, text, thinking, tool_use
from tests.loop.serial import (
    ALL_DONE,
    CUT,
    DONE,
    NO_ROUTE,
    TOOLS,
    Message,
    assistant,
    body,
    call,
    draw,
    error,
    get_weather,
    now,
    result,
    results,
    said,
)
from tests.streams import MESSAGE_STOP, block_start, block_stop, message_start

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
        replies: What the server says. There is one request for each.
        added: What the run adds to the history.
        status: How it ends.
        ran: Ids of calls, and whether each ran.
        bodies: What the server must be sent: by default, all that was added before each response.
    """

    replies: list[Recording]
    added: list[Message]
    status: RunStatus
    ran: dict[str, bool] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ends = [at for at, message in enumerate(self.added) if message["role"] == "assistant"]
        ends += [len(self.added)] * len(self.replies)  # of responses that add nothing
        tools = self.options.get("tools", TOOLS)
        self.bodies = self.bodies or [body(*self.added[: ends[at]], tools=tools) for at in range(len(self.replies))]


CASES: dict[str, Case] = {}

_mixed_blocks = [
    text("So."),
    tool_use("get_weather", {"city": "Oslo"}, id="a"),
    tool_use("get_weather", '{"city": Oslo}', id="b"),
    tool_use("nope", {"x": 1}, id="c"),
    tool_use("get_weather", {"town": "Oslo"}, id="d"),
    tool_use("fail", {}, id="e"),
    tool_use("now", "", id="f"),
    tool_use("now", "[]", id="g"),
]

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

CASES["tool_use"] = Case([reply(*_mixed_blocks), DONE], [*_mixed_added, ALL_DONE], RunStatus.COMPLETED, _mixed_ran)

CASES["tool_use without a call"] = Case(
    [reply(text("So."), stop_reason="tool_use")], [assistant(said("So."))], RunStatus.COMPLETED
)

CASES["tool_use of the API's own only"] = Case(
    # Nothing of ours to answer: the run ends, and the call that the API did not run is left out.
    [reply(text("So."), search("srvtoolu_1"), stop_reason="tool_use")],
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
    [*_both, assistant(found("srvtoolu_1"), call("b", "now", {})), results(result("b", "noon")), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True, "b": True},
    options={"tools": [now, SEARCH]},
)

CASES["end_turn"] = Case([DONE], [ALL_DONE], RunStatus.COMPLETED)

CASES["end_turn without a word"] = Case([reply()], [], RunStatus.COMPLETED)

CASES["end_turn with white space"] = Case([reply(text(" \n"))], [], RunStatus.COMPLETED)

# Some gateways end every response with it, and others pass on the words of another API.
for _reason in ("end_turn", "tool_calls", "function_call", "stop", "STOP"):
    CASES[f"{_reason} with a call"] = Case(
        [one_call("a", stop_reason=_reason), DONE], [*told("a"), ALL_DONE], RunStatus.COMPLETED, {"a": True}
    )

CASES["end_turn with calls that fail"] = Case(
    [reply(*_mixed_blocks, stop_reason="end_turn"), DONE], [*_mixed_added, ALL_DONE], RunStatus.COMPLETED, _mixed_ran
)

CASES["stop of another API"] = Case(
    [reply(text("So."), stop_reason="stop")], [assistant(said("So."))], RunStatus.COMPLETED
)

CASES["length of another API"] = Case(
    [reply(text("So."), stop_reason="length")], [assistant(said("So."))], RunStatus.TRUNCATED
)

CASES["end_turn after results without a word"] = Case(
    [one_call("a"), reply()], told("a"), RunStatus.COMPLETED, {"a": True}
)

CASES["stop_sequence"] = Case(
    [reply(text("So."), stop_reason="stop_sequence")], [assistant(said("So."))], RunStatus.STOP_SEQUENCE
)

CASES["stop_sequence with a call"] = Case(
    [one_call("a", stop_reason="stop_sequence")], told("a"), RunStatus.STOP_SEQUENCE, {"a": True}
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
        [*_paused_messages(_count), ALL_DONE],
        RunStatus.COMPLETED,
        options={"tools": [SEARCH]},
    )

for _most in (0, 2, 5):
    CASES[f"pause_turn beyond {_most}"] = Case(
        [*map(_paused, range(_most + 1))],
        _paused_messages(_most + 1),
        RunStatus.PAUSED,
        options={"tools": [SEARCH], "max_continuations": _most},
    )

CASES["pause_turn, a call in between begins the count anew"] = Case(
    [_paused(0), one_call("a"), _paused(1), DONE],
    [*_paused_messages(1), *told("a"), _paused_messages(2)[1], ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    options={"tools": [now, SEARCH], "max_continuations": 1},
)

CASES["pause_turn with a call of the client's"] = Case(
    # It should not happen; the call's result is what goes on then.
    [reply(search("srvtoolu_1"), tool_use("now", {}, id="a"), stop_reason="pause_turn"), DONE],
    [*_both, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    options={"tools": [now, SEARCH]},
)

CASES["pause_turn without a word"] = Case([reply(stop_reason="pause_turn")], [], RunStatus.PAUSED)

CASES["pause_turn on the last turn"] = Case(
    [_paused(0)], _paused_messages(1), RunStatus.LIMIT, options={"tools": [SEARCH], "max_turns": 1}
)

_compacted = {"type": "compaction", "content": "All so far."}

CASES["compaction"] = Case(
    [reply(block(_compacted), stop_reason="compaction"), DONE], [assistant(_compacted), ALL_DONE], RunStatus.COMPLETED
)

# --- max_tokens -------------------------------------------------------------------------------------------------------

CUT_INPUT = '{"city": "Os'

WRAPPED = '{"INVALID_JSON": "{\\"city\\": \\"Os"}'


def cut_off(id: str, *before: Any) -> Recording:
    cut = tool_use("get_weather", CUT_INPUT, id=id, closed=False)
    return reply(*before, cut, stop_reason="max_tokens", message_id=f"m{id}")


def _cut_added(id: str) -> list[Message]:
    return [
        assistant(call(id, "get_weather", {"INVALID_JSON": CUT_INPUT})),
        results(error(id, f"{WRAPPED}\n{CUT}")),
    ]


HALF = [
    assistant(call("a", "now", {}), call("b", "get_weather", {"INVALID_JSON": CUT_INPUT})),
    results(result("a", "noon"), error("b", f"{WRAPPED}\n{CUT}")),
]

HALF_CUT = cut_off("b", tool_use("now", {}, id="a"))

CASES["max_tokens"] = Case([HALF_CUT], HALF, RunStatus.TRUNCATED, {"a": True, "b": False})

CASES["max_tokens in text"] = Case(
    [reply(text("So it", closed=False), stop_reason="max_tokens")], [assistant(said("So it"))], RunStatus.TRUNCATED
)

CASES["max_tokens in thinking"] = Case(
    [reply(thinking("So it", closed=False), stop_reason="max_tokens")], [], RunStatus.TRUNCATED
)

for _reason in ("report", "stop", "retry"):
    CASES[f"max_tokens with a search that was not run, {_reason}"] = Case(
        [reply(search("srvtoolu_1"), *([] if _reason == "retry" else [text("So")]), stop_reason="max_tokens")],
        [] if _reason == "retry" else [assistant(said("So"))],
        RunStatus.TRUNCATED,
        options={"tools": [SEARCH], "on_truncated": _reason, "max_tokens_cap": 1},
    )

CASES["retry, nothing begun"] = Case(
    [cut_off("a"), one_call("b"), DONE],
    [*told("b"), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False, "b": True},
    {"on_truncated": "retry"},
    bodies=[body(), body(max_tokens=2048), body(*told("b"))],
)

CASES["retry, the same id again"] = Case(
    [cut_off("a"), one_call("a"), DONE],
    [*told("a"), ALL_DONE],
    RunStatus.COMPLETED,
    options={"on_truncated": "retry"},
    bodies=[body(), body(max_tokens=2048), body(*told("a"))],
)

CASES["retry with a cap"] = Case(
    [cut_off("a"), DONE],
    [ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 1500},
    bodies=[body(), body(max_tokens=1500)],
)

CASES["retry with a cap beyond twice"] = Case(
    [cut_off("a"), DONE],
    [ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 9000},
    bodies=[body(), body(max_tokens=2048)],
)

CASES["retry with a cap that leaves nothing"] = Case(
    [cut_off("a")],
    _cut_added("a"),
    RunStatus.TRUNCATED,
    {"a": False},
    {"on_truncated": "retry", "max_tokens_cap": 1024},
)

CASES["retry, a second cut"] = Case(
    [cut_off("a"), cut_off("b")],
    _cut_added("b"),
    RunStatus.TRUNCATED,
    {"a": False, "b": False},
    {"on_truncated": "retry"},
    bodies=[body(), body(max_tokens=2048)],
)

CASES["retry, a second cut after a call"] = Case(
    [cut_off("x"), HALF_CUT, DONE],
    [*HALF, ALL_DONE],
    RunStatus.COMPLETED,
    {"x": False, "a": True, "b": False},
    {"on_truncated": "retry"},
    bodies=[body(), body(max_tokens=2048), body(*HALF)],
)

CASES["retry, something begun"] = Case(
    [HALF_CUT, DONE], [*HALF, ALL_DONE], RunStatus.COMPLETED, {"a": True, "b": False}, {"on_truncated": "retry"}
)

CASES["retry in two turns"] = Case(
    [cut_off("a"), one_call("b"), cut_off("c"), DONE],
    [*told("b"), ALL_DONE],
    RunStatus.COMPLETED,
    {"a": False, "b": True, "c": False},
    {"on_truncated": "retry"},
    bodies=[body(), body(max_tokens=2048), body(*told("b")), body(*told("b"), max_tokens=2048)],
)

CASES["retry in the only turn"] = Case(
    [cut_off("a"), one_call("b")],
    told("b"),
    RunStatus.LIMIT,
    {"a": False, "b": True},
    {"on_truncated": "retry", "max_turns": 1},
    bodies=[body(), body(max_tokens=2048)],
)

CASES["report"] = Case(
    [HALF_CUT, DONE], [*HALF, ALL_DONE], RunStatus.COMPLETED, {"a": True, "b": False}, {"on_truncated": "report"}
)

CASES["report without a call"] = Case(
    [reply(text("So it", closed=False), stop_reason="max_tokens")],
    [assistant(said("So it"))],
    RunStatus.TRUNCATED,
    options={"on_truncated": "report"},
)

CASES["report again and again"] = Case(
    [cut_off("a"), cut_off("b"), cut_off("c")],
    [*_cut_added("a"), *_cut_added("b"), *_cut_added("c")],
    RunStatus.TRUNCATED,
    {"a": False, "b": False, "c": False},
    {"on_truncated": "report", "max_continuations": 2},
)

CASES["report, a whole turn begins the count anew"] = Case(
    [cut_off("a"), one_call("b"), cut_off("c"), DONE],
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
    [assistant(said("So."))],
    RunStatus.TRUNCATED,
    {"a": False},
    {"on_truncated": "retry"},
)

CASES["refusal"] = Case([reply(text("I"), stop_reason="refusal")], [], RunStatus.REFUSED)

CASES["refusal in the second turn"] = Case(
    [one_call("a"), reply(text("I"), stop_reason="refusal")], told("a"), RunStatus.REFUSED, {"a": True}
)

CASES["a stop reason of tomorrow"] = Case([reply(text("So."), stop_reason="tomorrow")], [], RunStatus.UNKNOWN)

_without_a_reason = [message_start(), block_start(0, "text", text="So."), block_stop(0), MESSAGE_STOP]

CASES["no stop reason"] = Case(
    [Recording.from_body(b"".join(map(encode_event, _without_a_reason)))], [], RunStatus.UNKNOWN
)

# --- fallback, programmatic calls -------------------------------------------------------------------------------------

FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}

CASES["a call before a fallback"] = Case(
    [reply(text("A"), tool_use("now", {}, id="a"), block(FALLBACK), tool_use("now", {}, id="b")), DONE],
    [assistant(said("A"), FALLBACK, call("b", "now", {})), results(result("b", "noon")), ALL_DONE],
    RunStatus.COMPLETED,
)

_before_fallbacks = [tool_use("now", '{"', id="a"), block(FALLBACK), tool_use("now", {}, id="b"), block(FALLBACK)]

CASES["calls before the last of two fallbacks"] = Case(
    [reply(*_before_fallbacks, text("So."), stop_reason="end_turn")],
    [assistant(FALLBACK, FALLBACK, said("So."))],
    RunStatus.COMPLETED,
)

_caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}

_code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "now()"}}

_run_code = server_tool_use("code_execution", {"code": "now()"}, id="srvtoolu_1")

_from_code = call("a", "get_weather", {"city": "Oslo"}, caller=_caller)


def with_container(recording: Recording) -> Recording:
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
        with_container(reply(_run_code, block(_from_code))),
        reply(block(_done_by_code), text("15")),
    ],
    [*_by_code, assistant(_done_by_code, said("15"))],
    RunStatus.COMPLETED,
    {"a": True},
    {"tools": [get_weather, CODE]},
    bodies=[body(tools=[get_weather, CODE]), body(*_by_code, tools=[get_weather, CODE], container="c1")],
)

_text_only = said("Error: the tool returned image, and this kind of call takes text only.")

_drawn = [
    assistant(_code, call("a", "draw", {}, caller=_caller)),
    results({**result("a", [_text_only]), "is_error": True}),
]

CASES["an image for code"] = Case(
    [reply(_run_code, block(call("a", "draw", {}, caller=_caller)), stop_reason="tool_use"), DONE],
    [*_drawn, ALL_DONE],
    RunStatus.COMPLETED,
    {"a": True},
    {"tools": [draw, CODE]},
)

CASES["max_turns"] = Case(
    [one_call("a"), one_call("b")], [*told("a"), *told("b")], RunStatus.LIMIT, {"a": True, "b": True}, {"max_turns": 2}
)


def _failed(id: str, name: str = "fail") -> Recording:
    return reply(tool_use(name, {}, id=id), message_id=f"m{id}")


def _failed_added(id: str) -> list[Message]:
    return [assistant(call(id, "fail", {})), results(error(id, NO_ROUTE))]


CASES["max_consecutive_tool_errors"] = Case(
    [_failed("a"), _failed("b")],
    [*_failed_added("a"), *_failed_added("b")],
    RunStatus.LIMIT,
    {"a": True, "b": True},
    {"max_consecutive_tool_errors": 2},
)

CASES["max_consecutive_tool_errors, not in a row"] = Case(
    [_failed("a"), one_call("b"), _failed("c"), DONE],
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
    [*_wrong_added, *told("a"), ALL_DONE],
    RunStatus.COMPLETED,
    {"w0": False, "w1": False, "w2": False, "a": True},
)
