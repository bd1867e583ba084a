"""Message threads: each request carries what is new, and nothing is lost whatever the API does with its copy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import Conversation, HTTPTransport, RunResult, UsageError, stream, tool
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError
from eagerstream.loop._message_thread import MessageThread, is_official
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    MessageThreads,
    ReceivedRequest,
    ReplayServer,
    Scenario,
    reply,
    text,
    tool_use,
)
from tests.loop.serial import SLOWLY_S, checked
from tests.streams import REQUEST, USER
from tests.support import anthropic_client
from tests.tables import rows

pytestmark = pytest.mark.anyio

LARGE = "x" * 20_000


@tool
async def fetch(n: int) -> str:
    """Fetch a page."""
    return f"{n}: {LARGE}"


def agent(turns: int, **last: Any) -> Scenario:
    """A model that fetches a page in each turn but the last; it decides by the complete conversation."""

    def answer(number: int) -> Callable[[Mapping[str, Any]], Any]:
        def turn(request: Mapping[str, Any]) -> Any:
            results = [m for m in request["messages"] if m["role"] == "user"][1:]
            assert len(results) == number, "the conversation is not complete"
            assert request["tools"][0]["name"] == "fetch"
            if number + 1 < turns:
                return reply(tool_use("fetch", {"n": number}, id=f"toolu_{number}"), message_id=f"msg_{number}")
            return reply(text("Done."), message_id="msg_last", **last)

        return turn

    return Scenario(*map(answer, range(turns)))


async def ran(server: ReplayServer, client: Any = None, **options: Any) -> Any:
    """A run over a server, with threads, that went to its end."""
    with anyio.fail_after(SLOWLY_S):
        async with HTTPTransport(base_url=server.base_url) as transport:
            arguments = {"threads": "always", "tools": [fetch], "restart_delay_s": 0, **REQUEST, **options}
            async with eagerstream.run(client or transport, **arguments) as run:
                await run.finish()
    checked(run.result)
    return run


def forms(requests: list[ReceivedRequest]) -> list[str | None]:
    return [(request.body.get("thread") or {}).get("type") for request in requests]


async def test_twenty_turns() -> None:
    """Each page is sent once. The official client's runner does the same, and the complete history takes 25 times that."""
    async with ReplayServer(agent(20), speed=float("inf"), threads=MessageThreads()) as server:
        run = await ran(server)
        requests = server.requests
    assert forms(requests) == ["create"] + ["continue"] * 19
    assert all(not {"system", "tools"} & set(request.body) for request in requests[1:])
    assert all(len(request.body["messages"]) == 1 for request in requests)
    assert sum(request.body_bytes for request in requests) < 20 * (20_000 + 2_000)
    assert run.latency.sent_bytes == sum(request.body_bytes for request in requests)
    assert [request.thread for request in run.latency.requests] == ["create"] + ["continue"] * 19
    assert [call.is_error for call in run.result.calls] == [False] * 19


async def test_the_anthropic_client() -> None:
    """The field and the beta pass through it, in both of its forms."""
    async with (
        ReplayServer(agent(3), speed=float("inf"), threads=MessageThreads()) as server,
        anthropic_client(server.base_url) as client,
    ):
        run = await ran(server, client)
        await ran(server, client, betas=["context-1m-2025-08-07"])
        requests = server.requests
    assert forms(requests) == ["create", "continue", "continue"] * 2
    assert run.latency.sent_bytes == sum(request.body_bytes for request in requests[:3])
    assert all("message-threads-2026-08-12" in request.headers["anthropic-beta"] for request in requests)
    assert all("context-1m-2025-08-07" in request.headers["anthropic-beta"] for request in requests[3:])


async def test_by_default_only_the_api_itself() -> None:
    """A gateway may ignore the field, and then answers a request without its conversation."""
    async with ReplayServer(agent(3), speed=float("inf"), threads=MessageThreads("ignores")) as server:
        run = await ran(server, threads="auto")
        await ran(server, threads=None)
        assert forms(server.requests) == [None] * 6
    assert [request.thread for request in run.latency.requests] == [None] * 3


@rows(
    "address, keeps",
    [
        ("https://api.anthropic.com", True),
        ("https://api.eu.anthropic.com/v1", True),
        ("https://anthropic.com.example.org", False),
        ("https://notanthropic.com", False),
        ("http://127.0.0.1:8000", False),
        ("http://[", False),
    ],
)
def test_whose_addresses(address: str, *, keeps: bool) -> None:
    """Those of the API itself, whatever its region, and nobody else's."""

    class Client:
        base_url = address

    assert is_official(Client()) is keeps


