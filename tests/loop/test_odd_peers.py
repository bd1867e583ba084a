"""Runs against peers that break the protocol: nothing is lost, nothing runs twice, and every history can be sent."""

from __future__ import annotations

import json
import logging
import re
from itertools import product
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import Conversation, InputInterrupted, Outcome, RunningCall, RunResult, TextStream, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import Run
from eagerstream_testing import encode_event
from tests.loop.serial import (
    DONE,
    END,
    QUICK,
    SLOWLY_S,
    UntilBlocked,
    assistant,
    by_hand,
    call,
    called_by_code,
    finished,
    next_response,
    now,
    result,
    results,
)
from tests.streams import (
    MADE_DIR,
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    tool_start,
)
from tests.support import Broken, LocalAPI, Piece, whole_call
from tests.virtual_time import Playing, in_virtual_time, timed

pytestmark = pytest.mark.anyio

LEGAL = re.compile("[a-zA-Z0-9_-]{1,64}")


class Ledger:
    """A tool that must not run twice, and what it ran with."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

        @tool
        async def pay(call: RunningCall, amount: int = 0) -> str:
            """Pay."""
            self.runs.append((call.id, amount))
            return f"paid {amount}"

        self.pay = pay


def payment(index: int, amount: int, **fields: Any) -> list[Piece]:
    """A whole call of the ledger's tool."""
    return [tool_start(index, "pay", **fields), input_delta(index, json.dumps({"amount": amount})), block_stop(index)]


# --- names and ids ----------------------------------------------------------------------------------------------------

ODD_NAMES = ["", "psql -c '" + "INSERT " * 40, "get weather", "名前", "x" * 65, "\ud800", None, ["now"], {"a": 1}]


async def test_a_name_that_the_api_refuses() -> None:
    """One overlong name in a history makes the API refuse every later request: it is echoed under a legal one."""
    for name in ODD_NAMES:
        await check_name(name)


async def check_name(name: Any) -> None:
    """See `test_a_name_that_the_api_refuses`."""
    body = [message_start(), tool_start(0, name=name), input_delta(0, "{}"), block_stop(0), *END]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[now])
    assert run.result.status is RunStatus.COMPLETED
    (echoed,) = run.result.messages[1]["content"]
    assert LEGAL.fullmatch(echoed["name"]), name
    (made,) = run.result.calls
    assert made.name == (name if isinstance(name, str) else "")
    assert "not found" in str(made.result), name
    assert len(str(made.result)) < 500, name


async def test_a_long_name_of_a_tool_stays() -> None:
    """The API takes up to 128 characters in a definition, and so in its calls."""
    name = "a" * 128
    long = eagerstream.Tool(lambda _: "noon", definition={"name": name, "input_schema": {"type": "object"}})
    run = await finished(LocalAPI([message_start(), *whole_call(0, name), *END], [DONE]).transport(), tools=[long])
    assert run.result.messages[1]["content"][0]["name"] == name
    assert run.result.messages[2] == results(result("toolu_0", "noon"))


ODD_IDS = ["", "call:1", "functions.pay:0", "t\ud800", None, ["x"], {"a": 1}, 5]


async def test_ids_that_the_api_refuses() -> None:
    """Each call runs once, however the response ends, and the history has legal ids in pairs."""
    for number, id in enumerate(ODD_IDS):  # each beside a legal one, itself and another odd one
        for other in ("a", id, ODD_IDS[number - 1]):
            for breaks in (False, True):
                await check_ids(id, other, breaks=breaks)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken"])
async def test_pairs_of_ids_that_the_api_refuses(*, breaks: bool) -> None:
    """The same for every two of them."""
    for id, other in product(ODD_IDS, ODD_IDS):
        await check_ids(id, other, breaks=breaks)


async def check_ids(id: Any, other: Any, *, breaks: bool) -> None:
    """See `test_ids_that_the_api_refuses`."""
    ledger = Ledger()
    body = [message_start(), *payment(0, 1, id=id), *payment(1, 2, id=other)]
    rest: list[Piece] = [tool_start(2, "pay", id="x"), Broken()] if breaks else [*END]
    run = await finished(LocalAPI([*body, *rest], [DONE]).transport(), tools=[ledger.pay], restart_delay_s=0)
    repeats = isinstance(id, str) and id != "" and id == other
    assert [amount for _, amount in ledger.runs] == ([1] if repeats else [1, 2]), (id, other)
    ids = [block["id"] for block in run.result.messages[1]["content"]]
    assert all(map(LEGAL.fullmatch, ids)), (id, other)
    assert len(set(ids)) == 2, (id, other)
    assert [each.id for each in run.result.calls][:2] == [each[0] for each in ledger.runs] or repeats


