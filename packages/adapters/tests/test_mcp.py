"""Tools of real MCP servers: a program over stdio and one over HTTP, run by our executor, and in a run."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.server.lowlevel import Server
from packages.adapters.tests import mcp_server
from packages.toolkit.tests.support import conversation
from tests.streams import REQUEST
from tests.support import Heard, check_history, until
from tests.tools.calls import a_call

import eagerstream
from eagerstream import RunStatus, Tool, ToolProgress, ToolResponse, ToolStart, ToolStatus
from eagerstream.errors import ProtocolError, UsageError
from eagerstream.inputs import InputError
from eagerstream.tools import InProcessExecutor, ToolCall
from eagerstream.transports import HTTPTransport
from eagerstream_adapters.mcp import mcp_tools, to_response
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit import CodeTool

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("mcp_server.py")
STDIO = StdioServerParameters(command=sys.executable, args=[str(PROGRAM)])
SLOWLY_S = 30


@contextmanager
def http_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The same program, over HTTP."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with subprocess.Popen([sys.executable, str(PROGRAM), str(port)], stderr=subprocess.DEVNULL) as program:
        try:
            while True:
                assert program.poll() is None
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=1):
                        break
                except OSError:
                    pass
            yield f"http://127.0.0.1:{port}/mcp", program
        finally:
            program.kill()


@asynccontextmanager
async def connected(kind: str) -> AsyncIterator[Any]:
    """A client of the server, within a time."""
    with anyio.fail_after(SLOWLY_S):
        match kind:
            case "stdio":
                async with Client(STDIO) as client:
                    yield client
            case "http":
                with http_server() as (url, _):
                    async with Client(url) as client:
                        yield client
            case "in process":
                async with Client(mcp_server.server) as client:
                    yield client
            case _:
                async with stdio_client(STDIO) as (read, write), ClientSession(read, write) as session:
                    await session.initialize()
                    yield session


PROGRAMS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("stdio", "http", "session")]
each_program = pytest.mark.parametrize("kind", PROGRAMS)
each_kind = pytest.mark.parametrize("kind", ["in process", *PROGRAMS])


def named(tools: list[Tool], name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


async def run(tools: list[Tool], name: str, raw: str = "{}", on_progress: Any = None) -> ToolCall:
    call = a_call(name, raw)
    if on_progress is not None:
        call.listeners = (Heard(on_progress=on_progress),)
    await InProcessExecutor(tools).execute(call)
    assert call.response is not None
    return call


@asynccontextmanager
async def running(*calls: Any, kind: str = "in process", **options: Any) -> AsyncIterator[eagerstream.Run]:
    """A run with the tools of a server, and these calls in its first response."""
    with ReplayServer(Scenario(reply(*calls), reply(text("Done.")))) as server:
        async with connected(kind) as session, HTTPTransport(base_url=server.base_url, api_key="k") as transport:
            tools = await mcp_tools(session, **options)
            async with eagerstream.run(transport, tools=tools, **REQUEST) as made:
                yield made
    check_history(made.result.messages)


async def becomes(path: Path, content: str) -> None:
    await until(lambda: path.exists() and path.read_text() == content)


# --- over real connections --------------------------------------------------------------------------------------------


@each_kind
async def test_tools_and_results(kind: str) -> None:
    """Definitions go as they are, inputs are checked before they are sent, results come as the API takes them."""
    async with connected(kind) as session:
        tools = await mcp_tools(session)
        assert [tool.name for tool in tools][:3] == ["add", "files_read_all", "slow"]
        add, read_all = tools[:2]
        assert add.description == "Add two numbers."
        assert add.input_schema["required"] == ["a", "b"]
        assert add.to_dict()["eager_input_streaming"] is True
        assert read_all.description == "Read all files"
        assert (add.idempotent, read_all.idempotent) == (False, True)
        assert (add.read_only, read_all.read_only) == (False, True)

        call = await run(tools, "add", '{"a": 1, "b": 2}')
        assert call.response is not None
        assert (call.response.text, call.response.data) == ("3", {"result": 3})
        call = await run(tools, "add", '{"a": 1}')
        assert not call.ran
        assert "'b'" in str(call.result)
        call = await run(tools, "fail")
        assert call.is_error
        assert "no such thing" in str(call.result)
        assert call.response is not None
        assert call.response.code == "EXECUTION_ERROR"

        call = await run(tools, "media")
        assert call.result is not None
        assert [block["type"] for block in call.result["content"]] == [
            "text",
            "image",
            "text",
            "text",
            "document",
            "document",
            "text",
        ]
        _, image, svg, audio, document, pdf, link = call.result["content"]
        assert image["source"] == {"type": "base64", "media_type": "image/png", "data": mcp_server.PIXEL}
        assert (svg["text"], audio["text"]) == ("[image image/svg+xml, 2 bytes]", "[audio audio/wav, 2 bytes]")
        assert (document["title"], document["source"]["data"]) == ("file:///a.txt", "the text")
        assert pdf["source"]["data"] == mcp_server.PDF
        assert link["text"] == "[resource file:///b.txt: b, text/plain]"


@each_kind
async def test_cancelling_reaches_the_server(kind: str, tmp_path: Path) -> None:
    """Its tool is cancelled too, and what it told of its progress was told; the session lives on."""
    path = tmp_path / "slow.txt"
    told: list[Any] = []
    async with connected(kind) as session:
        tools = await mcp_tools(session)
        async with anyio.create_task_group() as tasks:

            async def call_slow() -> None:
                await run(tools, "slow", f'{{"path": "{path}"}}', lambda _, value: told.append(value))

            tasks.start_soon(call_slow)
            await becomes(path, "begun")
            await until(lambda: len(told) == 3)
            tasks.cancel_scope.cancel()
        await becomes(path, "cancelled")
        assert told[0] == {"progress": 1, "total": 3, "message": "step 1"}
        assert [value["progress"] for value in told] == [1, 2, 3]
        call = await run(tools, "add", '{"a": 1, "b": 2}')
        assert not call.is_error


@pytest.mark.slow
@each_kind
async def test_a_time_limit_reaches_the_server(kind: str, tmp_path: Path) -> None:
    """A call that takes too long is answered as such, and cancelled where it runs."""
    path = tmp_path / "slow.txt"
    async with connected(kind) as session:
        tools = await mcp_tools(session, timeout_s=1)
        call = await run(tools, "slow", f'{{"path": "{path}"}}')
        assert call.response is not None
        assert call.response.code == "TIMEOUT"
        await becomes(path, "cancelled")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "session"])
async def test_a_server_that_dies(kind: str) -> None:
    """The call is answered, and so are later ones."""
    async with connected(kind) as session:
        tools = await mcp_tools(session)
        for name, raw in (("die", "{}"), ("add", '{"a": 1, "b": 2}')):
            call = await run(tools, name, raw)
            assert call.response is not None
            assert call.response.code == "NETWORK_ERROR"
            assert call.is_error


@pytest.mark.slow
async def test_an_http_server_that_dies() -> None:
    """The client of mcp then cancels whoever is inside it: the run ends as cancelled, with a history that can be sent."""
    runs: list[eagerstream.Run] = []
    with pytest.raises(BaseExceptionGroup):
        async with running(tool_use("die", {}), kind="http") as made:
            runs.append(made)
            await made.finish()
    (made,) = runs
    assert made.result.status is RunStatus.CANCELLED
    check_history(made.result.messages)
    assert [call.is_error for call in made.result.calls] == [True]


@each_program
async def test_a_list_that_changes(kind: str) -> None:
    """The old tool is answered by what the server says, and a new list has the new one."""
    async with connected(kind) as session:
        tools = await mcp_tools(session)
        assert not (await run(tools, "swap")).is_error
        call = await run(tools, "swap")
        assert call.is_error
        assert "swap" in str(call.result)
        changed = [tool.name for tool in await mcp_tools(session)]
        assert "swap" not in changed
        assert "swapped" in changed


async def test_a_run() -> None:
    """Calls begin early, progress comes as events, the history is one that the API takes."""
    calls = [tool_use("srv_add", {"a": number, "b": 1}) for number in range(3)]
    async with running(*calls, prefix="srv_", only=["add"]) as made:
        started = [event async for event in made if isinstance(event, ToolStart)]
    assert len(started) == 3
    assert made.result.status is RunStatus.COMPLETED
    assert [result["content"] for result in made.result.messages[2]["content"]] == ["1", "2", "3"]


async def test_progress_in_a_run(tmp_path: Path) -> None:
    """It is a `ToolProgress` like that of any tool; leaving the run cancels the call at the server."""
    path = tmp_path / "slow.txt"
    async with running(tool_use("slow", {"path": str(path)})) as made:
        async for event in made:
            if isinstance(event, ToolProgress) and event.value["progress"] == 3:
                await becomes(path, "begun")
                break
    await becomes(path, "cancelled")


# --- lists ------------------------------------------------------------------------------------------------------------


def listing(*pages: list[types.Tool], endless: bool = False) -> Server[Any]:
    """A server whose list comes in pages."""

    async def list_tools(_context: Any, params: Any) -> types.ListToolsResult:
        number = int(params.cursor) if params is not None and params.cursor else 0
        following = str(number + 1) if number + 1 < len(pages) else "0" if endless else None
        return types.ListToolsResult(tools=pages[number], next_cursor=following)

    return Server("pages", on_list_tools=list_tools)


def listed(name: str, **more: Any) -> types.Tool:
    return types.Tool(name=name, **{"input_schema": {"type": "object"}, **more})


async def of(server: Server[Any], **options: Any) -> list[Tool]:
    failed: Exception | None = None
    tools: list[Tool] = []
    with anyio.fail_after(SLOWLY_S):
        async with Client(server) as client:
            try:
                tools = await mcp_tools(client, **options)
            except Exception as error:
                failed = error  # the client would put it into a group
    if failed is not None:
        raise failed
    return tools


async def test_all_pages() -> None:
    tools = await of(listing([listed("a"), listed("b")], [listed("c")], [listed("d")]))
    assert [tool.name for tool in tools] == ["a", "b", "c", "d"]


async def test_a_list_without_an_end() -> None:
    with pytest.raises(ProtocolError, match="does not end"):
        await of(listing([listed("a")], [listed("b")], endless=True))


async def test_names_that_the_api_does_not_take() -> None:
    """They are mended, each stays one of its own, and the same ones are mended alike."""
    long = "x" * 100
    names = ["a.b", "a_b", "a/b", long, "ok-1", "größe"]
    tools = [tool.name for tool in await of(listing([listed(name) for name in names]))]
    assert tools[1] == "a_b"
    assert tools[4] == "ok-1"
    assert len(set(tools)) == len(names)
    assert all(len(name) <= 64 for name in tools)
    assert tools == [tool.name for tool in await of(listing([listed(name) for name in names]))]


async def test_a_selection() -> None:
    """By the server's names; one that is not there is a mistake."""
    server = listing([listed("a.b"), listed("c")])
    assert [tool.name for tool in await of(server, only={"a.b"}, prefix="s_")] == ["s_a_b"]
    with pytest.raises(UsageError, match="'d'"):
        await of(server, only=["c", "d"])


