"""The double keeps message threads as the API does, by the official client's own threads and tool runner."""

from __future__ import annotations

import threading
from typing import Any

import anthropic
import anyio
import httpx
import pytest
from anthropic import AsyncAnthropic, beta_async_tool

from eagerstream import UsageError
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    MessageThreads,
    Platform,
    ReceivedRequest,
    ReplayServer,
    Scenario,
    http_error,
    reply,
    text,
    tool_use,
)

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"model": "claude-opus-4-7", "max_tokens": 1_024}
HI: Any = {"role": "user", "content": "Hi"}
BETA = "message-threads-2026-08-12"
CREATE: dict[str, Any] = {"thread": {"type": "create"}}


@beta_async_tool
async def fetch(n: int) -> str:
    """Fetch a page."""
    return f"{n}: {'x' * 20_000}"


def double(*, turns: int = 20, **options: Any) -> ReplayServer:
    calls = [reply(tool_use("fetch", {"n": n}, id=f"toolu_{n}"), message_id=f"msg_{n}") for n in range(turns - 1)]
    scenario = Scenario(*calls, reply(text("Done."), message_id="msg_last"))
    return ReplayServer(scenario, speed=float("inf"), **options)


def client_of(server: ReplayServer) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="any", max_retries=0)


async def ask(client: AsyncAnthropic, thread: Any, **options: Any) -> Any:
    previous = thread.get("previous_message_id", "").removeprefix("msg_")
    result = {"type": "tool_result", "tool_use_id": f"toolu_{previous}", "content": "page"}
    messages = [{"role": "user", "content": [result]}] if previous else [HI]
    return await client.beta.messages.create(
        **{**ASK, "messages": messages, "betas": [BETA], "thread": thread, "stream": True, **options}
    )


async def finished(client: AsyncAnthropic, thread: Any, **options: Any) -> None:
    async for _ in await ask(client, thread, **options):
        pass


def continued(id: str) -> dict[str, Any]:
    return {"type": "continue", "previous_message_id": id}


def code_of(error: anthropic.APIStatusError) -> Any:
    body: Any = error.body
    return body["error"]["details"]


async def test_the_official_tool_runner() -> None:
    """Each page is sent once, and the double sees the complete conversation."""
    async with double(turns=8, threads=MessageThreads()) as server, client_of(server) as client:
        runner = client.beta.messages.tool_runner(**ASK, messages=[HI], tools=[fetch], stream=True)
        response: Any
        async for response in runner:
            await response.get_final_message()
        requests = server.requests
    assert len(requests) == 8
    assert [request.body["thread"]["type"] for request in requests] == ["create"] + ["continue"] * 7
    assert [len(request.complete["messages"]) for request in requests] == list(range(1, 16, 2))
    assert all(request.complete["tools"] for request in requests)
    assert sum(request.body_bytes for request in requests) < 8 * 22_000


async def test_the_official_thread_recovers() -> None:
    """From a conversation that was forgotten."""
    threads = MessageThreads()
    async with double(turns=3, threads=threads) as server, client_of(server) as client:
        runner = client.beta.messages.tool_runner(**ASK, messages=[HI], tools=[fetch], stream=True)
        response: Any
        async for response in runner:
            await response.get_final_message()
            threads.forget()
        statuses = [request.status for request in server.requests]
    assert statuses.count(404) >= 1
    assert statuses[-1] == 200


async def test_expiry_by_the_clock() -> None:
    now = 0.0
    threads = MessageThreads(clock=lambda: now)
    async with double(threads=threads) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        now = 300.0
        await finished(client, continued("msg_0"))
        now = 600.5
        with pytest.raises(anthropic.NotFoundError) as caught:
            await ask(client, continued("msg_1"))
    assert code_of(caught.value) == {"error_code": "thread_not_found"}


async def test_a_response_is_continued_once() -> None:
    async with double(threads=MessageThreads()) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        await finished(client, continued("msg_0"))
        server.requests[-1].wait_ended(10)
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, continued("msg_0"))
    assert code_of(caught.value) == {"error_code": "thread_already_continued"}


async def test_an_error_continues_nothing() -> None:
    answers = [http_error(529, "overloaded_error", "Overloaded"), reply(text("Done."), message_id="msg_1")]
    scenario = Scenario(
        reply(tool_use("fetch", {"n": 0}, id="toolu_0"), message_id="msg_0"), lambda request: answers.pop(0)
    )
    async with ReplayServer(scenario, threads=MessageThreads()) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            await ask(client, continued("msg_0"))
        await finished(client, continued("msg_0"))


async def test_a_continued_response_in_flight() -> None:
    faults = Faults({1: [Fault(FaultKind.STALL, after_bytes=50)]})
    stalled = threading.Event()

    def answered(request: ReceivedRequest) -> None:
        if request.fault is not None:
            stalled.set()

    options: dict[str, Any] = {"threads": MessageThreads(), "faults": faults, "on_answer": answered}
    async with double(**options) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(finished, client, continued("msg_0"))
            await anyio.to_thread.run_sync(stalled.wait, 30)
            with pytest.raises(anthropic.BadRequestError) as caught:
                await ask(client, continued("msg_0"))
            tasks.cancel_scope.cancel()
    assert code_of(caught.value) == {"error_code": "thread_continue_in_flight"}


