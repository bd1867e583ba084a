"""Serialization between a pool and its workers: pickles to a worker, and only data from it.

A worker trusts the program that started it. The program does not trust a worker: tools run there, and may make it write
anything. Reading a pickle runs code that its writer chose. So the program unpickles nothing that a worker wrote. A pool
that transfers objects by other means, such as Ray, trusts its workers as far as these means do.

The data is JSON, with marks for a few types that JSON lacks. Exactly these keep their type: None, booleans, numbers,
strings, lists, dicts with string keys, tuples, bytes, `datetime`, `date`, `time`, `timedelta`, `Decimal` and `UUID`. Of
a time zone, only its offset is kept. Anything else arrives in its JSON form: a dataclass or a pydantic model as a dict,
an enum as its value, a set as a list. A value without a JSON form arrives as its `str`.

Sets and dicts with other keys have no mark: an attacker can choose numbers whose hash table takes quadratic time.
"""

from __future__ import annotations

import base64
import builtins
import json
import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, NoReturn
from uuid import UUID

from pydantic_core import to_jsonable_python

from eagerstream._support.inspecting import without_middle
from eagerstream._support.json_values import to_json
from eagerstream.errors import ToolError
from eagerstream.tools import ToolFailure, ToolResponse, error_text, saved_response

_MAX_NOTE_CHARS: Final = 10_000
_MAX_NOTES: Final = 20
_BUILT_IN: Final = {
    name: found
    for name, found in vars(builtins).items()
    if isinstance(found, type)
    and (issubclass(found, SystemExit) or (issubclass(found, Exception) and not issubclass(found, BaseExceptionGroup)))
}
"""Exception classes that are made again here, from their arguments. Groups are excluded: they hold other exceptions."""


