"""JSON from peers that can be sent on: the next reader may be stricter than Python."""

from __future__ import annotations

import json
from math import isinf
from typing import Any, NoReturn


def load_json(text: str | bytes | bytearray) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is not JSON, or has a number that JSON cannot represent: NaN, an infinity, or one too large for a
            float.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError("a number too large for a float")
    return number
