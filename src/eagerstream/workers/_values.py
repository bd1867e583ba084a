"""Values of tools as bytes that only ever become data again: JSON, with marks for a few types that JSON lacks.

A worker runs tools, and may be made to write anything. Reading a pickle runs code that its writer chose, so nothing
that a worker wrote is unpickled.

Exactly these come back as they were: None, booleans, numbers, texts, lists, dicts with texts as keys, tuples, bytes,
`datetime`, `date`, `time`, `timedelta`, `Decimal` and `UUID`. Of a time zone, its offset comes back. Anything else
comes back in its JSON form: a dataclass or a pydantic model as a dict, an enum as its value, a set as a list. What has
no JSON form comes back as its `str`.

There is no mark for sets, nor for dicts with other keys: numbers can be chosen so that a table of them takes quadratic
time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn
from uuid import UUID

from pydantic_core import to_jsonable_python

from ..tools import to_json

_MARK: Final = "$eagerstream"
_DICT: Final = "dict"
_SCALARS: Final = (type(None), bool, int, float, str)

_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    tuple: lambda value: [_marked(item) for item in value],
    bytes: lambda value: base64.b64encode(value).decode(),
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "tuple": lambda value: tuple(_checked(value, list)),
    "bytes": lambda value: base64.b64decode(_checked(value, str), validate=True),
    "datetime": lambda value: datetime.fromisoformat(_checked(value, str)),
    "date": lambda value: date.fromisoformat(_checked(value, str)),
    "time": lambda value: time.fromisoformat(_checked(value, str)),
    "timedelta": lambda value: timedelta(*(_checked(part, int) for part in _checked(value, list))),
    "Decimal": lambda value: Decimal(_checked(value, str)),
    "UUID": lambda value: UUID(_checked(value, str)),
    _DICT: lambda value: dict(_pair(item) for item in _checked(value, list)),
}


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes, whatever it is."""
    for form in (_exact, _marked_text, _json_form):
        with suppress(Exception):  # a cycle, a `__str__` that raises: any code may run in here
            return form(value).encode("utf-8", "surrogatepass")
    return json.dumps(f"<{type(value).__name__}>").encode()


def from_bytes(data: bytes) -> Any:
    """Return the value that `to_bytes` was given, or its JSON form. Runs nothing but the readers above.

    Raises:
        ValueError, TypeError, ArithmeticError, RecursionError: It is not what `to_bytes` gives.
    """
    text = data.decode("utf-8", "surrogatepass")
    return json.loads(text, object_hook=_unmarked if _MARK in text else None)


def _exact(value: Any) -> str:
    """The JSON text of a value that JSON keeps as it is, which most are; 10 times as fast as marking each part."""
    text = json.dumps(value, ensure_ascii=False, default=_refuse)
    if _MARK in text or json.loads(text) != value:
        raise ValueError("JSON would change it")
    return text


def _marked_text(value: Any) -> str:
    return json.dumps(_marked(value), ensure_ascii=False)


def _marked(value: Any) -> Any:
    """A value in terms of JSON, in which nothing is lost that a mark can keep."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return [_marked(item) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        if _MARK in value:
            return {_MARK: _DICT, "value": [[key, _marked(item)] for key, item in value.items()]}
        return {key: _marked(item) for key, item in value.items()}
    if kind in _WRITERS:
        return {_MARK: kind.__name__, "value": _WRITERS[kind](value)}
    if kind is dict:
        value = {str(key): item for key, item in value.items()}
        return _marked(value)
    return _plain(value)


def _json_form(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """The form in which the model would be shown it, or else as much of it as can be said."""
    with suppress(Exception):
        return to_json(value)
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)


def _unmarked(found: dict[str, Any]) -> Any:
    if _MARK not in found:
        return found
    reader = _READERS.get(_checked(found[_MARK], str))
    if reader is None or found.keys() != {_MARK, "value"}:
        raise ValueError("no such mark")
    return reader(found["value"])


def _pair(item: Any) -> tuple[str, Any]:
    key, value = _checked(item, list)
    return _checked(key, str), value


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _refuse(value: Any) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")