async def test_a_repeated_id_is_one_behaviour() -> None:
    """It may be the same call, sent twice: the second one does not run, in a run and step by step."""
    body = [message_start(), *payment(0, 1, id="a"), *payment(1, 2, id="a"), *END]
    ledger = Ledger()
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay])
    conversation = await by_hand(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay])
    assert ledger.runs == [("a", 1)] * 2
    assert conversation.result.messages == run.result.messages
    _, again = run.result.messages[2]["content"]
    assert again["content"] == "Not executed: an earlier call of this response has the same id."
    assert again["is_error"]


async def test_ids_and_names_of_server_calls() -> None:
    """The API asks for a prefix of its own ids, and takes any name of a tool of an MCP server."""
    called = {"type": "code_execution_20260120", "tool_id": "ws-1"}
    body: list[Piece] = [
        message_start(),
        block_start(0, "server_tool_use", id="ws-1", name="web_search", input={"query": "x"}),
        block_stop(0),
        block_start(1, "web_search_tool_result", tool_use_id="ws-1", content=[{"type": "x", "score": 12345}]),
        block_stop(1),
        block_start(2, "mcp_tool_use", id="mcp-1", name="repo.search/v2", server_name="repo", input={"q": "x"}),
        block_stop(2),
        block_start(3, "mcp_tool_result", tool_use_id="mcp-1", content=[], is_error=False),
        block_stop(3),
        *[
            event
            for index, caller in ((4, "code"), (5, called))
            for event in (tool_start(index, "now", caller=caller), input_delta(index, "{}"), block_stop(index))
        ],
        *END,
    ]
    events = [encode_event(event).replace(b"12345", b"1e999") for event in body if isinstance(event, dict)]
    run = await finished(LocalAPI(events, [DONE]).transport(), tools=[now])
    search, found, asked, told, odd, code = run.result.messages[1]["content"]
    assert search["id"] == found["tool_use_id"] == code["caller"]["tool_id"]
    assert re.fullmatch("srvtoolu_[a-zA-Z0-9_]+", search["id"])
    assert found["content"] == [{"type": "x", "score": None}], "an infinity has no JSON form"
    assert (asked["id"], asked["name"], told["tool_use_id"]) == ("mcp-1", "repo.search/v2", "mcp-1")
    assert "caller" not in odd


@pytest.mark.parametrize("has_result", [True, False])
async def test_a_server_call_of_no_tool_of_the_api(*, has_result: bool) -> None:
    """The API would look for that tool in each later request: call and result are left out."""
    for name in ("", "a/b", None, 5):
        body: list[Piece] = [
            message_start(),
            block_start(0, "server_tool_use", id="srvtoolu_1", name=name, input={}),
            block_stop(0),
            block_start(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
            block_stop(1),
        ]
        body = [*(body if has_result else body[:3]), *whole_call(2, "now"), *END]
        run = await finished(LocalAPI(body, [DONE]).transport(), tools=[now])
        assert run.result.messages[1]["content"] == [call("toolu_2", "now", {})], name


# --- nothing twice ----------------------------------------------------------------------------------------------------


async def test_a_call_whose_block_has_no_json_form_runs_once() -> None:
    """The field is left out of the echo, so the call can be kept when the response breaks off behind it."""
    start = encode_event(tool_start(0, "pay", x=12345)).replace(b"12345", b"1e999")
    ledger = Ledger()
    body: list[Piece] = [message_start(), start, input_delta(0, "{}"), block_stop(0), tool_start(1, "pay"), Broken()]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay], restart_delay_s=0)
    assert ledger.runs == [("toolu_0", 0)]
    assert run.result.messages[1]["content"] == [call("toolu_0", "pay", {})]


async def test_a_call_of_a_model_that_gave_up_runs_once() -> None:
    """The response breaks off behind the `fallback` block: what ran before it stays, and its request is not repeated."""
    ledger = Ledger()
    fallback = block_start(1, "fallback", **{"from": {"model": "a"}, "to": {"model": "b"}})
    body: list[Piece] = [message_start(), *payment(0, 1), fallback, block_stop(1), Broken()]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay], restart_delay_s=0)
    assert ledger.runs == [("toolu_0", 1)]
    assert run.result.messages[2] == results(result("toolu_0", "paid 1"))


