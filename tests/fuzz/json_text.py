"""A grammar of JSON texts, driven by choices: most are valid, some have slips, some are deep or long."""

from __future__ import annotations

from typing import Final

from .choices import Choices

_TIMES: Final = (
    1,
    2,
    2,
    3,
    3,
    5,
    5,
    9,
    9,
    12,
    40,
    40,
    70,
    130,
    520,
    2_000,
)  # around the limits that the targets set, and far beyond
_UNITS: Final = (
    "a", " ", "é", "\u00a0", "\u2028", "\x7f", "😀", "\ud83d", "{", "]", ",", ":", "x" * 30, "0",
    "\\n", '\\"', "\\\\", "\\/", "\\u0041", "\\u0000", "\\ud83d\\ude00", "\\uD83D", "\\ude00", "\\ud83d\\ud83d\\ude00",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "-0", "1", "12", "-7", "0.0", "-0.0", "1.5", "1e5", "1E+2", "-1.5e-3", "1e400", "-1e999", "1e-999",
    "123456789012345678901234567890", "1" * 99, "9" * 101, "0.30000000000000004",
)  # fmt: skip
_SPACES: Final = ("", "", "", " ", "\n", "\t \r")
_INTRUDERS: Final = "{}[],:\"\\ \n0123456789.eE+-truefalsnx/\x00\x1f\ufeffNI'é"


def json_text(choices: Choices) -> str:
    """A text that is JSON, or was before a few slips."""
    text = _value(choices, 0)[: choices.room]
    for _ in range(choices.pick((0, 0, 0, 0, 1, 1, 2, 3))):
        text = _slip(choices, text)
    return text


def _slip(choices: Choices, text: str) -> str:
    at = (choices.below(256) << 8 | choices.below(256)) % (len(text) + 1)
    match choices.below(5):
        case 0:
            return text[:at] + choices.pick(_INTRUDERS) + text[at:]
        case 1:
            return text[:at] + text[at + 1 :]
        case 2:
            return text[:at] + choices.pick(_INTRUDERS) + text[at + 1 :]
        case 3:
            return text[:at]
        case _:
            return text + choices.pick(("\n", "}", "x", text[:9]))


def _value(choices: Choices, depth: int) -> str:
    if not choices.are_left or depth > 8:
        return "0"
    match choices.below(16):
        case 0 | 1 | 2 | 3 | 4:
            members = (
                f"{_space(choices)}{_key(choices)}{_space(choices)}:{_space(choices)}{_value(choices, depth + 1)}"
                for _ in range(choices.below(5))
            )
            return "{" + ",".join(members) + _space(choices) + "}"
        case 5 | 6 | 7:
            items = (f"{_space(choices)}{_value(choices, depth + 1)}" for _ in range(choices.below(5)))
            return "[" + ",".join(items) + _space(choices) + "]"
        case 8 | 9:
            return _string(choices)
        case 10 | 11:
            return choices.pick(_NUMBERS)
        case 12:
            return choices.pick(("true", "false", "null"))
        case 13:  # deep
            times = min(choices.pick(_TIMES), choices.room // 2)
            opening, closing = choices.pick((("[", "]"), ('{"a":', "}"), ('[0,{"b":', "}]"), ('{"a":1,"a":[', "]}")))
            return opening * times + _value(choices, depth + 1) + closing * times
        case 14:  # long
            times = choices.pick(_TIMES)
            times = min(times, choices.room // 2)
            item = _value(choices, depth + 1)[: choices.room // times] if choices.below(2) else choices.pick(_NUMBERS)
            return "[" + ",".join([item] * times) + "]"
        case _:
            return choices.pick(("1", "0", "-", "1.0", "1e", "9")) + "0" * min(choices.pick(_TIMES), choices.room)


def _space(choices: Choices) -> str:
    return choices.pick(_SPACES)


def _key(choices: Choices) -> str:
    return choices.pick(('"a"', '"b"', '"\\u0061"', '""')) if choices.below(4) else _string(choices)


def _string(choices: Choices) -> str:
    units = [choices.pick(_UNITS) for _ in range(choices.below(8))]
    if choices.below(16) == 0:
        units *= min(choices.pick(_TIMES), choices.room) // 8 + 1
    return f'"{"".join(units)}"'
