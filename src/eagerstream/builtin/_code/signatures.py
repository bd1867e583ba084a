"""The tools as Python stubs, for the description of `run_code`."""

from __future__ import annotations

from collections.abc import Mapping

from ...tools import Tool


def parameters_of(tool: Tool) -> tuple[str, ...]:
    """Return the names of a tool's parameters in the order of positional arguments: the required ones come first."""
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    names = list(properties) if isinstance(properties, dict) else []
    needed = set(required) if isinstance(required, list) else set()
    return (*(name for name in names if name in needed), *(name for name in names if name not in needed))


def stubs_of(tools: Mapping[str, Tool]) -> str:
    """Return the tools as stubs of async functions, with types and docstrings."""
    stub = 'async def {}({}):\n    """{}"""'.format
    return "\n".join(stub(name, ", ".join(parameters_of(tool)), tool.description) for name, tool in tools.items())