async def test_a_call_whose_start_is_lost() -> None:
    """A run asks again, as nothing has run; by hand, the reply is refused, and the request can be made again."""
    lost = [message_start(), input_delta(1, '{"amount": 5}'), block_stop(1), *END]
    ledger = Ledger()
    api = LocalAPI(lost, [DONE])
    run = await finished(api.transport(), tools=[ledger.pay], restart_delay_s=0)
    assert (len(api.exchanges), run.result.turns) == (2, 1)
    conversation = Conversation(**REQUEST, tools=[ledger.pay])
    stream = await next_response(LocalAPI(lost).transport(), conversation)
    assert stream.lost_fragments == 1
    with pytest.raises(eagerstream.ProtocolError, match="without its start"):
        conversation.take(stream)
    stream = await next_response(LocalAPI([DONE]).transport(), conversation)
    conversation.take(stream)
    assert conversation.ended
    assert conversation.result.messages == run.result.messages
    assert ledger.runs == []


async def test_a_call_under_another_id_runs_once_when_the_response_begins_anew() -> None:
    """All in one chunk: what ran stays in the history under its new id, and its request is not repeated."""
    ledger = Ledger()
    messages = [USER, assistant(call("call_0", "pay", {})), results(result("call_0", "paid 0"))]
    body = b"".join(
        encode_event(event)
        for event in [message_start(), *payment(0, 1, id="call_0"), message_start(), *payment(0, 1, id="call_9"), *END]
        if isinstance(event, dict)
    )
    run = await finished(LocalAPI([body], [DONE]).transport(), tools=[ledger.pay], messages=messages, restart_delay_s=0)
    assert ledger.runs == [("call_0", 1)]
    assert [each.in_history for each in run.result.calls] == [True]


async def test_a_void_call_of_the_same_chunk_does_not_run() -> None:
    """Its tool may run twice, so the new beginning counts; but it has not run yet, and its result is not wanted."""
    ran: list[str] = []

    @tool(idempotent=True, group="one at a time")
    async def look(call: RunningCall) -> None:
        """Look."""
        ran.append(call.id)

    def looked(id: str) -> list[dict[str, Any]]:
        return [message_start(), tool_start(0, "look", id=id), input_delta(0, "{}"), block_stop(0)]

    body = b"".join(map(encode_event, [*looked("call_0"), *looked("call_1"), message_delta("tool_use"), MESSAGE_STOP]))
    run = await finished(LocalAPI([body], [DONE]).transport(), tools=[look])
    assert ran == ["call_1"]
    assert [call.in_history for call in run.result.calls] == [False, True]


@pytest.mark.parametrize("reason", ["", "end_turn", "tool_use"])
async def test_a_stop_reason_that_is_a_placeholder(reason: str) -> None:
    """Some gateways fill it in at once. Of a response that is cut behind it, it says nothing."""
    ledger = Ledger()
    text_only: list[Piece] = [message_start(stop_reason=reason), block_start(0, "text", text="Once"), block_stop(0)]
    api = LocalAPI(text_only, [DONE])
    await finished(api.transport(), tools=[ledger.pay], restart_delay_s=0)
    assert len(api.exchanges) == 2, "the first one was cut"
    empty: list[Piece] = [message_start(stop_reason=reason), tool_start(0, "pay"), block_stop(0), Broken()]
    api = LocalAPI(empty, [DONE])
    await finished(api.transport(), tools=[ledger.pay], restart_delay_s=0)
    assert ledger.runs == []


async def test_results_of_server_tools_that_are_not_known_here_stay() -> None:
    """The API may run tools of new kinds tomorrow."""
    new = [{"type": "foo_tool_use", "id": "srvtoolu_1"}, {"type": "foo_tool_result", "tool_use_id": "srvtoolu_1"}]
    pieces: list[Piece] = [message_start()]
    for index, block in enumerate(new):
        pieces += [{"type": "content_block_start", "index": index, "content_block": block}, block_stop(index)]
    run = await finished(LocalAPI([*pieces, *whole_call(2, "now"), *END], [DONE]).transport(), tools=[now])
    assert run.result.messages[1]["content"][:2] == new


# --- lost fragments, indexes, inputs ----------------------------------------------------------------------------------

