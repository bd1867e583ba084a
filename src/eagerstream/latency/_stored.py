"""JSON in files: written whole or not at all, and checked when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from .._support.files import replacing
from .._support.plain_json import load_json
from ..errors import UsageError

DataT = TypeVar("DataT")
_LARGEST: Final = 1e18
"""Of a number: sums of larger ones may be infinite."""


def save_json(path: Path, data: object) -> None:
    """Write data to a file, over whatever is there; what was there stays where this fails.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        with replacing(path, private=False) as file:  # times and names: nothing of what was said
            file.write(json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """Return the content of a file that somebody gave.

    Raises:
        UsageError: It cannot be read, or is larger than `max_bytes`; then no more of it was read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise UsageError(f"{path}: larger than {max_bytes:,} bytes")
    return content


def load_checked(
    path: Path, adapter: TypeAdapter[DataT], *, what: str, version: tuple[str, int], max_bytes: int
) -> DataT:
    """The data in a file.

    Args:
        path: Of the file.
        adapter: What they must be.
        what: For people, "profile" say.
        version: The key that says what the file is, and its value.
        max_bytes: Larger files are not read.

    Raises:
        UsageError: The file cannot be read, is too large, or does not hold such data; says where not.
    """
    key, number = version
    content = read_whole(path, max_bytes=max_bytes)
    try:
        data: Any = load_json(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON") from error
    if not isinstance(data, dict) or key not in data:
        raise UsageError(f"{path}: no {what} of eagerstream: there is no {key!r}")
    if data[key] != number:
        raise UsageError(f"{path}: version {data[key]!r:.40} of a {what} is not known, only {number}")
    if not _is_computable(data):
        raise UsageError(f"{path}: no {what} of eagerstream: a number should be less than {_LARGEST:g}")
    try:
        # In JSON, where a list may be a tuple and a whole number a float, whatever else is strict.
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise UsageError(f"{path}: no {what} of eagerstream: {place:.200}: {fault['msg']}") from error


def _is_computable(data: object) -> bool:
    """No number in it is too large."""
    pending = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int | float) and abs(item) > _LARGEST:
            return False
    return True
