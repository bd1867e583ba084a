"""A mouse and a keyboard for a page. They send events of the DevTools protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

from .chromium import Chromium
from .handler import Point
from .keys import Key, key_typing

Button: TypeAlias = Literal["left", "right", "middle"]

_BUTTONS: Final = {"left": 1, "right": 2, "middle": 4}
_DRAG_STEPS: Final = 10
_WHEEL_PX: Final = 100


class Mouse:
    """A mouse. Call its methods inside a step of the browser. They block. `modifiers` are bits as in `Key`.

    Attributes:
        at: The last position.
    """

    def __init__(self) -> None:
        self.at: Point = (0, 0)
        self._is_down = False

    def move(self, browser: Chromium, at: Point, modifiers: int = 0) -> None:
        """Move the mouse. With the left button down, this drags."""
        self.at = at
        button = "left" if self._is_down else "none"
        self._send(browser, "mouseMoved", modifiers, button=button, buttons=int(self._is_down))

    def press(self, browser: Chromium, button: Button = "left", modifiers: int = 0, *, count: int = 1) -> None:
        """Press a button. `count` is 2 or 3 for the last press of a double or triple click."""
        self._is_down = self._is_down or button == "left"
        self._send(browser, "mousePressed", modifiers, button=button, buttons=_BUTTONS[button], clickCount=count)

    def release(self, browser: Chromium, button: Button = "left", modifiers: int = 0, *, count: int = 1) -> None:
        """Release a button."""
        self._is_down = self._is_down and button != "left"
        self._send(browser, "mouseReleased", modifiers, button=button, buttons=0, clickCount=count)

    def click(self, browser: Chromium, button: Button, count: int, modifiers: int = 0) -> None:
        """Click `count` times."""
        for number in range(1, count + 1):
            with self._pressed(browser, button, modifiers, count=number):
                pass

    def drag(self, browser: Chromium, start: Point, end: Point, modifiers: int = 0) -> None:
        """Drag from one point to another, with steps between: some pages start a drag only after several moves."""
        self.move(browser, start, modifiers)
        with self._pressed(browser, "left", modifiers):
            for step in range(1, _DRAG_STEPS + 1):
                x, y = (round(a + (b - a) * step / _DRAG_STEPS) for a, b in zip(start, end, strict=True))
                self.move(browser, (x, y), modifiers)

    def turn_wheel(self, browser: Chromium, x: int, y: int, clicks: int, modifiers: int = 0) -> None:
        """Turn the wheel to the right (`x` of 1) or down (`y` of 1). A click is 100 pixels."""
        for _ in range(clicks):
            self._send(browser, "mouseWheel", modifiers, deltaX=x * _WHEEL_PX, deltaY=y * _WHEEL_PX)

    @contextmanager
    def _pressed(self, browser: Chromium, button: Button, modifiers: int, *, count: int = 1) -> Iterator[None]:
        """Hold a button during the block. It is released even if a dialog or a timeout interrupts the block."""
        try:
            self.press(browser, button, modifiers, count=count)
            yield
        finally:
            self.release(browser, button, modifiers, count=count)

    def _send(self, browser: Chromium, type: str, modifiers: int, **more: Any) -> None:
        x, y = self.at
        browser.command("Input.dispatchMouseEvent", type=type, x=x, y=y, modifiers=modifiers, **more)


# --- the keyboard -----------------------------------------------------------------------------------------------------

_KEYED_CHARS: Final = 500
"""Maximum length of a text to type by keys: 5 ms per character. Longer texts are inserted by line: 30 ms each."""
_CHARS_AT_ONCE: Final = 50


def is_keyed(text: str) -> bool:
    """Return whether a text is short enough for single keys."""
    return len(text) <= _KEYED_CHARS


def parts_of(text: str, *, keyed: bool) -> list[str]:
    """Split a text into parts to type at once. Typing can be cancelled between them."""
    if not keyed:
        return text.splitlines(keepends=True)
    return [text[at : at + _CHARS_AT_ONCE] for at in range(0, len(text), _CHARS_AT_ONCE)]


def type_text(browser: Chromium, text: str, *, keyed: bool) -> None:
    """Type characters by key if the keyboard has one. With `keyed=False`, use keys only for Enter and Tab."""
    waiting = ""
    for character in text:
        key = key_typing(character)
        if key is None or not (keyed or character in "\n\t"):
            waiting += character
            continue
        _insert(browser, waiting)
        waiting = ""
        with held(browser, [key]):
            pass
    _insert(browser, waiting)


@contextmanager
def held(browser: Chromium, keys: Sequence[Key]) -> Iterator[int]:
    """Hold keys during the block, pressed in order. Yield their modifiers."""
    try:
        yield press_keys(browser, keys)
    finally:
        release_keys(browser, keys)


def press_keys(browser: Chromium, keys: Sequence[Key]) -> int:
    """Press keys in order. Return their modifiers."""
    modifiers = 0
    for key in keys:
        modifiers |= key.modifier
        browser.command("Input.dispatchKeyEvent", **key.pressed(modifiers))
    return modifiers


def release_keys(browser: Chromium, keys: Sequence[Key]) -> None:
    """Release keys, the last one first."""
    modifiers = sum({key.modifier for key in keys})
    for key in reversed(keys):
        modifiers &= ~key.modifier
        browser.command("Input.dispatchKeyEvent", **key.released(modifiers))


def _insert(browser: Chromium, text: str) -> None:
    if text:
        browser.command("Input.insertText", text=text)
