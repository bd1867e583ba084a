"""The message format of anthropic-tools: what it allows, told in that library's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

ROLES: Final = ("user", "assistant", "tool_inputs", "tool_outputs")


def check_messages(messages: object) -> None:
    """Check a conversation in the old format.

    A message is a dict of `"role"` and, by role:

    - `user`, `assistant`: `"content"`, a text;
    - `tool_inputs`: `"content"`, a text that may be empty, and `"tool_inputs"`, a list of
      `{"tool_name": str, "tool_arguments": dict}`, not empty;
    - `tool_outputs`: either `"tool_outputs"`, a list of `{"tool_name": str, "tool_result": Any}`, or `"tool_error"`, a
      text; the other is None, or not there.

    Further keys are allowed everywhere. Whether calls and results belong together is looked at by `to_history`.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(messages, list) or not messages:
        raise ValueError("Messages must be a list of length > 0.")
    if not all(isinstance(message, dict) for message in messages):
        raise ValueError("All messages in messages list should be dictionaries.")
    for message in messages:
        if "role" not in message:
            raise ValueError("All messages must have a 'role' key.")
        match message["role"]:
            case "user" | "assistant":
                _check_text(message)
            case "tool_inputs":
                _check_inputs(message)
            case "tool_outputs":
                _check_outputs(message)
            case role:
                raise ValueError(f"{role!s:.80} is not a valid role. Valid roles are {list(ROLES)}")


def _check_text(message: Mapping[str, Any]) -> None:
    if "content" not in message:
        raise ValueError("All messages with user or assistant roles must have a 'content' key.")
    if not isinstance(message["content"], str):
        raise ValueError("For messages with role='user' or role='assistant', content must be a string.")


def _check_inputs(message: Mapping[str, Any]) -> None:
    if not isinstance(message.get("content"), str):
        raise ValueError("For messages with role='tool_inputs', content must be a string.")
    if "tool_inputs" not in message:
        raise ValueError("All messages with tool_inputs roles must have a 'tool_inputs' key.")
    inputs = message["tool_inputs"]
    if not isinstance(inputs, list) or not inputs:
        raise ValueError("For messages with role='tool_inputs', tool_inputs must be a list of length > 0.")
    if not _have(inputs, "tool_name", "tool_arguments"):
        raise ValueError("All elements of tool_inputs must be dictionaries with keys 'tool_name' and 'tool_arguments'.")
    if not all(isinstance(each["tool_arguments"], dict) for each in inputs):
        raise ValueError("All 'tool_arguments' must be dictionaries.")


def _check_outputs(message: Mapping[str, Any]) -> None:
    if "content" in message:
        raise ValueError("tool_outputs should not have a 'content' key/value pair")
    outputs, error = message.get("tool_outputs"), message.get("tool_error")
    if outputs is not None and error is not None:
        raise ValueError(
            "Only one of tool_outputs and tool_error should be provided, the other should be None. "
            "Both are currently not None."
        )
    if outputs is None and error is None:
        raise ValueError("For messages with role='tool_outputs' you must provide one of tool_outputs or tool_error.")
    if error is not None and not isinstance(error, str):
        raise ValueError("tool_error must be str or None.")
    if outputs is not None and not isinstance(outputs, list):
        raise ValueError("tool_outputs must be list or None.")
    if not _have(outputs or (), "tool_name", "tool_result"):
        raise ValueError("All elements of tool_outputs must be dictionaries with keys 'tool_name' and 'tool_result'.")


def _have(elements: Sequence[object], name: str, value: str) -> bool:
    """All are dicts with these two keys, the first of them a text with something in it."""
    return all(
        isinstance(each, dict) and isinstance(each.get(name), str) and each[name] and value in each for each in elements
    )
