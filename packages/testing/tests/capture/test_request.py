"""What is known of a request."""

from __future__ import annotations

import json
from typing import Any

from tests.tables import rows

from eagerstream_testing.capture._folder import RequestFacts, facts_of

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}},
    "$defs": {"Day": {"properties": {"date": {}, "properties": {"anyOf": [{"properties": {"deep": {}}}]}}}},
}
REQUEST = {
    "model": "claude-1",
    "tools": [{"name": "f", "input_schema": SCHEMA}, {"type": "bash_20250124", "name": "bash"}, "odd"],
    "messages": [{"role": "user", "content": {"properties": {"mine": 1}}}],
}


@rows("request_", [REQUEST, json.dumps(REQUEST).encode()])
def test_model_and_keys(request_: Any) -> None:
    """The keys at any depth of a schema, and nothing of the rest of the request."""
    assert facts_of(request_) == RequestFacts("claude-1", frozenset({"city", "days", "date", "properties", "deep"}))


@rows(
    "request_",
    [b"", b"\xff", b"[" * 100_000, b"null", b"[1]", {}, {"model": 1, "tools": {"a": 1}}, {"tools": [1, None]}],
)
def test_requests_of_any_kind(request_: Any) -> None:
    """A client may send anything."""
    assert facts_of(request_) == RequestFacts()


def test_a_schema_inside_itself() -> None:
    """As code may make one."""
    schema: dict[str, Any] = {"properties": {"a": {}}}
    schema["items"] = schema
    assert facts_of({"tools": [{"input_schema": schema}]}).input_keys == {"a"}


def test_keys_that_nobody_asked_for() -> None:
    """They are not looked for."""
    assert facts_of(REQUEST, keys=False) == RequestFacts("claude-1")
