"""`EarlyTools`: eagerstream's tools in the Claude Agent SDK, started inside their inputs."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Final, Self, Unpack

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from claude_agent_sdk import ClaudeAgentOptions, McpSdkServerConfig, ResultMessage, StreamEvent
from mcp.server import Server
from mcp.types import CallToolResult, ListToolsResult

from eagerstream import Block
from eagerstream._support.hosted_tasks import HostedTasks
from eagerstream._support.json_values import dump_json
from eagerstream.calls import EarlyCalls
from eagerstream.errors import LimitError, ProtocolError, UsageError
from eagerstream.tools import ForeignTool, ToolCall

from .._calls import CallOptions, ExecutorOptions, run_call, sharing_executor, void_reply

_TOOL_USE_ID: Final = "claudecode/toolUseId"
"""Field in which Claude Code sends an MCP server the id of the model's call."""

_MAX_WAITING: Final = 100_000
"""Maximum number of messages to keep for a slow reader. Beyond it, reading waits."""

_MAX_CALLED: Final = 10_000
"""Maximum number of remembered call ids. They keep a call that has run from starting again when its input is read late.
"""


def _names(rule: str, tool: str) -> bool:
    """Return whether a rule covers a tool of an MCP server: by its name, by the server's name, or by a pattern."""
    pattern = rule.partition("(")[0].strip()
    return fnmatchcase(tool, pattern) or tool.startswith(f"{pattern}__")


