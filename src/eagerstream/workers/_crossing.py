"""What crosses between a pool and its workers: pickles to a worker, and only data back from it.

A worker trusts the program that started it. The program does not trust what a worker writes: see `values`. A pool that
hands over objects by other means, as Ray does, is as trusting as these means are.
"""

from __future__ import annotations

import builtins
import json
import pickle
import traceback
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

from .._support.redaction import without_middle
from ..errors import ToolError
from ..tools import ToolResponse, error_text, saved_response
from ._values import from_bytes, to_bytes

_MAX_NOTE_CHARS: Final = 10_000
_MAX_NOTES: Final = 20
_BUILT_IN: Final = {
    name: found
    for name, found in vars(builtins).items()
    if isinstance(found, type)
    and (issubclass(found, SystemExit) or (issubclass(found, Exception) and not issubclass(found, BaseExceptionGroup)))
}
"""Exceptions that are made again here, from their arguments. A group has other exceptions in it."""


class RemoteError(Exception):
    """Stands for an exception that a tool raised in a worker, unless it is a `ToolError` or one of Python's own.

    Its notes are those of the exception, and the traceback in the worker.

    Attributes:
        text: `Class: message`, as the model is told.
        class_name: The name of the exception's class, without its module.
    """

    def __init__(self, text: str, class_name: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.class_name = class_name


# --- to a worker ------------------------------------------------------------------------------------------------------


def dumps(value: Any) -> bytes:
    """A value pickled, as `multiprocessing` does it.

    Raises:
        Exception: It cannot be.
    """
    return bytes(ForkingPickler.dumps(value, pickle.HIGHEST_PROTOCOL))


def loads(pickled: bytes) -> Any:
    """What `dumps` was given. Never call it on what a worker wrote.

    Raises:
        Exception: It cannot be made in this process.
    """
    return ForkingPickler.loads(pickled)


# --- from a worker ----------------------------------------------------------------------------------------------------


def value_from(data: bytes) -> Any:
    """What `values.to_bytes` was given, or what stands for it."""
    try:
        return from_bytes(data)
    except Exception as error:
        return f"<a value that cannot be read here: {error_text(error)}>"


def response_as_bytes(response: ToolResponse) -> bytes:
    """A response as data; see `values` for what becomes of its parts."""
    plain = {name: getattr(response, name) for name in _FIELDS} | {"status": response.status.value}
    if response.data == {"output": response.text}:  # of every tool that returns a text: it crosses once
        plain |= {"data": {}, "output_is_text": True}
    data = to_bytes(plain)
    # A part that has no form at all would take the others with it.
    return data if data.startswith(b"{") else json.dumps(saved_response(response)).encode()


def response_from(data: bytes) -> ToolResponse:
    """What `response_as_bytes` was given, or what stands for it.

    Raises:
        ValueError, TypeError, ArithmeticError, RecursionError: It is not a response.
    """
    plain = from_bytes(data)
    if not isinstance(plain, dict):
        raise TypeError(f"a response is an object, not {type(plain).__name__}")
    if plain.get("output_is_text"):
        plain["data"] = {"output": plain.get("text")}
    return ToolResponse.from_dict(plain)


_FIELDS: Final = ("text", "data", "error_info", "stats", "context", "reason", "content")


def error_as_bytes(error: BaseException) -> bytes:
    """An exception as data: its class's name, its text and notes, and the arguments of Python's own."""
    kind = type(error)
    told = "".join(traceback.format_exception(error))
    plain: dict[str, Any] = {
        "class": kind.__name__,
        "text": error_text(error),
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
    """What `error_as_bytes` was given, or what stands for it."""
    try:
        plain = from_bytes(data)
        error = _error_of(plain)
        for note in plain["notes"]:
            error.add_note(note)
    except Exception as fault:
        return RemoteError(f"an exception that cannot be read here: {error_text(fault)}")
    return error


def _error_of(plain: Any) -> BaseException:
    class_name, text = plain["class"], plain["text"]
    if not isinstance(class_name, str) or not isinstance(text, str):
        raise TypeError("the class and the text of an exception are texts")
    with suppress(Exception):
        if "tool_error" in plain:
            message, hint, code, content = plain["tool_error"]
            if not isinstance(message, str) or not all(isinstance(part, str | None) for part in (hint, code)):
                raise TypeError("the parts of a ToolError are texts")
            return ToolError(message, hint=hint, code=code, content=content)
        if "arguments" in plain:
            return _BUILT_IN[class_name](*plain["arguments"])
    return RemoteError(text, class_name)


def _notes(error: BaseException) -> list[str]:
    with suppress(Exception):
        notes = [str(note) for note in error.__notes__[:_MAX_NOTES]]
        return [without_middle(note, _MAX_NOTE_CHARS) for note in notes]
    return []