async def test_a_forgotten_thread() -> None:
    """Five minutes pass while a tool runs: everything is sent again, as a new thread."""
    now = 0.0

    def clock() -> float:
        return now

    @tool(name="fetch")
    async def slow(n: int) -> str:
        """Fetch a page slowly."""
        nonlocal now
        now += 301 if n == 1 else 1
        return "page"

    async with ReplayServer(agent(4), speed=float("inf"), threads=MessageThreads(clock=clock)) as server:
        run = await ran(server, tools=[slow])
        requests = server.requests
    assert forms(requests) == ["create", "continue", "continue", "create", "continue"]
    assert [request.status for request in requests] == [200, 200, 404, 200, 200]
    assert [request.thread_refused for request in run.latency.requests] == [None, None, "thread_not_found", None]


async def test_an_api_that_keeps_nothing() -> None:
    """After the second loss in a row, threads are given up for this run."""
    threads = MessageThreads(kept_s=1e-9)
    async with ReplayServer(agent(6), speed=float("inf"), threads=threads) as server:
        await ran(server)
        assert forms(server.requests) == ["create", "continue", "create", "continue", None, None, None, None]


@pytest.mark.parametrize(
    "threads", [MessageThreads("refuses"), MessageThreads(unsupported=["hipaa"])], ids=["refuses", "unsupported"]
)
async def test_an_api_without_threads(threads: MessageThreads) -> None:
    """One request is refused; the next run with this client does not ask again."""
    async with (
        ReplayServer(agent(3), speed=float("inf"), threads=threads) as server,
        HTTPTransport(base_url=server.base_url) as client,
    ):
        await ran(server, client)
        await ran(server, client)
        assert forms(server.requests) == ["create", *[None] * 6]


async def test_other_refusals_are_errors() -> None:
    """A 400 that says nothing of threads is not sent again."""
    async with (
        ReplayServer(agent(2), speed=float("inf"), threads=MessageThreads()) as server,
        HTTPTransport(base_url=server.base_url) as transport,
    ):
        with pytest.raises(APIError, match="max_tokens"):
            async with eagerstream.run(
                transport, **{**REQUEST, "max_tokens": 0}, threads="always", extra_body={"max_tokens": "many"}
            ) as run:
                await run.finish()
        assert len(server.requests) == 1


@pytest.mark.parametrize("keeps_lost", [True, False])
@pytest.mark.parametrize("kind", [FaultKind.RESET, FaultKind.CLOSE])
async def test_a_connection_lost_while_a_continued_request_is_answered(kind: FaultKind, *, keeps_lost: bool) -> None:
    """The API may have kept the response or not: the next request does not depend on it, and no tool runs twice."""
    faults = Faults({1: [Fault(kind, after_bytes=300)]})
    threads = MessageThreads(keeps_lost=keeps_lost)
    async with ReplayServer(agent(4), speed=float("inf"), faults=faults, threads=threads) as server:
        run = await ran(server)
        assert forms(server.requests) == ["create", "continue", "create", "continue", "continue"]
    assert len(run.result.calls) >= 3
    assert [call.input.value["n"] for call in run.result.calls if call.in_history and call.input.value] == [0, 1, 2]


@pytest.mark.parametrize("keeps_lost", [True, False])
async def test_a_connection_lost_before_the_response(*, keeps_lost: bool) -> None:
    """The request is sent again as it was. If the API had accepted it, it says so, and gets everything."""
    faults = Faults({1: [Fault(FaultKind.CLOSE, after_bytes=0)]})
    threads = MessageThreads(keeps_lost=keeps_lost)
    async with ReplayServer(agent(3), speed=float("inf"), faults=faults, threads=threads) as server:
        run = await ran(server)
        requests = server.requests
    assert [call.in_history for call in run.result.calls] == [True, True]
    assert forms(requests)[-1] == "continue"
    assert requests[-1].status == 200


async def test_a_history_that_is_not_the_api_s() -> None:
    """An input that is no JSON is echoed otherwise than the model wrote it, so the next request has everything."""
    broken = reply(tool_use("fetch", '{"n": ', id="toolu_0"), message_id="msg_0")
    scenario = Scenario(broken, reply(text("Sorry."), message_id="msg_1"))
    async with ReplayServer(scenario, speed=float("inf"), threads=MessageThreads()) as server:
        await ran(server)
        assert forms(server.requests) == ["create", "create"]


