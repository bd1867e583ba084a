"""Features of a run that a crash could break: each run is continued from each write of its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import eagerstream
from eagerstream import Outcome, RunningCall
from eagerstream.calls import RunStatus
from eagerstream.loop import RunResult, TurnStart
from eagerstream.recordings import Chunk, Recording
from eagerstream.tools import InProcessExecutor, Tool, ToolCall
from eagerstream_testing import (
    Scenario,
    Scripted,
    Timing,
    block,
    error_event,
    reply,
    server_tool_use,
    text,
    thinking,
    tool_use,
)
from tests.loop.crashes import from_each_write
from tests.loop.durable import LONG_S, Played, World, answers, check
from tests.loop.journals import MemoryJournal, MemoryLog
from tests.loop.server_tools import SEARCH
from tests.streams import REQUEST
from tests.support import until

pytestmark = pytest.mark.anyio

SLOW = Timing(tokens_per_second=2000)
"""The tools run while the response is being written."""

UNKNOWN = "Nobody knows"
DONE = reply(text("Done."))


def pay(amount: int, **options: Any) -> Scripted:
    return tool_use("pay", {"amount": amount}, **options)


def found(id: str) -> Scripted:
    return block({"type": "web_search_tool_result", "tool_use_id": id, "content": []})


def contents(result: RunResult[Any]) -> list[Any]:
    """The content of each message of the model."""
    return [message["content"] for message in result.messages if message["role"] == "assistant"]


def searching(world: World, _journal: MemoryJournal, _client: Any) -> list[Any]:
    return [*world.tools(), SEARCH]


async def test_every_kind_of_block() -> None:
    """A salvaged response is the beginning of the one that came: signed, cited and encrypted blocks are unchanged.

    It ends with its last call. What came behind that is dropped, as after a lost connection.
    """
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None}
    quotes = ({"type": "text_delta", "text": "It "}, {"type": "citations_delta", "citation": cited})
    response = reply(
        thinking("hmm", signature="abc"),
        block({"type": "redacted_thinking", "data": "zzz"}),
        Scripted({"type": "text", "text": "", "citations": []}, (*quotes, {"type": "text_delta", "text": "says."})),
        server_tool_use("web_search", {"query": "\u00e9\U0001f600"}, id="srvtoolu_1"),
        found("srvtoolu_1"),
        thinking("", signature="s2"),
        pay(1, id="toolu_1"),
        text("Behind the first call."),
        thinking("more", signature="s3"),
        server_tool_use("web_search", {"query": "late"}, id="srvtoolu_2"),
        found("srvtoolu_2"),
        pay(2, id="toolu_2"),
        text("Behind the last call. " * 4),
    )
    first, *others = await from_each_write(Scenario(response, DONE, timing=SLOW), searching)
    [all_of_it, _] = contents(first[1])
    assert len(all_of_it) == 13
    lengths = set()
    for _, result, _ in others:
        [known, _] = contents(result)
        assert known == all_of_it[: len(known)]
        assert len(known) == 13 or known[-1]["type"] == "tool_use"
        lengths.add(len(known))
    assert lengths == {7, 12, 13}


async def test_a_call_that_lacks_a_fragment() -> None:
    """It is JSON without it, and still must not run."""
    pieces: list[Any] = ['{"amount": ', [], "7}"]
    damaged = Scripted(
        {"type": "tool_use", "id": "toolu_9", "name": "pay", "input": {}},
        tuple({"type": "input_json_delta", "partial_json": piece} for piece in pieces),
    )
    response = reply(damaged, pay(1), text("x" * 40))
    first, *others = await from_each_write(Scenario(response, DONE, timing=SLOW))
    for _, result, world in others:
        assert "pay 7" not in world.effects
        [known, _] = contents(result)
        assert known == contents(first[1])[0][: len(known)]


async def test_server_tools_and_pauses() -> None:
    """Results of the API that come a response later keep their calls, and a paused response continues as it is."""
    searches = [server_tool_use("web_search", {"query": str(n)}, id=f"srvtoolu_{n}") for n in range(3)]
    scenario = Scenario(
        reply(text("a"), searches[0], stop_reason="pause_turn"),
        reply(found("srvtoolu_0"), pay(1), searches[1]),
        reply(found("srvtoolu_1"), pay(2), text("x" * 40), searches[2], stop_reason="pause_turn"),
        reply(found("srvtoolu_2"), text("Done.")),
        DONE,
        timing=SLOW,
    )
    first, *others = await from_each_write(scenario, searching)
    for _, result, _ in others:
        # A salvaged response has no end, so the call that the API was to run is left out.
        assert contents(result)[0] == contents(first[1])[0]
        assert len(answers(result)) == 2
        assert result.text == "Done."


class Answer(BaseModel):
    """An output."""

    n: int


async def test_an_output() -> None:
    """It is that of the last response, also of a run that had ended."""
    scenario = Scenario(reply(pay(1), text("a")), reply(text('{"n": 3}')), timing=SLOW)
    for kind, result, _ in await from_each_write(scenario, output=Answer):
        assert result.output_outcome is Outcome.VALID
        assert result.output_as(Answer) == Answer(n=3)
        assert isinstance(result.output, Answer) or kind in ("turn", "end")


@pytest.mark.parametrize("inline_tools", ["always", None])
async def test_changes_of_the_tools(inline_tools: Any) -> None:
    """The tools of a continued run are those that it is given. The history says nothing else about them."""
    given: list[Sequence[Any]] = []

    @eagerstream.tool
    async def extra(x: str) -> str:
        """Do more."""
        return f"extra {x}"

    def tools_of(world: World, _journal: MemoryJournal, _client: Any) -> Sequence[Any]:
        given.append([world.pay, world.write, extra])
        return given[-1] if len(given) > 1 else world.tools()

    def act(run: Any, event: Any) -> None:
        if isinstance(event, TurnStart) and event.turn == 1:
            run.add_tools(extra)
        elif isinstance(event, TurnStart) and event.turn == 2:
            run.remove_tools("look")

    asked: list[Mapping[str, Any]] = []

    def last(request: Mapping[str, Any]) -> Recording:
        asked.append(request)
        return DONE

    scenario = Scenario(reply(pay(1)), reply(tool_use("extra", {"x": "1"})), reply(pay(2)), last)
    everything = await from_each_write(scenario, tools_of, act=act, inline_tools=inline_tools)
    assert sum(bool(answers(result)[1] == "extra 1") for _, result, _ in everything) > len(everything) // 2
    for request in asked[1:]:
        assert [tool["name"] for tool in request["tools"]] == ["pay", "write", "extra"]
        assert all(message["role"] != "system" for message in request["messages"])


async def test_a_summary() -> None:
    """It replaces the history once it is there. If the request for it was lost with its process, nothing else is."""
    summary = block({"type": "compaction", "content": "They paid.", "signature": "EuYB"})

    def answer(request: Mapping[str, Any]) -> Recording:
        if "compaction" in request:
            return reply(summary, stop_reason="compaction")
        calls = str(request["messages"]).count("'tool_use'")
        return DONE if calls == 2 or "They paid" in str(request["messages"]) else reply(pay(calls + 1))

    def act(run: Any, event: Any) -> None:
        if isinstance(event, TurnStart) and event.turn == 1:
            run.compact()

    everything = await from_each_write(Scenario.of(answer), act=act)
    have_it = [result.messages[0]["content"] == [summary.block] for _, result, _ in everything]
    assert have_it[0]
    assert have_it[-4:] == [True] * 4
    assert all(
        len(answers(result)) == (0 if has_it else 2) for (_, result, _), has_it in zip(everything, have_it, strict=True)
    )


async def test_a_response_that_breaks_off_twice() -> None:
    """First the connection, then the process; and the next response breaks off, too."""
    attempts = 0

    def second(_request: Mapping[str, Any]) -> Recording:
        nonlocal attempts
        attempts += 1
        return reply(text("half"), error_event("overloaded_error", "busy")) if attempts % 2 else DONE

    broken = reply(text("x"), pay(1), text("y" * 40), pay(2), error_event("overloaded_error", "busy"))
    for _, result, _ in await from_each_write(Scenario(broken, second, timing=SLOW), restart_delay_s=0):
        assert answers(result)[0] == "paid 1" or answers(result)[0].startswith(UNKNOWN)
        assert result.text == "Done."


def restarted(first: Recording, second: Recording) -> Callable[[Mapping[str, Any]], Recording]:
    """A response that a gateway starts again before its end: for the first process after a long pause."""
    begun = first.body[: first.body.rindex(b"event: message_delta")]
    pauses = iter([replace(first, chunks=(Chunk(0, begun), Chunk(LONG_S, second.body)))])
    return lambda _request: next(pauses, Recording.from_body(begun + second.body))


async def test_a_gateway_starts_a_response_again() -> None:
    """What ran before that does not count if it may run twice: the new beginning uses an id again, for another call."""
    look: dict[str, Any] = {"id": "toolu_1", "fragment_chars": 40}
    response = restarted(
        reply(text("x"), tool_use("look", {"place": "b"}, **look), text("y" * 40), message_id="msg_1"),
        reply(text("z"), tool_use("look", {"place": "c"}, **look), text("y" * 40), pay(2), message_id="msg_2"),
    )
    everything = await from_each_write(Scenario(response, DONE, timing=SLOW))
    kinds = [kind for kind, _, _ in everything]
    assert answers(everything[0][1]) == ["saw c", "paid 2"]
    for _, result, _ in everything[: kinds.index("restart")]:
        assert answers(result) in (["saw b"], ["saw c", "paid 2"])
    for _, result, _ in everything[kinds.index("restart") :]:
        assert answers(result)[0] == "saw c"
        assert next(each["id"] for each in contents(result)[0] if each["type"] == "tool_use") == "toolu_1"


async def test_a_gateway_starts_a_response_again_after_a_call() -> None:
    """The first beginning counts: its call must not run twice. A call that was cut in it does not run."""
    first = reply(text("x"), pay(1), tool_use("look", {"place": "b"}), text("y" * 40), pay(3, closed=False))
    response = restarted(first, reply(text("z"), pay(2), message_id="msg_2"))
    everything = await from_each_write(Scenario(response, DONE, timing=SLOW), restart_delay_s=0)
    assert answers(everything[0][1]) == ["paid 1", "saw b"]
    for _, result, outside in everything:
        assert "pay 3" not in outside.effects
        if "pay 2" not in outside.effects:
            [known, _] = contents(result)
            assert known == contents(everything[0][1])[0][: len(known)]


async def test_a_call_that_waits_while_a_gateway_starts_again() -> None:
    """It starts after that, and its block is one of the first beginning."""

    def tools_of(world: World, journal: MemoryJournal, _client: Any) -> list[Tool]:
        @eagerstream.tool
        async def hold() -> str:
            """Hold the only slot until the response has ended."""
            world.effects.append("hold")
            await until(lambda: any("is_whole" in entry for entry in journal.runs["r"]))
            return "held"

        return [hold, *world.tools()]

    first = reply(tool_use("hold", {}), text("x"), pay(1), text("y" * 40))
    response = restarted(first, reply(text("z"), pay(2), message_id="msg_2"))
    scenario = Scenario(response, DONE, timing=SLOW)
    everything = await from_each_write(scenario, tools_of, max_concurrency=1, restart_delay_s=0)
    assert answers(everything[0][1]) == ["held", "paid 1"]
    assert {told for _, result, _ in everything for told in answers(result)[1:] if not told.startswith(UNKNOWN)} == {
        "paid 1"
    }


# --- executors --------------------------------------------------------------------------------------------------------


class Handing:
    """An executor of the user's that hands the calls on to the usual one, and declares nothing."""

    asks_approval = True

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._inner = InProcessExecutor(tools, max_concurrency=1)

    def admit(self, call: ToolCall) -> None:
        self._inner.admit(call)

    async def execute(self, call: ToolCall) -> None:
        await self._inner.execute(call)


