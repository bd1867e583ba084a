"""A summary that replaces the history: the API's own, and one of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anthropic import beta_async_tool

import eagerstream
from eagerstream import Conversation, HTTPTransport, RunResult, UsageError, stream, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import Restarted, TurnStart, TurnStop
from eagerstream_testing import (
    MessageThreads,
    ReplayServer,
    Scenario,
    block,
    http_error,
    reply,
    text,
    tool_use,
)
from eagerstream_wire import BlockStop
from tests.loop.serial import DONE, SLOWLY_S, now, running
from tests.loop.steered import Steered, steered
from tests.streams import REQUEST, USER, block_start, block_stop, message_start
from tests.support import Gate, LocalAPI, anthropic_client

pytestmark = pytest.mark.anyio

BETA = "compact-2026-09-04"
BLOCK = {"type": "compaction", "content": "They asked for the time.", "signature": "EuYB"}
SUMMARY = {"role": "assistant", "content": [BLOCK]}
USAGE = {"input_tokens": 0, "output_tokens": 0}
CALL = reply(tool_use("now", {}, id="toolu_1"))
AGAIN = reply(tool_use("now", {}, id="toolu_1"))


def api(*turns: Any, summary: Any = None) -> Scenario:
    """A model that answers with these turns in order, and with a summary if it is asked for one."""
    left = list(turns)
    written = summary or reply(block(BLOCK), stop_reason="compaction", usage=USAGE)

    def answer(request: Mapping[str, Any]) -> Any:
        if "compaction" not in request:
            return left.pop(0)
        return written(request) if callable(written) else written

    return Scenario.of(answer)


def kinds(server: ReplayServer) -> list[str]:
    return ["summary" if "compaction" in request.body else "turn" for request in server.requests]


def at(turn: int, act: Any) -> Any:
    """Do something at the start of a turn."""
    return lambda run, event: act(run) if isinstance(event, TurnStart) and event.turn == turn else None


@pytest.mark.parametrize("threads", ["always", None])
async def test_the_summary_replaces_the_history(threads: Any) -> None:
    """The results of the turn are in it. Ids of calls may come again, since their messages are gone."""
    run, events, server = await steered(
        api(CALL, AGAIN, DONE),
        at(1, lambda run: run.compact("Keep all names.")),
        threads=threads,
        kept=MessageThreads(),
    )
    assert kinds(server) == ["turn", "summary", "turn", "turn"]
    asked, continued, last = [request.complete for request in server.requests[1:]]
    assert asked["compaction"] == {"type": "summarize", "instructions": "Keep all names."}
    assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "user"]
    assert continued["messages"] == [SUMMARY]
    assert last["messages"][0] == run.result.messages[0] == SUMMARY
    assert [BETA in request.headers.get("anthropic-beta", "") for request in server.requests] == [False, *[True] * 3]
    assert [call.input.echo_id for call in run.result.calls] == ["toolu_1"] * 2
    assert (run.result.status, run.result.turns, run.result.text) == (RunStatus.COMPLETED, 4, "Done.")
    assert [event.turn for event in events if isinstance(event, TurnStop)] == [1, 2, 3, 4]
    if threads:
        assert [each.thread for each in run.latency.requests] == ["create", None, "create", "continue"]


async def test_what_shapes_a_reply_is_left_out() -> None:
    """The API refuses it where no reply is written. The next request has it again."""
    shaping: dict[str, Any] = {
        "stop_sequences": ["END"],
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "tool_choice": {"type": "any"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "fallbacks": [{"model": "m", "output_config": {"format": {"type": "json_schema", "schema": {}}}}],
    }
    conversation = Conversation(tools=[now], system="Be brief.", **shaping, **REQUEST)
    conversation.compact()
    request = conversation.request()
    assert not {"stop_sequences", "context_management", "tool_choice"} & request.keys()
    assert (request["output_config"], request["fallbacks"]) == ({"effort": "low"}, [{"model": "m"}])
    assert (request["compaction"], request["system"]) == ({"type": "summarize"}, "Be brief.")
    assert request["extra_headers"] == {"anthropic-beta": BETA}
    async with ReplayServer(api(DONE)) as server, HTTPTransport(base_url=server.base_url) as transport:
        async with stream(transport, **request) as summary:
            await summary.finish()
        conversation.take(summary)
    following = conversation.request()
    assert {**following, "messages": []}.items() >= shaping.items()  # a forced choice still holds for the first turn
    assert following["messages"] == conversation.result.messages == [SUMMARY]


def test_a_request_has_nothing_of_one_that_was_refused_before() -> None:
    """A history that cannot be sent is replaced, and a summary is asked of the new one."""
    conversation = Conversation(tools=[now], **REQUEST)
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}}]}
    conversation.result.messages[:] = [USER, call, USER]
    with pytest.raises(eagerstream.HistoryError):
        conversation.request()
    conversation.replace_history([USER])
    conversation.compact()
    assert conversation.request()["messages"] == [USER]


@pytest.mark.parametrize(
    "summary",
    [
        reply(stop_reason="max_tokens", usage=USAGE),
        reply(stop_reason="refusal", usage=USAGE),
        reply(tool_use("now", {}), usage=USAGE),
        reply(block({**BLOCK, "content": None}), stop_reason="compaction", usage=USAGE),
        http_error(400, "invalid_request_error", "compaction: not supported on this model"),
    ],
    ids=["cut", "refused", "calls a tool", "empty", "unknown"],
)
async def test_no_summary(summary: Any) -> None:
    """The history stays, no tool runs because of it, and the run continues."""
    run, events, server = await steered(api(CALL, DONE, summary=summary), at(1, lambda run: run.compact()))
    assert kinds(server) == ["turn", "summary", "turn"]
    assert [message["role"] for message in run.result.messages] == ["user", "assistant", "user", "assistant"]
    assert [call.ran for call in run.result.calls] == [True, False][: len(run.result.calls)]
    assert (run.result.status, run.result.text) == (RunStatus.COMPLETED, "Done.")
    failed = [event.error for event in events if isinstance(event, TurnStop)][1]
    assert (failed is not None) == (summary.status == 400)


async def test_it_is_asked_for_again() -> None:
    """After an error that passes. What is said or changed meanwhile comes behind the summary."""
    errors = [http_error(529, "overloaded_error", "Overloaded")]

    def written(request: Mapping[str, Any]) -> Any:
        return errors.pop() if errors else reply(block(BLOCK), stop_reason="compaction", usage=USAGE)

    def steer(run: Any, event: Any) -> None:
        if isinstance(event, TurnStart) and event.turn == 1:
            run.compact()
        if isinstance(event, Restarted):
            run.say("Hurry.", "now")

    run, _, server = await steered(api(CALL, DONE, summary=written), steer)
    assert kinds(server) == ["turn", "summary", "summary", "turn"]
    assert run.result.messages[:2] == [SUMMARY, {"role": "user", "content": "Hurry."}]


async def test_a_pause_is_continued_first() -> None:
    """The API cannot summarize a response that it has yet to continue."""
    pause = reply(text("Searching."), stop_reason="pause_turn")
    *_, server = await steered(api(pause, CALL, DONE), at(1, lambda run: run.compact()))
    assert kinds(server) == ["turn", "turn", "summary", "turn"]


async def test_a_run_that_ends_before() -> None:
    """Nothing is asked for: the next run can begin with the summary."""
    run, _, server = await steered(api(DONE), at(1, lambda run: run.compact()))
    assert kinds(server) == ["turn"]
    history = [*run.result.messages, {"role": "user", "content": "And now?"}]
    async with ReplayServer(api(DONE)) as server, HTTPTransport(base_url=server.base_url) as transport:
        async with eagerstream.run(transport, **{**REQUEST, "messages": history}) as run:
            run.compact()
            await run.finish()
    assert kinds(server) == ["summary", "turn"]
    assert run.result.messages[0] == SUMMARY


async def test_cancelled_while_it_is_written() -> None:
    """The history stays."""

    written: list[Any] = [message_start(), block_start(0, **BLOCK), block_stop(0), Gate()]
    local = LocalAPI([CALL], written)
    async with running(local.transport(), tools=[now]) as run:
        async for event in run:
            if isinstance(event, TurnStart) and event.turn == 1:
                run.compact()
            elif isinstance(event, BlockStop) and run.turn == 2:
                run.cancel()
    assert run.result.status is RunStatus.CANCELLED
    assert [message["role"] for message in run.result.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("summary", ["They asked for the time.", [{"role": "user", "content": "They asked."}]])
async def test_a_summary_of_the_user(summary: Any) -> None:
    """It replaces the history without a request, as a text or as messages."""
    given: list[Any] = []

    async def summarize(messages: Sequence[Mapping[str, Any]]) -> Any:
        await anyio.lowlevel.checkpoint()
        given.extend(messages)
        return summary

    run, _, server = await steered(api(CALL, DONE), at(1, lambda run: run.compact(summarize=summarize)))
    assert kinds(server) == ["turn", "turn"]
    assert [message["role"] for message in given] == ["user", "assistant", "user"]
    expected = summary if isinstance(summary, list) else [{"role": "user", "content": summary}]
    assert server.requests[1].body["messages"] == run.result.messages[:-1] == expected


async def test_an_error_of_the_summary() -> None:
    """It ends the run, and the history stays. So does a wrong one."""

    async def fails(messages: Sequence[Mapping[str, Any]]) -> Any:
        raise RuntimeError("no summary today")

    async def orphans(messages: Sequence[Mapping[str, Any]]) -> Any:
        return messages[-1:]

    for summarize, error in ((fails, RuntimeError), (orphans, eagerstream.HistoryError)):
        async with ReplayServer(api(CALL, DONE)) as server, HTTPTransport(base_url=server.base_url) as transport:
            run = eagerstream.run(transport, tools=[now], **REQUEST)
            run.observe(Steered(run, at(1, lambda run: run.compact(summarize=summarize))))  # noqa: B023  # at once
            with pytest.raises(error):
                async with run:
                    await run.finish()
        assert (run.result.status, len(run.result.messages)) == (RunStatus.ERROR, 3)


async def test_cancelled_while_the_user_summarizes() -> None:
    """The summary is cancelled, and the history stays."""
    gate = Gate()

    async def summarize(messages: Sequence[Mapping[str, Any]]) -> str:
        gate.reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with ReplayServer(api(CALL, DONE)) as server, HTTPTransport(base_url=server.base_url) as transport:
        with anyio.fail_after(SLOWLY_S):
            async with eagerstream.run(transport, tools=[now], **REQUEST) as run, anyio.create_task_group() as tasks:
                run.compact(summarize=summarize)
                tasks.start_soon(run.finish)
                await gate.reached.wait()
                run.cancel()
    assert run.result.status is RunStatus.CANCELLED
    assert (run.result.messages, kinds(server)) == ([USER], [])


async def test_changes_of_tools_before_a_summary() -> None:
    """Without a word about them in the block, `tools` has all from then on."""

    @tool
    async def search(query: str) -> str:
        """Search the web."""
        return query

    for tool_changes, names in ((None, ["now", "search"]), ([], ["now"])):
        given = BLOCK if tool_changes is None else {**BLOCK, "tool_changes": tool_changes}
        written = reply(block(given), stop_reason="compaction", usage=USAGE)

        def steer(run: Any, event: Any) -> None:
            if isinstance(event, TurnStart) and event.turn == 1:
                run.add_tools(search)
            if isinstance(event, TurnStart) and event.turn == 2:
                run.compact()

        second = reply(tool_use("search", {"query": "x"}, id="toolu_2"))
        *_, server = await steered(api(CALL, second, DONE, summary=written), steer, inline_tools="always")
        assert [each["name"] for each in server.requests[-1].body["tools"]] == names
        assert server.requests[-1].body["messages"] == [{"role": "assistant", "content": [given]}]


def test_wrong_wishes() -> None:
    """They are refused at the call."""
    conversation = Conversation(context_management={"edits": [{"type": "compact_20260112"}]}, **REQUEST)
    with pytest.raises(UsageError, match="compaction of its own"):
        conversation.compact()
    with pytest.raises(UsageError, match="must be a text, not int"):
        Conversation(**REQUEST).compact(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"call compact\(\) instead"):
        Conversation(compaction={"type": "summarize"}, **REQUEST)
    conversation = Conversation(next_request=lambda request, turn: {"compaction": {"type": "summarize"}}, **REQUEST)
    with pytest.raises(UsageError, match="next_request cannot change compaction"):
        conversation.request()
    run = eagerstream.run(HTTPTransport(base_url="http://localhost"), **REQUEST)
    with pytest.raises(UsageError, match="instructions are for the API"):
        run.compact("Be brief.", summarize=lambda messages: messages)  # type: ignore[arg-type, return-value]


async def test_a_compacted_history_can_be_continued() -> None:
    """A saved result begins with the block, and a new run sends it with the beta."""
    run, _, server = await steered(api(CALL, DONE), at(1, lambda run: run.compact()))
    saved = RunResult.from_json(run.result.to_json())
    saved.messages = [*saved.messages, {"role": "user", "content": "And now?"}]
    *_, server = await steered(api(DONE), lambda run, event: None, messages=saved)
    assert server.requests[0].headers["anthropic-beta"] == BETA


async def test_as_the_official_runner() -> None:
    """The same wish at the same time is the same request."""

    @beta_async_tool(name="now")
    async def official_now() -> str:
        """Say the time."""
        return "noon"

    options: dict[str, Any] = {"stop_sequences": ["END"], "system": "Be brief."}
    *_, ours = await steered(api(CALL, DONE), at(1, lambda run: run.compact("Keep all names.")), **options)
    async with ReplayServer(api(CALL, DONE), threads=MessageThreads()) as theirs:
        async with anthropic_client(theirs.base_url) as client:
            runner = client.beta.messages.tool_runner(
                tools=[official_now], betas=[BETA], stream=True, **REQUEST, **options
            )
            async for response in runner:
                if not theirs.requests[1:]:
                    runner.compact_before_next_turn({"type": "summarize", "instructions": "Keep all names."})
                await response.get_final_message()

    def compared(request: Any) -> dict[str, Any]:
        return {name: value for name, value in request.complete.items() if name not in ("tools", "thread")}

    def plain(request: dict[str, Any]) -> dict[str, Any]:
        for message in request["messages"]:
            for each in message["content"] if isinstance(message["content"], list) else ():
                each.pop("caller", None)
                if each["type"] == "tool_result" and isinstance(each["content"], str):
                    each["content"] = [{"type": "text", "text": each["content"]}]
        return request

    assert [plain(compared(each)) for each in ours.requests] == [plain(compared(each)) for each in theirs.requests]
