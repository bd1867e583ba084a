"""Strict validation of JSON values with pydantic, and its errors in words for the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from eagerstream_wire import copy_json
from eagerstream_wire._values import encodable

from ._faults import MAX_TOLD, InputError, InputFaults, joined


class Validator(Protocol):
    """A `TypeAdapter`, or the validator inside one."""

    def validate_json(self, data: bytes, /, *, strict: bool) -> Any:
        """Validate a JSON text."""
        ...

    def validate_python(self, value: Any, /, *, strict: bool) -> Any:
        """Validate objects of Python."""
        ...


def checked(adapter: Validator, value: Any) -> Any:
    """Check a JSON value without coercing JSON types, and return a converted copy.

    Raises:
        InputError: The value does not fit. The message lists every fault.
    """
    # Not by `validated`: each function on this path costs every item of a stream.
    try:
        return adapter.validate_json(as_json(value), strict=True)
    except ValidationError as error:
        first = error
    try:
        return _validated_deeply(adapter, value, first)
    except ValidationError as error:
        raise explained(error, value) from None


def validated(adapter: Validator, value: Any) -> Any:
    """Do the same as `checked`, with pydantic's own error.

    Raises:
        ValidationError: The value does not fit.
    """
    try:
        return adapter.validate_json(as_json(value), strict=True)
    except ValidationError as error:
        return _validated_deeply(adapter, value, error)


def _validated_deeply(adapter: Validator, value: Any, error: ValidationError) -> Any:
    """Validate a value that is too deep for pydantic's JSON parser. Raise `error` if it is not."""
    if error.errors(include_url=False)[0]["type"] != "json_invalid":
        raise error
    # This way it accepts no strings for dates or enums.
    return adapter.validate_python(copy_json(encodable(value)), strict=True)


def as_json(value: Any) -> bytes:
    """Return a JSON value as UTF-8, with U+FFFD in place of each lone surrogate."""
    try:
        # As few instructions as possible: they come from cold caches, and the tool waits for this.
        return to_json(value)
    except PydanticSerializationError:  # for a lone surrogate, and for more levels than it supports
        return json.dumps(encodable(value)).encode()


def explained(error: ValidationError, value: Any, place: Sequence[str | int] = ()) -> InputError:
    """Return the error for the model: every fault of `value`, which stands at `place` in the input."""
    faults = InputFaults()
    told = error.errors(include_url=False, include_context=False)
    faults.not_looked_at = max(0, len(told) - 10 * MAX_TOLD)
    paths: list[list[str | int]] = []
    for fault in told[: 10 * MAX_TOLD]:
        path = [*place]
        input, location = value, fault["loc"]
        for number, step in enumerate(location):
            is_there = isinstance(input, dict) and step in input
            is_there = is_there or (isinstance(input, list) and isinstance(step, int) and step < len(input))
            if is_there:  # pydantic also names the branches of a union, which are no steps
                input = input[step]
                path.append(step)
            elif fault["type"] == "missing" and number == len(location) - 1:
                path.append(str(step))
        paths.append(path)
        if fault["type"] == "missing":
            faults.missing.append(joined(path))
        elif fault["type"] == "extra_forbidden":
            faults.unknown.append(joined(path))
        else:
            faults.add_wrong(joined(path), fault["msg"], fault["input"])
    return InputError(str(faults), path=paths[0])
