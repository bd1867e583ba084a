"""All that a program can ask about the public classes and functions of the wire core, as JSON on stdout."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import eagerstream_wire as wire


def surface() -> dict[str, Any]:
    """Maps each name, `PartialJSON` or `PartialJSON.feed`, to what it is, its parameters and its docstring."""
    known: dict[str, Any] = {}
    for name in wire.__all__:
        value = getattr(wire, name)
        if not inspect.isclass(value):
            known[name] = [callable(value), _parameters(value), inspect.getdoc(value) if callable(value) else ""]
            continue
        public = [member for member in dir(value) if not member.startswith("_")]
        members = {member: inspect.getattr_static(value, member) for member in public}
        # Attributes of instances: compiled classes have descriptors for them, with no docstring.
        members = {member: found for member, found in members.items() if callable(found) or inspect.getdoc(found)}
        known[name] = [
            [base.__qualname__ for base in value.__mro__],
            value.__module__,
            _parameters(value),
            inspect.getdoc(value),
        ]
        for member, found in members.items():
            is_routine = inspect.isroutine(found)
            parameters = _parameters(getattr(value, member)) if is_routine else None
            known[f"{name}.{member}"] = [is_routine, parameters, inspect.getdoc(getattr(value, member))]
    return known


def _parameters(value: object) -> Any:
    if not callable(value):
        return None
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return "unknown"
    # The first one of a method in C has no name to pass it by.
    return [[each.name, each.kind.name if number else "", repr(each.default)] for number, each in enumerate(parameters)]


if __name__ == "__main__":
    json.dump(surface(), sys.stdout)
