"""A mouse and a keyboard in a page, by the events of the DevTools protocol that they make."""

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
    """Every method is a part of a step of the browser, and blocks; `modifiers` are those of `Key`.

    Attributes:
        at: Where it was put last.
    """

    def __init__(self) -> None:
        self.at: Point = (0, 0)
        self._is_down = False

    def move(self, browser: Chromium, at: Point, modifiers: int = 0) -> None:
        """Put it somewhere; with the left button down, that is dragging."""
        self.at = at
        button = "left" if self._is_down else "none"
        self._send(browser, "mouseMoved", modifiers, button=button, buttons=int(self._is_down))

    def press(self, browser: Chromium, button: Button = "left", modifiers: int = 0, *, count: int = 1) -> None:
        """Press a button, for the second or third time of a double or triple click."""
        self._is_down = self._is_down or button == "left"
        self._send(browser, "mousePressed", modifiers, button=button, buttons=_BUTTONS[button], clickCount=count)

    def release(self, browser: Chromium, button: Button = "left", modifiers: int = 0, *, count: int = 1) -> None:
        """Let a button go."""
        self._is_down = self._is_down and button != "left"
        self._send(browser, "mouseReleased", modifiers, button=button, buttons=0, clickCount=count)

    def click(self, browser: Chromium, button: Button, count: int, modifiers: int = 0) -> None:
        """Click so many times."""
        for number in range(1, count + 1):
            with self._pressed(browser, button, modifiers, count=number):
                pass

    def drag(self, browser: Chromium, start: Point, end: Point, modifiers: int = 0) -> None:
        """From one point to another, with places between: a page may begin to drag only after a few."""
        self.move(browser, start, modifiers)
        with self._pressed(browser, "left", modifiers):
            for step in range(1, _DRAG_STEPS + 1):
                x, y = (round(a + (b - a) * step / _DRAG_STEPS) for a, b in zip(start, end, strict=True))
                self.move(browser, (x, y), modifiers)

    def turn_wheel(self, browser: Chromium, x: int, y: int, clicks: int, modifiers: int = 0) -> None:
        """Turn the wheel, to the right (`x` of 1) or down (`y` of 1); a click is 100 pixels."""
        for _ in range(clicks):
            self._send(browser, "mouseWheel", modifiers, deltaX=x * _WHEEL_PX, deltaY=y * _WHEEL_PX)

    @contextmanager
    def _pressed(self, browser: Chromium, button: Button, modifiers: int, *, count: int = 1) -> Iterator[None]:
        """A button pressed, and let go also where a dialog or a page that hangs comes between."""
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
"""Longer texts are put in line by line, as an input method does: a character takes five milliseconds, a line thirty."""
_CHARS_AT_ONCE: Final = 50


def is_keyed(text: str) -> bool:
    """It is short enough for key after key."""
    return len(text) <= _KEYED_CHARS


def parts_of(text: str, *, keyed: bool) -> list[str]:
    """What is typed at once: between parts, typing can be cancelled."""
    if not keyed:
        return text.splitlines(keepends=True)
    return [text[at : at + _CHARS_AT_ONCE] for at in range(0, len(text), _CHARS_AT_ONCE)]


def type_text(browser: Chromium, text: str, *, keyed: bool) -> None:
    """Key by key as far as there are keys; with `keyed=False`, only those that are no characters."""
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
    """Keys pressed, in order, and let go afterwards; gives the modifiers among them."""
    try:
        yield press_keys(browser, keys)
    finally:
        release_keys(browser, keys)


def press_keys(browser: Chromium, keys: Sequence[Key]) -> int:
    """Press keys, in order; gives the modifiers among them."""
    modifiers = 0
    for key in keys:
        modifiers |= key.modifier
        browser.command("Input.dispatchKeyEvent", **key.pressed(modifiers))
    return modifiers


def release_keys(browser: Chromium, keys: Sequence[Key]) -> None:
    """Let them go, the last one first."""
    modifiers = sum({key.modifier for key in keys})
    for key in reversed(keys):
        modifiers &= ~key.modifier
        browser.command("Input.dispatchKeyEvent", **key.released(modifiers))


def _insert(browser: Chromium, text: str) -> None:
    if text:
        browser.command("Input.insertText", text=text)
