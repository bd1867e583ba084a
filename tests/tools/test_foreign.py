"""`as_tool`: tools made elsewhere, run for real."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anthropic import beta_async_tool, beta_tool
from anthropic.lib.tools import BetaAbstractMemoryTool
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from eagerstream.errors import UsageError
from eagerstream.tools import ForeignTool, InProcessExecutor, ToolCall, as_tool, tool
from tests.missing import anthropic_since
from tests.tables import rows
from tests.tools.calls import a_call

pytestmark = pytest.mark.anyio


async def run(foreign: object, raw: str = "{}") -> ToolCall:
    """A call of a foreign tool, executed."""
    used = as_tool(foreign)
    assert used is not None
    call = a_call(used.name, raw)
    with anyio.fail_after(10):
        await InProcessExecutor([used]).execute(call)
    assert call.result is not None
    return call


def told(call: ToolCall) -> tuple[Any, bool]:
    """What the model reads, and whether it is an error."""
    assert call.result is not None
    return call.result.get("content"), call.is_error


# --- the anthropic package's functions --------------------------------------------------------------------------------


@beta_async_tool
async def weather(location: str, days: int = 1) -> str:
    """Weather in a city.

    Args:
        location: City and country.
    """
    return f"{days} days of sun in {location}"


@beta_tool
def weather_in_thread(location: str) -> str:
    """Weather in a city."""
    return f"rain in {location}"


async def test_functions_of_the_anthropic_package() -> None:
    """Their definitions go as they are, and they run."""
    for foreign, expected in ((weather, "1 days of sun in Oslo"), (weather_in_thread, "rain in Oslo")):
        assert isinstance(foreign, ForeignTool)
        used = as_tool(foreign)
        assert used is not None
        assert used.to_dict() == foreign.to_dict()
        assert told(await run(foreign, '{"location": "Oslo"}')) == (expected, False)


async def test_inputs_are_checked_before_they_run() -> None:
    """The package itself would say no more than that the arguments are invalid."""
    for foreign in (weather, weather_in_thread):
        call = await run(foreign)
        assert told(call) == ("Error: Missing required 'location' parameter", True)
        assert not call.ran
        assert call.response is not None
        assert call.response.code == "INVALID_PARAM"
    content, is_error = told(await run(weather, '{"location": 3, "wind": 1}'))
    assert is_error
    assert "'location'" in content
    assert "got 3" in content
    assert "'wind'" in content


@anthropic_since("0.84")
@pytest.mark.parametrize("eager", [True, False, None])
def test_eager_streaming_of_a_foreign_tool(eager: bool | None) -> None:
    """What its definition says, or does not say, of eager streaming is not changed."""

    async def f() -> str:
        return "x"

    foreign = beta_async_tool(f, eager_input_streaming=eager, description="F.")
    used = as_tool(foreign)
    assert used is not None
    assert used.to_dict().get("eager_input_streaming", None) is eager
    assert ("eager_input_streaming" in used.to_dict()) is (eager is not None)


@anthropic_since("0.84")
async def test_an_error_with_blocks() -> None:
    """The package's own error carries what the model is to see: a text, or blocks."""
    from anthropic.lib.tools import ToolError as AnthropicToolError

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    blocks = [{"type": "text", "text": "no such city"}, image]

    def failing(content: Any) -> Any:
        async def f() -> str:
            raise AnthropicToolError(content)

        return beta_async_tool(f, description="F.")

    content, is_error = told(await run(failing(blocks)))
    assert is_error
    assert content[0] == blocks[0]
    assert [block["type"] for block in content] == ["text", "text"], "an error takes text only, and says so"
    assert "image" in content[1]["text"]
    assert told(await run(failing("no such city"))) == ("no such city", True)
    assert told(await run(failing([]))) == ("Tool error", True)
    content, is_error = told(await run(failing([{"type": "text", "text": "a"}, {"type": "audio"}])))
    assert is_error
    assert content == "a [audio]"