LOST = [
    block_delta(0, "input_json_delta"),
    block_delta(0, "input_json_delta", partial_json=None),
    block_delta(0, "input_json_delta", partial_json=0),
    {"type": "content_block_delta", "index": 0},
    {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "0"}},
]


@pytest.mark.parametrize("lost", LOST, ids=str)
async def test_an_input_that_lacks_a_fragment_never_runs(
    lost: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """`{"amount": 1` and `}` around a lost fragment are JSON, and not what the model wrote."""
    ledger = Ledger()
    body = [message_start(), tool_start(0, "pay"), input_delta(0, '{"amount": 1'), lost, input_delta(0, "}")]
    with caplog.at_level(logging.WARNING):
        run = await finished(LocalAPI([*body, block_stop(0), *END], [DONE]).transport(), tools=[ledger.pay])
    assert ledger.runs == []
    (made,) = run.result.calls
    assert made.input.outcome is Outcome.INVALID
    assert made.result == {
        "type": "tool_result",
        "tool_use_id": "toolu_0",
        "content": '{"INVALID_JSON": "{\\"amount\\": 1}"}\n'
        "Not executed: a part of the input of this call was lost on its way.",
        "is_error": True,
    }
    assert len(run.violations) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"a response broke the protocol (request req_local, violations: 1): {run.violations[0]}"
    ]


@pytest.mark.parametrize("before", [[input_delta(0, "{")], []], ids=["a fragment before", "no object"])
async def test_a_streaming_tool_does_not_start_on_an_input_that_is_known_to_be_invalid(before: list[Piece]) -> None:
    """It would begin its work for nothing."""
    started: list[str] = []

    @tool
    async def write(body: TextStream) -> str:
        """Write."""
        started.append("write")
        return await body

    given: dict[str, Any] = {} if before else {"input": 5}
    body: list[Piece] = [message_start(), *before, tool_start(0, "write", **given), input_delta(0, '{"body": "one')]
    run = await finished(
        LocalAPI([*body, UntilBlocked(), input_delta(0, '"}'), block_stop(0), *END], [DONE]).transport(), tools=[write]
    )
    assert started == []
    assert run.result.calls[0].is_error


async def test_a_streaming_tool_stops_where_a_fragment_is_lost() -> None:
    """Nothing behind the loss reaches it, although more of the string comes."""
    heard: list[str] = []

    @tool
    async def write(body: TextStream) -> str:
        """Write."""
        try:
            async for piece in body:
                heard.append(piece)
        except InputInterrupted:
            heard.append("(interrupted)")
            raise
        return "wrote"

    body: list[Piece] = [message_start(), tool_start(0, "write"), input_delta(0, '{"body": "one '), UntilBlocked()]
    body += [LOST[0], UntilBlocked(), input_delta(0, 'three"}'), block_stop(0), *END]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[write])
    assert heard == ["one ", "(interrupted)"]
    assert run.result.calls[0].is_error


async def test_an_index_that_is_used_again_loses_no_call() -> None:
    """Both calls run and are answered, in a run and step by step."""
    body = [message_start(), *payment(0, 1, id="a"), *payment(0, 2, id="b"), *END]
    ledger = Ledger()
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay])
    conversation = await by_hand(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay])
    assert sorted(ledger.runs) == [("a", 1), ("a", 1), ("b", 2), ("b", 2)]
    assert conversation.result.messages == run.result.messages
    assert [block["id"] for block in run.result.messages[1]["content"]] == ["a", "b"]
    assert run.violations == ["the index of block 0 was used again"]


