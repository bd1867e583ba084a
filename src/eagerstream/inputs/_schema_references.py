"""The schemas inside a JSON schema, and what its references lead to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from eagerstream_wire import copy_json

from .._support.inspecting import check_size, head
from ..errors import UsageError

DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_NAMED: Final = DEFINITIONS | {"dependencies", "dependentSchemas", "patternProperties", "properties"}
_PLAIN: Final = frozenset({
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items",
    "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""The keywords with a schema, or a list of schemas."""
_MAX_URI_CHARS: Final = 1_000
_MAX_SAID_CHARS: Final = 200
_MAX_OUTSIDE: Final = 200_000
"""Maximum size of what references lead to outside the known keywords."""


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema, and those below the keywords of all dialects."""
    return (found for found, _ in _with_bases(schema, "", lambda _, base: base))


def _with_bases(
    schema: Any, base: str, base_of: Callable[[dict[str, Any], str], str]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield a schema and those inside it, each with the URI that references in it are relative to."""
    pending = [(schema, base)]
    while pending:
        found, base = pending.pop()
        if isinstance(found, list):
            pending += [(item, base) for item in found]
        elif isinstance(found, dict):
            base = base_of(found, base)
            yield found, base
            for keyword, value in found.items():
                if keyword in _NAMED and isinstance(value, dict):
                    pending += [(inner, base) for inner in value.values()]
                elif keyword in _PLAIN:
                    pending.append((value, base))


def for_the_same_value(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas directly in a schema that a value of it must fit too, or may, or must not."""
    inner: list[Any] = [schema.get(keyword) for keyword in ("else", "if", "not", "then")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        inner += schema[keyword] if isinstance(schema.get(keyword), list) else ()
    for keyword in ("dependencies", "dependentSchemas"):
        inner += schema[keyword].values() if isinstance(schema.get(keyword), dict) else ()
    return (found for found in inner if isinstance(found, dict))


def _joined(base: str, reference: str) -> str:
    """Return an absolute URI.

    Raises:
        UsageError: The reference is too long.
    """
    if len(reference) > _MAX_URI_CHARS:
        raise UsageError(f"input_schema has a URI of more than {_MAX_URI_CHARS:,} characters")
    if reference.startswith("#"):  # `urljoin` does not do that for all schemes
        return urldefrag(base).url + reference
    return urljoin(base, reference)


class References:
    """The references of a schema. Nothing is fetched.

    Args:
        schema: The schema. It must stay unchanged while this object is made.
        dialect: The URI of its dialect, or an empty text.

    Raises:
        UsageError: A reference leads to nothing in the schema, or a schema leads to itself for the same value.

    Attributes:
        root: The schema.
        schemas: All schemas.
        targets: By absolute URI: the schemas that are referred to.
        referring: The schemas with a `$ref`, and its absolute URI.
        outside: The schemas that are only found by a reference, for example below an unknown keyword. They are copies.
        replaces: True if a `$ref` replaces what is beside it, as in old dialects.
    """

    def __init__(self, schema: dict[str, Any], dialect: str) -> None:
        self.root = schema
        self.schemas: list[dict[str, Any]] = []
        self.targets: dict[str, Any] = {}
        self.referring: list[tuple[dict[str, Any], str]] = []
        self.outside: list[dict[str, Any]] = []
        self.replaces = "draft-0" in dialect
        self._id = "id" if "draft-04" in dialect else "$id"
        self._at: dict[str, Any] = {"": schema}
        self._seen: set[int] = set()
        self._left = _MAX_OUTSIDE
        self._add(schema, "")
        for _, uri in self.referring:  # grows while it is read
            if uri not in self.targets:
                self.targets[uri] = self._target(uri)
        self._check_loops()

    def _add(self, schema: dict[str, Any], base: str) -> None:
        """Note the URIs and the references in a schema."""
        for found, within in _with_bases(schema, base, self._base_of):
            self._seen.add(id(found))
            self.schemas.append(found)
            self._at.setdefault(within.removesuffix("#"), found)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := found.get(keyword), str):
                    self._at.setdefault(_joined(within, f"#{anchor}"), found)
            if isinstance(reference := found.get("$ref"), str):
                self.referring.append((found, _joined(within, reference)))

    def _base_of(self, schema: dict[str, Any], around: str) -> str:
        uri = schema.get(self._id)
        if not isinstance(uri, str) or (self.replaces and "$ref" in schema):
            return around
        return _joined(around, uri)

    def _target(self, uri: str) -> Any:
        """Return the schema at a URI: one of those that are known, or a copy of what is there."""
        found: Any = self._at.get(uri.removesuffix("#"))
        if found is None:
            resource, fragment = urldefrag(uri)
            found = self._at.get(resource) if fragment.startswith("/") else None
            for step in fragment.split("/")[1:] if found is not None else ():
                name = unquote(step).replace("~1", "/").replace("~0", "~")
                if isinstance(found, list):
                    found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
                else:
                    found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict | bool):
            raise UsageError(f"input_schema has a $ref to what is not in it: {head(uri, _MAX_SAID_CHARS)}")
        if isinstance(found, bool) or id(found) in self._seen:
            return found
        # It may also be a value, for example a default, which must stay as it is.
        self._left -= check_size(found, max_chars=sys.maxsize, max_depth=sys.maxsize)
        if self._left < 0:
            raise UsageError("input_schema has too many references to what is no schema")
        copied: Any = copy_json(found)
        self.outside.append(copied)
        self._add(copied, urldefrag(uri).url)
        return copied

    def _check_loops(self) -> None:
        """Check that no schema leads to itself for the same value: nobody could say whether the value fits."""
        followed = {id(schema): self.targets[uri] for schema, uri in self.referring}
        done: dict[int, bool] = {}  # False while the schemas that it leads to are looked at
        for start in self.schemas:
            pending = [start]
            while pending:
                schema = pending[-1]
                if id(schema) in done:
                    done[id(schema)] = True
                    pending.pop()
                    continue
                done[id(schema)] = False
                target = followed.get(id(schema))
                replaced = self.replaces and target is not None
                for inner in (target, *(() if replaced else for_the_same_value(schema))):
                    if not isinstance(inner, dict):
                        continue
                    if not done.get(id(inner), True):
                        raise UsageError("input_schema has a part that refers to itself for the same value")
                    if id(inner) not in done:
                        pending.append(inner)
