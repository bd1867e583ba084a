"""The actions of a computer: which fields their inputs have, what each may hold, and what the model is told."""

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
"""At five milliseconds for each character, most of a minute."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    Attributes:
        said: What the model is told once it is done, made from the fields of its input; empty where there is an image
            or a position to tell.
        required: Fields of the input that have to be there, with the parameters of the handler's method that they are.
        optional: The same, of fields that may be missing, or null.
    """

    said: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)


_MAYBE_AT: Final = {"coordinate": "at", "text": "holding"}

# The fields are those of the models `Computer...Input` of the anthropic package; the words are its toolset's.
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
    """The arguments for the handler's method.

    Args:
        name: One of `ACTIONS`.
        input: What the model wrote, without the name of the action.
        width: Of the display, in pixels.
        height: The same.

    Raises:
        ToolError: What is wrong with the input, all of it, in words for the model.
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
    """What a value must be, in words."""


_Display: TypeAlias = tuple[int, int]
"""Width and height."""


def _integer(value: Any, least: int, most: int) -> int:
    """A whole number; 10.0 is one, as it is for JSON, and a boolean is none."""
    number = _number(value, least, most, "a whole number")
    if number != math.floor(number):
        raise _Unfit(f"a whole number from {least} to {most}")
    return int(number)


def _number(value: Any, least: int, most: int, what: str = "a number") -> float:
    if (
        not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most
    ):  # NaN is in no range
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
"""Further than any display reaches; where on it a point may be is told with the display's own size."""


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
"""By parameters of the handler's methods."""