class Open(Handing):
    """It declares that the usual one does the rest."""

    passes_gate = True


@pytest.mark.parametrize("executor", [Handing, Open])
async def test_an_executor_of_the_users(executor: type[Handing]) -> None:
    """A call counts as begun once the executor has it, or right before its tool, if the executor says so."""

    def tools_of(world: World, _journal: MemoryJournal, _client: Any) -> list[Tool]:
        async def ask(_call: ToolCall) -> bool:
            world.keys.append("asked")
            return True

        @eagerstream.tool(approve=ask)
        async def ship(n: int) -> str:
            """Ship."""
            world.effects.append(f"ship {n}")
            return f"shipped {n}"

        return [*world.tools(), ship]

    body = tool_use("write", {"body": "x" * 40})
    wrong = tool_use("pay", {"amount": "much"}, id="toolu_wrong")
    scenario = Scenario(reply(text("x"), pay(1), body, tool_use("ship", {"n": 1}), wrong), DONE, timing=SLOW)
    everything = await from_each_write(scenario, tools_of, options_of=lambda tools: {"executor": executor([*tools])})
    first = answers(everything[0][1])
    assert first[:3] == ["paid 1", "wrote 40", "shipped 1"]
    assert [one for _, result, _ in everything for one in answers(result)].count(first[3]) > 3
    for kind, result, world in everything:
        for told, known in zip(answers(result), first, strict=False):
            assert told == known or told.startswith(UNKNOWN), kind
        # Nobody was asked before the crash, so somebody is asked now.
        if executor is Open and "ship 1" not in world.effects:
            assert "shipped 1" not in answers(result)


