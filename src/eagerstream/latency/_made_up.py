"""Generated tool inputs for scripted responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import UsageError
from ..tools import InputError, Tool

_PROSE: Final = (
    "Nothing in this text is of any weight. It was made up, so that a tool has something to read while it is written: "
    "a sentence of the usual length, then a shorter one, and words as they come in letters and reports. "
)
_ITEMS: Final = 12
"""Number of items in an array that allows as many."""
_MAX_CHARS: Final = 10_000
_MAX_DEPTH: Final = 6
"""Depth of a schema below which optional parts are left out."""

_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}


def made_up_input(tool: Tool) -> dict[str, Any]:
    """Return an input that the tool accepts: its first example, or one generated from its schema.

    Raises:
        UsageError: The schema has a rule that is not supported here (a pattern, for example), or there is none.
    """
    examples = tool.to_dict().get("input_examples") or ()
    made = dict(examples[0]) if examples else _value(tool.input_schema, tool.input_schema, 0)
    try:
        if not isinstance(made, dict):
            raise InputError("Error: not an object")
        tool.check(made)
    except InputError as error:
        what = "no input could be made up that its schema allows: give it input_examples, or play a recording"
        raise UsageError(f"the tool {tool.name}: {what}") from error
    return made


def _value(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return _PROSE  # `true` allows anything
    if isinstance(reference := schema.get("$ref"), str):
        return _value(_resolved(reference, root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    for listed in ("enum", "examples"):
        if schema.get(listed):
            return schema[listed][0]
    for choices in ("anyOf", "oneOf"):
        if schema.get(choices):
            options = schema[choices]
            # An optional parameter lists null last. At depth, null ends the recursion of a schema that refers to
            # itself.
            return _value(options[-1 if depth > _MAX_DEPTH else 0], root, depth + 1)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in (*schema["allOf"], {name: value for name, value in schema.items() if name != "allOf"}):
            merged |= part
        return _value(merged, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "string":
            return _string(schema)
        case "integer" | "number" as number:
            return _number(schema, whole=number == "integer")
        case "boolean":
            return True
        case _:
            return None


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return {
        name: _value(of, root, depth + 1) for name, of in properties.items() if name in required or depth <= _MAX_DEPTH
    }


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    least = schema.get("minItems", 0)
    if depth > _MAX_DEPTH:
        count = least
    else:
        count = max(least, min(schema.get("maxItems", _ITEMS), 1 if schema.get("uniqueItems") else _ITEMS))
    first = [_value(of, root, depth + 1) for of in schema.get("prefixItems") or ()]
    rest = max(0, min(count, _MAX_CHARS) - len(first)) if schema.get("items", True) else 0
    return first + [_value(schema.get("items", {}), root, depth + 1) for _ in range(rest)]


def _string(schema: Mapping[str, Any]) -> str:
    if (known := _FORMATS.get(str(schema.get("format")))) is not None:
        return known
    chars: int = max(schema.get("minLength", 0), min(schema.get("maxLength", len(_PROSE)), len(_PROSE)))
    chars = min(chars, _MAX_CHARS)
    return (_PROSE * (chars // len(_PROSE) + 1))[:chars]


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    step = schema.get("multipleOf") or (1 if whole else 0.5)
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is None and above is not None:
        low = above + step
    if high is None and below is not None:
        high = below - step
    made = low if low is not None else min(step, high) if high is not None else step
    return int(made) if whole else made


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
    return found
