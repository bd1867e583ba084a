"""The form of a JSON schema: the kind of value of each keyword, and the target schema of each reference.

It is checked in one pass for every schema. The schema of JSON schema itself would find the same faults, but jsonschema
takes 8 s for a schema of 1 MB, and much longer for a malicious one. Keywords of no dialect are ignored. Each reference
is followed once, when the tool is defined. A check only looks them up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import isfinite
from typing import Any, Final

from .._support.inspecting import head
from .._support.warn_once import warn_once
from ._linear_pattern import linear

_log = logging.getLogger(__name__)

Place = tuple[str | int, ...]

_MAX_FAULTS: Final = 10
_MAX_FAULT_CHARS: Final = 200
_MAX_PATTERNS_CHARS: Final = 5_000
"""Maximum characters of all patterns of a schema that are matched. Compiling them takes at most 0.1 s."""
_MAX_URI_CHARS: Final = 1_000_000
"""Maximum characters of all URIs that are joined. Each join reads the entire base URI, which a `$id` may make long."""
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
    """The form of a schema, of all schemas in it, and of those that only a reference leads to.

    Args:
        schema: The schema. It must stay alive and unchanged.
        dialect: The metaschema's URI.

    Attributes:
        faults: The faults of the schema, in words.
        targets: For the `id` of each schema with a `$ref`: the schema that it refers to.
    """

    def __init__(self, schema: Mapping[str, Any], dialect: str) -> None:
        self.targets: dict[int, Any] = {}
        self._misplaced: list[str] = []
        self._unresolved: list[str] = []
        self._patterns: dict[str, None] = {}
        self._name_patterns: dict[str, None] = {}
        self._seen: set[int] = set()
        self._add(schema, ())
        if not self._misplaced:
            self._follow_all(schema, dialect)
        self.faults = [*self._unresolved, *self._misplaced]

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str] | None]:
        """The values of `pattern` and the names in `patternProperties`. None for a pattern that is not matched.

        They are compiled for the first check, if there is one.
        """
        patterns: dict[str, re.Pattern[str] | None] = {}
        left = _MAX_PATTERNS_CHARS
        for pattern in {**self._name_patterns, **self._patterns}:
            left -= len(pattern)
            patterns[pattern] = linear(pattern) if left >= 0 else None
            if patterns[pattern] is None:
                warn_once(_log, "the inputs of a tool, or an output, are not checked for the pattern %.200r", pattern)
        return patterns

    @cached_property
    def knows_names(self) -> bool:
        """True if all patterns of `patternProperties` are matched, so additional names are known too."""
        return all(self.patterns[name] is not None for name in self._name_patterns)

    def matches(self, pattern: str, text: str) -> bool:
        """Return True if a text matches a pattern; False for a pattern that is not matched."""
        known = self.patterns[pattern]
        return known is not None and known.search(text) is not None

    def _add(self, schema: Any, place: Place) -> None:
        """Check a schema, unless it was checked before."""
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
                self._patterns[value] = None
            elif keyword == "patternProperties":
                self._name_patterns |= dict.fromkeys(value)

    def _blame(self, place: Place, what: str) -> None:
        if len(self._misplaced) < _MAX_FAULTS:
            named = ".".join(map(str, place)) or "it"
            self._misplaced.append(
                f"input_schema is not a JSON schema: {f'{named} must be {what}':.{_MAX_FAULT_CHARS}}"
            )

    def _follow_all(self, root: Mapping[str, Any], dialect: str) -> None:
        """Follow each reference, until ten are unresolved, or one leads to something that is no schema."""
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012, specification_with

        if _uri_chars(root) > _MAX_URI_CHARS:
            self._unresolved.append("input_schema has too many long URIs inside one another")
            return
        specification: Any = specification_with(dialect, default=DRAFT202012)
        resource = specification.create_resource(root)
        base = resource.id() or ""
        registry: Any = Registry().with_resource(base, resource).crawl()
        # Not `resolver_with_root`: that adds the schema again, and each URI that is not found crawls all of it.
        pending = [(root, registry.resolver(base))]
        seen: set[int] = set()
        while pending and len(self._unresolved) < _MAX_FAULTS and not self._misplaced:
            schema, resolver = pending.pop()
            if id(schema) in seen or not isinstance(schema, Mapping):
                continue
            seen.add(id(schema))
            for _, inner in _inner(schema, ()):
                if isinstance(inner, Mapping):
                    pending.append((inner, resolver.in_subresource(specification.create_resource(inner))))
            if (reference := schema.get("$ref")) is None:
                continue
            try:
                target = resolver.lookup(reference)
            except Unresolvable:
                said = head(reference, _MAX_FAULT_CHARS)
                self._unresolved.append(f"input_schema has a $ref to what is not in it: {said}")
                continue
            self._add(target.contents, (reference,))
            self.targets[id(schema)] = target.contents
            pending.append((target.contents, target.resolver))


def _inner(schema: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Any]]:
    """Yield the schemas inside a schema."""
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


def _uri_chars(schema: Mapping[str, Any]) -> int:
    """Return an upper bound for the characters of all URIs that are joined while the references are followed."""
    chars = 0
    pending: list[tuple[Any, int]] = [(schema, 0)]
    while pending:
        found, base = pending.pop()
        if isinstance(found, Mapping):
            inner: Any = found.values()
            ids = [found[name] for name in ("$id", "id") if isinstance(found.get(name), str)]
            base += sum(map(len, ids))
            reference = found.get("$ref")
            chars += base * len(ids)
            if isinstance(reference, str) and not reference.startswith("#"):
                chars += base + len(reference)
        elif isinstance(found, list):
            inner = found
        else:
            continue
        pending.extend((part, base) for part in inner)
    return chars
