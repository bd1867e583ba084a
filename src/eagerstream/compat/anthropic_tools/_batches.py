"""The calls of one response: they are checked in the words of anthropic-tools, and all of them run, or none."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import anyio

from ..._support.plain_json import load_json
from ...errors import UsageError
from ...streaming import GrowingInput
from ...tools import InProcessExecutor, InputError, Tool, ToolCall, ToolResponse, error_text
from ...wire import Outcome, ToolInput, copy_json
from ._base_tool import BaseTool, is_required
from ._history import result_content

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


class BatchExecutor:
    """Runs calls in this process, once the reply that they are in has ended, and only where none of them is faulty.

    A call that is admitted waits for `judge`, or until it is answered otherwise, as where its reply breaks off. So no
    call has begun while a reply is still coming, and one that broke off can always be sent for again.

    Args:
        check: Knows the tools, and what is wrong with a call.
    """

    def __init__(self, check: CallCheck) -> None:
        self._check = check
        self._runs = InProcessExecutor(self._without_schema(name, each) for name, each in check.runnable.items())
        self._waiting: dict[GrowingInput, ToolCall] = {}
        self._judged: dict[ToolCall, anyio.Event] = {}

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`: here it has no place yet."""
        self._waiting[call.input] = call
        self._judged[call] = anyio.Event()

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_when, call.answered.wait, tasks.cancel_scope)
                tasks.start_soon(_when, self._judged[call].wait, tasks.cancel_scope)
        finally:
            del self._judged[call]
            self._waiting.pop(call.input, None)
        if call.result is None:
            await self._runs.execute(call)

    def judge(self, inputs: Sequence[GrowingInput], fault: str | None) -> None:
        """A reply has ended: its calls run now, or are answered with what is wrong with the first that is faulty.

        Args:
            inputs: All inputs of the reply.
            fault: See `CallCheck.first_fault`.
        """
        for input in sorted(inputs, key=lambda each: each.index):
            call = self._waiting.pop(input, None)
            if call is None:
                continue
            if fault is not None:
                call.refuse(fault)
            self._judged[call].set()

    def _without_schema(self, name: str, runnable: Tool) -> Tool:
        """The tool for calls that were looked at before: texts of them are converted, which the schema would refuse."""

        async def use(given: Mapping[str, Any], call: ToolCall) -> Any:
            returned = await runnable.invoke(self._check.arguments_of(name, given), call)
            return returned if isinstance(returned, ToolResponse) else result_content(returned)

        return Tool(use, definition={"name": name, "input_schema": {"type": "object"}})


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


async def _when(happens: Callable[[], Awaitable[object]], scope: anyio.CancelScope) -> None:
    await happens()
    scope.cancel()