class RemoteError(Exception):
    """Substitute for an exception that a tool raised in a worker, unless it is a `ToolError` or a built-in exception.

    Its notes are those of the exception, and the traceback in the worker.

    Attributes:
        text: `Class: message`, as the model gets it.
        class_name: Name of the exception's class, without its module.
    """

    def __init__(self, text: str, class_name: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.class_name = class_name


# --- to a worker ------------------------------------------------------------------------------------------------------


def dumps(value: Any) -> bytes:
    """Pickle a value as `multiprocessing` does.

    Raises:
        Exception: The value cannot be pickled.
    """
    return bytes(ForkingPickler.dumps(value, pickle.HIGHEST_PROTOCOL))


def loads(pickled: bytes) -> Any:
    """Return the value that `dumps` was given. Never call it on data from a worker.

    Raises:
        Exception: The value cannot be made in this process.
    """
    return ForkingPickler.loads(pickled)


# --- from a worker ----------------------------------------------------------------------------------------------------


def value_from(data: bytes) -> Any:
    """Return the value that `to_bytes` was given, or a text that replaces it if it cannot be read."""
    try:
        return from_bytes(data)
    except Exception as error:
        return f"<a value that cannot be read here: {error_text(error)}>"


def response_as_bytes(response: ToolResponse) -> bytes:
    """Return a response as data. The docstring of this module lists the types that are kept."""
    plain = {name: getattr(response, name) for name in _FIELDS} | {"status": response.status.value}
    if response.data == {"output": response.text}:  # every tool that returns a text has this data: send the text once
        plain |= {"data": {}, "output_is_text": True}
    data = to_bytes(plain)
    # If one part has no JSON form, the others are still sent.
    return data if data.startswith(b"{") else json.dumps(saved_response(response)).encode()


def response_from(data: bytes) -> ToolResponse:
    """Return the response that `response_as_bytes` was given, with other types in their JSON form.

    Raises:
        ValueError, TypeError, ArithmeticError, RecursionError: The data is not a response.
    """
    plain = from_bytes(data)
    if not isinstance(plain, dict):
        raise TypeError(f"a response is an object, not {type(plain).__name__}")
    if plain.get("output_is_text"):
        plain["data"] = {"output": plain.get("text")}
    return ToolResponse.from_dict(plain)


_FIELDS: Final = ("text", "data", "error_info", "stats", "context", "reason", "content")


def error_as_bytes(error: BaseException) -> bytes:
    """Return an exception as data: class name, text, notes, and the arguments of a built-in exception."""
    kind = type(error)
    told = "".join(traceback.format_exception(error))
    failure = ToolFailure.of("", error)
    plain: dict[str, Any] = {
        "class": kind.__name__,
        "text": error_text(error),
        "failure": failure and failure.to_dict(),
        "notes": [*_notes(error), f"In the worker:\n{without_middle(told, _MAX_NOTE_CHARS)}"],
    }
    with suppress(Exception):  # its attributes may be anything
        if kind is ToolError:
            assert isinstance(error, ToolError)
            plain["tool_error"] = [error.message, error.hint, error.code, error.content]
        elif _BUILT_IN.get(kind.__name__) is kind:
            reduced = error.__reduce__()
            plain["arguments"] = list(reduced[1])  # with the file of an `OSError`, which is not in `args`
    return to_bytes(plain)


def error_from(data: bytes) -> BaseException:
    """Return the exception that `error_as_bytes` was given, or a `RemoteError`."""
    try:
        plain = from_bytes(data)
        class_name, text = plain["class"], plain["text"]
        if not isinstance(class_name, str) or not isinstance(text, str):
            raise TypeError("the class and the text of an exception are texts")
        error: BaseException = RemoteError(text, class_name)
        with suppress(Exception):
            if "tool_error" in plain:
                message, hint, code, content = plain["tool_error"]
                if not isinstance(message, str) or not all(isinstance(part, str | None) for part in (hint, code)):
                    raise TypeError("the parts of a ToolError are texts")
                error = ToolError(message, hint=hint, code=code, content=content)
            elif "arguments" in plain:
                error = _BUILT_IN[class_name](*plain["arguments"])
        for note in plain["notes"]:
            error.add_note(note)
        ToolFailure.bring(error, plain["failure"])
    except Exception as fault:
        return RemoteError(f"an exception that cannot be read here: {error_text(fault)}")
    return error


def _notes(error: BaseException) -> list[str]:
    with suppress(Exception):
        notes = [str(note) for note in error.__notes__[:_MAX_NOTES]]
        return [without_middle(note, _MAX_NOTE_CHARS) for note in notes]
    return []


# --- values as data ---------------------------------------------------------------------------------------------------

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
    _DICT: lambda value: {
        _checked(key, str): each for key, each in (_checked(item, list) for item in _checked(value, list))
    },
}


def to_bytes(value: Any) -> bytes:
    """Return any value as bytes."""
    for form in (_exact, _marked_text, _json_form):
        with suppress(Exception):  # a cycle, a `__str__` that raises: any code may run in here
            return form(value).encode("utf-8", "surrogatepass")
    return json.dumps(f"<{type(value).__name__}>").encode()


def from_bytes(data: bytes) -> Any:
    """Return the value that `to_bytes` was given, or its JSON form. Only the readers above run.

    Raises:
        ValueError, TypeError, ArithmeticError, RecursionError: The data is not from `to_bytes`.
    """
    text = data.decode("utf-8", "surrogatepass")
    return json.loads(text, object_hook=_unmarked if _MARK in text else None)


def _exact(value: Any) -> str:
    """Return the JSON text of a value that JSON keeps unchanged, as most are: 10 times as fast as marking each part."""
    text = json.dumps(value, ensure_ascii=False, default=_refuse)
    if _MARK in text or json.loads(text) != value:
        raise ValueError("JSON would change it")
    return text


def _marked_text(value: Any) -> str:
    return json.dumps(_marked(value), ensure_ascii=False)


def _marked(value: Any) -> Any:
    """Return a value as JSON types, with marks for the types that JSON lacks."""
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
    """Return the JSON form that the model would get, or an approximation with `str`."""
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


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _refuse(value: Any) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")