class Stuck(MemoryJournal):
    """The disk hangs at the start of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = anyio.Event()

    async def create(self, run_id: str, entry: Any) -> MemoryLog:
        await super().create(run_id, entry)
        return StuckLog(self, run_id, 1)


class StuckLog(MemoryLog):
    """See `Stuck`."""

    def append(self, *entries: Any) -> Any:
        if entries[-1]["kind"] != "start":
            return super().append(*entries)

        async def hang() -> None:
            assert isinstance(self._journal, Stuck)
            self._journal.is_stuck.set()
            await anyio.sleep_forever()

        return hang()


@pytest.mark.parametrize("executor", [Handing, Open])
async def test_an_executor_takes_back_the_place_of_a_call_at_the_gate(executor: type[Handing]) -> None:
    """A run that is cancelled while the start of a call is written starts nothing, and keeps no place from others."""
    world, journal = World(), Stuck()
    shared: Any = executor(world.tools())
    client = Played(Scenario(reply(pay(1)), DONE)).transport()
    given: dict[str, Any] = {**REQUEST, "tools": world.tools(), "executor": shared}
    with anyio.fail_after(10):
        async with eagerstream.run(client, **given, journal=journal, run_id="r") as run:
            await journal.is_stuck.wait()
            run.cancel()
            await run.finish()
        assert (run.result.status, world.effects) == (RunStatus.CANCELLED, [])
        async with eagerstream.run(client, **given) as run:
            await run.finish()
    assert answers(run.result) == ["paid 1"]


# --- runs in runs -----------------------------------------------------------------------------------------------------


def of_both(request: Mapping[str, Any]) -> Recording:
    """The model of a run, and of the run that its tool starts."""
    messages = request["messages"]
    scenario: list[Recording]
    turns: int = sum(message["role"] == "assistant" for message in messages)
    if messages[0]["content"] == "Find out.":
        scenario = [reply(text("Hm."), pay(1)), reply(pay(2)), reply(text("It is 7."))]
    else:
        scenario = [reply(text("x"), tool_use("research", {}), text("y" * 40)), DONE]
    return scenario[turns]


async def test_two_calls_with_one_id() -> None:
    """The second one is refused by each process, and its error is not taken for the result of the first one."""
    twice = [tool_use("pay", {"amount": amount}, id="toolu_a") for amount in (1, 2)]
    for _, result, world in await from_each_write(Scenario(reply(*twice), DONE)):
        first, *second = answers(result)  # a crash may have come before the second one
        assert not first.startswith("Not executed:")
        assert [answer[:13] for answer in second] in ([], ["Not executed:"])
        assert world.effects in (["pay 1"], [])


async def test_a_run_in_a_run() -> None:
    """A tool whose run has the key of its call as id, and that says so to `recover`, loses nothing of that run."""

    def tools_of(world: World, journal: MemoryJournal, client: Any) -> list[Tool]:
        @eagerstream.tool(recover=lambda _call: "not done")
        async def research(call: RunningCall) -> str:
            """Find out."""
            given: dict[str, Any] = {**REQUEST, "messages": [{"role": "user", "content": "Find out."}]}
            async with eagerstream.run(
                client, **given, tools=world.tools(), journal=journal, run_id=call.idempotency_key
            ) as run:
                await run.finish()
            world.inner = run.result
            return run.result.text

        return [research]

    everything = await from_each_write(Scenario.of(of_both, timing=SLOW), tools_of)
    unknown = 0
    tokens = min(world.inner.usage["output_tokens"] for *_, world in everything if world.inner is not None)
    for _, result, world in everything:
        assert answers(result) == ["It is 7."]
        assert result.usage["output_tokens"] > result.sub_usage["output_tokens"] >= tokens
        if world.inner is not None:
            check(world.inner, world)
            told = answers(world.inner)
            assert len(told) == 2
            unknown += sum(each.startswith(UNKNOWN) for each in told)
    assert 4 <= unknown < len(everything)
