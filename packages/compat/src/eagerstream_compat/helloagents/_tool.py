"""`Tool`: a tool as a class with a `run` and a list of parameters, and the responses of its calls."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias, assert_never

from eagerstream._support.checks import check_choice
from eagerstream.errors import ToolError, UsageError
from eagerstream.inputs import InputError
from eagerstream.tools import (
    Group,
    Kind,
    ToolErrorCode,
    ToolResponse,
    ToolStatus,
    error_response,
    invoke,
    report_failure,
)

from .._deprecation import deprecated
from .._sync import SyncLoop, answered_call, in_event_loop


def as_tool_response(answer: object) -> ToolResponse:
    """Return the value of a tool as a response. A value of another type becomes a success with its text.

    Its `data` then is `{"output": answer}`.
    """
    if isinstance(answer, ToolResponse):
        return answer
    return ToolResponse.success(str(answer), {"output": answer})


def failure(name: str, error: BaseException, said: str, code: str) -> ToolResponse:
    """Return an exception of a tool as an error response: `said: message`. It is logged, too.

    A `ToolError`, which was made for the model, keeps its own text and code.

    Args:
        name: The name of the tool.
        error: The exception.
        said: General text of the error.
        code: Code for an exception without one. `FileNotFoundError`, for example, has `NOT_FOUND`.
    """
    report_failure(name, error)
    response = error_response(error)
    if isinstance(error, ToolError) or response.content:
        return response
    own = "Error" if isinstance(error, InputError) else type(error).__name__
    found = response.code if response.code not in (None, ToolErrorCode.EXECUTION_ERROR) else None
    return ToolResponse.error(found or code, f"{said}: {response.text.removeprefix(f'{own}: ')}")


def stamped(response: ToolResponse, started_s: float, context: Mapping[str, Any]) -> ToolResponse:
    """Return a response with the time since `started_s` (of `perf_counter`), in milliseconds, and its context.

    The time is `stats["time_ms"]`, or `stats["wall_ms"]` if the tool itself has set a time.
    """
    stats = dict(response.stats or {})
    stats["wall_ms" if "time_ms" in stats else "time_ms"] = int((perf_counter() - started_s) * 1000)
    copied = copy(response)  # works for a subclass with another constructor, too
    text: object = response.text  # a number or None, in programs without types
    copied.text = "" if text is None else str(text)
    copied.stats = stats
    copied.context = {**(response.context or {}), **context}
    ToolResponse.__post_init__(copied)  # check the changed fields
    return copied


class AsyncToolInLoopError(UsageError):
    """Plain call of an asynchronous tool inside an event loop, which cannot wait for it."""


def finished(returned: object, name: str) -> object:
    """Return the value of a tool, awaited if necessary. The last value of a generator counts.

    Awaitables run on the event loop of all synchronous calls, so the tool can keep a client for its next call.

    Raises:
        AsyncToolInLoopError: The value is awaitable, and an event loop runs in this thread.
        Exception: Any error of the tool.
    """
    if isgenerator(returned) and not isawaitable(returned):
        last = deque(returned, maxlen=1)
        return last[0] if last else None
    if not (isawaitable(returned) or isasyncgen(returned)):
        return returned
    if in_event_loop():
        if iscoroutine(returned):
            returned.close()
        raise AsyncToolInLoopError(
            f"the tool {name} is asynchronous, and this is inside an event loop: "
            "await registry.aexecute_tool(...), or the tool's arun_with_timing(...)"
        )
    return SyncLoop.shared().call(partial(_result_of, returned))


async def _result_of(returned: Any) -> object:
    if isasyncgen(returned):
        return await invoke(lambda: returned, None, kind=Kind.GENERATOR)
    return await returned


def render(response: ToolResponse, style: Literal["doc", "agent"] = "doc") -> str:
    """Return a response as text, with the status first.

    Args:
        response: Response of a tool.
        style: `"doc"` as in the document of the protocol, or `"agent"` as HelloAgents' agents pass it to their model.
            With `"agent"`, a success is only its text, and a partial response is marked in words.

    Raises:
        UsageError: The style is unknown.
    """
    check_choice("style", style, ("doc", "agent"))
    match response.status:
        case ToolStatus.SUCCESS:
            return response.text if style == "agent" else f"✅ {response.text}"
        case ToolStatus.PARTIAL:
            return f"⚠️ 部分成功: {response.text}" if style == "agent" else f"⚠️ {response.text}"
        case ToolStatus.ERROR:
            return f"❌ 错误 [{response.code}]: {response.text}"
        case _:
            assert_never(response.status)


Answer: TypeAlias = ToolResponse | str
"""Value of `run`: a response, or a text in the older protocol."""

ACTION: Final = "_tool_action"
"""Attribute of a method that `@tool_action` has marked. It makes a tool of the object and its method."""

_FAILED: Final = "工具执行时发生未处理的异常"

_JSON_TYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")},
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""JSON schema types by the names in older programs."""


