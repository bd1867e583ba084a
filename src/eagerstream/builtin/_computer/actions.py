"""Actions of a computer: the fields of their inputs, the allowed values, and the result texts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ...errors import ToolError
from ...tools import ToolErrorCode
from .handler import Point, Region

_MAX_SECONDS: Final = 300
_MAX_REPEAT: Final = 100
_MAX_CLICKS: Final = 100
_MAX_KEYS_CHARS: Final = 100
_MAX_TEXT_CHARS: Final = 10_000
"""Maximum length of a text to type. At 5 ms per character, this takes 50 s."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    Attributes:
        said: The result text, with the input's fields as placeholders. It is empty if the result is an image or a
            position.
        required: Required fields of the input, and the parameters of the handler's method that they become.
        optional: The same for fields that may be missing or null.
    """

    said: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)


_MAYBE_AT: Final = {"coordinate": "at", "text": "holding"}

# The fields are those of the anthropic package's models `Computer...Input`. The words are those of its toolset.
ACTIONS: Final[Mapping[str, Action]] = {
    "key": Action("Pressed {text}.", {"text": "keys"}, {"repeat": "repeat"}),
    "hold_key": Action("Held {text} for {duration:g}s.", {"text": "keys", "duration": "seconds"}),
    "type": Action("Typed.", {"text": "text"}),
    "cursor_position": Action(),
    "mouse_move": Action("Moved the mouse.", {"coordinate": "at"}),
    "left_mouse_down": Action("Left mouse button pressed."),
    "left_mouse_up": Action("Left mouse button released."),
    "left_click": Action("Clicked.", {}, _MAYBE_AT),
    "left_click_drag": Action("Dragged.", {"start_coordinate": "start", "coordinate": "end"}, {"text": "holding"}),
    "right_click": Action("Right-clicked.", {}, _MAYBE_AT),
    "middle_click": Action("Middle-clicked.", {}, _MAYBE_AT),
    "double_click": Action("Double-clicked.", {}, _MAYBE_AT),
    "triple_click": Action("Triple-clicked.", {}, _MAYBE_AT),
    "scroll": Action(
        "Scrolled {scroll_direction}.", {"scroll_direction": "direction", "scroll_amount": "clicks"}, _MAYBE_AT
    ),
    "wait": Action("Waited {duration:g}s.", {"duration": "seconds"}),
    "screenshot": Action(),
    "zoom": Action("", {"region": "region"}),
}


def checked(name: str, input: Mapping[str, Any], *, width: int, height: int) -> dict[str, Any]:
    """Return the arguments for the handler's method.

    Args:
        name: A key of `ACTIONS`.
        input: The model's input, without the name of the action.
        width: The display's width in pixels.
        height: The display's height in pixels.

    Raises:
        ToolError: The input is invalid. The text lists up to 10 faults for the model.
    """
    action = ACTIONS[name]
    arguments: dict[str, Any] = {}
    faults = [f"it needs {missing}" for missing in action.required if input.get(missing) is None]
    for key, value in input.items():
        parameter = action.required.get(key) or action.optional.get(key)
        if value is None:
            continue
        if parameter is None:
            faults.append(f"it takes no {key[:40]!r}")
            continue
        try:
            arguments[parameter] = _READERS[parameter](value, (width, height))
        except _Unfit as unfit:
            faults.append(f"{key} must be {unfit}")
    if faults:
        raise ToolError(f"Error: {name}: {'; '.join(faults[:_MAX_FAULTS])}.", code=ToolErrorCode.INVALID_PARAM)
    return arguments


_MAX_FAULTS: Final = 10


class _Unfit(Exception):
    """A value that does not fit. The text is the requirement that it misses."""


_Display: TypeAlias = tuple[int, int]
"""Width and height in pixels."""


def _integer(value: Any, least: int, most: int) -> int:
    """Return a whole number. As in JSON, 10.0 is one. A boolean is not."""
    number = _number(value, least, most, "a whole number")
    if number != math.floor(number):
        raise _Unfit(f"a whole number from {least} to {most}")
    return int(number)


def _number(value: Any, least: int, most: int, what: str = "a number") -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:  # refuses NaN, too
        raise _Unfit(f"{what} from {least} to {most}")
    return value


def _point(value: Any, display: _Display) -> Point:
    try:
        x, y = _integers(value, 2)
    except (_Unfit, ValueError) as error:
        raise _Unfit("[x, y], two whole numbers") from error
    width, height = display
    if not (0 <= x < width and 0 <= y < height):
        raise _Unfit(f"on the display: x from 0 to {width - 1}, y from 0 to {height - 1}")
    return x, y


def _region(value: Any, display: _Display) -> Region:
    try:
        left, top, right, bottom = _integers(value, 4)
    except (_Unfit, ValueError) as error:
        raise _Unfit("[x0, y0, x1, y1], four whole numbers") from error
    width, height = display
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise _Unfit(f"on the display of {width} by {height}, with x0 < x1 and y0 < y1")
    return left, top, right, bottom


def _integers(value: Any, count: int) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        raise _Unfit
    return [_integer(item, -_FAR, _FAR) for item in value]


_FAR: Final = 1_000_000
"""A bound beyond any display. Points are then checked against the display's own size."""


def _direction(value: Any, _: _Display) -> str:
    if value not in ("up", "down", "left", "right"):
        raise _Unfit("up, down, left or right")
    return str(value)


def _keys(value: Any, _: _Display) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value) > _MAX_KEYS_CHARS:
        raise _Unfit("the name of a key, or names with + between them, such as ctrl+a or Page_Down")
    return value.strip()


def _text(value: Any, _: _Display) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT_CHARS:
        raise _Unfit(f"a text of 1 to {_MAX_TEXT_CHARS} characters")
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    if any(unicodedata.category(character) == "Cc" and character not in "\n\t" for character in text):
        raise _Unfit("text without control characters, other than line feeds and tabs: keys are for the key action")
    return text


_READERS: Final[Mapping[str, Callable[[Any, _Display], Any]]] = {
    **dict.fromkeys(("at", "start", "end"), _point),
    **dict.fromkeys(("keys", "holding"), _keys),
    "text": _text,
    "region": _region,
    "seconds": lambda value, _: _number(value, 0, _MAX_SECONDS),
    "repeat": lambda value, _: _integer(value, 1, _MAX_REPEAT),
    "clicks": lambda value, _: _integer(value, 0, _MAX_CLICKS),
    "direction": _direction,
}
"""Readers by parameter of the handler's methods."""
