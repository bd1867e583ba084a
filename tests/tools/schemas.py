"""Schemas that are given, and what the model is told of an input that does not fit one."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream.inputs import InputError
from eagerstream.inputs._raw_schema import RawSchema
from eagerstream.tools import Tool, tool


def fault_of(schema: dict[str, Any], input: dict[str, Any]) -> str:
    """What the model is told."""
    checked = RawSchema(schema)
    assert checked.faults == []
    with pytest.raises(InputError) as caught:
        checked.check(input)
    return str(caught.value)


def an_object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """A schema of an object that takes nothing else."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def with_schema(schema: Any, **options: Any) -> Tool:
    """A tool with a given schema."""

    async def f(input: dict[str, Any]) -> dict[str, Any]:
        return input

    return tool(f, definition={"name": "f", "description": "F.", "input_schema": schema}, **options)


def nested(depth: int) -> dict[str, Any]:
    return {"not": nested(depth - 1)} if depth else {}


def doubled(keyword: str) -> dict[str, Any]:
    """A schema of 3 KB that asks for 2^40 steps."""
    schemas: dict[str, Any] = {
        f"d{number}": {keyword: [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)
    }
    return {
        "type": "object",
        "$defs": schemas | {"d40": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/d0"}},
    }