class Memory(BetaAbstractMemoryTool):
    """A memory that only lists and creates."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        if command.path not in self.files and command.path != "/memories":
            raise FileNotFoundError(command.path)
        return ", ".join(self.files) or "nothing"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        self.files[command.path] = command.file_text
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        raise NotImplementedError

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        raise NotImplementedError

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        raise NotImplementedError

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        raise NotImplementedError


async def test_a_builtin_tool() -> None:
    """A tool whose schema the API knows: its definition never carries eager streaming, its state is its own."""
    memory = Memory()
    used = as_tool(memory)
    assert used is not None
    assert used.to_dict() == {"type": "memory_20250818", "name": "memory"}
    assert (used.eager, used.input_schema) == (None, {})
    created = await run(memory, '{"command": "create", "path": "/memories/a", "file_text": "x"}')
    assert told(created) == ("File created successfully at: /memories/a", False)
    assert told(await run(memory, '{"command": "view", "path": "/memories"}')) == ("/memories/a", False)
    missing = await run(memory, '{"command": "view", "path": "/memories/b"}')
    assert told(missing) == ("FileNotFoundError: /memories/b", True)
    content, is_error = told(await run(memory, '{"command": "delete", "path": "/memories/a"}'))
    assert (content, is_error) == ("NotImplementedError", True)


# --- what cannot be run -----------------------------------------------------------------------------------------------


@rows(
    "given, told",
    [
        (lambda: None, "decorate a function"),
        (3, "int cannot be run"),
        (Memory, "Memory"),
        ({"name": "f", "input_schema": {}}, "nothing runs the tool 'f'"),
        ({"type": "custom", "name": "f"}, "nothing runs the tool 'f'"),
        ({"type": None, "name": "f", "input_schema": {"type": "object"}}, "nothing runs the tool 'f'"),
    ],
)
def test_what_is_no_tool(given: Any, told: str) -> None:
    """Said before anything is sent, with what to do."""
    with pytest.raises(UsageError, match=told):
        as_tool(given)


def test_tools_that_the_api_runs() -> None:
    """A definition of one needs nobody here; a tool of our own stays what it is."""
    assert as_tool({"type": "web_search_20250305", "name": "web_search"}) is None

    @tool
    async def f() -> None:
        """F."""

    assert as_tool(f) is f


# --- MCP --------------------------------------------------------------------------------------------------------------

_PNG = b"\x89PNG\r\n\x1a\n rest"


@contextlib.asynccontextmanager
async def an_mcp_session() -> AsyncIterator[Any]:
    """A client's session with a server in this process."""
    pytest.importorskip("mcp.server.mcpserver")  # mcp 2
    from mcp import Client
    from mcp.server.mcpserver import Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("made")

    @server.tool(structured_output=False)
    def add(a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool(structured_output=False)
    async def picture() -> Any:
        """A picture."""
        return ["here it is", Image(data=_PNG, format="png")]

    @server.tool(structured_output=False)
    async def fail() -> str:
        """Fail."""
        raise ToolError("the disk is full")

    async with Client(server) as client:
        yield client.session


@anthropic_since("0.84")
@pytest.mark.parametrize("helper", ["async_mcp_tool", "mcp_tool"])
async def test_mcp_tools(helper: str) -> None:
    """The tools of an MCP server, by the anthropic package's helpers, as they are: on the loop, and from a thread."""
    pytest.importorskip("mcp.server.mcpserver")  # mcp 2
    from anthropic.lib.tools import mcp as helpers

    async with an_mcp_session() as session:
        listed = {found.name: found for found in (await session.list_tools()).tools}
        tools = {name: getattr(helpers, helper)(found, session) for name, found in listed.items()}
        used = as_tool(tools["add"])
        assert used is not None
        assert (used.name, used.description) == ("add", "Add two numbers.")
        assert used.to_dict()["input_schema"]["required"] == ["a"]
        assert "eager_input_streaming" not in used.to_dict()
        assert told(await run(tools["add"], '{"a": 20, "b": 22}')) == ([{"type": "text", "text": "42"}], False)
        assert told(await run(tools["add"])) == ("Error: Missing required 'a' parameter", True)
        content, is_error = told(await run(tools["add"], '{"a": "x"}'))
        assert is_error
        assert content == "Error: Invalid parameter 'a': expected integer, got \"x\""
        content, is_error = told(await run(tools["picture"]))
        assert not is_error
        assert [block["type"] for block in content] == ["text", "image"]
        content, is_error = told(await run(tools["fail"]))
        assert is_error
        assert "the disk is full" in content[0]["text"]


@anthropic_since("0.84")
async def test_many_mcp_calls_at_once() -> None:
    """One session answers them side by side, each its own."""
    pytest.importorskip("mcp.server.mcpserver")  # mcp 2
    from anthropic.lib.tools.mcp import async_mcp_tool

    async with an_mcp_session() as session:
        listed = {found.name: found for found in (await session.list_tools()).tools}
        used = as_tool(async_mcp_tool(listed["add"], session))
        assert used is not None
        executor = InProcessExecutor([used])
        calls = [a_call("add", f'{{"a": {n}, "b": 0}}', index=n) for n in range(30)]
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for call in calls:
                    tasks.start_soon(executor.execute, call)
    assert [told(call)[0][0]["text"] for call in calls] == [str(n) for n in range(30)]