class _Replies:
    """Responses of one agent, one after another. It passes on the inputs of the tools that may start inside them."""

    def __init__(self, calls: EarlyCalls, prefix: str, over: anyio.Event) -> None:
        self.calls = calls
        self.over = over
        self._prefix = prefix
        self._indexes: set[int] = set()
        self._is_broken = False

    def feed(self, event: Mapping[str, Any], called: dict[str, None]) -> None:
        match event:
            case {"type": "message_start"}:
                self._indexes.clear()
                self._is_broken = False
            case {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use"} as block}:
                name = str(block.get("name")).removeprefix(self._prefix)
                if block.get("name") == name or name not in self.calls.tool_names or block.get("id") in called:
                    return
                self._indexes.add(index)
                called[str(block.get("id"))] = None
                event = {**event, "content_block": {**block, "name": name}}
            case {"index": index} if index not in self._indexes:
                return
            case _:
                pass
        if self._is_broken:
            return
        try:
            self.calls.feed(event)
        except (LimitError, ProtocolError) as error:
            self._is_broken = True
            void_reply(self.calls, error)


class EarlyTools:
    """MCP server in this process with eagerstream's tools, for the options of the Claude Agent SDK.

    Tools with streaming parameters start while their input is being written, and Claude Code's own call joins the
    started one. All other tools start when Claude Code calls them, at the end of their input.

    A started tool cannot be forbidden any more. So a tool starts inside its input only if the options allow it outright
    (`options` ensures this) and have no `PreToolUse` hook. Rules and hooks in settings files are not visible here: load
    none (`setting_sources=[]`), or give the tool its own `approve`. If an input was rewritten before Claude Code's
    call, the tool runs again.

    Enter it around all queries that use it. Leaving it cancels the tools that still run. It works on asyncio and on
    trio, like the SDK.

    Args:
        tools: As for `eagerstream.run`. Claude calls them `mcp__{name}__{tool}`.
        name: Name of the server.
        on_start, on_progress, on_stop: As for `EarlyCalls`.
        options: `executor`, `max_concurrency`, `circuit_breaker` and `limits`, as for `run`.

    Raises:
        UsageError: A tool cannot be run, two tools share a name, or `executor` conflicts with another option. Also
            raised on entering it a second time.
    """

    def __init__(
        self,
        tools: Sequence[ForeignTool | Mapping[str, Any]],
        *,
        name: str = "eagerstream",
        on_start: Callable[[ToolCall], object] | None = None,
        on_progress: Callable[[ToolCall, Any], object] | None = None,
        on_stop: Callable[[ToolCall], object] | None = None,
        **options: Unpack[ExecutorOptions],
    ) -> None:
        self.name = name
        self._tools, shared = sharing_executor(tools, **options)
        self._options: CallOptions = {**shared, "on_start": on_start, "on_progress": on_progress, "on_stop": on_stop}
        self._begins: list[Any] | None = None  # tools that may start inside their input; None before `options`
        self._replies: dict[tuple[int, str, str | None], _Replies] = {}  # by follower, session and parent
        self._followers = 0
        self._called: dict[str, None] = {}  # ids that have started or that Claude Code has called, newest last
        self._tasks: HostedTasks | None = None

    @property
    def allowed_tools(self) -> list[str]:
        """Names of the tools in the form of the SDK's options."""
        return [f"mcp__{self.name}__{tool.name}" for tool in self._tools]

    def options(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return the options with these tools allowed, partial messages, and inputs that arrive as they are written.

        Raises:
            UsageError: The options name a file of MCP servers, and no server can be added to it.
        """
        if not isinstance(options.mcp_servers, dict):
            raise UsageError("cannot add a server to options that name a file of MCP servers")
        allowed = [*options.allowed_tools, *(name for name in self.allowed_tools if name not in options.allowed_tools)]
        may_begin = not (options.hooks or {}).get("PreToolUse") and options.permission_mode != "plan"
        # Responses do not name their options, so a tool that one of them forbids starts early under none.
        self._begins = [
            tool
            for tool, name in zip(self._tools, self.allowed_tools, strict=True)
            if may_begin
            and tool.is_streaming
            and tool.approve is None
            and not any(_names(rule, name) for rule in options.disallowed_tools)
            and (self._begins is None or tool in self._begins)
        ]
        return replace(
            options,
            mcp_servers={**options.mcp_servers, self.name: self.server()},
            allowed_tools=allowed,
            include_partial_messages=True,
            env={"CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING": "1", **options.env},
        )

    def server(self) -> McpSdkServerConfig:
        """Return the MCP server, for options that you make yourself."""
        server: Server[Any] = Server(self.name, on_list_tools=self._list, on_call_tool=self._call)
        return McpSdkServerConfig(type="sdk", name=self.name, instance=server)

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError("these tools have been entered before")
        self._tasks = HostedTasks("EarlyTools")
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        await self._tasks.leave(error)

    async def follow(self, messages: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Yield the same messages. They are read as they arrive, so a slow consumer does not delay a tool.

        Leaving it early ends the inputs that are still being written, and cancels their tools. Use `aclosing` for that.

        Raises:
            UsageError: The tools were not entered.
            Exception: Any error of `messages`.
        """
        if self._tasks is None:
            raise UsageError("enter the tools first: async with EarlyTools(...) as early")
        send, receive = anyio.create_memory_object_stream[Any](_MAX_WAITING)
        scope = anyio.CancelScope()
        failed: list[Exception] = []
        self._followers += 1
        self._tasks.group.start_soon(self._read, self._followers, messages, send, scope, failed)
        try:
            async for message in receive:
                yield message
            if failed:
                raise failed[0]
        finally:
            scope.cancel()
            receive.close()

    async def _read(
        self,
        follower: int,
        messages: AsyncIterable[Any],
        send: MemoryObjectSendStream[Any],
        scope: anyio.CancelScope,
        failed: list[Exception],
    ) -> None:
        try:
            with scope, send:
                async for message in messages:
                    await self._take(follower, message)
                    await send.send(message)
        except Exception as error:
            failed.append(error)
        finally:
            self._end(lambda key: key[0] == follower)
            if (aclose := getattr(messages, "aclose", None)) is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                    await aclose()

    async def _take(self, follower: int, message: object) -> None:
        assert self._tasks is not None
        match message:
            case StreamEvent(session_id=session, parent_tool_use_id=parent, event=event) if self._begins:
                key = follower, session, parent
                replies = self._replies.get(key)
                if replies is None:
                    replies = self._replies[key] = await self._tasks.group.start(self._serve)
                replies.feed(event, self._called)
                while len(self._called) > _MAX_CALLED:
                    del self._called[next(iter(self._called))]
            case ResultMessage(session_id=session):
                self._end(lambda key: key[:2] == (follower, session))
            case _:
                pass

    def _end(self, is_over: Callable[[tuple[int, str, str | None]], bool]) -> None:
        for key in list(filter(is_over, self._replies)):
            self._replies.pop(key).over.set()

    async def _serve(self, *, task_status: Any) -> None:
        over = anyio.Event()
        async with EarlyCalls(self._begins or (), **self._options) as calls:
            task_status.started(_Replies(calls, f"mcp__{self.name}__", over))
            await over.wait()

    async def _list(self, _context: Any, _params: Any) -> ListToolsResult:
        listed = [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "annotations": {"readOnlyHint": tool.read_only, "idempotentHint": tool.idempotent},
            }
            for tool in self._tools
        ]
        return ListToolsResult.model_validate({"tools": listed})

    async def _call(self, _context: Any, params: Any) -> CallToolResult:
        id: str | None = (params.meta or {}).get(_TOOL_USE_ID)
        arguments = params.arguments or {}
        begun = [replies.calls.get(id) for replies in self._replies.values()] if id else []
        call = next((call for call in begun if call is not None), None)
        if id:
            self._called[id] = None
        if call is not None:
            await call.answered.wait()
            if call.input.value == arguments:
                return result_of(call)
        calls = EarlyCalls(self._tools, **self._options)
        return result_of(await run_call(calls, id, params.name, arguments))


def result_of(call: ToolCall) -> CallToolResult:
    """Return the result of an answered call. Texts and images are kept, and other blocks become JSON text."""
    result = call.result or {}
    content: str | list[Block] = result.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(map(_content_of, content))
    return CallToolResult.model_validate({"content": blocks, "isError": bool(result.get("is_error"))})


def _content_of(block: Mapping[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "data": data, "media_type": media_type}}:
            return {"type": "image", "data": data, "mimeType": media_type}
        case {"type": "document", "source": {"type": "text", "data": str(data)}}:
            return {"type": "text", "text": data}
        case _:
            return {"type": "text", "text": dump_json(block)}
