"""JSON values as Python has them, and the walks over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
JSONObject: TypeAlias = dict[str, JSON]

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: object keys and array indexes from the root, `()` for the root itself."""


MISSING: Final = object()


def find(value: JSON, path: Path) -> Any:
    """The value at `path` inside `value`, or `MISSING`.

    Missing are: a key that is not there, an index out of range (also a negative one), a step into a scalar.
    """
    found: Any = value
    for step in path:
        if type(found) is dict and type(step) is str:
            if step not in found:
                return MISSING
        elif type(found) is not list or type(step) is not int or not 0 <= step < len(found):
            return MISSING
        found = found[step]
    return found


def copy_json(value: JSON) -> JSON:
    """A copy that shares no container with `value`; O(size), with an explicit stack.

    `copy.deepcopy` takes several Python frames a level: a document of depth 512, which the parser accepts, is too
    deep for it.
    """
    root: list[JSON] = [value]
    pending: list[list[JSON] | JSONObject] = [root]
    while pending:
        copied = pending.pop()
        places = copied.items() if isinstance(copied, dict) else enumerate(copied)
        for place, item in list(places):
            if isinstance(item, (dict, list)):
                twin = item.copy()
                copied[place] = twin  # type: ignore[index,call-overload]  # `place` comes from this very container
                pending.append(twin)
    return root[0]


def encodable(value: Any) -> Any:
    """`value` in a form that UTF-8 can carry: U+FFFD in place of each lone surrogate; itself where it has none."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _encodable_copy(value)
    return value


def _encodable_copy(value: Any) -> Any:
    # Recursion is bounded: the depth of an input is, and the other values are our own.
    if isinstance(value, Mapping):
        return {encodable(key): _encodable_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable_copy(item) for item in value]
    return encodable(value) if isinstance(value, str) else value
