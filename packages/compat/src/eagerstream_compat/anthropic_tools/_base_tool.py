"""`BaseTool`: a tool as a class with a `use_tool`, and its parameters as a list."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Unpack

from eagerstream.tools import RunningCall, Tool, ToolOptions, tool

from .._sync import answering, run_plain

_JSON_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


class BaseTool(ABC):
    """Tool of anthropic-tools. Derive a class, and define `use_tool` as a `def` or an `async def`.

    Args:
        name: The tool's name.
        description: Description for the model.
        parameters: A dict for each parameter: `"name"`, `"type"` (`str`, `int`, `float`, `bool`, `list` or `dict`) and
            `"description"`, all texts. New and optional: `"required"` (`True` by default), `"default"` (makes a
            parameter optional), `"enum"`, and `"items"` (the schema of a list's items).

    Raises:
        ValueError: A parameter has another form, or two parameters share a name.
        TypeError: The class defines no `use_tool`.
    """

    def __init__(self, name: str, description: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.description = description
        self.parameters = parameters
        each: object
        for each in parameters:
            if not isinstance(each, Mapping):
                raise ValueError(f"A parameter must be a dict, not {type(each).__name__}.")
            for key in ("name", "type", "description"):
                if not isinstance(each.get(key), str):
                    raise ValueError(f"A parameter needs a {key!r}, which is a text: {dict(each)!r:.200}")
            if each["type"] not in _JSON_TYPES:
                types = ", ".join(_JSON_TYPES)
                raise ValueError(
                    f"The type of the parameter {each['name']} must be one of {types}, not {each['type']!r}."
                )
        names = [parameter["name"] for parameter in parameters]
        if repeated := sorted({each for each in names if names.count(each) > 1}):
            raise ValueError(f"The tool {name} has more than one parameter {', '.join(repeated)}.")

    @abstractmethod
    def use_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Run the tool. The arguments are passed by name."""

    async def ause_tool(self, arguments: Mapping[str, Any]) -> Any:
        """Call `use_tool`: an `async def` in this task, a `def` in a worker thread.

        Within `ToolUser.use_tools`, a `def` runs in the thread of its caller. Cancelling this cancels an `async def`. A
        `def` continues in its thread, and its result is dropped.

        Raises:
            Exception: Any error of `use_tool`.
        """
        return await call_async(self.use_tool, **arguments)

    def to_anthropic(self) -> dict[str, Any]:
        """Return the definition in the form of the Messages API.

        If the class overrides `format_tool_for_claude`, the returned text is the description.
        """
        says_more = type(self).format_tool_for_claude is not BaseTool.format_tool_for_claude
        description = self.format_tool_for_claude() if says_more else self.description
        required = [parameter["name"] for parameter in self.parameters if is_required(parameter)]
        properties = {
            parameter["name"]: {
                "type": _JSON_TYPES[parameter["type"]],
                "description": parameter["description"],
                **{key: parameter[key] for key in ("default", "enum", "items") if key in parameter},
            }
            for parameter in self.parameters
        }
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return {"name": self.name, "description": description, "input_schema": schema}

    def to_tool(self, **options: Unpack[ToolOptions]) -> Tool:
        """Return this tool for `eagerstream.run` and `eagerstream.stream`.

        Args:
            options: As for `eagerstream.tool`, without the options of the definition.
        """

        async def use(arguments: dict[str, Any], call: RunningCall) -> Any:
            with answering(call):
                return await self.ause_tool(arguments)

        given: ToolOptions = {**options, "definition": self.to_anthropic()}
        return tool(use, **given)

    def format_tool_for_claude(self) -> str:
        """Return the description in the XML of the old prompts. It is sent only if a class overrides this method."""
        return described_in_xml(self.name, self.description, self.parameters)


async def call_async(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function, and return its result: an `async def` in this task, a plain function as `run_plain` does.

    If a plain function returns an awaitable, it is awaited. Cancelling this cancels an awaited function. A plain
    function continues in its thread, and its result is dropped.
    """
    called = partial(function, *args, **kwargs)
    returned = called() if inspect.iscoroutinefunction(function) else await run_plain(called)
    return await returned if inspect.isawaitable(returned) else returned


def described_in_xml(name: str, description: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    """Return the description of a tool in the XML of the old prompts."""
    listed = "\n".join(
        f"<parameter>\n<name>{parameter['name']}</name>\n<type>{parameter['type']}</type>\n"
        f"<description>{parameter['description']}</description>\n</parameter>"
        for parameter in parameters
    )
    return (
        f"<tool_description>\n<tool_name>{name}</tool_name>\n<description>\n{description}\n"
        f"</description>\n<parameters>\n{listed}\n</parameters>\n</tool_description>"
    )


def is_required(parameter: Mapping[str, Any]) -> bool:
    """Return whether the model must give this parameter."""
    return bool(parameter.get("required", "default" not in parameter))


def check_names(parameters: Sequence[Mapping[str, Any]], *names: str) -> None:
    """Raise a `ValueError` if the parameters are not those of the method that gets them."""
    given = [parameter["name"] for parameter in parameters]
    if sorted(given) != sorted(names):
        raise ValueError(f"The parameters must be {', '.join(names)}, not {', '.join(given) or 'none'}.")
