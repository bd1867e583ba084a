"""The form of a JSON schema: which keyword has which kind of value. Checked in one pass, whatever the schema is.

The schema of JSON schema itself would say the same, but jsonschema takes 8 s for a schema of 1 MB, and much longer for
one that is made for it. Keywords that no dialect has are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, Final

Place = tuple[str | int, ...]

MAX_FAULTS: Final = 10
_MAX_BITS: Final = 16_384
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= _MAX_BITS
    return isinstance(value, float) and isfinite(value)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return 0 < len(names) <= len(_TYPES) and all(isinstance(name, str) and name in _TYPES for name in names)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_KINDS: Final[dict[str, tuple[Callable[[Any], bool], tuple[str, ...]]]] = {
    "a schema": (_is_schema, ("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if",
        "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")),
    "a schema or a list of schemas": (lambda value: _is_schema(value) or _is_list(value), ("items",)),
    "a list of schemas": (_is_list, ("allOf", "anyOf", "oneOf", "prefixItems")),
    "an object of schemas": (_is_map, ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")),
    "an object of schemas or lists of names": (_is_map, ("dependencies",)),
    "an object of lists of names": (lambda value: _is_map(value) and all(map(_are_names, value.values())),
        ("dependentRequired",)),
    "a list of names": (_are_names, ("required",)),
    "a list": (_is_list, ("enum", "examples")),
    "the name of a type, or several": (_is_type, ("type",)),
    "a number": (_is_number, ("maximum", "minimum")),
    "a number or a boolean": (lambda value: isinstance(value, bool) or _is_number(value),
        ("exclusiveMaximum", "exclusiveMinimum")),
    "a positive number": (lambda value: _is_number(value) and value > 0, ("multipleOf",)),
    "a number of things": (_is_count, ("maxContains", "maxItems", "maxLength", "maxProperties", "minContains",
        "minItems", "minLength", "minProperties")),
    "a boolean": (lambda value: isinstance(value, bool), ("uniqueItems",)),
    "a string": (_is_text, ("$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema",
        "contentEncoding", "contentMediaType", "description", "format", "pattern", "title")),
}  # fmt: skip
_KEYWORDS: Final = {keyword: (fits, what) for what, (fits, keywords) in _KINDS.items() for keyword in keywords}
_ONE: Final = (*_KINDS["a schema"][1], "items")
_SEVERAL: Final = (*_KINDS["a list of schemas"][1], "items")
_NAMED: Final = (*_KINDS["an object of schemas"][1], "dependencies")


class SchemaForm:
    """The form of a schema, and of all schemas in it.

    Attributes:
        faults: The places where it is none, and what belongs there.
        patterns: The values of `pattern`, and the names in `patternProperties`.
        name_patterns: Those names.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.patterns: dict[str, None] = {}
        self.name_patterns: dict[str, None] = {}
        self._seen: set[int] = set()

    def add(self, schema: Any, place: Place = ()) -> None:
        """Look at a schema; not at one that was looked at before. It must stay alive, and as it is."""
        pending = [(place, schema)]
        while pending:
            place, found = pending.pop()
            if id(found) in self._seen or isinstance(found, bool):
                continue
            self._seen.add(id(found))
            if not isinstance(found, Mapping):
                self._blame(place, "a schema")
                continue
            self._look_at(found, place)
            pending += _inner(found, place)

    def _look_at(self, schema: Mapping[str, Any], place: Place) -> None:
        for keyword, value in schema.items():
            if keyword not in _KEYWORDS:
                continue
            fits, what = _KEYWORDS[keyword]
            if not fits(value):
                self._blame((*place, keyword), what)
            elif keyword == "pattern":
                self.patterns[value] = None
            elif keyword == "patternProperties":
                self.name_patterns |= dict.fromkeys(value)

    def _blame(self, place: Place, what: str) -> None:
        if len(self.faults) >= MAX_FAULTS:
            return
        named = ".".join(map(str, place))
        self.faults.append(f"{named} must be {what}" if named else f"it must be {what}")


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Return the schemas that stand in a schema, not those in them."""
    return (inner for _, inner in _inner(schema, ()))


def _inner(schema: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Any]]:
    """The schemas in a schema."""
    for keyword in _ONE:
        if isinstance(value := schema.get(keyword), Mapping):
            yield (*place, keyword), value
    for keyword in _SEVERAL:
        if isinstance(values := schema.get(keyword), list):
            yield from (((*place, keyword, at), value) for at, value in enumerate(values))
    for keyword in _NAMED:
        if isinstance(named := schema.get(keyword), Mapping):
            are_names = keyword == "dependencies"
            for name, value in named.items():
                if not (are_names and _are_names(value)):
                    yield (*place, keyword, name), value
