"""JSON from others, as it can be sent on: whoever reads it next may be stricter than Python is."""

from __future__ import annotations

import json
from math import isinf
from typing import Any, NoReturn


def load_json(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is none; or has a number that is none in JSON, or would be none when it is written: NaN, an
            infinity, and what is too large for a float.
        RecursionError: It is too deeply nested.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError("a number too large for a float")
    return number
