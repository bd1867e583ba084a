"""Checks of single input fields for tools whose schema is the API's. The error texts are for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from ..errors import ToolError
from ..tools import ToolErrorCode

T = TypeVar("T")

_MAX_TOLD_CHARS: Final = 100
_WORDS: Final = {
    str: "text",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def text_field(input: Mapping[str, Any], *names: str, default: str | None = None) -> str:
    """Return the text in the first of `names` that the input has. A null counts as missing.

    Raises:
        ToolError: The field is missing and there is no default, or it is not a text.
    """
    return str(_field(input, str, names, default))


def integer_field(input: Mapping[str, Any], name: str) -> int:
    """Return an integer field.

    Raises:
        ToolError: The field is missing or not an integer.
    """
    return int(_field(input, int, (name,), None))


def _field(input: Mapping[str, Any], kind: type, names: tuple[str, ...], default: Any) -> Any:
    name = next((name for name in names if input.get(name) is not None), names[0])
    value = input.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        raise ToolError(f"Error: `{name}` is missing", code=ToolErrorCode.INVALID_PARAM)
    if type(value) is not kind:
        what = _WORDS.get(type(value), "something else")
        raise ToolError(f"Error: `{name}` must be {_WORDS[kind]}, not {what}", code=ToolErrorCode.INVALID_PARAM)
    return value


def command_of(input: Mapping[str, Any], commands: Mapping[str, T]) -> T:
    """Return the entry of `commands` for the command that the input names.

    Raises:
        ToolError: The input has no `command`, it is not a text, or the tool does not have that command.
    """
    name = text_field(input, "command")
    if name not in commands:
        raise ToolError(
            f"Error: Unknown command {name[:_MAX_TOLD_CHARS]!r}. There are: {', '.join(commands)}",
            code=ToolErrorCode.INVALID_PARAM,
        )
    return commands[name]