async def test_a_lost_response_may_be_forgotten() -> None:
    faults = Faults({1: [Fault(FaultKind.CLOSE, after_bytes=50)]})
    threads = MessageThreads(keeps_lost=False)
    async with double(threads=threads, faults=faults) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        with pytest.raises(Exception, match=r"peer closed|incomplete|isconnect"):
            await finished(client, continued("msg_0"))
        await finished(client, continued("msg_0"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "other"}, "thread_fingerprint_mismatch"),
        ({"system": "Be brief."}, "system: cannot be set"),
        ({"tools": [{"name": "x", "input_schema": {"type": "object"}}]}, "tools: cannot be set"),
        ({"betas": []}, "thread: Extra inputs are not permitted"),
    ],
)
async def test_refusals(options: dict[str, Any], told: str) -> None:
    async with double(threads=MessageThreads()) as server, client_of(server) as client:
        await finished(client, {"type": "create"})
        with pytest.raises(anthropic.BadRequestError, match=told):
            await ask(client, continued("msg_0"), **options)


async def test_unsupported_requests() -> None:
    marked = [{"type": "text", "text": str(n), "cache_control": {"type": "ephemeral"}} for n in range(4)]
    async with double(threads=MessageThreads(unsupported=["hipaa"])) as server, client_of(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, {"type": "create"}, messages=[{"role": "user", "content": marked}])
    assert code_of(caught.value) == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["hipaa", "cache_control"],
    }


async def test_servers_without_threads() -> None:
    async with double(threads=MessageThreads("refuses")) as server, client_of(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs"):
            await ask(client, {"type": "create"})
    async with double(threads=MessageThreads("ignores")) as server, client_of(server) as client:
        await finished(client, continued("msg_unknown"), messages=[HI])


async def test_a_double_keeps_threads_by_default() -> None:
    """The official tool runner sends them unless it is told otherwise."""
    async with double(turns=3) as server, client_of(server) as client:
        runner = client.beta.messages.tool_runner(**ASK, messages=[HI], tools=[fetch])
        assert (await runner.until_done()).stop_reason == "end_turn"
        requests = server.requests
    assert [request.body["thread"]["type"] for request in requests] == ["create", "continue", "continue"]


async def test_odd_threads() -> None:
    """A thread that cannot be continued is refused in the API's words, whatever is sent."""
    async with double() as server, httpx.AsyncClient(base_url=server.base_url, verify=False) as client:

        async def refusal(path: str, **fields: Any) -> tuple[int, str]:
            body = {**ASK, "messages": [HI], **fields}
            response = await client.post(path, json=body, headers={"anthropic-beta": BETA, "x-api-key": "any"})
            return response.status_code, response.json()["error"]["message"]

        odd: list[Any] = [None, "Hi", {}]
        for messages in odd:
            status, message = await refusal("/v1/messages", thread=continued("msg_0"), messages=messages)
            assert (status, message) == (400, "messages: Input should be a valid list")
        assert (await refusal("/v1/messages", thread="create"))[0] == 400
        mantle = server.url_of(Platform.BEDROCK_MANTLE).removeprefix(server.base_url)
        headers = {"anthropic-beta": BETA, "authorization": "Bearer any"}
        body = {**ASK, "messages": [HI], **CREATE}
        response = await client.post(f"{mantle}/v1/messages", json=body, headers=headers)
        assert response.json()["error"]["message"] == "thread: Extra inputs are not permitted"


def test_settings() -> None:
    support: Any = "some"
    with pytest.raises(UsageError, match="support"):
        MessageThreads(support)
    with pytest.raises(UsageError, match="kept_s"):
        MessageThreads(kept_s=-1)


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_same_conversation_several_times(streamed: bool) -> None:
    """A scenario has the same ids each time, and concurrent runs do not disturb one another."""
    seen: list[tuple[str, int]] = []

    def first(_: Any) -> Any:
        return reply(tool_use("fetch", {"n": 0}))

    def second(request: Any) -> Any:
        seen.append((request["messages"][0]["content"], len(request["messages"])))
        return reply(text("Done."))

    async def run(client: AsyncAnthropic, question: str) -> None:
        ask = {**ASK, "messages": [{"role": "user", "content": question}]}
        runner: Any = client.beta.messages.tool_runner(**ask, tools=[fetch], stream=streamed)
        both.append(question)
        async for response in runner:
            if streamed:
                await response.get_final_message()
            if len(both) < 3:
                await arrived.wait()
            arrived.set()

    both: list[str] = []
    arrived = anyio.Event()
    questions = ["one", "two", "three"]
    async with ReplayServer(Scenario(first, second)) as server, client_of(server) as client:
        async with anyio.create_task_group() as tasks:
            for question in questions:
                tasks.start_soon(run, client, question)
        statuses = [request.status for request in server.requests]
    assert sorted(seen) == sorted((question, 3) for question in questions)
    assert statuses == [200] * 6
