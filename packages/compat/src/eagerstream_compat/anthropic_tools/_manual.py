"""Handling of a response in manual mode: append it, run its calls, append their results."""

from __future__ import annotations

from functools import partial
from typing import Any

from eagerstream import copy_json
from eagerstream.errors import UsageError
from eagerstream.tools import error_text

from .._sync import run_sync
from ._checks import no_such_tool
from ._tool_user import ToolUser


def handle_manual_claude_res(
    messages: list[dict[str, Any]], claude_res: dict[str, Any], tool_user: ToolUser
) -> dict[str, Any]:
    """Append the result of `use_tools` to the conversation, and run its calls one after another.

    No call runs if the message has `"status": "ERROR"` or calls an unknown tool. If a tool raises, no further call
    runs, and the model gets the error instead of any result. With `raise_tool_exceptions`, and always for a
    `UsageError`, the exception is raised instead. Then `messages` ends with the calls.

    Args:
        messages: The conversation without `claude_res`. The message and the results are appended to it.
        claude_res: The message that `use_tools` returned.
        tool_user: Has the tools.

    Returns:
        `{"next_action": "user_input" | "auto_respond", "messages": messages}`. After `"auto_respond"`, call `use_tools`
            again.

    Raises:
        ValueError: `claude_res` has another role.
        UsageError: An event loop runs in this thread: see `ahandle_manual_claude_res`. Also raised if a tool raises it.
        Exception: Any error of a tool, with `raise_tool_exceptions`.
    """
    handle = partial(ahandle_manual_claude_res, messages, claude_res, tool_user)
    return run_sync("handle_manual_claude_res", "ahandle_manual_claude_res", handle)


async def ahandle_manual_claude_res(
    messages: list[dict[str, Any]], claude_res: dict[str, Any], tool_user: ToolUser
) -> dict[str, Any]:
    """Append the result of `ause_tools`, and run its calls, as `handle_manual_claude_res` does.

    Plain tools run in worker threads. If it is cancelled, `messages` ends with the calls and has no results.

    Raises:
        ValueError: `claude_res` has another role.
        UsageError: A tool raised it.
        Exception: Any error of a tool, with `raise_tool_exceptions`.
    """
    role = claude_res.get("role")
    if role not in ("assistant", "tool_inputs"):
        raise ValueError(f"Provided role should be assistant or tool_inputs, got {role!s:.80}")
    messages.append(claude_res)
    if role == "assistant":
        return {"next_action": "user_input", "messages": messages}
    if claude_res.get("status") == "ERROR":
        return _respond(messages, error=claude_res["error_message"])
    tools = {tool.name: tool for tool in tool_user.tools}
    calls = [(call["tool_name"], call["tool_arguments"]) for call in claude_res["tool_inputs"]]
    unknown = next((name for name, _ in calls if name not in tools), None)
    if unknown is not None:
        return _respond(messages, error=no_such_tool(unknown))
    outputs: list[dict[str, Any]] = []
    for name, arguments in calls:
        try:
            # A copy: changes by a tool must not change the model's message.
            result = await tools[name].ause_tool({each: copy_json(value) for each, value in arguments.items()})
        except Exception as error:
            # The program can correct a UsageError, and the model cannot.
            if tool_user.raise_tool_exceptions or isinstance(error, UsageError):
                raise
            return _respond(messages, error=error_text(error))
        outputs.append({"tool_name": name, "tool_result": result})
    return _respond(messages, outputs)


def _respond(
    messages: list[dict[str, Any]], outputs: list[dict[str, Any]] | None = None, *, error: str | None = None
) -> dict[str, Any]:
    messages.append({"role": "tool_outputs", "tool_outputs": outputs, "tool_error": error})
    return {"next_action": "auto_respond", "messages": messages}
