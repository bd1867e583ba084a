"""OpenAI's protocol over real sockets: the clients that people use, a server in three dialects, tools that start early."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import httpx
import httpx2
import openai
import pytest
from openai import AsyncOpenAI
from packages.adapters.tests.chat.server import ChatDialect, ChatServer
from pydantic import SecretStr

from eagerstream import EarlyCalls, ProtocolError, tool
from eagerstream.tools import ToolCall
from eagerstream_adapters.openai import ChatChunks, to_messages, to_openai
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, reply, text, tool_use

pytestmark = pytest.mark.anyio

USER = {"role": "user", "content": "Add."}
INPUTS = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
CALLS = [tool_use("add", input) for input in INPUTS]
SCENARIO = Scenario(reply(text("I add."), *CALLS), reply(text("3 and 7.")))

each_dialect = pytest.mark.parametrize("dialect", ChatDialect)


@tool
async def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: The other.
    """
    return a + b


TOOLS: Any = [to_openai(add)]


def client_of(server: ChatServer, dialect: ChatDialect = ChatDialect.OPENAI) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.chat_url(dialect), api_key="any", max_retries=0, timeout=20)


async def answered(
    chunks: AsyncIterator[Any], seen: list[str] | None = None
) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """One reply: its calls, and what goes on the conversation. What happens is noted in order."""
    seen = [] if seen is None else seen
    async with EarlyCalls([add], on_start=lambda call: seen.append(f"start {call.input.value}")) as calls:
        read = ChatChunks(calls.feed)
        async for chunk in chunks:
            read.feed(chunk)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()  # the whole reply may be here: tools have their turn all the same
        seen.append("end")
        read.close()
        done = await calls.finish()
    return done, to_messages(done, read.text)


async def asked(client: AsyncOpenAI, messages: list[Any], **options: Any) -> Any:
    return await client.chat.completions.create(
        model="m",
        messages=messages,
        tools=TOOLS,
        stream=True,
        **options,
    )


@pytest.mark.slow
@each_dialect
@pytest.mark.parametrize("wants_usage", [True, False])
async def test_the_client_of_openai(dialect: ChatDialect, wants_usage: bool) -> None:
    """A conversation to its end; the first call begins long before the reply ends."""
    messages: list[Any] = [USER]
    seen: list[str] = []
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    with ChatServer(SCENARIO) as server:
        async with client_of(server, dialect) as client:
            while messages[-1]["role"] != "assistant":
                _, more = await answered(await asked(client, messages, **options), seen)
                messages += more
        assert all(request.status == 200 for request in server.requests)
    assert seen == ["start {'a': 1, 'b': 2}", "start {'a': 3, 'b': 4}", "end", "end"]
    assert [message["content"] for message in messages] == ["Add.", "I add.", "3", "7", "3 and 7."]


@pytest.mark.slow
@each_dialect
async def test_the_client_s_own_assembly(dialect: ChatDialect) -> None:
    """The client reads the same calls as we do, where its way of reading can."""
    if dialect is ChatDialect.OLLAMA:
        scenario = Scenario(reply(CALLS[0]))  # it takes calls with one index for one
    else:
        scenario = Scenario(reply(*CALLS))
    if dialect is ChatDialect.VLLM:
        pytest.skip("it appends the name that comes again to the first one")
    with ChatServer(scenario) as server:
        async with client_of(server, dialect) as client:
            async with client.chat.completions.stream(model="m", messages=[USER]) as stream:  # type: ignore[list-item]
                whole = await stream.get_final_completion()
    calls = whole.choices[0].message.tool_calls or []
    assert [call.function.arguments for call in calls] == ['{"a": 1, "b": 2}', '{"a": 3, "b": 4}'][: len(calls)]
    assert calls


@each_dialect
async def test_a_stream_that_dies(dialect: ChatDialect) -> None:
    """The program sees the client's error; what had begun is done, and what was whole is not lost."""
    fault = Fault(FaultKind.CLOSE, after_events=14)  # inside the second call
    calls: list[ToolCall] = []
    messages: list[dict[str, Any]] = []
    with ChatServer(reply(*CALLS), faults=Faults({0: [fault]})) as server:
        async with client_of(server, dialect) as client, EarlyCalls([add]) as early:
            read = ChatChunks(early.feed)
            with pytest.raises((openai.APIError, httpx.TransportError, httpx2.TransportError)):
                async for chunk in await asked(client, [USER]):
                    read.feed(chunk)
            read.close()
            calls = await early.finish()
            messages = to_messages(calls, read.text)
            assert calls[0].response is not None
            assert calls[0].response.text == "3"
            answer = await asked(client, [USER, *messages])  # the server takes it
            await answer.close()
    assert {message["tool_call_id"] for message in messages if message["role"] == "tool"} == {c.id for c in calls}


