"""google-adk: the path tracker with which its model of Claude reports partial arguments, and its reading of the whole.

Its consumer gets paths with strings to append and values to set, and puts them into an object. As a program, the module
measures the tracker: for each line `{"text", "fragment_chars"}` it prints the microseconds per fragment.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from google.adk.utils._json_utils import safe_json_loads
from google.adk.utils.streaming_utils import (
    _get_value_by_json_path,
    _JsonPathTracker,
    _parse_json_path,
    _set_value_by_json_path,
)

from .reading import NOTHING

_PLACES: Final = 24
_TIMED: Final = 8  # fragments at each place


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    text = "".join(fragments)
    if not text.lstrip(" \t\r\n").startswith("{"):
        return {}  # the arguments of a call are an object
    tracker = _JsonPathTracker()
    value: dict[str, Any] = {}
    has_started = False
    steps = []
    for fragment in fragments:
        has_started |= "{" in fragment
        for argument in tracker.handle_chunk(fragment):
            _apply(value, argument)
        steps.append({"value": copy.deepcopy(value) if has_started else NOTHING})
    try:
        whole = safe_json_loads(text)
    except (ValueError, RecursionError):  # it does not tell a text that is cut from one that is wrong
        return {"steps": [*steps, {"value": value}]}
    return {"steps": [*steps, {"value": whole}], "outcome": "valid"}


def _apply(value: dict[str, Any], argument: Any) -> None:
    """Put a partial argument into the arguments so far, as the aggregator of google-adk does."""
    path = _parse_json_path(argument.json_path)
    if argument.string_value is not None:
        old, found = _get_value_by_json_path(value, path)
        new: Any = (old if found and isinstance(old, str) else "") + argument.string_value
    elif argument.number_value is not None:
        new = argument.number_value
    elif argument.bool_value is not None:
        new = argument.bool_value
    elif argument.null_value is not None:
        new = None
    else:
        return  # an empty container has no form in a partial argument
    _set_value_by_json_path(value, path, new)


def _us(text: str, fragment_chars: int) -> float:
    """Return the microseconds per fragment, the mean of evenly spaced places. Complete documents would take minutes."""
    count = len(text) // fragment_chars - 2 * _TIMED
    elapsed_s = 0.0
    for place in range(_PLACES):
        start = (count * (2 * place + 1) // (2 * _PLACES)) * fragment_chars
        fragments = [text[at : at + fragment_chars] for at in range(start, len(text), fragment_chars)][: 2 * _TIMED]
        tracker = _JsonPathTracker()
        for fragment in (text[:start], *fragments[:_TIMED]):
            tracker.handle_chunk(fragment)
        before = time.process_time()
        for fragment in fragments[_TIMED:]:
            tracker.handle_chunk(fragment)
        elapsed_s += time.process_time() - before
    return elapsed_s / (_PLACES * _TIMED) * 1e6


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(min(_us(asked["text"], asked["fragment_chars"]) for _ in range(3)))