async def test_changed_requests_start_another_thread() -> None:
    """The API keeps the tools, the system prompt and the model of a thread."""

    def change(request: Any, turn: int) -> dict[str, Any] | None:
        return {"system": "Be brief."} if turn >= 3 else None

    async with ReplayServer(agent(5), speed=float("inf"), threads=MessageThreads()) as server:
        await ran(server, next_request=change)
        assert forms(server.requests) == ["create", "continue", "create", "continue", "continue"]


async def test_cache_breakpoints_move_along() -> None:
    """They are no change of the conversation, and with a thread there are three at most."""
    async with ReplayServer(agent(5), speed=float("inf"), threads=MessageThreads()) as server:
        await ran(server, cache="auto", system="Be brief.")
        assert forms(server.requests) == ["create"] + ["continue"] * 4
        assert {request.status for request in server.requests} == {200}


async def test_a_thread_of_the_user() -> None:
    """It would send a part of a conversation that this side does not have."""
    client = anthropic_client("https://api.anthropic.com")
    with pytest.raises(UsageError, match="threads="):
        Conversation(**REQUEST, thread={"type": "create"})
    with pytest.raises(UsageError, match="threads="):
        eagerstream.run(client, **REQUEST, thread={"type": "create"})
    options: Any = {"threads": True}
    with pytest.raises(UsageError, match="threads"):
        eagerstream.run(client, **REQUEST, **options)


async def test_a_saved_run_starts_another_thread() -> None:
    """Nobody knows if its own thread is still there."""
    async with ReplayServer(agent(4), speed=float("inf"), threads=MessageThreads()) as server:
        run = await ran(server, max_turns=2)
        assert run.result.status is RunStatus.LIMIT
        saved = RunResult.from_json(run.result.to_json())
        async with HTTPTransport(base_url=server.base_url) as transport:
            options: Any = {**REQUEST, "messages": saved, "tools": [fetch], "threads": "always"}
            async with eagerstream.run(transport, **options) as run:
                await run.finish()
        assert forms(server.requests) == ["create", "continue", "create", "continue"]


async def read(transport: HTTPTransport, conversation: Conversation, request: dict[str, Any]) -> Any:
    """The response to a request, or to what has to be sent instead."""
    try:
        async with stream(transport, **request) as response:
            await response.finish()
            return response
    except APIError as error:
        instead = conversation.refused(error)
        if instead is None:
            raise
    return await read(transport, conversation, instead)


async def test_step_by_step() -> None:
    """The user sends the requests, and asks the conversation what to send instead of one that was refused."""
    threads = MessageThreads()
    async with (
        ReplayServer(agent(4), speed=float("inf"), threads=threads) as server,
        HTTPTransport(base_url=server.base_url) as transport,
    ):
        conversation = Conversation(**REQUEST, tools=[fetch], threads="auto")
        while not conversation.ended:
            turn = conversation.take(await read(transport, conversation, conversation.request()))
            await conversation.execute(turn)
            if turn.number == 2:
                threads.forget()
        assert forms(server.requests) == ["create", "continue", "continue", "create", "continue"]
    assert conversation.result.status is RunStatus.COMPLETED
    assert Conversation(**REQUEST).refused(APIError("no")) is None


async def test_an_edited_history_is_noticed() -> None:
    """Even one that was changed in place."""
    thread = MessageThread()
    request: dict[str, Any] = {"model": "m", "messages": [copy.deepcopy(USER)]}
    message: Any = {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
    assert thread.sent_form(request)["thread"] == {"type": "create"}
    thread.answered(message)
    request["messages"] += [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": "And?"}]
    sent = thread.sent_form(request)
    assert sent["messages"] == [{"role": "user", "content": "And?"}]
    message["id"] = "msg_2"
    thread.answered(message)
    request["messages"].append({"role": "assistant", "content": message["content"]})
    request["messages"][0]["content"] = "Changed"
    assert thread.sent_form(request)["thread"] == {"type": "create"}


async def test_a_pause_continues_the_thread() -> None:
    """The paused response is all that is new, and the API has it: the request to go on carries no message."""
    paused = reply(text("Let me see."), stop_reason="pause_turn", message_id="msg_0")
    async with ReplayServer(
        Scenario(paused, reply(text("Done."), message_id="msg_1")), speed=float("inf"), threads=MessageThreads()
    ) as server:
        await ran(server)
        assert forms(server.requests) == ["create", "continue"]
        assert server.requests[1].body["messages"] == []
