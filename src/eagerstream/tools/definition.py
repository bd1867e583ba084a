"""`@tool`: a typed async function becomes a tool that Claude can call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, overload

import docstring_parser

from ..errors import UsageError
from ..wire import JSONObject
from .schema import Parameters

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool:
    """A tool of the user's own: its definition, and the function that runs it.

    It still is the function: calling it calls the function, with the function's own arguments.

    Attributes:
        name: Unique in a request; letters, digits, `_` and `-`, at most 64.
        description: What the model reads to decide when and how to call it.
        input_schema: JSON schema of the input.
        eager: `eager_input_streaming` in the definition: True, False (buffered, whatever the headers say), or None to
            leave it out.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[Any]],
        *,
        name: str | None = None,
        description: str | None = None,
        eager: bool | None = True,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise UsageError(f"a tool must be an async function, not {function!r}")
        docstring = docstring_parser.parse(inspect.getdoc(function) or "")
        self.name = name if name is not None else getattr(function, "__name__", "")
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"a tool's name must match {_NAME.pattern}, not {self.name!r}")
        self.description = description if description is not None else (docstring.description or "")
        self.eager = eager
        self._function = function
        self._parameters = Parameters(
            function, {parameter.arg_name: parameter.description or "" for parameter in docstring.params}
        )
        self.input_schema: JSONObject = self._parameters.schema
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the function itself: no checks, no conversion."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def to_dict(self) -> dict[str, Any]:
        """The definition as the API takes it."""
        definition: dict[str, Any] = {"name": self.name}
        if self.description:
            definition["description"] = self.description
        definition["input_schema"] = self.input_schema
        if self.eager is not None:
            definition["eager_input_streaming"] = self.eager
        return definition

    def check(self, input: JSONObject) -> dict[str, Any]:
        """The function's arguments for a whole input: checked, converted, and a copy of its own.

        Raises:
            InputError: The input does not fit the schema; every fault in one message.
        """
        return self._parameters.check(input)

    async def call(self, input: JSONObject) -> Any:
        """Check an input and run the function on it.

        Raises:
            InputError: As `check`; the function was not called.
            Exception: Whatever the function raises.
        """
        return await self._function(**self.check(input))


class _Decorator(Protocol):
    def __call__(self, function: Callable[..., Awaitable[Any]], /) -> Tool: ...


@overload
def tool(function: Callable[..., Awaitable[Any]], /) -> Tool: ...
@overload
def tool(*, name: str | None = None, description: str | None = None, eager: bool | None = True) -> _Decorator: ...
def tool(
    function: Callable[..., Awaitable[Any]] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    eager: bool | None = True,
) -> Tool | _Decorator:
    """Make a tool of a typed async function, with or without options.

        @tool
        async def get_weather(city: str) -> str:
            \"\"\"Current weather in a city.

            Args:
                city: City and country.
            \"\"\"

    Args:
        function: Its name, docstring and annotations give name, description and schema.
        name: Instead of the function's name.
        description: Instead of the docstring's text.
        eager: `eager_input_streaming`; True, False, or None to leave it out of the definition.

    Raises:
        UsageError: What is wrong with the function, all of it, when it is decorated.
    """

    def decorate(function: Callable[..., Awaitable[Any]], /) -> Tool:
        return Tool(function, name=name, description=description, eager=eager)

    return decorate if function is None else decorate(function)
