"""A keyboard in a page: keys pressed and let go, and texts typed, by the DevTools protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .chromium import Chromium
from .keys import Key, key_typing

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
