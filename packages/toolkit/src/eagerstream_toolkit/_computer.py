"""`Computer`: the `computer` tool in three versions, for any `ComputerHandler`."""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, Unpack, get_args

from eagerstream._support.checks import check_choice
from eagerstream._support.terms import betas_for
from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import Group, RunningCall, Tool, ToolErrorCode, ToolOptions, ToolResponse, image_bytes

from ._computer_handler import ComputerHandler, Point, Region
from ._tool_options import with_definition

_MAX_SECONDS: Final = 300
_MAX_REPEAT: Final = 100
_MAX_CLICKS: Final = 100
_MAX_KEYS_CHARS: Final = 100
_MAX_TEXT_CHARS: Final = 10_000
"""Maximum length of a text to type. At 5 ms per character, this takes 50 s."""


@dataclass(frozen=True, slots=True)
class _Action:
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
ACTIONS: Final[Mapping[str, _Action]] = {
    "key": _Action("Pressed {text}.", {"text": "keys"}, {"repeat": "repeat"}),
    "hold_key": _Action("Held {text} for {duration:g}s.", {"text": "keys", "duration": "seconds"}),
    "type": _Action("Typed.", {"text": "text"}),
    "cursor_position": _Action(),
    "mouse_move": _Action("Moved the mouse.", {"coordinate": "at"}),
    "left_mouse_down": _Action("Left mouse button pressed."),
    "left_mouse_up": _Action("Left mouse button released."),
    "left_click": _Action("Clicked.", {}, _MAYBE_AT),
    "left_click_drag": _Action("Dragged.", {"start_coordinate": "start", "coordinate": "end"}, {"text": "holding"}),
    "right_click": _Action("Right-clicked.", {}, _MAYBE_AT),
    "middle_click": _Action("Middle-clicked.", {}, _MAYBE_AT),
    "double_click": _Action("Double-clicked.", {}, _MAYBE_AT),
    "triple_click": _Action("Triple-clicked.", {}, _MAYBE_AT),
    "scroll": _Action(
        "Scrolled {scroll_direction}.", {"scroll_direction": "direction", "scroll_amount": "clicks"}, _MAYBE_AT
    ),
    "wait": _Action("Waited {duration:g}s.", {"duration": "seconds"}),
    "screenshot": _Action(),
    "zoom": _Action("", {"region": "region"}),
}

ComputerVersion: TypeAlias = Literal["computer_toolset_20260801", "computer_20251124", "computer_20250124"]
"""The `type` of the definition."""

_TOOLSET: Final = "computer_toolset_20260801"
_GROUP: Final = Group(
    "computer", stop_on_error=True, skipped="Not executed: an earlier computer action in this turn failed."
)
_MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024 * 3 // 4
"""5 MB as base64: the smallest image limit among the API's platforms."""
_MAX_NOTE_CHARS: Final = 4096


