"""`Tool`: a tool as a class with a `run`, its parameters as a list, and what its calls come to."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias, assert_never

from ...errors import ToolError, UsageError
from ...tools import Group, InputError, Kind, ToolErrorCode, ToolResponse, ToolStatus, error_response, invoke
from ...wire import check_choice
from .._deprecation import deprecated
from .._sync import SyncLoop, answered_call, in_event_loop


def as_tool_response(answer: object) -> ToolResponse:
    """What a tool returned as a response: itself where it is one, else a success with its text.

    `data` then is `{"output": answer}`.
    """
    if isinstance(answer, ToolResponse):
        return answer
    return ToolResponse.success(str(answer), {"output": answer})


def failure(error: BaseException, said: str, code: str) -> ToolResponse:
    """What a tool raised as an error response: `said: message`.

    An exception that was made for the model (`ToolError`) speaks for itself, with its own code.

    Args:
        error: The exception.
        said: What went wrong in general.
        code: Of an exception that stands for no code of its own, as `FileNotFoundError` does for `NOT_FOUND`.
    """
    response = error_response(error)
    if isinstance(error, ToolError) or response.content:
        return response
    own = "Error" if isinstance(error, InputError) else type(error).__name__
    found = response.code if response.code not in (None, ToolErrorCode.EXECUTION_ERROR) else None
    return ToolResponse.error(found or code, f"{said}: {response.text.removeprefix(f'{own}: ')}")


def stamped(response: ToolResponse, started_s: float, context: Mapping[str, Any]) -> ToolResponse:
    """Return a response with the time since `started_s` (of `perf_counter`), in milliseconds, and its context.

    The time is `stats["time_ms"]`, or `stats["wall_ms"]` if the tool has taken a time itself.
    """
    stats = dict(response.stats or {})
    stats["wall_ms" if "time_ms" in stats else "time_ms"] = int((perf_counter() - started_s) * 1000)
    copied = copy(response)  # of a subclass, too, whatever its constructor takes
    text: object = response.text  # a number or nothing, of programs without types
    copied.text = "" if text is None else str(text)
    copied.stats = stats
    copied.context = {**(response.context or {}), **context}
    ToolResponse.__post_init__(copied)  # what was set afterwards is checked, too
    return copied


class AsyncToolInLoopError(UsageError):
    """A tool that is asynchronous was called by a plain call inside an event loop, which cannot wait for it."""


def finished(returned: object, name: str) -> object:
    """What a tool returned, after it has been awaited where it has to be.

    That is done on the event loop of all synchronous calls: a client that the tool keeps can be used by the next one.

    Of a generator the last value counts.

    Raises:
        AsyncToolInLoopError: An event loop runs in this thread already.
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
    """A response as text, its status first.

    Args:
        response: What a tool answered.
        style: `"doc"` as in the document of the protocol, `"agent"` as agents of HelloAgents hand it to their model: a
            success is its text alone there, and a partial one says what it is.

    Raises:
        UsageError: There is no such style.
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
"""What `run` gives: a response; a text is the older protocol."""

ACTION: Final = "_tool_action"
"""The attribute of a method that `@tool_action` has marked. It makes a tool of the object and its method."""

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
"""Types of JSON schema by what older programs write for them."""


@dataclass
class ToolParameter:
    """A parameter of a tool.

    Attributes:
        name: The key of the input.
        type: A type of JSON schema: `string`, `integer`, `number`, `boolean`, `array`, `object`.
        description: What the model reads of it.
        required: The model has to give it.
        default: Of one that need not be given.
        json_schema: More than the type says: the items of an array, an `enum`. It goes before the type.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None
    json_schema: Mapping[str, Any] | None = None

    def to_schema(self) -> dict[str, Any]:
        """Its JSON schema. A type that JSON schema does not know is left out: any value fits."""
        schema: dict[str, Any] = {"type": _JSON_TYPES.get(self.type.lower()), "description": self.description}
        if self.default is not None and _is_json(self.default):
            schema["default"] = self.default
        return {key: value for key, value in schema.items() if key == "default" or value} | deepcopy(self._more())

    def to_dict(self) -> dict[str, Any]:
        """As plain data; `json_schema` only where there is one."""
        return {name: value for name, value in vars(self).items() if name != "json_schema" or value is not None}

    def to_openai_schema(self) -> dict[str, Any]:
        """Its JSON schema for OpenAI's function calling, with the default in the description."""
        told = "" if self.default is None else f" (默认: {self.default})"
        schema: dict[str, Any] = {"type": self.type, "description": f"{self.description}{told}"}
        if self.type == "array":
            schema["items"] = {"type": "string"}
        return schema | deepcopy(self._more())

    def _more(self) -> dict[str, Any]:
        return dict(self.json_schema or {})


