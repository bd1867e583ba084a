"""Names of keys, and what becomes of them in the DevTools protocol."""

from __future__ import annotations

import string

import pytest

from eagerstream.builtin._computer.keys import ALT, CTRL, META, SHIFT, key_typing, keys_named
from eagerstream.errors import ToolError
from tests.tables import rows


@rows(
    "names, pressed",
    {
        "a": ["a"],
        "A": ["A"],
        "ctrl+a": ["Control", "a"],
        "CTRL+A": ["Control", "a"],
        "ctrl+shift+a": ["Control", "Shift", "A"],
        "shift+1": ["Shift", "!"],
        "shift+kp_1": ["Shift", "1"],
        "ctrl++": ["Control", "+"],
        "+": ["+"],
        "ctrl+plus": ["Control", "+"],
        "ctrl + a": ["Control", "a"],
        "Return": ["Enter"],
        "KP_Enter": ["Enter"],
        "Page_Down": ["PageDown"],
        "Prior": ["PageUp"],
        "BackSpace": ["Backspace"],
        "super": ["Meta"],
        "cmd+Left": ["Meta", "ArrowLeft"],
        "alt+F4": ["Alt", "F4"],
        "Shift_R": ["Shift"],
        "space": [" "],
        "quotedbl": ['"'],
        "/": ["/"],
        "3": ["3"],
    }.items(),
)
def test_names(names: str, pressed: list[str]) -> None:
    """As xdotool writes them, in any case."""
    assert [key.key for key in keys_named(names)] == pressed


@rows("names", ["", "ctrl+", "+a", "hyper", "Down Down", "ctrl-a", "é", "a+" * 8 + "a", "<script>"])
def test_names_that_no_key_has(names: str) -> None:
    """An error that says so; nothing is pressed on a guess."""
    with pytest.raises(ToolError, match=r"there is no key|at most 8 keys"):
        keys_named(names)


def test_every_character_of_a_us_keyboard() -> None:
    """Each has a key that types it, with Shift where it is on the upper half."""
    for character in string.ascii_letters + string.digits + string.punctuation + " ":
        key = key_typing(character)
        assert key is not None
        event = key.pressed(0)
        assert (event["type"], event["key"], event["text"]) == ("keyDown", character, character)
        assert bool(event["modifiers"] & SHIFT) == (character in string.ascii_uppercase + '~!@#$%^&*()_+{}|:"<>?')
    assert key_typing("é") is None


@rows("modifier", [ALT, CTRL, META])
def test_a_command_types_nothing(modifier: int) -> None:
    """Ctrl+A selects, and leaves no letter."""
    (key,) = keys_named("a")
    event = key.pressed(modifier)
    assert (event["type"], event["modifiers"]) == ("rawKeyDown", modifier)
    assert "text" not in event


def test_sides() -> None:
    """Two keys of one name are told apart as a keyboard does."""
    assert [keys_named(name)[0].location for name in ("Shift_L", "Shift_R", "KP_5", "5")] == [1, 2, 3, 0]
    assert keys_named("KP_5")[0].pressed(0)["isKeypad"] is True