class Computer(Tool):
    """A tool that lets Claude look at a display and use its mouse and keyboard.

        async with chromium_page("https://shop.example/") as page:  # examples/computer_in_chromium.py
            async with eagerstream.run(client, tools=[Computer(page)], ...) as run:
                ...

    The actions of a turn run in order. After one fails, the others do not run. By default, an action runs as soon as
    its input is complete. With `start="message"`, none runs before the response has ended. With `approve=`, each needs
    an approval. A screen's content can influence the model's next actions: give it no computer with more rights than
    the task needs.

    Args:
        handler: The computer. Actions that its class does not implement return an error. If the version supports it,
            the model does not see them.
        version: `"computer_toolset_20260801"` has a tool for each action, and needs no beta header. The others are one
            tool named `computer` with an `action`, and add the beta that they need. Of these, only the later one has
            `zoom`.
        configs: Configuration of the toolset by action, for example `{"zoom": {"enabled": False}}`.
        options: See `ToolOptions`. Of the options that belong in the definition, only `cache_control` is allowed.

    Raises:
        UsageError: The handler is not a `ComputerHandler`, or one of its methods has the wrong parameters or is not
            async. The version or an action in `configs` is unknown, the version takes no `configs`, or an option is
            wrong.

    Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool
    """

    def __init__(
        self,
        handler: ComputerHandler,
        *,
        version: ComputerVersion = _TOOLSET,
        configs: Mapping[str, Mapping[str, bool]] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not isinstance(handler, ComputerHandler):
            raise UsageError(f"handler must be a ComputerHandler, not {handler!r:.80}")
        faults: list[str] = []  # otherwise they would appear only when the model calls an action
        for name, action in ACTIONS.items():
            method = getattr(type(handler), name)
            is_async = inspect.iscoroutinefunction(inspect.unwrap(method))
            if not (
                is_async and _takes(method, action.required) and _takes(method, {**action.required, **action.optional})
            ):
                given = f"{type(handler).__name__}.{name}{_parameters(method)}"
                faults.append(f"{given} must be: async def {name}{_parameters(getattr(ComputerHandler, name))}")
        if faults:
            raise UsageError("; ".join(faults))
        check_choice("version", version, get_args(ComputerVersion))
        if configs and version != _TOOLSET:
            raise UsageError(f"only {_TOOLSET} takes configs, not {version}")
        if unknown := sorted(set(configs or ()) - set(ACTIONS)):
            raise UsageError(f"configs: there is no action {', '.join(unknown)}")
        configs = configs or {}
        self._handler = handler
        self._served = {
            name
            for name in ACTIONS
            # Any computer can wait.
            if (name == "wait" or getattr(type(handler), name) is not getattr(ComputerHandler, name))
            and configs.get(name, {}).get("enabled", True) is True
            and not (name == "zoom" and version == "computer_20250124")
        }
        definition: dict[str, Any] = {"type": version}
        if version == _TOOLSET:
            merged: dict[str, Any] = {name: dict(config) for name, config in configs.items()}
            for name in ACTIONS:
                if name not in self._served:
                    merged[name] = {**merged.get(name, {}), "enabled": False}  # members are enabled by default
            if merged:
                definition["configs"] = merged
        else:
            definition |= {
                "name": "computer",
                "display_width_px": handler.width,
                "display_height_px": handler.height,
            }
            if handler.display_number is not None:
                definition["display_number"] = handler.display_number
            if "zoom" in self._served:
                definition["enable_zoom"] = True
        options.setdefault("group", _GROUP)
        super().__init__(self._call, **with_definition(definition, options, takes=("cache_control",)))

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas that a request with this tool needs. The toolset needs none."""
        return tuple(betas_for([self.to_dict()]))

    async def _call(self, input: dict[str, Any], call: RunningCall) -> ToolResponse:
        fields = dict(input)
        name = call.name if self.toolset else fields.pop("action", None)
        if not isinstance(name, str) or name not in ACTIONS:
            there_are = ", ".join(action for action in ACTIONS if action in self._served)
            raise ToolError(
                f"Error: there is no action {name!r:.60}; there are {there_are}.", code=ToolErrorCode.INVALID_PARAM
            )
        if name not in self._served:
            raise ToolError(f"Error: the action {name} is not available here.", code=ToolErrorCode.NOT_FOUND)
        arguments = _checked(name, fields, (self._handler.width, self._handler.height))
        # Only a method of the handler can be called: the name is a key of `ACTIONS`.
        done: object = await getattr(self._handler, name)(**arguments)
        if isinstance(done, bytes):
            if len(done) > _MAX_IMAGE_BYTES:
                raise ToolError(f"Error: the image has {len(done)} bytes, more than the API takes.")
            try:
                block = image_bytes(done)
            except UsageError as error:
                raise ToolError("Error: the computer gave no image.") from error
            return ToolResponse.success("", content=[block])
        if isinstance(done, tuple):
            x, y = done
            return ToolResponse.success(f"X={x},Y={y}")
        said = ACTIONS[name].said.format(**fields)
        return ToolResponse.success(f"{said}\n{done[:_MAX_NOTE_CHARS]}" if isinstance(done, str) and done else said)


def _takes(method: Callable[..., object], fields: Mapping[str, str]) -> bool:
    """Return whether a method accepts these parameters by name, as `Computer` passes them."""
    try:
        inspect.signature(method).bind(None, **dict.fromkeys(fields.values()))
    except TypeError:
        return False
    return True


def _parameters(method: Callable[..., object]) -> str:
    """Return a method's parameters as written, without their types."""
    signature = inspect.signature(method)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


# --- inputs -----------------------------------------------------------------------------------------------------------


def _checked(name: str, input: Mapping[str, Any], display: _Display) -> dict[str, Any]:
    """Return the arguments for the handler's method, whose name is a key of `ACTIONS`.

    Raises:
        ToolError: The input is invalid. The text lists up to 10 faults for the model.
    """
    action = ACTIONS[name]
    parameters = {**action.required, **action.optional}
    arguments: dict[str, Any] = {}
    faults = [f"it needs {missing}" for missing in action.required if input.get(missing) is None]
    for key, value in input.items():
        if value is None:
            continue
        if key not in parameters:
            faults.append(f"it takes no {key[:40]!r}")
            continue
        try:
            arguments[parameters[key]] = _READERS[parameters[key]](value, display)
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
    x, y = _integers(value, 2, "[x, y], two whole numbers")
    width, height = display
    if not (0 <= x < width and 0 <= y < height):
        raise _Unfit(f"on the display: x from 0 to {width - 1}, y from 0 to {height - 1}")
    return x, y


def _region(value: Any, display: _Display) -> Region:
    left, top, right, bottom = _integers(value, 4, "[x0, y0, x1, y1], four whole numbers")
    width, height = display
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise _Unfit(f"on the display of {width} by {height}, with x0 < x1 and y0 < y1")
    return left, top, right, bottom


def _integers(value: Any, count: int, what: str) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        raise _Unfit(what)
    try:
        return [_integer(item, -_FAR, _FAR) for item in value]
    except _Unfit as error:
        raise _Unfit(what) from error


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