class Tool(ABC):
    """A tool of HelloAgents: derive from it, and define `run` and `get_parameters`.

    Args:
        name: The tool's name.
        description: What the model reads of it.
        expandable: Its methods that are marked with `@tool_action` are tools of their own.

    Attributes:
        expandable: As given; False of a class that does not call this constructor.
        group: In the loop, tools that name the same group run one at a time, in call order; see `ToolOptions`.
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
        """Do what the tool is for; it may be an `async def`.

        A text instead of a response is the older protocol, and is taken too.
        """

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """What it takes."""

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """`run`, in a thread where it is a plain `def`; override it where the tool can be asynchronous.

        Cancelling it cancels an `async def`, and leaves a thread to itself: it runs on, and what it returns is dropped.
        """
        return self._response_of(await invoke(partial(self.run, parameters), answered_call()))

    def run_with_timing(self, parameters: dict[str, Any]) -> ToolResponse:
        """`run`, with the time it took and its input in the response; an exception becomes an error response.

        An asynchronous `run` is awaited on the event loop of all synchronous calls.

        Returns:
            The response with `stats["time_ms"]` (`stats["wall_ms"]`, where the tool has set that itself) and
            `context["params_input"]` and `["tool_name"]`. The code of an exception that stands for no other is
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
            response = failure(error, _FAILED, ToolErrorCode.INTERNAL_ERROR)
        return stamped(response, started_s, self._context(parameters))

    async def arun_with_timing(self, parameters: dict[str, Any]) -> ToolResponse:
        """`run_with_timing` by way of `arun`; cancelling it does what that says."""
        started_s = perf_counter()
        try:
            response = self._response_of(await self.arun(parameters))
        except Exception as error:
            response = failure(error, _FAILED, ToolErrorCode.INTERNAL_ERROR)
        return stamped(response, started_s, self._context(parameters))

    def get_expanded_tools(self) -> list[Tool] | None:
        """The tools that its marked methods are, by name; None where it is not expandable, or none is marked."""
        if not self.expandable:
            return None
        kind = type(self)
        marks = {name: getattr(inspect.getattr_static(kind, name), ACTION, None) for name in sorted(dir(kind))}
        tools: list[Tool] = [make(self, getattr(self, name)) for name, make in marks.items() if make]
        return tools or None

    def validate_parameters(self, parameters: Mapping[str, Any]) -> bool:
        """All that are required are there."""
        return all(parameter.name in parameters for parameter in self.get_parameters() if parameter.required)

    def to_dict(self) -> dict[str, Any]:
        """As plain data: `name`, `description` and `parameters`."""
        parameters = [parameter.to_dict() for parameter in self.get_parameters()]
        return {"name": self.name, "description": self.description, "parameters": parameters}

    def to_anthropic(self) -> dict[str, Any]:
        """The definition as the Messages API takes it: `name`, `description` and `input_schema`."""
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

    def to_openai_schema(self) -> dict[str, Any]:
        """The definition for OpenAI's function calling: defaults are told in the descriptions.

        Arrays of which nothing more is said are of texts.
        """
        parameters = self.get_parameters()
        schema = {
            "type": "object",
            "properties": {parameter.name: parameter.to_openai_schema() for parameter in parameters},
            "required": [parameter.name for parameter in parameters if parameter.required],
        }
        return openai_form({"name": self.name, "description": self.description, "input_schema": schema})

    def _context(self, given: Any) -> dict[str, Any]:
        return {"params_input": given, "tool_name": self.name}

    def _response_of(self, answer: object) -> ToolResponse:
        if not isinstance(answer, ToolResponse):
            old = f"{type(self).__name__}.run returning {type(answer).__name__}"
            deprecated(old, "return a ToolResponse, which says how the call went", stacklevel=3)
        return as_tool_response(answer)


def openai_form(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition of the Messages API as one of OpenAI's function calling."""
    named = {name: definition[name] for name in ("name", "description")}
    return {"type": "function", "function": {**named, "parameters": definition["input_schema"]}}


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
