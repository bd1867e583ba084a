"""`ToolRegistry`: tools and functions by name, and the methods that call them."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, Final, Unpack, overload

from eagerstream import tools
from eagerstream._support.checks import check_count
from eagerstream._support.logs import logger_of
from eagerstream._support.options import with_defaults
from eagerstream._support.slots import Slots
from eagerstream.errors import UsageError
from eagerstream.tools import RunningCall, ToolErrorCode, ToolOptions, ToolResponse

from .._deprecation import deprecated
from .._sync import answered_call, answering
from ._binding import convert_parameters
from ._breaker import CircuitBreaker, CountedResponse
from ._functions import FunctionTool
from ._tool import AsyncToolInLoopError, Tool, as_tool_response, failure

_log = logger_of(__name__)


MAX_CONCURRENT_TOOLS: Final = 3
"""Number of tools that HelloAgents runs at once."""


class ToolRegistry:
    """Registry of tools and functions by name.

    A new entry replaces an older one of its kind and name, and a warning is logged. A tool is found before a function
    of its name. Calls may come from any thread.

    Args:
        circuit_breaker: Breaker that refuses tools that fail too often. By default, the registry makes its own. If
            `run(circuit_breaker=...)` gets the same breaker, a call counts once.

    Attributes:
        circuit_breaker: The breaker.
        read_metadata_cache: Metadata from `cache_read_metadata`, by path.
    """

    def __init__(self, circuit_breaker: tools.CircuitBreaker | None = None) -> None:
        self.circuit_breaker: tools.CircuitBreaker = circuit_breaker or CircuitBreaker()
        self.read_metadata_cache: dict[str, dict[str, Any]] = {}
        self._tools: dict[str, Tool] = {}
        self._functions: dict[str, FunctionTool] = {}

    # --- entries ------------------------------------------------------------------------------------------------------

    def register_tool(self, tool: Tool, auto_expand: bool = True) -> None:
        """Register a tool.

        Args:
            tool: An object, not a class.
            auto_expand: Whether to register the sub-tools of an expandable tool instead, if it has any.

        Raises:
            UsageError: `tool` is not an object of a class derived from `Tool`.
        """
        if not isinstance(tool, Tool):
            raise UsageError(f"register_tool takes an object of a class derived from Tool, not {tool!r:.80}")
        expanded = tool.get_expanded_tools() if auto_expand and tool.expandable else None
        for each in expanded or [tool]:
            self._warn_of_duplicate(each.name)
            self._tools[each.name] = each

    @overload
    def register_function(
        self, func: Callable[..., Any], name: str | None = None, description: str | None = None
    ) -> None: ...
    @overload
    def register_function(self, func: str, name: str, description: Callable[..., Any]) -> None: ...
    def register_function(
        self,
        func: Callable[..., Any] | str,
        name: str | None = None,
        description: str | Callable[..., Any] | None = None,
    ) -> None:
        """Register a function. Its signature gives the parameters, and its return value becomes a success.

        The older order `register_function(name, description, func)` is deprecated.

        Args:
            func: The function. It may be asynchronous.
            name: By default, the function's name.
            description: By default, the first line of its docstring.

        Raises:
            UsageError: `func` is not callable, or its parameters cannot be those of a tool.
        """
        function, called, told = func, name, description
        if isinstance(func, str) and callable(description):
            old = "register_function(name, description, func)"
            deprecated(old, "use register_function(func, name, description)")
            function, called, told = description, func, name
        if not callable(function) or callable(told):
            raise UsageError("register_function takes a function, and then its name and its description")
        tool = FunctionTool(function, called, told)
        self._warn_of_duplicate(tool.name)
        self._functions[tool.name] = tool

    def unregister(self, name: str) -> None:
        """Remove a tool, or a function if there is no tool of this name. If there is neither, log a warning."""
        if self._tools.pop(name, None) is None and self._functions.pop(name, None) is None:
            _log.warning("there is no tool %r to unregister", name)

    def clear(self) -> None:
        """Remove all tools and functions."""
        self._tools.clear()
        self._functions.clear()

    def get_tool(self, name: str) -> Tool | None:
        """Return the tool with this name, or `None`. Functions are not included."""
        return self._tools.get(name)

    def get_function(self, name: str) -> Callable[..., Any] | None:
        """Return the function with this name, or `None`."""
        tool = self._functions.get(name)
        return tool.function if tool else None

    def list_tools(self) -> list[str]:
        """Return the names of the tools, then those of the functions."""
        return list(self._all())

    def get_all_tools(self) -> list[Tool]:
        """Return the tools, without functions."""
        return list(self._tools.values())

    def get_tools_description(self) -> str:
        """Return one line for each tool and function, for a prompt: `- name: description`."""
        lines = [f"- {name}: {tool.description}" for name, tool in self._all().items()]
        return "\n".join(lines) or "暂无可用工具"

    def to_tools(
        self,
        *,
        max_concurrent_tools: int | None = MAX_CONCURRENT_TOOLS,
        **options: Unpack[ToolOptions],
    ) -> list[tools.Tool]:
        """Return the current entries, for `eagerstream.run(client, tools=registry.to_tools(), ...)`.

        Inputs stream eagerly, and are checked against the schema before the tool gets them. Calls run with
        `aexecute_tool`, so the registry's breaker, the time and the context apply. The model reads the response's text:
        with a notice if it is partial, and as `[CODE] message` if it is an error. A call that exceeds the loop's time
        limit is cancelled. It counts as a failure if `run(circuit_breaker=...)` gets the same breaker.

        Args:
            max_concurrent_tools: Maximum number of calls that run at once, three as in HelloAgents. `None` leaves the
                bound to `run(max_concurrency=...)`. The time limit of a call includes its wait for the others.
            options: Options for each tool, as for `eagerstream.tool`, for example `timeout_s=30`.

        Raises:
            UsageError: The API does not accept a tool's name, options conflict, or `max_concurrent_tools` is less than
                1.
        """
        places = None if max_concurrent_tools is None else _Places(max_concurrent_tools)
        return [self._bridged(name, tool, places, options) for name, tool in self._all().items()]

    def _bridged(self, name: str, tool: Tool, places: _Places | None, options: ToolOptions) -> tools.Tool:
        """Make a tool for the loop. Each of its calls takes one of the places.

        A call that a tool makes while it answers another one takes none. Otherwise the outer calls could hold all
        places and wait forever.
        """

        async def answer(parameters: dict[str, Any], call: RunningCall) -> ToolResponse:
            is_outermost = answered_call() is None
            async with places.taken() if places is not None and is_outermost else nullcontext():
                with answering(call):
                    return CountedResponse.of(await self.aexecute_tool(name, parameters), self.circuit_breaker)

        settings = with_defaults(options, group=tool.group)
        settings["definition"] = {key: value for key, value in {**tool.to_anthropic(), "name": name}.items() if value}
        return tools.Tool(answer, **settings)

    def _all(self) -> dict[str, Tool]:
        # Tools come first, and override functions of the same name. Other threads may register entries meanwhile.
        return {**self._tools, **self._functions, **self._tools}

    def _warn_of_duplicate(self, name: str) -> None:
        if name in self._tools or name in self._functions:
            _log.warning("the tool %r was registered before: the newer one replaces it", name)

    # --- calls --------------------------------------------------------------------------------------------------------

    def execute_tool(self, name: str, input_text: object, *, coerce: bool = False) -> ToolResponse:
        """Call a tool, and wait for its response.

        An asynchronous tool runs on the event loop of all synchronous calls.

        Args:
            name: Name of a tool or a function.
            input_text: A dict, or a text. A text is a JSON object, or anything else as `{"input": text}`. A function
                accepts any value as its first argument.
            coerce: Whether to convert texts to numbers and booleans by the tool's parameters. Values for functions are
                always converted.

        Returns:
            The response. It is an error if the tool is refused by the breaker, is unknown, or fails.

        Raises:
            UsageError: The tool is asynchronous, and this is inside an event loop: await `aexecute_tool`.
        """
        tool = self._admitted(name)
        if isinstance(tool, ToolResponse):
            return tool
        try:
            response = as_tool_response(tool.run_with_timing(_input_for(tool, input_text, coerce=coerce)))
        except AsyncToolInLoopError:
            raise
        except Exception as error:
            response = _broken(name, input_text, error)
        self.circuit_breaker.record(name, response)
        return response

    async def aexecute_tool(self, name: str, input_text: object, *, coerce: bool = False) -> ToolResponse:
        """Call a tool as `execute_tool` does, without blocking the event loop. A plain tool runs in a thread.

        Cancelling it does not count as a failure. It cancels an asynchronous tool. A thread continues, and its result
        is dropped.
        """
        tool = self._admitted(name)
        if isinstance(tool, ToolResponse):
            return tool
        try:
            response = as_tool_response(await tool.arun_with_timing(_input_for(tool, input_text, coerce=coerce)))
        except Exception as error:
            response = _broken(name, input_text, error)
        self.circuit_breaker.record(name, response)
        return response

    def _admitted(self, name: str) -> Tool | ToolResponse:
        """Return the tool to call, or the answer in its place, which does not count."""
        tool = self._tools.get(name) or self._functions.get(name)
        if refusal := self.circuit_breaker.refusal(name):
            return refusal
        if tool is not None:
            return tool
        return ToolResponse.error(ToolErrorCode.NOT_FOUND, f"未找到名为 '{name}' 的工具", context={"tool_name": name})

    # --- metadata of files --------------------------------------------------------------------------------------------

    def cache_read_metadata(self, file_path: str, metadata: Mapping[str, Any]) -> None:
        """Store the metadata of a file at the time it was read: `{"file_mtime_ms": int, "file_size_bytes": int}`."""
        self.read_metadata_cache[file_path] = dict(metadata)

    def get_read_metadata(self, file_path: str) -> dict[str, Any] | None:
        """Return the stored metadata of a file, or `None` if it was not read."""
        return self.read_metadata_cache.get(file_path)

    def clear_read_cache(self, file_path: str | None = None) -> None:
        """Remove the metadata of one file, or of all."""
        if file_path:
            self.read_metadata_cache.pop(file_path, None)
        else:
            self.read_metadata_cache.clear()


def _input_for(tool: Tool, given: object, *, coerce: bool) -> Any:
    """Return the argument for a tool: any value for a function, a dict for a tool."""
    if isinstance(tool, FunctionTool):
        return given
    parameters: dict[str, Any]
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
        parameters = given if isinstance(given, dict) else {"input": given}
    else:
        parameters = dict(given) if isinstance(given, Mapping) else {"input": str(given)}
    return convert_parameters(parameters, tool.get_parameters()) if coerce else parameters


def _broken(name: str, given: object, error: Exception) -> ToolResponse:
    response = failure(name, error, f"执行工具 '{name}' 时发生异常", ToolErrorCode.EXECUTION_ERROR)
    response.context = {"tool_name": name, "input": given}
    return response


class _Places(threading.local):
    """Number of places for calls, first come, first served.

    Each thread has its own places, because no event loop can wake up a task of another one.

    Raises:
        UsageError: `count` is less than 1.
    """

    def __init__(self, count: int) -> None:
        check_count("max_concurrent_tools", count)
        self._slots = Slots(count)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a place, and give it back at the end of the block. Cancelling the wait leaves the queue."""
        holder = object()
        self._slots.enter(holder)
        try:
            await self._slots.wait(holder)
            yield
        finally:
            self._slots.leave(holder)


global_registry: Final = ToolRegistry()
"""Registry of the complete program."""
