"""A function as a tool: its signature is what it takes, and what it returns is a success."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

from ...tools import Kind, ToolErrorCode, ToolResponse, invoke, kind_of
from .._answering import answered_call
from ._answers import as_tool_response, failure
from ._binding import Binding
from ._coercion import kinds_of
from ._tool import Answer, Tool, ToolParameter, openai_form


class FunctionTool(Tool):
    """A function as a tool; it may be asynchronous, or a generator, whose last value counts.

    Args:
        function: See `Binding`.
        name: Of the tool; by default the function's.
        description: What the model reads; by default the first line of the docstring.

    Raises:
        UsageError: Its parameters do not go together.
    """

    _failed: ClassVar[str] = "函数执行失败"
    _given_as: ClassVar[str] = "input"

    def __init__(self, function: Callable[..., Any], name: str | None = None, description: str | None = None) -> None:
        name = name_of(function) if name is None else name
        super().__init__(name, first_line(function, name) if description is None else description)
        self.function = function
        self._binding = Binding(function)
        self._kind = kind_of(function)

    def run(self, parameters: Any) -> ToolResponse | Awaitable[Answer]:
        """Call the function on an input, a dict or the value of its first parameter.

        An exception, also of an input that does not fit, becomes an error response.
        """
        if self._kind is not Kind.THREADED or inspect.isgeneratorfunction(inspect.unwrap(self.function)):
            return self.arun(parameters)
        try:
            answer = self._call(parameters)
            return self._answered(answer) if inspect.isawaitable(answer) else as_tool_response(answer)
        except Exception as error:
            return self._failure(error)

    async def arun(self, parameters: Any) -> ToolResponse:
        """The same; a plain function runs in a thread. Cancelling it does what it does to any other tool."""
        return await self._answered(invoke(partial(self._call, parameters), answered_call(), kind=self._kind))

    def get_parameters(self) -> list[ToolParameter]:
        """What it takes, as its signature says it."""
        schema = self._binding.schema
        definitions = schema.get("$defs", {})
        return [
            ToolParameter(
                name,
                next((kind for kind in kinds_of(each, definitions) if kind != "null"), "string"),
                str(each.get("description") or f"参数 {name}"),
                name in schema["required"],
                self._binding.defaults.get(name),
            )
            for name, each in schema["properties"].items()
        ]

    def to_anthropic(self) -> dict[str, Any]:
        """The definition as the Messages API takes it, with the whole schema of the signature."""
        return {"name": self.name, "description": self.description, "input_schema": self._binding.schema}

    def to_openai_schema(self) -> dict[str, Any]:
        """The definition for OpenAI's function calling, with the whole schema of the signature."""
        return openai_form(self.to_anthropic())

    def _call(self, parameters: Any) -> Any:
        return self._binding.bound(parameters)()

    async def _answered(self, answer: Awaitable[Any]) -> ToolResponse:
        try:
            return as_tool_response(await answer)
        except Exception as error:
            return self._failure(error)

    def _failure(self, error: Exception) -> ToolResponse:
        return failure(error, self._failed, ToolErrorCode.EXECUTION_ERROR)

    def _context(self, given: Any) -> dict[str, Any]:
        return {self._given_as: given, "tool_name": self.name}


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function; of an object that can be called, that of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def first_line(function: Callable[..., Any], name: str) -> str:
    """The first line of a docstring that says what the function does."""
    while isinstance(function, partial):
        function = function.func
    lines = map(str.strip, (inspect.getdoc(function) or "").splitlines())
    return next((line for line in lines if line and not line.startswith(("Args:", "Returns:"))), f"执行 {name}")
