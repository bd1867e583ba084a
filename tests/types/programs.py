"""Programs for type checkers: correct uses, and mistakes. They are checked, and never run."""

from __future__ import annotations

from typing import Final

HEAD: Final = '''
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, TypedDict, assert_type

import aiohttp
import anthropic
import httpx
from anthropic.lib.bedrock import AsyncAnthropicBedrock
from anthropic.lib.vertex import AsyncAnthropicVertex
from anthropic.types import Message, MessageParam
from pydantic import BaseModel

import eagerstream
from eagerstream import (
    Agent, Context, GrowingInput, InputDelta, ItemStream, RunningCall, RunResult, TextDelta, Tool, ToolStop
)
from eagerstream.tools import ToolCall

client = anthropic.AsyncAnthropic()
some_input: GrowingInput
some_result: RunResult
messages: list[MessageParam] = [{"role": "user", "content": "Hello"}]


@eagerstream.tool
async def get_weather(city: str, days: int = 1) -> str:
    """Weather of a city."""
    return f"{city}, {days}"


@eagerstream.tool(timeout_s=5)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@eagerstream.tool
async def write_lines(path: str, lines: ItemStream[str], call: RunningCall) -> None:
    """Write lines to a file."""


class Item(BaseModel):
    name: str
    price: float


class Order(BaseModel):
    title: str
    items: list[Item]


class Plain(TypedDict):
    name: str


class Box:
    @eagerstream.tool
    async def put(self, name: str) -> bool:
        """Put a thing into the box."""
        return True

    @eagerstream.tool
    async def look_up(self, context: Context["Database"], title: str) -> str:
        """Look up a title."""
        return context.deps.name


class Database:
    name: str = "library"


class Mailer:
    async def send(self, text: str) -> None: ...


@eagerstream.tool
async def find(context: Context[Database], title: str) -> str:
    """Find a book."""
    assert_type(context.deps, Database)
    assert_type(context.call, RunningCall)
    return context.deps.name


@eagerstream.tool(timeout_s=5)
def mail(context: Context[Mailer], text: str) -> str:
    """Send a mail."""
    return text
'''