@dataclass
class ToolParameter:
    """Parameter of a tool.

    Attributes:
        name: Key in the input.
        type: A type of JSON schema: `string`, `integer`, `number`, `boolean`, `array`, `object`.
        description: Description for the model.
        required: Whether the model must give it.
        default: Default of an optional parameter.
        json_schema: Further schema, for example the items of an array or an `enum`. It overrides the type.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None
    json_schema: Mapping[str, Any] | None = None

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON schema. A type that JSON schema does not have is omitted, so any value fits."""
        schema: dict[str, Any] = {"type": _JSON_TYPES.get(self.type.lower()), "description": self.description}
        if self.default is not None:
            with suppress(TypeError, ValueError):  # a default that is not JSON is omitted, too
                json.dumps(self.default, allow_nan=False)
                schema["default"] = self.default
        return {key: value for key, value in schema.items() if key == "default" or value} | deepcopy(
            dict(self.json_schema or {})
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data. `json_schema` is included only if it is not `None`."""
        return {name: value for name, value in vars(self).items() if name != "json_schema" or value is not None}


class Tool(ABC):
    """Tool of HelloAgents. Derive a class, and define `run` and `get_parameters`.

    Args:
        name: The tool's name.
        description: Description for the model.
        expandable: Whether methods marked with `@tool_action` are separate tools.

    Attributes:
        expandable: As given. `False` for a class that does not call this constructor.
        group: Name of a group. In the loop, tools of one group run one at a time, in call order; see `ToolOptions`.
    """

    group: str | Group | None = None
    expandable: bool = False

    def __init__(self, name: str, description: str, expandable: bool = False) -> None:
        self.name = name
        self.description = description
        self.expandable = expandable

    def __repr__(self) -> str:
        return f"Tool(name={self.name})"

    @abstractmethod
    def run(self, parameters: dict[str, Any]) -> Answer | Awaitable[Answer]:
        """Run the tool. It may be an `async def`.

        It may return a text instead of a response, as in the older protocol.
        """

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """Return the parameters."""

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Call `run`, in a thread if it is a plain `def`. Override this if the tool can be asynchronous.

        Cancelling it cancels an `async def`. A thread continues, and its result is dropped.

        Raises:
            Exception: Any error of `run`.
        """
        return self._response_of(await invoke(partial(self.run, parameters), answered_call()))

    def run_with_timing(self, parameters: dict[str, Any]) -> ToolResponse:
        """Call `run`, and return its response with the time and the input. An exception becomes an error response.

        An asynchronous `run` is awaited on the event loop of all synchronous calls.

        Returns:
            The response with `stats["time_ms"]` (`stats["wall_ms"]` if the tool has set the other one),
                `context["params_input"]` and `context["tool_name"]`. The code of an exception without one is
                `INTERNAL_ERROR`.

        Raises:
            UsageError: `run` is asynchronous, and this is inside an event loop: await `arun_with_timing`.
        """
        started_s = perf_counter()
        try:
            response = self._response_of(finished(self.run(parameters), self.name))
        except AsyncToolInLoopError:
            raise
        except Exception as error:
            response = failure(self.name, error, _FAILED, ToolErrorCode.INTERNAL_ERROR)
        return stamped(response, started_s, self._context(parameters))

    async def arun_with_timing(self, parameters: dict[str, Any]) -> ToolResponse:
        """Call `arun`, and return its response as `run_with_timing` does. Cancelling this cancels `arun`."""
        started_s = perf_counter()
        try:
            response = self._response_of(await self.arun(parameters))
        except Exception as error:
            response = failure(self.name, error, _FAILED, ToolErrorCode.INTERNAL_ERROR)
        return stamped(response, started_s, self._context(parameters))

    def get_expanded_tools(self) -> list[Tool] | None:
        """Return the tools of the marked methods, by name. `None` if this is not expandable, or no method is marked."""
        if not self.expandable:
            return None
        kind = type(self)
        marks = {name: getattr(inspect.getattr_static(kind, name), ACTION, None) for name in sorted(dir(kind))}
        tools: list[Tool] = [make(self, getattr(self, name)) for name, make in marks.items() if make]
        return tools or None

    def validate_parameters(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether all required parameters are given."""
        return all(parameter.name in parameters for parameter in self.get_parameters() if parameter.required)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: `name`, `description` and `parameters`."""
        parameters = [parameter.to_dict() for parameter in self.get_parameters()]
        return {"name": self.name, "description": self.description, "parameters": parameters}

    def to_anthropic(self) -> dict[str, Any]:
        """Return the definition in the form of the Messages API: `name`, `description` and `input_schema`."""
        parameters = self.get_parameters()
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": {
                "type": "object",
                "properties": {parameter.name: parameter.to_schema() for parameter in parameters},
                "required": [parameter.name for parameter in parameters if parameter.required],
            },
        }

    def _context(self, given: Any) -> dict[str, Any]:
        return {"params_input": given, "tool_name": self.name}

    def _response_of(self, answer: object) -> ToolResponse:
        if not isinstance(answer, ToolResponse):
            old = f"{type(self).__name__}.run returning {type(answer).__name__}"
            deprecated(old, "return a ToolResponse, which has the status of the call", stacklevel=3)
        return as_tool_response(answer)
