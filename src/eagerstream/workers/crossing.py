"""How what a tool made gets to another process: as it is where it can be pickled, in another form where not.

Reading a pickle runs what is in it: these are read only from workers that this program has started itself.
"""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, cast

from pydantic_core import to_jsonable_python

from ..redaction import without_middle
from ..tools.call import saved_response
from ..tools.response import ToolResponse, error_text

_MAX_NOTE_CHARS: Final = 10_000


class RemoteError(Exception):
    """Stands for an exception of a worker that cannot be pickled; its text is what the model is told.

    Attributes:
        text: `Class: message`.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def dumps(value: Any) -> bytes:
    """A value pickled, as `multiprocessing` does it.

    Raises:
        Exception: It cannot be.
    """
    return bytes(ForkingPickler.dumps(value, pickle.HIGHEST_PROTOCOL))


def loads(pickled: bytes) -> Any:
    """What `dumps` was given.

    Raises:
        Exception: It cannot be made in this process.
    """
    return ForkingPickler.loads(pickled)


def as_bytes(value: Any) -> bytes:
    """A value pickled; one that cannot be crosses in its JSON form, and what has none as text."""
    pickled = pickled_or_none(value)
    if pickled is not None:
        return pickled
    plain: Any = f"<{type(value).__name__}>"
    with suppress(Exception):  # a cycle, a `__str__` that raises: any code may run in here
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)
    return dumps(plain)


def response_as_bytes(response: ToolResponse) -> bytes:
    """A response pickled; one that cannot be crosses as what its JSON form says."""
    pickled = pickled_or_none(response)
    return dumps(ToolResponse.from_dict(saved_response(response))) if pickled is None else pickled


def error_as_bytes(error: BaseException) -> bytes:
    """An exception pickled, with its traceback as a note; one that cannot be crosses as a `RemoteError`."""
    told = "".join(traceback.format_exception(error))
    with suppress(Exception):
        error.add_note(f"In the worker:\n{without_middle(told, _MAX_NOTE_CHARS)}")
    pickled = pickled_or_none(error)
    is_itself = pickled is not None and type(loads(pickled)) is type(error)  # `__reduce__` may make anything of it
    return pickled if pickled is not None and is_itself else dumps(RemoteError(error_text(error)))


def value_from(pickled: bytes) -> Any:
    """What `as_bytes` was given, or what stands for it."""
    try:
        return loads(pickled)
    except Exception as error:
        return f"<a value that cannot be read here: {error_text(error)}>"


def response_from(pickled: bytes) -> ToolResponse:
    """What `response_as_bytes` was given.

    Raises:
        Exception: It cannot be made here.
    """
    return cast("ToolResponse", loads(pickled))


def error_from(pickled: bytes) -> BaseException:
    """What `error_as_bytes` was given, or what stands for it."""
    try:
        found = loads(pickled)
    except Exception as error:
        return RemoteError(f"an exception that cannot be read here: {error_text(error)}")
    return found if isinstance(found, BaseException) else RemoteError(str(found))


def pickled_or_none(value: Any) -> bytes | None:
    """A value pickled; None where it cannot be, or could not be read again."""
    try:
        pickled = dumps(value)
        loads(pickled)
    except (Exception, SystemExit):  # any code may run in here
        return None
    return pickled
