"""The faults of an input that does not fit a JSON schema, in words for the model.

`jsonschema-rs` can list faults, but with a copy of the value in each, and with those of every alternative: 2^n for an
input of n levels. Therefore, their places are searched here, and `jsonschema-rs` only says what fits and what does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from ._compiled_schema import MAX_STEPS, CompiledSchema, Cost
from ._faults import MAX_TOLD, InputFaults, joined

_STEPS_OF_A_LOOK: Final = 300
_STEPS_OF_A_FAULT: Final = 10_000
_COPIES: Final = Cost(200, 10)
"""The work to copy a value for each of the keywords that it breaks."""
_MAX_SAID_CHARS: Final = 300
_PLAIN: Final = frozenset({
    "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "type", "uniqueItems",
})  # fmt: skip
"""The keywords that are about a value itself, not about what is in it."""
_NOT_SHOWN: Final = _PLAIN | {
    "$anchor", "$comment", "$defs", "$id", "$schema", "additionalItems", "additionalProperties", "allOf", "default",
    "definitions", "description", "examples", "items", "prefixItems", "properties", "required", "title",
}  # fmt: skip

_Path: TypeAlias = tuple[str | int, ...]


def faults_of(compiled: CompiledSchema, input: Any) -> InputFaults:
    """Return the faults of an input that does not fit. The work is bounded: they say if there may be more.

    Use it only inside `checking`.
    """
    faults = InputFaults()
    told, left = 0, MAX_STEPS
    seen: set[tuple[int, _Path]] = set()
    pending: list[tuple[Any, Any, _Path]] = [(compiled.root, input, ())]
    while pending and told < MAX_TOLD:
        schema, value, path = pending.pop()
        left -= _STEPS_OF_A_FAULT + _COPIES.of(value)
        said: dict[str, Any] = schema if isinstance(schema, dict) else {}
        wrong = _broken(compiled, said, value)
        for keyword in wrong:
            faults.add_wrong(joined(path), _expected(keyword, said[keyword]), value)
        left_to_tell = MAX_TOLD - told
        names, others = _missing(said, value), _unknown(compiled, said, value)
        faults.stopped = faults.stopped or len(names) > left_to_tell or len(others) > left_to_tell
        missing = [joined((*path, name)) for name in names[:left_to_tell]]
        faults.missing = [*dict.fromkeys([*faults.missing, *missing])]
        unknown = [joined((*path, name)) for name in others[:left_to_tell]]
        faults.unknown = [*dict.fromkeys([*faults.unknown, *unknown])]
        unfit: dict[tuple[int, _Path], tuple[Any, Any, _Path]] = {}
        for inner_schema, inner, step in _inner(compiled, said, value):
            left -= _STEPS_OF_A_LOOK + compiled.cost.of(inner) + compiled.steps_to_compile(inner_schema)
            if left < 0 or told + len(unfit) > MAX_TOLD:
                faults.stopped = True
                break
            if not compiled.fits(inner_schema, inner):
                place = (*path, *step)
                unfit[id(inner_schema), place] = (inner_schema, inner, place)
        told += len(wrong) + len(missing) + len(unknown)
        pending += reversed([found for place, found in unfit.items() if place not in seen])
        seen.update(unfit)
        if not (wrong or missing or unknown or unfit):
            shown = {keyword: value for keyword, value in said.items() if keyword not in _NOT_SHOWN}
            faults.add_wrong(joined(path), f"expected a value that fits {_head(compiled.said(shown or schema))}", value)
            told += 1
    faults.stopped = faults.stopped or bool(pending)
    return faults


def _broken(compiled: CompiledSchema, schema: dict[str, Any], value: Any) -> list[str]:
    """Return the keywords that are about the value itself, and that it breaks."""
    plain = {keyword: said for keyword, said in schema.items() if keyword in _PLAIN}
    return list(dict.fromkeys(str(error.schema_path[0]) for error in compiled.errors(plain, value)))


def _expected(keyword: str, said: Any) -> str:
    match keyword:
        case "type":
            return f"expected {said if isinstance(said, str) else ' or '.join(said)}"
        case "enum" | "const":
            return f"expected {_head(json.dumps(said, ensure_ascii=False))}"
        case _:
            return f"expected {keyword} {json.dumps(said, ensure_ascii=False)}"


def _head(text: str) -> str:
    return text if len(text) <= _MAX_SAID_CHARS else f"{text[:_MAX_SAID_CHARS]}..."


def _missing(schema: dict[str, Any], value: Any) -> list[str]:
    names = schema.get("required")
    return [name for name in names if name not in value] if isinstance(names, list) and isinstance(value, dict) else []


def _unknown(compiled: CompiledSchema, schema: dict[str, Any], value: Any) -> list[str]:
    """Return the names that `additionalProperties: false` keeps out."""
    if schema.get("additionalProperties") is not False or not isinstance(value, dict):
        return []
    known = {name: dict.fromkeys(schema.get(name, ()), True) for name in ("properties", "patternProperties")}
    names = dict.fromkeys(value)
    return [
        name
        for error in compiled.errors({**known, "additionalProperties": False}, names)
        for name in error.kind.unexpected
    ]


def _inner(compiled: CompiledSchema, schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any, _Path]]:
    """Yield what must fit for a value to fit a schema: another schema, a value, and its place in this value."""
    if (target := compiled.target(schema)) is not None:
        yield target, value, ()
    for inner in schema.get("allOf", ()):
        yield inner, value, ()
    if isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties", False)
        for name, inner in value.items():
            if name in named:
                yield named[name], inner, (name,)
            elif others is not False and "patternProperties" not in schema:
                yield others, inner, (name,)
    elif isinstance(value, list):
        first, rest = [], schema.get("items", True)
        if isinstance(rest, list):  # in old dialects
            first, rest = rest, schema.get("additionalItems", True)
        elif compiled.has_prefix_items:
            first = schema.get("prefixItems", [])
        for number, inner in enumerate(value if rest is not True else value[: len(first)]):
            yield first[number] if number < len(first) else rest, inner, (number,)