async def test_blocks_stay_in_their_order_once_an_index_was_used_again() -> None:
    """Indexes say nothing of the order any more: a result must not come before its call."""
    body: list[Piece] = [message_start(), *payment(40, 1, id="a"), *payment(40, 2, id="b")]
    body += [block_start(7, "server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "x"}), block_stop(7)]
    body += [block_start(5, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[]), block_stop(5), *END]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[Ledger().pay])
    kinds = [block["type"] for block in run.result.messages[1]["content"]]
    assert kinds == ["tool_use", "tool_use", "server_tool_use", "web_search_tool_result"]


async def test_an_input_in_the_start_that_is_no_object_never_runs() -> None:
    """The tool would run on `{}` otherwise."""
    ledger = Ledger()
    for given in ("...", [1], 5, True):
        body = [message_start(), tool_start(0, "pay", input=given), block_stop(0), *END]
        run = await finished(LocalAPI(body, [DONE]).transport(), tools=[ledger.pay])
        assert ledger.runs == [], given
        assert run.result.messages[1]["content"][0]["input"] == {"INVALID_JSON": json.dumps(given)}


async def test_a_container_that_cannot_be_sent() -> None:
    """It must not break the next request."""
    for container in (5, ["x"], {"id": "c\ud800"}, {}, ""):
        start = message_start(container=container)
        api = LocalAPI([start, *whole_call(0, "now"), *END], [DONE])
        await finished(api.transport(), tools=[now])
        expected = "c\ufffd" if container == {"id": "c\ud800"} else None
        assert api.exchanges[1].body.get("container") == expected, container


# --- who is told ------------------------------------------------------------------------------------------------------


async def test_violations_are_counted_in_runs_and_streams() -> None:
    """Once for each response."""
    body = [message_start(), *payment(0, 1, id="a"), *payment(0, 2, id="b"), *END]
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(LocalAPI(body, body, [DONE]).transport(), **REQUEST, tools=[Ledger().pay]) as run:
            await run.finish()
        assert len(run.violations) == 2
        async with eagerstream.stream(LocalAPI(body).transport(), **REQUEST) as stream:
            await stream.finish()
    assert stream.violations == ["the index of block 0 was used again"]


# --- the key of an input that is not usable ---------------------------------------------------------------------------


async def test_the_key_can_be_chosen() -> None:
    """In the echo and in the result; everything else stays as it is."""
    body = [message_start(), *whole_call(0, "now", '{"a": oops}'), *END]
    run = await finished(LocalAPI(body, [DONE]).transport(), tools=[now], invalid_key="NOT_JSON")
    assert run.result.messages[1]["content"][0]["input"] == {"NOT_JSON": '{"a": oops}'}
    (answer,) = run.result.messages[2]["content"]
    assert json.loads(answer["content"]) == {"NOT_JSON": '{"a": oops}'}
    again = eagerstream.RunResult.from_json(run.result.to_json())
    assert again.calls[0].input.wrapped == {"NOT_JSON": '{"a": oops}'}
    for key in ("", "\ud800", 5):
        wrong: dict[str, Any] = {"invalid_key": key}
        with pytest.raises(UsageError, match="invalid_key"):
            eagerstream.run(LocalAPI(body).transport(), **REQUEST, **wrong)
        with pytest.raises(UsageError, match="invalid_key"):
            eagerstream.stream(LocalAPI(body).transport(), **REQUEST, **wrong)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_tool_that_takes_invalid_inputs(*, lost: bool) -> None:
    """Its parameter keeps its name, whatever the model sees. What was lost on the way it cannot mend."""
    seen: list[str] = []

    @tool(accepts_invalid_input=True)
    async def mend(INVALID_JSON: str = "") -> str:
        """Mend."""
        seen.append(INVALID_JSON)
        return "mended"

    loss = [LOST[1]] if lost else []
    body = [message_start(), tool_start(0, "mend"), input_delta(0, '{"a": oops'), *loss, input_delta(0, "}")]
    api = LocalAPI([*body, block_stop(0), *END], [DONE])
    run = await finished(api.transport(), tools=[mend], invalid_key="NOT_JSON")
    assert seen == ([] if lost else ['{"a": oops}'])
    assert run.result.messages[1]["content"][0]["input"] == {"NOT_JSON": '{"a": oops}'}


# --- what code waits for, and what follows results --------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [269, 271])
def test_a_call_of_code_that_outlives_its_wait(seconds: int, caplog: pytest.LogCaptureFixture) -> None:
    """The API waits about 270 s for a result that code needs; later ones are lost, and the log says so."""

    @tool
    async def crawl() -> str:
        """Take long."""
        await anyio.sleep(seconds)
        return "found"

    code = timed(*((0.0, event) for event in called_by_code("crawl")))

    async def main() -> Run:
        async with eagerstream.run(Playing(code, DONE), **REQUEST, tools=[crawl], clock=anyio.current_time) as run:
            await run.finish()
        return run

    with caplog.at_level(logging.WARNING):
        run = in_virtual_time(main)
    assert run.result.calls[0].response is not None
    assert run.result.calls[0].response.text == "found"
    assert [record.getMessage() for record in caplog.records] == (
        []
        if seconds < 270
        else ["a call of the tool 'crawl' by code runs for longer than 270 s: the API waits no longer for its result"]
    )


async def test_a_response_that_stops_for_tools_and_calls_none(caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to answer: the run ends, and the log says why."""
    body = [message_start(), block_start(0, "text", text="Let me see."), block_stop(0), *END]
    with caplog.at_level(logging.WARNING):
        run = await finished(LocalAPI(body).transport(), tools=[now])
    assert run.result.status is RunStatus.COMPLETED
    assert [record.message for record in caplog.records] == [
        "the response stopped for tools and calls none: the run ends"
    ]


# --- recordings -------------------------------------------------------------------------------------------------------

BROKEN = {
    "lost_fragment": ([3], [{"INVALID_JSON": '{"kilograms": 1}'}, {"INVALID_JSON": ": 2}"}, {"kilograms": 3}], 2),
    "refused_in_history": ([4], [{"kilograms": 4}, {}, {"INVALID_JSON": '"{\\"kilograms\\": 5}"'}, {}], 0),
    "reused_index": ([], [{"harbor": "Olhão"}, {"harbor": "Sines"}], 1),
}


@pytest.mark.parametrize("size", [7, 10**6])
@pytest.mark.parametrize("name", BROKEN)
async def test_recordings_of_broken_peers(name: str, size: int) -> None:
    """What ran, what is echoed, and how often the protocol was broken; however the bytes are cut."""
    ran, echoed, violations = BROKEN[name]
    seen: list[int] = []

    @tool
    async def order_bait(kilograms: int) -> str:
        """Order."""
        seen.append(kilograms)
        return "ordered"

    body = (MADE_DIR / "broken_peers" / f"{name}.sse").read_bytes()
    pieces: list[Piece] = [body[at : at + size] for at in range(0, len(body), size)]
    run = await finished(LocalAPI(pieces, [DONE]).transport(), tools=[order_bait])
    assert seen == ran
    assert [block["input"] for block in run.result.messages[1]["content"]] == echoed
    assert all(LEGAL.fullmatch(block["name"]) for block in run.result.messages[1]["content"])
    assert len(run.violations) == violations


def test_every_recording_of_a_broken_peer_has_its_row() -> None:
    """A recording that nobody says anything about proves nothing."""
    assert sorted(path.stem for path in (MADE_DIR / "broken_peers").iterdir()) == sorted(BROKEN)


_ODD_BLOCKS = [
    '{"type": "tomorrow", "n": 1e999}',
    '{"type": "tool_result", "tool_use_id": "x", "content": "y"}',
    '{"type": "thinking"}',
    '{"type": "thinking", "thinking": "x"}',
    '{"type": "text", "text": "So.", "cache_control": {"type": "ephemeral"}}',
    '{"type": "text", "text": 5}',
    '{"type": "tool_use", "name": "now", "input": {}}',
    '{"type": "tool_use", "id": 5, "name": "now", "input": {}}',
    '{"type": "tool_use", "id": "x", "input": {}}',
    '{"what": 1}',
]


@pytest.mark.parametrize("odd", _ODD_BLOCKS)
async def test_blocks_that_cannot_be_sent_back(odd: str) -> None:
    """They are left out, or mended; the call beside them is answered."""
    pieces: list[Piece] = [message_start()]
    for index in range(5):
        started = f'data: {{"type": "content_block_start", "index": {index}, "content_block": {odd}}}\n\n'
        pieces += [started.encode(), block_stop(index)]
    async with eagerstream.run(LocalAPI([*pieces, *whole_call(5, "now"), *END], [DONE]).transport(), **QUICK) as run:
        await run.finish()
    assert eagerstream.validate_history(run.result.messages) == []
    *others, answer = run.result.messages[2]["content"]
    assert answer == result("toolu_5", "noon")
    assert bool(others) == ("tool_use" in odd.partition(",")[0])
    RunResult.from_json(run.result.to_json())


@pytest.mark.parametrize("count", ["1e999", "9" * 4_300, "[1]", "null"], ids=["infinite", "long", "list", "null"])
async def test_usage_that_is_no_count(count: str) -> None:
    """It is not added up."""
    start = '{"type": "message_start", "message": {"usage": {"input_tokens": N, "output_tokens": 5}}}'.replace(
        "N", count
    )
    body: list[Piece] = [f"data: {start}\n\n".encode(), *whole_call(0, "now"), *END]
    run = await finished(LocalAPI(body, [DONE]).transport())
    assert run.result.usage.get("input_tokens", 0) < 1_000
    assert RunResult.from_json(run.result.to_json()).usage == run.result.usage
