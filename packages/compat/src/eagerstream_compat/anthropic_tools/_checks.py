"""Checks the calls of one response: all of them run, or none. The errors are worded as in anthropic-tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from eagerstream import Outcome, ToolInput, copy_json
from eagerstream._support.plain_json import load_json
from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream.tools import InProcessExecutor, RunningCall, Tool, ToolResponse, error_text

from ._base_tool import BaseTool, is_required
from ._history import result_content

Validate: TypeAlias = Callable[[str, dict[str, Any]], str | None]
"""Check of a call before it runs, by the tool's name and its arguments. It returns the fault, or `None`."""

_MAX_TOLD: Final = 20
_MAX_NAME_CHARS: Final = 128
_PYTHON_TYPES: Final = {"int": int, "float": int | float, "bool": bool, "list": list, "dict": dict}


class CallCheck:
    """Check of calls: their tools must exist, and their arguments must fit.

    Args:
        tools: The tools.
        validate: Last check of each call. An exception that it raises counts as the fault.

    Raises:
        UsageError: Two tools share a name, or the API does not accept a tool.
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
        """Return the fault of the first faulty call, or `None` if all calls are correct."""
        return next((fault for input in inputs if (fault := self.fault_of(input)) is not None), None)

    def fault_of(self, input: ToolInput) -> str | None:
        """Return the fault of a call as a text for the model, or `None`.

        Raises:
            UsageError: `validate` returned neither a text nor `None`.
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

    def executor(self) -> InProcessExecutor:
        """Return the executor of checked calls. Its tools have no schema: it would refuse texts that are converted."""
        return InProcessExecutor(self._without_schema(name, each) for name, each in self.runnable.items())

    def _without_schema(self, name: str, runnable: Tool) -> Tool:
        async def use(given: Mapping[str, Any], call: RunningCall) -> Any:
            returned = await runnable.invoke(self.arguments_of(name, given), call)
            return returned if isinstance(returned, ToolResponse) else result_content(returned)

        return Tool(use, definition={"name": name, "input_schema": {"type": "object"}})

    def arguments_of(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for a tool. Texts are converted to the types of their parameters if possible.

        A model may write `"17"` for a number, `"True"` for a bool, or a list as a text. A missing parameter gets its
        default. The caller may change the returned arguments, because they are copies.
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
    """Return the answer to a call of an unknown tool."""
    return f"No tool named <tool_name>{name[:_MAX_NAME_CHARS]}</tool_name> available."


def _converted(text: str, type_name: str) -> Any:
    """Return the JSON value in a text if it has the type. Otherwise return the text."""
    try:
        value = load_json(text.strip().lower() if type_name == "bool" else text)
    except (ValueError, RecursionError):
        return text
    is_bool = isinstance(value, bool)  # Python treats a bool as an int
    return value if isinstance(value, _PYTHON_TYPES[type_name]) and is_bool == (type_name == "bool") else text