CORRECT: Final = {
    "calls of tools": """
        assert_type(await get_weather("Oslo"), str)
        assert_type(add(1, b=2), int)
        assert_type(await Box().put("pen"), bool)
    """,
    "tools of any function": """
        tools: list[Tool] = [get_weather, add, Box().put]
        print([tool.name for tool in tools])
    """,
    "a run with typed parameters": """
        async with eagerstream.run(
            client, model="m", max_tokens=100, messages=messages, tools=[get_weather], system="Be short.",
            temperature=0.5, tool_choice={"type": "auto"}, max_turns=3, extra_body={"new_parameter": 1},
        ) as run:
            async for text in run.text():
                assert_type(text, str)
        assert_type(run.result, RunResult[None])
        assert_type(run.result.text, str)
    """,
    "a run with a context": """
        needed: Tool[..., Any, Database] = find
        assert_type(await find(Context(Database()), "Faust"), str)
        _ = eagerstream.run(
            client, model="m", max_tokens=1, messages=messages, tools=[needed, get_weather, Box().look_up, {"type": "x"}],
            context=Database(),
        )
        _ = eagerstream.Conversation(model="m", max_tokens=1, messages=messages, tools=[find], context=Database())
        _ = eagerstream.EarlyCalls([find, add], context=Database())
        plain: list[Tool] = [find, mail]
        _ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=plain)
        bound = eagerstream.tool(partial(add.__wrapped__, b=2))
        _ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[bound], context=Database())
    """,
    "an agent": """
        librarian = Agent(client, model="m", max_tokens=1, tools=[find, get_weather], output=Order, system="Be short.")
        assert_type((await librarian.run(messages, context=Database())).output, Order | None)
        other = librarian.replace(model="n", output=Item)
        assert_type((await other.run(messages, context=Database(), max_turns=3)).output, Item | None)
        _ = librarian.replace(tools=[mail]).run(messages, context=Mailer())
        _ = librarian.stream(messages, temperature=0.5)
        plain = Agent(client, model="m", max_tokens=1, tools=[get_weather])
        assert_type(await plain.run(messages), RunResult[None])
        _ = plain.run(messages, context=Database())
        _ = Agent(client, model="m", max_tokens=1).run(messages)

        async def ask(agent: Agent[Database]) -> None:
            _ = await agent.run(messages, context=Database())

        await ask(librarian)
    """,
    "a run that is awaited": """
        result = await eagerstream.run(client, model="m", max_tokens=1, messages=messages)
        assert_type(result, RunResult[None])
        print(result.output)
        order = await eagerstream.run(client, model="m", max_tokens=1, messages=messages, output=Order)
        assert_type(order.output, Order | None)
        any_form = await eagerstream.run(client, model="m", max_tokens=1, messages=messages, output={"type": "object"})
        print(any_form.output)
    """,
    "messages": """
        first = await eagerstream.run(client, model="m", max_tokens=1, messages=[{"role": "user", "content": "Hello"}])
        question: MessageParam = {"role": "user", "content": [{"type": "text", "text": "And then?"}]}
        history: list[MessageParam] = [*first.messages, question]
        second = await eagerstream.run(client, model="m", max_tokens=1, messages=history)
        _ = eagerstream.stream(client, model="m", max_tokens=1, messages=[*second.messages, question])
        if first.message is not None:
            _ = eagerstream.stream(client, model="m", max_tokens=1, messages=[question, first.message, question])
        repaired, _ = eagerstream.repair_history(history)
        _ = eagerstream.Conversation(model="m", max_tokens=1, messages=repaired)
    """,
    "events of a run": """
        async with eagerstream.run(client, model="m", max_tokens=100, messages=messages) as run:
            async for event in run:
                match event:
                    case TextDelta(text=text):
                        assert_type(text, str)
                    case InputDelta(input=input):
                        assert_type(input, GrowingInput)
                    case ToolStop(call=call):
                        assert_type(call, ToolCall)
                    case _:
                        pass
    """,
    "typed partial values": """
        async with eagerstream.stream(client, model="m", max_tokens=1, messages=messages) as stream:
            async for event in stream:
                if isinstance(event, InputDelta):
                    order = event.input.partial_as(Order)
                    assert_type(order.items, list[Item])
                    assert_type(event.input.partial_as(Plain)["name"], str)
                    event.input.partial_as(get_weather)["city"]
    """,
    "the class of the anthropic package": """
        stream = eagerstream.stream(client, model="m", max_tokens=1, messages=messages)
        assert_type(stream.typed_message(), Message)
        assert_type(stream.message["usage"]["output_tokens"], int)
        for block in (await stream.get_final_message())["content"]:
            if block["type"] == "text":
                assert_type(block["text"], str)
            elif block["type"] == "tool_use":
                assert_type(block["input"], dict[str, Any])
    """,
    "clients": """
        bedrock = AsyncAnthropicBedrock()
        _ = eagerstream.stream(bedrock, model="m", max_tokens=1, messages=messages)
        vertex = AsyncAnthropicVertex(region="r", project_id="p")
        _ = eagerstream.stream(vertex, model="m", max_tokens=1, messages=messages)
        http = eagerstream.HTTPTransport(base_url="http://localhost:8000")
        _ = eagerstream.stream(http, model="m", max_tokens=1, messages=messages)
        recording = eagerstream.Recording.load("a.jsonl")
        _ = eagerstream.stream(recording, model="m", max_tokens=1, messages=messages)
    """,
    "sources of events": """
        async with httpx.AsyncClient() as http, http.stream("POST", "http://localhost") as response:
            _ = eagerstream.events(response)

        async with aiohttp.ClientSession() as session, session.post("http://localhost") as answer:
            _ = eagerstream.events(answer)

        async def pieces() -> AsyncIterator[bytes]:
            yield b""

        _ = eagerstream.events(pieces())
        _ = eagerstream.events([{"type": "ping"}])
        _ = eagerstream.events(await client.messages.create(model="m", max_tokens=1, messages=[], stream=True))
    """,
}
"""Bodies of async functions that a type checker must accept."""

