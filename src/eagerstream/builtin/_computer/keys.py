"""Keys by their xdotool names, as the DevTools protocol describes them."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...errors import ToolError
from ...tools import ToolErrorCode

ALT: Final = 1
CTRL: Final = 2
META: Final = 4
SHIFT: Final = 8

_MAX_TOGETHER: Final = 8


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a US keyboard.

    Attributes:
        key: Its meaning, as in `KeyboardEvent.key`.
        code: Its position, as in `KeyboardEvent.code`.
        number: Its Windows virtual key code, as in `KeyboardEvent.keyCode`.
        text: The text that it types, or empty.
        modifier: The bit that it sets while pressed. 0 if it is not a modifier.
        needs_shift: True if its character needs Shift.
        location: 1 for the left one of two keys, 2 for the right one, 3 for the number pad, otherwise 0.
    """

    key: str
    code: str
    number: int
    text: str = ""
    modifier: int = 0
    needs_shift: bool = False
    location: int = 0

    def pressed(self, modifiers: int) -> dict[str, Any]:
        """Return the parameters of `Input.dispatchKeyEvent` that press it while `modifiers` are held."""
        # With Ctrl, Alt or Meta, a key is a command and types no text.
        text = "" if modifiers & (ALT | CTRL | META) else self.text
        event = self._event("keyDown" if text else "rawKeyDown", modifiers)
        return {**event, "text": text} if text else event

    def released(self, modifiers: int) -> dict[str, Any]:
        """Return the parameters that release it."""
        return self._event("keyUp", modifiers)

    def _event(self, type: str, modifiers: int) -> dict[str, Any]:
        return {
            "type": type,
            "key": self.key,
            "code": self.code,
            "windowsVirtualKeyCode": self.number,
            "modifiers": modifiers | (SHIFT if self.needs_shift else 0),
            "location": self.location,
            "isKeypad": self.location == 3,
        }


def keys_named(combination: str) -> list[Key]:
    """Return the keys of a combination like `ctrl+shift+a`, in pressing order. Names ignore case.

    Raises:
        ToolError: A name is unknown, or there are more than 8. The text is for the model.
    """
    # The last + may be the key itself, as in ctrl++.
    is_plus = combination.endswith("+") and (len(combination) == 1 or combination.endswith("++"))
    names = [*filter(None, combination.removesuffix("+").split("+")), "plus"] if is_plus else combination.split("+")
    if len(names) > _MAX_TOGETHER:
        raise ToolError(f"Error: at most {_MAX_TOGETHER} keys at once.", code=ToolErrorCode.INVALID_PARAM)
    keys = [_key_named(name.strip()) for name in names]
    held = sum({key.modifier for key in keys})
    if held & SHIFT:
        return [_CHARACTERS.get(_SHIFTED.get(key.text, ""), key) if key.location == 0 else key for key in keys]
    if held:  # ctrl+S means ctrl+s, but S alone is the letter
        return [_CHARACTERS[key.text.lower()] if key.text.isalpha() else key for key in keys]
    return keys


def key_typing(character: str) -> Key | None:
    """Return the key that types a character, including Enter and Tab. Return `None` if a US keyboard has none."""
    return _CHARACTERS.get(character)


def _key_named(name: str) -> Key:
    key = _NAMED.get(name.lower()) or _CHARACTERS.get(name)
    if key is None:
        raise ToolError(
            f"Error: there is no key {name!r:.40}; names are as in xdotool: a, Return, Page_Down, F5, ctrl, super.",
            code=ToolErrorCode.INVALID_PARAM,
        )
    return key


# --- the characters ---------------------------------------------------------------------------------------------------

_UNSHIFTED_MARKS: Final = "`1234567890-=[]\\;',./"
_SHIFTED_MARKS: Final = '~!@#$%^&*()_+{}|:"<>?'
_SHIFTED: Final = dict(
    zip(_UNSHIFTED_MARKS + string.ascii_lowercase, _SHIFTED_MARKS + string.ascii_uppercase, strict=True)
)
_MARKS: Final[Mapping[str, tuple[str, int]]] = {
    "`": ("Backquote", 192),
    "-": ("Minus", 189),
    "=": ("Equal", 187),
    "[": ("BracketLeft", 219),
    "]": ("BracketRight", 221),
    "\\": ("Backslash", 220),
    ";": ("Semicolon", 186),
    "'": ("Quote", 222),
    ",": ("Comma", 188),
    ".": ("Period", 190),
    "/": ("Slash", 191),
}
_ENTER: Final = Key("Enter", "Enter", 13, text="\r")
_TAB: Final = Key("Tab", "Tab", 9)


