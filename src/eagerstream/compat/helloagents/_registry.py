"""`ToolRegistry`: tools and functions by name, and the one way by which they are called."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, Unpack, overload

from ... import tools
from ...builtin._tool_options import with_defaults
from ...errors import UsageError
from ...tools import Slots, ToolCall, ToolErrorCode, ToolOptions, ToolResponse
from ...wire import check_count
from .._deprecation import deprecated
from .._sync import answered_call, answering
from ._binding import convert_parameters
from ._breaker import CircuitBreaker, CountedResponse
from ._filters import ToolFilter
from ._functions import FunctionTool
from ._tool import AsyncToolInLoopError, Tool, as_tool_response, failure

_log = logging.getLogger(__name__)


MAX_CONCURRENT_TOOLS: Final = 3
"""Number of tools that HelloAgents runs at once."""


class ToolRegistry:
    """Tools and functions by name.

    What is registered under a name that is taken takes its place, and a warning is logged; a tool is found before a
    function of its name. Calls may come from any thread.

    Args:
        circuit_breaker: Says which tools have failed too often to be called; one of its own by default. Where it is
            given to `run(circuit_breaker=...)` as well, a call counts once.

    Attributes:
        circuit_breaker: That breaker.
        read_metadata_cache: What `cache_read_metadata` was told, by path.
    """

    def __init__(self, circuit_breaker: tools.CircuitBreaker | None = None) -> None:
        self.circuit_breaker: tools.CircuitBreaker = circuit_breaker or CircuitBreaker()
        self.read_metadata_cache: dict[str, dict[str, Any]] = {}
        self._tools: dict[str, Tool] = {}
        self._functions: dict[str, FunctionTool] = {}

    # --- what there is ------------------------------------------------------------------------------------------------

    def register_tool(self, tool: Tool, auto_expand: bool = True) -> None:
        """Register a tool.

        Args:
            tool: An object, not a class.
            auto_expand: Of an expandable tool its sub-tools are registered instead, where it has some.

        Raises:
            UsageError: It is no tool.
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
        """Register a function: its signature is what it takes, and what it returns becomes a success.

        The older order `register_function(name, description, func)` is deprecated.

        Args:
            func: It may be asynchronous.
            name: By default the function's.
            description: By default the first line of its docstring.

        Raises:
            UsageError: It cannot be called, or its parameters do not go together.
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
        """Forget a tool, or the function of this name where there is no tool; a warning is logged if there is none."""
        if self._tools.pop(name, None) is None and self._functions.pop(name, None) is None:
            _log.warning("there is no tool %r to unregister", name)

    def clear(self) -> None:
        """Forget all tools and functions."""
        self._tools.clear()
        self._functions.clear()

    def get_tool(self, name: str) -> Tool | None:
        """The tool of this name; None where there is none, or a function."""
        return self._tools.get(name)

    def get_function(self, name: str) -> Callable[..., Any] | None:
        """The function that was registered under this name."""
        tool = self._functions.get(name)
        return tool.function if tool else None

    def list_tools(self) -> list[str]:
        """The names of tools, then those of functions."""
        return list(self._all())

    def get_all_tools(self) -> list[Tool]:
        """The tools, without functions."""
        return list(self._tools.values())

    def get_tools_description(self) -> str:
        """One line for each tool and function, for a prompt: `- name: description`."""
        lines = [f"- {name}: {tool.description}" for name, tool in self._all().items()]
        return "\n".join(lines) or "暂无可用工具"

    def to_tools(
        self,
        filter: ToolFilter | None = None,
        *,
        max_concurrent_tools: int | None = MAX_CONCURRENT_TOOLS,
        **options: Unpack[ToolOptions],
    ) -> list[tools.Tool]:
        """What is registered now, for `eagerstream.run(client, tools=registry.to_tools(), ...)`.

        Inputs stream eagerly, and are checked against the schema before the tool gets them. Calls run by
        `aexecute_tool`: with the registry's breaker, the time and the context. The model reads the response's text,
        with a notice where it is partial, and `[CODE] message` of an error. Calls that run into the loop's time limit
        are cancelled, and count where the breaker is given to `run(circuit_breaker=...)` as well.

        Args:
            filter: Which of them; all by default.
            max_concurrent_tools: Maximum number of calls that run at once, three as in HelloAgents. None leaves the
                bound to `run(max_concurrency=...)`. The time limit of a call includes its wait for the others.
            options: As of `eagerstream.tool`, for each of them: `timeout_s=30`, for example.

        Raises:
            UsageError: The API takes no tool of this name, options do not fit, or `max_concurrent_tools` is less than
                1.
        """
        places = None if max_concurrent_tools is None else _Places(max_concurrent_tools)
        every = self._all()
        names = filter.filter(list(every)) if filter else every
        return [self._bridged(name, every[name], places, options) for name in names]

    def _bridged(self, name: str, tool: Tool, places: _Places | None, options: ToolOptions) -> tools.Tool:
        """Make a tool for the loop. Each of its calls takes one of the places.

        A call that a tool makes while it answers another one takes none: the outer calls could hold all places, and
        would wait for it forever.
        """

        async def answer(parameters: dict[str, Any], call: ToolCall) -> ToolResponse:
            is_outermost = answered_call() is None
            async with places.taken() if places is not None and is_outermost else nullcontext():
                with answering(call):
                    return CountedResponse.of(await self.aexecute_tool(name, parameters), self.circuit_breaker)

        settings = with_defaults(options, group=tool.group)
        settings["definition"] = {key: value for key, value in {**tool.to_anthropic(), "name": name}.items() if value}
        return tools.Tool(answer, **settings)

    def _all(self) -> dict[str, Tool]:
        # Tools come first, and in front of functions of their names. Other threads may register some meanwhile.
        return {**self._tools, **self._functions, **self._tools}

    def _warn_of_duplicate(self, name: str) -> None:
        if name in self._tools or name in self._functions:
            _log.warning("the tool %r was registered before: the newer one takes its place", name)

    # --- calls --------------------------------------------------------------------------------------------------------

    def execute_tool(self, name: str, input_text: object, *, coerce: bool = False) -> ToolResponse:
        """Call a tool, and wait for what it comes to.

        An asynchronous one runs on the event loop of all synchronous calls.

        Args:
            name: Of a tool or a function.
            input_text: A dict, or a text: a JSON object, or anything else as `{"input": text}`. A function takes any
                value as its first argument.
            coerce: Numbers and booleans that come as text are converted, where the tool's parameters say so. Values for
                functions always are.

        Returns:
            Whatever happens: of a tool that is out of order, unknown or broken, an error.

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
        """`execute_tool` without blocking the event loop: a plain tool runs in a thread.

        Cancelling it counts as no failure; an asynchronous tool is cancelled, a thread runs on, and what it returns is
        dropped.
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
        """The tool to call, or the answer in its place, which does not count."""
        tool = self._tools.get(name) or self._functions.get(name)
        if refusal := self.circuit_breaker.refusal(name):
            return refusal
        if tool is not None:
            return tool
        return ToolResponse.error(ToolErrorCode.NOT_FOUND, f"未找到名为 '{name}' 的工具", context={"tool_name": name})

    # --- what files were like when they were read ---------------------------------------------------------------------

    def cache_read_metadata(self, file_path: str, metadata: Mapping[str, Any]) -> None:
        """Remember what a file was like when it was read: `{"file_mtime_ms": int, "file_size_bytes": int}`."""
        self.read_metadata_cache[file_path] = dict(metadata)

    def get_read_metadata(self, file_path: str) -> dict[str, Any] | None:
        """What the file was like when it was last read; None where it was not."""
        return self.read_metadata_cache.get(file_path)

    def clear_read_cache(self, file_path: str | None = None) -> None:
        """Forget it of one file, or of all."""
        if file_path:
            self.read_metadata_cache.pop(file_path, None)
        else:
            self.read_metadata_cache.clear()


def _input_for(tool: Tool, given: object, *, coerce: bool) -> Any:
    """What the tool is called with: a function takes any value, a tool a dict."""
    if isinstance(tool, FunctionTool):
        return given
    parameters = _parameters_in(given)
    return convert_parameters(parameters, tool.get_parameters()) if coerce else parameters


def _parameters_in(given: object) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {"input": given}
        return given if isinstance(given, dict) else {"input": given}
    return dict(given) if isinstance(given, Mapping) else {"input": str(given)}


def _broken(name: str, given: object, error: Exception) -> ToolResponse:
    response = failure(error, f"执行工具 '{name}' 时发生异常", ToolErrorCode.EXECUTION_ERROR)
    response.context = {"tool_name": name, "input": given}
    return response


class _Places(threading.local):
    """A number of places for calls, first come, first served.

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
        ticket = self._slots.reserve()
        try:
            await ticket.wait()
            yield
        finally:
            self._slots.give_back(ticket)


global_registry: Final = ToolRegistry()
"""One for the whole program."""