MISTAKES: Final = {
    "an argument of a wrong type": "await get_weather(city=3)",
    "an argument that is missing": "await get_weather()",
    "an argument that does not exist": 'await get_weather("Oslo", country="Norway")',
    "a result of a wrong type": 'count: int = await get_weather("Oslo")',
    "a plain tool with a wrong argument": 'add(1, "2")',
    "a plain tool that is awaited": "await add(1, 2)",
    "a method with a wrong argument": "await Box().put(name=3)",
    "an option of a tool that does not exist": "eagerstream.tool(timeout=5)(len)",
    "an option of a tool of a wrong type": '_ = eagerstream.tool(timeout_s="5")(len)',
    "a start that does not exist": '_ = eagerstream.tool(start="later")(len)',
    "a misspelt parameter": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, sytem="Be short.")',
    "a parameter of a wrong type": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, temperature="hot")',
    "a tool choice as text": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tool_choice="auto")',
    "a parameter that is missing": '_ = eagerstream.run(client, model="m", messages=messages)',
    "a synchronous client": '_ = eagerstream.run(anthropic.Anthropic(), model="m", max_tokens=1, messages=messages)',
    "a key instead of a client": '_ = eagerstream.run("sk-ant-...", model="m", max_tokens=1, messages=messages)',
    "messages as text": '_ = eagerstream.run(client, model="m", max_tokens=1, messages="Hello")',
    "a function that is no tool": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[len])',
    "a run that is not entered with async": 'with eagerstream.run(client, model="m", max_tokens=1, messages=messages): ...',
    "a field of a typed value that does not exist": "print(some_input.partial_as(Order).titel)",
    "a field of an item of a wrong type": "number: int = some_input.partial_as(Order).items[0].name",
    "a field of the message that does not exist": "print(some_result.message['usages'] if some_result.message else 0)",
    "a count of a wrong type": "tokens: str = some_result.usage['output_tokens']",
    "a model that is no class": "some_input.partial_as(3)",
    "a source that is no source": "_ = eagerstream.events(3)",
    "a status that does not exist": "print(eagerstream.RunStatus.DONE)",
    "a field of an event that does not exist": "print(TextDelta(0, 'a').delta)",
    "a context of another type": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[find], context=Mailer())',
    "a context that is missing": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[find])',
    "tools that need different contexts": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[find, mail], context=Mailer())',
    "a method with a context of another type": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=messages, tools=[Box().look_up], context=Mailer())',
    "a context of another type for early calls": "_ = eagerstream.EarlyCalls([find], context=Mailer())",
    "a context of another type for a conversation": '_ = eagerstream.Conversation(model="m", max_tokens=1, messages=messages, tools=[find], context=Mailer())',
    "an agent without its context": '_ = Agent(client, model="m", max_tokens=1, tools=[find]).run(messages)',
    "an agent with a context of another type": '_ = Agent(client, model="m", max_tokens=1, tools=[find]).run(messages, context=Mailer())',
    "a misspelt option of an agent": '_ = Agent(client, model="m", max_tokens=1, sytem="Be short.")',
    "a misspelt option of a run of an agent": '_ = Agent(client, model="m", max_tokens=1).run(messages, max_turn=3)',
    "a dependency that does not exist": "print(Context(Database()).deps.title)",
    "a tool that is called without its context": 'await find("Faust")',
    "a run that is neither entered nor awaited": 'eagerstream.run(client, model="m", max_tokens=1, messages=messages)',
    "a misspelt key of a message": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=[{"rol": "user", "content": "Hello"}])',
    "a misspelt key of a streamed message": '_ = eagerstream.stream(client, model="m", max_tokens=1, messages=[{"rol": "user", "content": "Hello"}])',
    "a misspelt key of a block": '_ = eagerstream.run(client, model="m", max_tokens=1, messages=[{"role": "user", "content": [{"type": "text", "txt": "Hello"}]}])',
    "a field of a block that does not exist": 'print(some_result.message["content"][0]["txt"] if some_result.message else 0)',
    "an output that nobody asked for": 'print((await eagerstream.run(client, model="m", max_tokens=1, messages=messages)).output.name)',
    "an option of limits of a wrong type": '_ = eagerstream.Limits(tool_timeout_s="5")',
}
"""Statements in which a type checker must find an error."""