async def test_options() -> None:
    """Those of any tool, for all of them; the definition is the server's."""
    (tool,) = await of(listing([listed("a")]), timeout_s=3, group="g", defer_loading=True, eager=None, idempotent=True)
    assert (tool.timeout_s, tool.group and tool.group.name, tool.idempotent) == (3, "g", True)
    assert tool.to_dict() == {"name": "a", "input_schema": {"type": "object"}, "defer_loading": True}
    with pytest.raises(UsageError, match="description"):
        await of(listing([listed("a")]), description="mine")


async def test_code_that_calls_them() -> None:
    """Their output schemas are the types of its results, and what only reads starts early."""
    async with connected("in process") as session:
        tools = await mcp_tools(session, only=["add", "files/read.all"])
        async with CodeTool(tools, early_calls=True) as tool:
            code = "s = 0\nif s:\n    await files_read_all()\nawait add(1, b=2)"
            result = await conversation(tool, {"code": code})
    assert "class AddOutput(TypedDict):\n    result: int" in tool.description
    assert "async def add(a: int, b: int) -> AddOutput:" in tool.description
    [call] = result.calls
    assert call.response is not None
    assert call.response.data["value"] == {"result": 3}
    assert call.response.data["unreached"] == {"files_read_all": 1}


async def test_hints() -> None:
    """They set options, and an option that is given takes precedence."""
    hints = [
        types.ToolAnnotations(read_only_hint=read, idempotent_hint=twice)
        for read in (False, True)
        for twice in (False, True)
    ]
    server = listing([listed(f"t{number}", annotations=each) for number, each in enumerate(hints)])
    expected = [(False, False), (False, True), (True, True), (True, True)]
    assert [(tool.read_only, tool.idempotent) for tool in await of(server)] == expected
    assert not any(tool.read_only for tool in await of(server, read_only=False))


