"""Values that nearly fit: `"2"` where an integer belongs. What cannot be converted without a guess stays as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from ._tool import ToolParameter

Converters: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""By type of JSON schema; each raises a `ValueError` or a `TypeError` where it would have to guess."""

_WORDS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off", ""), False),
}


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(value)
    return found


def _integer(value: Any) -> int:
    found = int(value)
    if not isinstance(value, str) and found != value:
        raise ValueError(value)
    return found


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        with suppress(KeyError):
            return _WORDS[value.strip().lower()]
    elif isinstance(value, int | float):
        return bool(value)
    raise ValueError(value)


def _text(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(value)


def _json_of(kind: type, value: Any) -> Any:
    found = json.loads(value)
    if isinstance(found, kind):
        return found
    raise ValueError(value)


SCALARS: Final[Converters] = {"number": _number, "integer": _integer, "boolean": _boolean}
ALL: Final[Converters] = {
    **SCALARS,
    "string": _text,
    "array": partial(_json_of, list),
    "object": partial(_json_of, dict),
}

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "number": (float,),
    "integer": (int,),
    "boolean": (bool,),
    "string": (str,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def kinds_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """The types of JSON schema that a value may have, as far as the schema says it by itself.

    Args:
        schema: Of the value.
        definitions: What its references point to, by name.
    """
    if isinstance(reference := schema.get("$ref"), str):
        schema = definitions.get(reference.removeprefix("#/$defs/"), {})
    if branches := schema.get("anyOf"):
        return [str(branch["type"]) for branch in branches if "type" in branch]
    return [str(schema["type"])] if "type" in schema else []


def coerced(value: Any, kinds: Iterable[str], converters: Converters = SCALARS) -> Any:
    """A value as one of some types of JSON schema; itself where it is of one, or fits none."""
    kinds = list(kinds)
    if any(type(value) in _KINDS.get(kind, ()) for kind in kinds):
        return value
    for kind in kinds:
        if kind in converters:
            with suppress(ValueError, TypeError, OverflowError, RecursionError):
                return converters[kind](value)
    return value


def convert_parameters(given: Mapping[str, Any], parameters: Iterable[ToolParameter]) -> dict[str, Any]:
    """The input of a tool with numbers and booleans as its parameters say; the rest as it is."""
    kinds = {parameter.name: parameter.to_schema().get("type") for parameter in parameters}
    return {name: coerced(value, filter(None, [kinds.get(name)])) for name, value in given.items()}
