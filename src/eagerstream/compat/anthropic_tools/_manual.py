"""What to do with a reply of manual mode: append it, run its calls, append their results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ...errors import UsageError
from ...tools import error_text
from ...wire import copy_json
from .._sync import in_event_loop
from ._arguments import no_such_tool
from ._base_tool import BaseTool
from ._steps import Steps, run_steps
from ._tool_user import ToolUser


def handle_manual_claude_res(
    messages: list[dict[str, Any]], claude_res: dict[str, Any], tool_user: ToolUser
) -> dict[str, Any]:
    """Take in what `use_tools` returned, and run the calls that it makes, one after another.

    Nothing runs where the message has `"status": "ERROR"`, or calls a tool that is not there. What a tool raises ends
    the calls, and the model is told instead of any result; with `raise_tool_exceptions` it is raised, and so is a
    `UsageError` always: `messages` then ends with the calls.

    Args:
        messages: The conversation, without `claude_res`: that is appended, and the results behind it.
        claude_res: What `use_tools` returned.
        tool_user: Has the tools.

    Returns:
        `{"next_action": "user_input" | "auto_respond", "messages": messages}`: whether it is the user's turn, or
        `use_tools` is to be called again.

    Raises:
        ValueError: `claude_res` is no reply.
        UsageError: A tool is async, and an event loop runs: see `ahandle_manual_claude_res`.
    """
    if in_event_loop() and any(inspect.iscoroutinefunction(tool.use_tool) for tool in tool_user.tools):
        raise UsageError("a tool is an async def, and an event loop runs: use await ahandle_manual_claude_res(...)")
    done = _begin(messages, claude_res, tool_user)
    if done is not None:
        return done
    outputs: list[dict[str, Any]] = []
    for name, tool, arguments in _calls_of(claude_res, tool_user):
        try:
            result = run_steps("handle_manual_claude_res", "ahandle_manual_claude_res", _use(tool, arguments))
        except Exception as error:
            return _failed(messages, error, tool_user)
        outputs.append({"tool_name": name, "tool_result": result})
    return _respond(messages, outputs)


async def ahandle_manual_claude_res(
    messages: list[dict[str, Any]], claude_res: dict[str, Any], tool_user: ToolUser
) -> dict[str, Any]:
    """As `handle_manual_claude_res`, for `ause_tools`: plain tools run in worker threads.

    Cancelled, it leaves `messages` with the calls at their end, and without results.
    """
    done = _begin(messages, claude_res, tool_user)
    if done is not None:
        return done
    outputs: list[dict[str, Any]] = []
    for name, tool, arguments in _calls_of(claude_res, tool_user):
        try:
            result = await tool.ause_tool(arguments)
        except Exception as error:
            return _failed(messages, error, tool_user)
        outputs.append({"tool_name": name, "tool_result": result})
    return _respond(messages, outputs)


def _begin(messages: list[dict[str, Any]], reply: dict[str, Any], tool_user: ToolUser) -> dict[str, Any] | None:
    """Take a reply in; what is to be done next, or None where its calls are to run."""
    role = reply.get("role")
    if role not in ("assistant", "tool_inputs"):
        raise ValueError(f"Provided role should be assistant or tool_inputs, got {role!s:.80}")
    messages.append(reply)
    if role == "assistant":
        return {"next_action": "user_input", "messages": messages}
    if reply.get("status") == "ERROR":
        return _respond(messages, error=reply["error_message"])
    known = {tool.name for tool in tool_user.tools}
    unknown = next((call["tool_name"] for call in reply["tool_inputs"] if call["tool_name"] not in known), None)
    return None if unknown is None else _respond(messages, error=no_such_tool(unknown))


def _calls_of(reply: Mapping[str, Any], tool_user: ToolUser) -> Iterator[tuple[str, BaseTool, dict[str, Any]]]:
    tools = {tool.name: tool for tool in tool_user.tools}
    for call in reply["tool_inputs"]:
        # A copy: what a tool does with it is nothing that the model said.
        arguments = {name: copy_json(value) for name, value in call["tool_arguments"].items()}
        yield call["tool_name"], tools[call["tool_name"]], arguments


def _use(tool: BaseTool, arguments: dict[str, Any]) -> Steps[Any]:
    return (yield partial(tool.use_tool, **arguments))


def _failed(messages: list[dict[str, Any]], error: Exception, tool_user: ToolUser) -> dict[str, Any]:
    if tool_user.raise_tool_exceptions or isinstance(error, UsageError):  # which the program can mend, and no model
        raise error
    return _respond(messages, error=error_text(error))


def _respond(
    messages: list[dict[str, Any]], outputs: list[dict[str, Any]] | None = None, *, error: str | None = None
) -> dict[str, Any]:
    messages.append({"role": "tool_outputs", "tool_outputs": outputs, "tool_error": error})
    return {"next_action": "auto_respond", "messages": messages}