async def test_output_schemas() -> None:
    """They are kept for whoever shows them. Nothing is checked against them, so a large one is no mistake."""
    output = {"type": "object", "properties": {"rows": {"type": "array"}}}
    large = {"type": "object", "description": "x" * 200_000}
    server = listing([listed("a", output_schema=output), listed("b"), listed("c", output_schema=large)])
    assert [tool.output_schema for tool in await of(server)] == [output, None, None]


async def test_metadata() -> None:
    """It is kept for programs, such as the URI of a tool's app. A large one is left out, and the tool stays."""
    meta = {"ui": {"resourceUri": "ui://shop/cart"}}
    server = listing([listed("a", meta=meta), listed("b"), listed("c", meta={"x": "x" * 20_000})])
    assert [tool.meta for tool in await of(server)] == [meta, {}, {}]


async def test_tools_for_apps_only() -> None:
    """The model does not get tools that are only for the app of their server. Odd metadata hides nothing."""
    visibilities: list[Any] = [["app"], [], ["model"], ["model", "app"], None, "app"]
    tools = [listed(f"t{n}", meta={"ui": {"visibility": each}}) for n, each in enumerate(visibilities)]
    assert [tool.name for tool in await of(listing([*tools, listed("t6", meta={"ui": "app"})]))] == [
        *("t2", "t3", "t4", "t5", "t6")
    ]