def _characters() -> dict[str, Key]:
    keys = {"\n": _ENTER, "\t": _TAB, " ": Key(" ", "Space", 32, text=" ")}
    for letter in string.ascii_lowercase:
        keys[letter] = Key(letter, f"Key{letter.upper()}", ord(letter.upper()), letter)
    keys |= {digit: Key(digit, f"Digit{digit}", ord(digit), digit) for digit in string.digits}
    keys |= {mark: Key(mark, code, number, mark) for mark, (code, number) in _MARKS.items()}
    for lower, upper in _SHIFTED.items():
        keys[upper] = replace(keys[lower], key=upper, text=upper, needs_shift=True)
    return keys


_CHARACTERS: Final[Mapping[str, Key]] = _characters()

# --- the names --------------------------------------------------------------------------------------------------------

_MODIFIERS: Final = {
    "shift": Key("Shift", "ShiftLeft", 16, modifier=SHIFT, location=1),
    "control": Key("Control", "ControlLeft", 17, modifier=CTRL, location=1),
    "alt": Key("Alt", "AltLeft", 18, modifier=ALT, location=1),
    "super": Key("Meta", "MetaLeft", 91, modifier=META, location=1),
}
_ALSO: Final = {
    "ctrl": "control",
    "option": "alt",
    "meta": "super",
    "cmd": "super",
    "command": "super",
    "win": "super",
    "windows": "super",
}

_PLAIN: Final[Mapping[str, tuple[str, int]]] = {
    "backspace": ("Backspace", 8),
    "clear": ("Clear", 12),
    "pause": ("Pause", 19),
    "caps_lock": ("CapsLock", 20),
    "escape": ("Escape", 27),
    "esc": ("Escape", 27),
    "page_up": ("PageUp", 33),
    "pageup": ("PageUp", 33),
    "prior": ("PageUp", 33),
    "page_down": ("PageDown", 34),
    "pagedown": ("PageDown", 34),
    "next": ("PageDown", 34),
    "end": ("End", 35),
    "home": ("Home", 36),
    "left": ("ArrowLeft", 37),
    "up": ("ArrowUp", 38),
    "right": ("ArrowRight", 39),
    "down": ("ArrowDown", 40),
    "print": ("PrintScreen", 44),
    "insert": ("Insert", 45),
    "delete": ("Delete", 46),
    "del": ("Delete", 46),
    "menu": ("ContextMenu", 93),
    "num_lock": ("NumLock", 144),
    "scroll_lock": ("ScrollLock", 145),
}
_SYMBOLS: Final = {
    "space": " ",
    "grave": "`",
    "minus": "-",
    "equal": "=",
    "bracketleft": "[",
    "bracketright": "]",
    "backslash": "\\",
    "semicolon": ";",
    "apostrophe": "'",
    "comma": ",",
    "period": ".",
    "slash": "/",
    "asciitilde": "~",
    "exclam": "!",
    "at": "@",
    "numbersign": "#",
    "dollar": "$",
    "percent": "%",
    "asciicircum": "^",
    "ampersand": "&",
    "asterisk": "*",
    "parenleft": "(",
    "parenright": ")",
    "underscore": "_",
    "plus": "+",
    "braceleft": "{",
    "braceright": "}",
    "bar": "|",
    "colon": ":",
    "quotedbl": '"',
    "less": "<",
    "greater": ">",
    "question": "?",
}
_NUMBER_PAD: Final[Mapping[str, tuple[str, str, int]]] = {
    "kp_multiply": ("*", "NumpadMultiply", 106),
    "kp_add": ("+", "NumpadAdd", 107),
    "kp_subtract": ("-", "NumpadSubtract", 109),
    "kp_decimal": (".", "NumpadDecimal", 110),
    "kp_divide": ("/", "NumpadDivide", 111),
}


def _named() -> dict[str, Key]:
    keys = dict(_MODIFIERS)
    for name in ("shift", "control", "alt", "super"):
        left = _MODIFIERS[name]
        keys[f"{name}_l"] = left
        keys[f"{name}_r"] = replace(left, code=left.code.replace("Left", "Right"), location=2)
    keys |= {name: keys[same] for name, same in _ALSO.items()}
    keys |= {name: Key(key, key, number) for name, (key, number) in _PLAIN.items()}
    keys |= {name: _CHARACTERS[character] for name, character in _SYMBOLS.items()}
    keys |= {"return": _ENTER, "enter": _ENTER, "tab": _TAB}
    keys |= {f"f{n}": Key(f"F{n}", f"F{n}", 111 + n) for n in range(1, 25)}
    keys |= {f"kp_{n}": Key(str(n), f"Numpad{n}", 96 + n, str(n), location=3) for n in range(10)}
    keys |= {name: Key(text, code, number, text, location=3) for name, (text, code, number) in _NUMBER_PAD.items()}
    keys["kp_enter"] = replace(_ENTER, code="NumpadEnter", location=3)
    return keys


_NAMED: Final[Mapping[str, Key]] = _named()
