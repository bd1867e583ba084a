"""What is wrong with a call, in the words of anthropic-tools, and what a tool is called with where nothing is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from ..._support.plain_json import load_json
from ...errors import UsageError
from ...tools import InputError, Tool, error_text
from ...wire import Outcome, ToolInput, copy_json
from ._base_tool import BaseTool, is_required

Validate: TypeAlias = Callable[[str, dict[str, Any]], str | None]
"""Looks at a call before it runs: the tool's name and its arguments; gives what is wrong with them, or None."""

_MAX_TOLD: Final = 20
_MAX_NAME_CHARS: Final = 128
_PYTHON_TYPES: Final = {"int": int, "float": int | float, "bool": bool, "list": list, "dict": dict}


class CallCheck:
    """Looks at calls: whether there is such a tool, and whether the arguments are what it takes.

    Args:
        tools: The tools, each with a name of its own.
        validate: Asked last; what it raises is what is wrong.

    Raises:
        UsageError: Two tools share a name.
    """

    def __init__(self, tools: Iterable[BaseTool], validate: Validate | None = None) -> None:
        self.tools: dict[str, BaseTool] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise UsageError(f"more than one tool is named {tool.name!r}")
            self.tools[tool.name] = tool
        self.runnable: dict[str, Tool] = {name: tool.to_tool() for name, tool in self.tools.items()}
        self._validate = validate

    def first_fault(self, inputs: Iterable[ToolInput]) -> str | None:
        """What is wrong with the first call that is not as it should be; None where all are."""
        return next((fault for input in inputs if (fault := self.fault_of(input)) is not None), None)

    def fault_of(self, input: ToolInput) -> str | None:
        """What is wrong with a call, for the model; None where nothing is.

        Raises:
            UsageError: `validate` gave something else than that.
        """
        tool = self.tools.get(input.name)
        if tool is None:
            return no_such_tool(input.name)
        if input.outcome is Outcome.INCOMPLETE:
            return f"The arguments of tool {tool.name} were cut off before they were complete."
        if input.value is None:
            return f"The arguments of tool {tool.name} are not a JSON object: {input.error}"
        given = input.value
        known = [parameter["name"] for parameter in tool.parameters]
        if unknown := sorted(set(given) - set(known)):
            told = ", ".join(f"{name[:_MAX_NAME_CHARS]!r}" for name in unknown[:_MAX_TOLD])
            return f"Invalid parameters {{{told}}} for <tool_name>{tool.name}</tool_name>."
        needed = [parameter["name"] for parameter in tool.parameters if is_required(parameter)]
        if missing := [name for name in needed if name not in given]:
            told = ", ".join(f'"{name}"' for name in missing)
            return f"Missing required parameter{'s' if len(missing) > 1 else ''} {told} in tool {tool.name}."
        arguments = self.arguments_of(tool.name, given)
        try:
            self.runnable[tool.name].check(arguments)
            answer: object = self._validate(tool.name, arguments) if self._validate is not None else None
        except InputError as error:
            return str(error)
        except Exception as error:
            return error_text(error)
        if answer is None or isinstance(answer, str):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        raise UsageError(f"validate must be a plain def that gives a text or None, not {type(answer).__name__}")

    def arguments_of(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool is called with: texts become what their parameters' types say, as far as they can.

        A model may write `"17"` for a number, `"True"` for a bool, or a list as the text of one. A parameter that is
        not given, and has a default, gets that. Who gets the arguments may change them: nothing else shares them.
        """
        arguments = {name: copy_json(value) for name, value in given.items()}
        for parameter in self.tools[name].parameters if name in self.tools else ():
            value = arguments.get(parameter["name"])
            if isinstance(value, str) and parameter["type"] != "str":
                arguments[parameter["name"]] = _converted(value, parameter["type"])
            elif "default" in parameter:
                arguments.setdefault(parameter["name"], copy_json(parameter["default"]))
        return arguments


def no_such_tool(name: str) -> str:
    """What a call of a tool is answered that is not there."""
    return f"No tool named <tool_name>{name[:_MAX_NAME_CHARS]}</tool_name> available."


def _converted(text: str, type_name: str) -> Any:
    """A text as the JSON value that it says, where that is of the type; else as it is."""
    try:
        value = load_json(text.strip().lower() if type_name == "bool" else text)
    except (ValueError, RecursionError):
        return text
    is_bool = isinstance(value, bool)  # which Python takes for an int, too
    return value if isinstance(value, _PYTHON_TYPES[type_name]) and is_bool == (type_name == "bool") else text