async def test_a_schema_that_cannot_be_used() -> None:
    """It is told which tool it is, which can then be left out."""
    server = listing([listed("good"), listed("bad", input_schema={"type": "object", "$ref": "#/nowhere"})])
    with pytest.raises(UsageError, match="bad cannot be a tool"):
        await of(server)
    assert len(await of(server, only=["good"])) == 1


async def test_a_pattern_that_cannot_be_checked(caplog: pytest.LogCaptureFixture, anyio_backend_name: str) -> None:
    """The tool can be used: the log says what is not checked, and the rest is."""
    pattern = f"({anyio_backend_name}"  # the log has each once in a process
    schema = {"type": "object", "properties": {"a": {"pattern": pattern}, "b": {"pattern": "^(?!x)"}}}
    (made,) = await of(listing([listed("a", input_schema=schema)]))
    assert made.check({"a": "?", "b": "y"}) == {"a": "?", "b": "y"}
    with pytest.raises(InputError, match="expected pattern"):
        made.check({"b": "x"})
    assert sum(f"the pattern {pattern!r}" in message for message in caplog.messages) == 1


async def test_schemas_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """One, or all together: nothing looks at them, and the tool is named. The bounds are a hundredth of the real ones."""
    monkeypatch.setattr("eagerstream_adapters.mcp.MAX_SCHEMA_CHARS", 1_000)
    monkeypatch.setattr("eagerstream_adapters.mcp.MAX_SCHEMAS_CHARS", 10_000)
    schema = {"type": "object", "properties": {f"k{number:05}": {} for number in range(90)}}
    with pytest.raises(UsageError, match="'b' is too large"):
        await of(listing([listed("a"), listed("b", input_schema={**schema, "$defs": schema})]))
    with pytest.raises(UsageError, match=r"'t13' is too large.*10,000 for all tools"):
        await of(listing([listed(f"t{number}", input_schema=schema) for number in range(20)]))


# --- results ----------------------------------------------------------------------------------------------------------


def result(*content: Any, structured: Any = None, is_error: bool = False) -> ToolResponse:
    return to_response(types.CallToolResult(content=list(content), structured_content=structured, is_error=is_error))


def words(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def blob(data: bytes, mime_type: str | None) -> types.EmbeddedResource:
    contents = types.BlobResourceContents(uri="x:/y", blob=base64.b64encode(data).decode(), mime_type=mime_type)
    return types.EmbeddedResource(type="resource", resource=contents)


def test_structured_content() -> None:
    """It is the data, and the text where the server gives none."""
    assert result(words("3"), structured={"result": 3}).data == {"result": 3}
    alone = result(structured=[1, "ø"])
    assert (alone.text, alone.data) == ('[1, "ø"]', {"output": [1, "ø"]})
    assert result().text == ""
    assert result(words("a"), words("b")).text == "a\nb"


def test_errors() -> None:
    """What the server says is what the model reads; a picture cannot be shown with it, and is left out in words."""
    said = result(words("no"), blob(b"%PDF-1", "application/pdf"), structured={"why": 1}, is_error=True)
    assert (said.status, said.text, said.data) == (ToolStatus.ERROR, "no", {"why": 1})
    assert [block["type"] for block in said.content] == ["document"]


def test_resources_of_bytes() -> None:
    """Texts are decoded, what the API has no block for is told of, and nothing fails."""
    (document,) = result(blob("grüße".encode(), "text/plain")).content
    assert document["source"]["data"] == "grüße"
    assert result(blob(b"\x00\x01", None)).text == "[resource x:/y None, 2 bytes]"
    odd = types.ImageContent(type="image", data="???", mime_type="image/png")
    assert result(odd).text == "[image image/png, which is not base64]"
    later: Any = SimpleNamespace(content=[SimpleNamespace(type="video")], structured_content=None, is_error=False)
    assert to_response(later).text == "[content of the type video]"