async def test_an_error_in_the_stream() -> None:
    """It is OpenAI's form of errors: the client raises it."""
    fault = Fault(FaultKind.ERROR_EVENT, after_events=4, error_type="overloaded_error")
    with ChatServer(reply(*CALLS), faults=Faults({0: [fault]})) as server:
        async with client_of(server) as client:
            with pytest.raises(openai.APIError, match="Overloaded"):
                await answered(await asked(client, [USER]))


async def test_a_cancelled_consumer() -> None:
    """Its tools are cancelled, and its connection is closed: the server sees it go."""
    begun = anyio.Event()
    ended: list[str] = []

    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        begun.set()
        try:
            await anyio.sleep(60)
        finally:
            ended.append("cancelled")
        return a + b

    faults = Faults({0: [Fault(FaultKind.STALL, after_events=14)]})
    with ChatServer(reply(*CALLS), faults=faults) as server:

        async def consume() -> None:
            async with client_of(server) as client, EarlyCalls([add]) as calls:
                read = ChatChunks(calls.feed)
                async for chunk in await asked(client, [USER]):
                    read.feed(chunk)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                await begun.wait()
                tasks.cancel_scope.cancel()
        assert ended == ["cancelled"]
        assert await anyio.to_thread.run_sync(server.requests[0].wait_ended, 10)
        assert server.requests[0].disconnected


async def test_ids_that_come_twice() -> None:
    """Results could not be told apart: it is said at once, and nothing runs twice."""
    twice = reply(*(tool_use("add", input, id="call_1") for input in INPUTS))
    with ChatServer(twice) as server:
        async with client_of(server) as client:
            with pytest.raises(ProtocolError, match="call_1"):
                await answered(await asked(client, [USER]))


# --- LiteLLM and LangChain --------------------------------------------------------------------------------------------


@pytest.fixture
async def litellm(anyio_backend: str) -> AsyncIterator[Any]:
    """LiteLLM, without a look at the network; the clients that it keeps are closed."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    library: Any = importlib.import_module("litellm")
    library.suppress_debug_info = True
    yield library
    await library.close_litellm_async_clients()
    library.in_memory_llm_clients_cache.flush_cache()


FOREIGN = [
    pytest.mark.slow,  # takes seconds to import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """These libraries want asyncio; the client of OpenAI leaves its generators to the garbage collector on trio."""
    return "asyncio"


def marked(function: Any) -> Any:
    for mark in FOREIGN:
        function = mark(function)
    return function


Server = TypeVar("Server", ChatServer, ReplayServer)


async def converse(litellm: Any, model: str, server: Server, url: Callable[[Server], str]) -> None:
    """Have a conversation of two requests, whose chunks are read as those of OpenAI's client."""
    messages: list[Any] = [USER]
    seen: list[str] = []
    with server:
        while messages[-1]["role"] != "assistant":
            stream = await litellm.acompletion(
                model=model, api_base=url(server), api_key="any", messages=messages, tools=TOOLS, stream=True
            )
            _, more = await answered(stream, seen)
            messages += more
        assert all(request.status == 200 for request in server.requests)
    assert seen[0].startswith("start")
    assert [message["content"] for message in messages] == ["Add.", "I add.", "3", "7", "3 and 7."]


@marked
@each_dialect
async def test_litellm(dialect: ChatDialect, litellm: Any) -> None:
    """Its chunks are read as those of OpenAI's client."""
    await converse(litellm, "openai/m", ChatServer(SCENARIO), lambda server: server.chat_url(dialect))


@marked
async def test_litellm_over_the_messages_api(litellm: Any) -> None:
    """Claude by way of LiteLLM: it makes chunks of the events of the Messages API."""
    await converse(litellm, "anthropic/claude-sonnet-4-5", ReplayServer(SCENARIO), lambda server: server.base_url)


@marked
@each_dialect
async def test_langchain(dialect: ChatDialect) -> None:
    """The server is one that ChatOpenAI can read."""
    from langchain_openai import ChatOpenAI

    with ChatServer(reply(text("I add."), CALLS[0])) as server:
        async with httpx.AsyncClient() as http_client:
            model: Any = ChatOpenAI(
                model="m", base_url=server.chat_url(dialect), api_key=SecretStr("any"), http_async_client=http_client
            )
            first, *more = [chunk async for chunk in model.bind_tools([to_openai(add)]).astream("Add.")]
    whole = sum(more, first)
    assert whole.content == "I add."
    (call,) = whole.tool_calls
    assert call["args"] == INPUTS[0]
    assert call["name"] == ("addadd" if dialect is ChatDialect.VLLM else "add")
