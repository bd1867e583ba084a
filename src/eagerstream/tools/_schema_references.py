"""The references of a JSON schema, each followed once when the tool is defined. A check only looks them up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._support.inspecting import head
from ._schema_form import SchemaForm, inner_schemas

MAX_UNRESOLVED: Final = 10
_MAX_URI_CHARS: Final = 1_000_000
"""Of all URIs that are joined. Each join takes time for all characters of the base URI, which a `$id` may make long."""


class SchemaReferences:
    """What the `$ref`s in a schema refer to.

    Args:
        schema: It and all that it refers to stay as they are.
        form: Knows the form of the schema, which has no fault. Schemas that only a reference leads to are added to it.
        dialect: The metaschema's URI.

    Attributes:
        targets: For the `id` of each schema with a `$ref`: the schema that it refers to.
        faults: The references to what is not in the schema. After a few of them, no more are followed.
    """

    def __init__(self, schema: Mapping[str, Any], form: SchemaForm, dialect: str) -> None:
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012, specification_with

        self.targets: dict[int, Any] = {}
        self.faults: list[str] = []
        if _uri_chars(schema) > _MAX_URI_CHARS:
            self.faults.append("input_schema has too many long URIs inside one another")
            return
        self._form = form
        self._specification: Any = specification_with(dialect, default=DRAFT202012)
        resource = self._specification.create_resource(schema)
        base = resource.id() or ""
        registry: Any = Registry().with_resource(base, resource).crawl()
        # Not `resolver_with_root`: that adds the schema once more, and each URI that is not found crawls all of it.
        self._follow_all(schema, registry.resolver(base))

    def _follow_all(self, schema: Mapping[str, Any], resolver: Any) -> None:
        pending = [(schema, resolver)]
        seen: set[int] = set()
        while pending and len(self.faults) < MAX_UNRESOLVED and not self._form.faults:
            found, resolver = pending.pop()
            if id(found) in seen or not isinstance(found, Mapping):
                continue
            seen.add(id(found))
            pending += self._inside(found, resolver)
            if "$ref" in found and (target := self._follow(found["$ref"], resolver)) is not None:
                self.targets[id(found)] = target.contents
                pending.append((target.contents, target.resolver))

    def _inside(self, schema: Mapping[str, Any], resolver: Any) -> Iterator[tuple[Any, Any]]:
        for inner in inner_schemas(schema):
            if isinstance(inner, Mapping):
                yield inner, resolver.in_subresource(self._specification.create_resource(inner))

    def _follow(self, reference: str, resolver: Any) -> Any:
        """What a reference leads to; None if that is nothing."""
        from referencing.exceptions import Unresolvable

        try:
            target = resolver.lookup(reference)
        except Unresolvable:
            self.faults.append(f"input_schema has a $ref to what is not in it: {head(reference, 200)}")
            return None
        self._form.add(target.contents, (reference,))
        return target


def _uri_chars(schema: Mapping[str, Any]) -> int:
    """The characters of all URIs that are joined while the references are followed, at most."""
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
