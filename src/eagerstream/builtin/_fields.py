"""The fields of an input whose schema is the API's: checked one by one, with faults in words for the model."""

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
    """A text; under the first of `names` that is there. A null is no value.

    Raises:
        ToolError: There is none, and no default, or it is no text.
    """
    return str(_field(input, str, names, default))


def integer_field(input: Mapping[str, Any], name: str) -> int:
    """An integer.

    Raises:
        ToolError: There is none, or it is no integer.
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
    """Return what stands under the command that an input names.

    Raises:
        ToolError: The input names no command, or one that the tool does not have.
    """
    name = text_field(input, "command")
    if name not in commands:
        raise ToolError(
            f"Error: Unknown command {name[:_MAX_TOLD_CHARS]!r}. There are: {', '.join(commands)}",
            code=ToolErrorCode.INVALID_PARAM,
        )
    return commands[name]
