"""`RawSchema`: any JSON as a schema, any JSON as an input: taken or explained, in a bounded number of steps.

`jsonschema-rs` decides the same by itself, if it gets the schema as it is. Our own code follows the references.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import jsonschema_rs

from eagerstream._support.plain_json import load_json
from eagerstream.inputs import InputError
from eagerstream.inputs._raw_schema import RawSchema
from eagerstream_wire._values import encodable

from .choices import Choices
from .cost import check_cost, is_sampled

_DIALECTS: Final = tuple(
    f"http{'s' if version.startswith('draft/') else ''}://json-schema.org/{version}"
    for version in ("draft/2020-12/schema", "draft/2019-09/schema", "draft-07/schema#", "draft-06/schema#",
        "draft-04/schema#", "draft-03/schema#", "own")
)  # fmt: skip
_KNOWN_DIALECTS: Final = _DIALECTS[:-2]
_LEAVES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, 2, -1, 0.1, 1e-300, 1e308, 10**400, "", "a", "b", "ab" * 20, "\ud800", "é", [], {}, "string",
    "object", "array", "integer", "number", "null", "boolean", "any", "#", "#/$defs/a", "#/$defs/b", "#a", "b", "http://b/c",
    "#/properties/a", "#/%", "^(a+)+$", "^a+$", "(", "[z-a]", "a*a*b", "\\p{L}", "^[a-b]{1,3}$", "date", "regex", *_DIALECTS,
)  # fmt: skip
_KEYWORDS: Final = (
    "$ref", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$id", "id", "$schema", "$defs",
    "definitions", "type", "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "items",
    "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "format", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "divisibleBy", "enum", "const", "allOf", "anyOf", "oneOf", "not",
    "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedItems",
    "unevaluatedProperties", "extends", "disallow", "a", "b",
)  # fmt: skip


def check(data: bytes) -> None:
    """A schema is taken or has faults; an input is taken as it is or explained, and the work ends."""
    choices = Choices(data)
    if choices.below(2):
        schema, input = _schema(choices, 5), {"a": _value(choices, 4), "b": _value(choices, 3)}
        schema |= {"type": "object", "properties": {"a": _schema(choices, 4), "b": _schema(choices, 4)}}
        schema["$defs"] = {"a": _schema(choices, 4), "b": _schema(choices, 4)}
    else:
        text, _, more = choices.rest().partition(b"\n")
        try:
            schema, input = load_json(text), load_json(more)
        except (ValueError, RecursionError):
            return
        if not isinstance(schema, dict) or not isinstance(input, dict):
            return
    _check(schema, input)
    if is_sampled(data, 500):
        size = len(repr((schema, input)))
        # A step is some 4 lines of ours; all that one check may do is what its steps allow.
        check_cost(lambda: _check(schema, input), 40_000 + size, lines_per_unit=100, bytes_per_unit=4_000)


def _check(schema: dict[str, Any], input: dict[str, Any]) -> None:
    checked = RawSchema(schema)
    if checked.faults:
        assert all(len(fault) < 600 for fault in checked.faults)
        checked = RawSchema(schema, is_foreign=True)
        if checked.faults:
            return
        schema = {}  # one part at least is not checked
    before = json.dumps(input, sort_keys=True)
    try:
        checked.check(input)
        told = ""
    except InputError as error:
        told = str(error)
        assert re.match("Error: .", told)
    assert json.dumps(input, sort_keys=True) == before
    if schema and not told.startswith(
        ("Error: the input cannot be", "Error: the input takes", "Error: the input is nested")
    ):
        _compare(schema, input, fits=not told)


def _compare(schema: dict[str, Any], input: dict[str, Any], *, fits: bool) -> None:
    """Let the library decide, for schemas of dialects that it knows, with its default engine for patterns."""
    without = {name: value for name, value in schema.items() if name != "$schema"}
    if "$schema" in repr(without) or json.dumps(without).count("$ref") > 6:
        return  # parts of other dialects, or so many references that it may take very long
    if schema.get("$schema") in _KNOWN_DIALECTS:
        without["$schema"] = schema["$schema"]
    try:
        theirs = jsonschema_rs.validator_for(encodable(without), validate_formats=False)
    except ValueError:
        return
    assert theirs.is_valid(encodable(input)) is fits


def _schema(choices: Choices, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(choices.below(5) if depth > 0 else 0):
        keyword = choices.pick(_KEYWORDS)
        schema[keyword] = _value_of(choices, keyword, depth)
    return schema


def _value_of(choices: Choices, keyword: str, depth: int) -> Any:
    """A value that fits the keyword, mostly."""
    if choices.below(50) == 49:
        return choices.pick(_LEAVES)
    match keyword:
        case "$defs" | "definitions" | "properties" | "patternProperties" | "dependentSchemas" | "dependencies":
            return {choices.pick(("a", "b", "^a", "^(a+)+$", "(")): _schema(choices, depth - 1) for _ in range(2)}
        case "allOf" | "anyOf" | "oneOf" | "prefixItems" | "extends":
            return [_schema(choices, depth - 1) for _ in range(choices.below(4))]
        case "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "items" | "additionalItems":
            return _schema(choices, depth - 1)
        case "additionalProperties" | "unevaluatedItems" | "unevaluatedProperties":
            return choices.pick((True, False)) if choices.below(2) else _schema(choices, depth - 1)
        case "$ref" | "$dynamicRef" | "$recursiveRef":
            return choices.pick(("#", "#/$defs/a", "#/$defs/b", "#a"))
        case "type":
            return choices.pick(("object", "array", "string", "integer", "number", ["null", "string"]))
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "divisibleBy":
            return choices.pick((0.1, 1, 2, 1e-300, 1e308, 10**400, -1))
        case "$anchor" | "$dynamicAnchor" | "$id" | "id" | "format":
            return choices.pick(("a", "b", "http://b/c", "date", ""))
        case "$schema":
            return choices.pick(_DIALECTS)
        case "dependentRequired":
            return {"a": ["b"], "b": ["a"]}
        case "uniqueItems" | "$recursiveAnchor":
            return True
        case "pattern":
            return choices.pick(("^(a+)+$", "^a+$", "(", "[z-a]", "a*a*b", "\\p{L}", "^[a-b]{1,3}$", "a|b"))
        case _ if keyword.startswith(("min", "max")):
            return choices.pick((0, 1, 2, 2.0, 10**400))
        case "required":
            return [choices.pick(("a", "b")) for _ in range(choices.below(3))]
        case "enum":
            return [choices.pick(_LEAVES) for _ in range(choices.below(4))]
        case _:
            return choices.pick(_LEAVES)


def _value(choices: Choices, depth: int) -> Any:
    kind = choices.below(4) if depth and choices.are_left else 0
    if kind < 2:
        return choices.pick(_LEAVES)
    if kind == 2:
        return [_value(choices, depth - 1) for _ in range(choices.below(5))]
    return {choices.pick(("a", "b", "ab", *_KEYWORDS)): _value(choices, depth - 1) for _ in range(choices.below(5))}
