"""What of a request the recording of its reply needs: the model, and the words that its tools bring along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_MAX_MODEL_CHARS: Final = 100


class RequestFacts(NamedTuple):
    """What is known of a request.

    Attributes:
        model: Its name; empty where the request has none.
        input_keys: The keys that the schemas of its tools declare, at any depth, where they were asked for.
    """

    model: str = ""
    input_keys: frozenset[str] = frozenset()


def facts_of(request: Mapping[str, Any] | bytes, *, keys: bool = True) -> RequestFacts:
    """The facts of a request, the keys of inputs among them on request; linear in its size.

    Args:
        request: Its parameters, or its body, which may be anything.
        keys: Look for them.
    """
    if isinstance(request, bytes):
        try:
            request = json.loads(request)
        except (ValueError, RecursionError):
            return RequestFacts()
    if not isinstance(request, Mapping):
        return RequestFacts()
    model = request.get("model")
    tools = request.get("tools")
    listed = tools if keys and isinstance(tools, list | tuple) else ()
    declared = _declared_keys([tool.get("input_schema") for tool in listed if isinstance(tool, Mapping)])
    return RequestFacts(model[:_MAX_MODEL_CHARS] if isinstance(model, str) else "", declared)


def _declared_keys(schemas: list[Any]) -> frozenset[str]:
    keys: set[str] = set()
    seen: set[int] = set()
    pending: list[Any] = schemas
    while pending:
        schema = pending.pop()
        if id(schema) in seen:
            continue
        if isinstance(schema, Mapping):
            seen.add(id(schema))  # one that was made in code may contain itself
            for name, inner in schema.items():
                if name == "properties" and isinstance(inner, Mapping):  # of which one may have that name itself
                    keys.update(key for key in inner if isinstance(key, str))
                    pending += inner.values()
                else:
                    pending.append(inner)
        elif isinstance(schema, list | tuple):
            seen.add(id(schema))
            pending += schema
    return frozenset(keys)
