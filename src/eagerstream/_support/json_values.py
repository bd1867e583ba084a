"""JSON values made of anything that a tool returns or a peer sends. The parts without pydantic are in `wire`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from pydantic_core import to_jsonable_python

from eagerstream_wire._values import as_mapping, encodable, is_deeper

__all__ = ["as_mapping", "dump_json", "encodable", "is_deeper", "to_json"]


def dump_json(value: Any) -> str:
    """Return a value as JSON text. Raise `TypeError` if it has no JSON form."""
    return json.dumps(to_json(value), ensure_ascii=False)


def to_json(value: Any) -> Any:
    """Return a copy of a value as plain JSON values; NaN and infinities become null.

    Raises:
        TypeError: The value has no JSON form.
    """
    try:
        try:
            return to_jsonable_python(value, inf_nan_mode="null")
        except UnicodeEncodeError:
            return to_jsonable_python(encodable(value), inf_nan_mode="null")
    except ValueError as error:
        # Pydantic supports 255 nested containers; the input of a call, which is copied here too, may have 512.
        with suppress(TypeError, ValueError, RecursionError):
            return json.loads(json.dumps(value), parse_constant=lambda _: None)
        raise TypeError(f"a tool returned {type(value).__name__}, which has no JSON form") from error
