"""The tools as Python stubs, for the description of `run_code`."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from eagerstream._support.inspecting import without_middle
from eagerstream._support.redaction import printable
from eagerstream.tools import Tool, ToolResponse

from .schema_types import SchemaTypes, as_line, fields_of, is_name, resolved

_MAX_DESCRIPTION_CHARS: Final = 10_000
_MAX_PARAMETER_CHARS: Final = 1_000
_MAX_DEFAULT_CHARS: Final = 80
RESERVED: Final = frozenset({"asyncio", "print", "reset_session", "ToolError"})
"""Names that the code has from the start."""
_RESULT: Final = "class ToolResult(TypedDict):\n    text: str\n    data: dict[str, Any]"
"""The result of a tool that answers with text and data."""
_CONSTRAINTS: Final = (
    *("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
)


def parameters_of(tool: Tool) -> tuple[str, ...]:
    """Return the names of a tool's parameters in the order of positional arguments: the required ones come first.

    A name that is no Python name is left out. Such a parameter can only be given as `**{"user-id": ...}`.
    """
    properties, required = fields_of(tool.input_schema, tool.input_schema)
    names = [name for name in properties if is_name(name)]
    return (*(name for name in names if name in required), *(name for name in names if name not in required))


def stubs_of(tools: Mapping[str, Tool]) -> str:
    """Return the tools as stubs of async functions, with types and docstrings. The result is valid Python.

    Objects with known keys become `TypedDict` classes in front of the functions. The types come from the JSON schemas;
    a result's type also comes from the function's annotation, or from the output schema of an MCP server. Schemas and
    descriptions may be hostile: the size is bounded, and no text can end its docstring.
    """
    types = SchemaTypes({*tools, *RESERVED, "ToolResult"})
    functions = [_stub(name, tool, types) for name, tool in tools.items()]
    uses_result = any("ToolResult" in stub.partition("\n")[0] for stub in functions)
    return "\n\n".join([*([_RESULT] if uses_result else []), *types.classes, *functions])


def _stub(name: str, tool: Tool, types: SchemaTypes) -> str:
    schema = tool.input_schema
    types.begin(schema)
    properties, required = fields_of(schema, schema)
    parameters: list[str] = []
    told: list[str] = []
    for each in parameters_of(tool):
        type_ = types.of(properties[each], f"{name} {each}")
        parameters.append(f"{each}: {type_}" + ("" if each in required else f" = {_default(properties[each])}"))
        told += _told(each, properties[each])
    for other in (key for key in properties if not is_name(key)):
        need = "required" if other in required else "optional"
        how = f"**{{{other!r:.200}: {types.of(properties[other], f'{name} {other}')}}}, {need}"
        told += _told(how, properties[other]) or [how]
    if any(not is_name(key) for key in properties) or "properties" not in schema:
        rest = next(word for number in count() if (word := "arguments" + "_" * number) not in properties)
        parameters.append(f"**{rest}: Any")
    head = f"async def {name}({', '.join(parameters)}) -> {_returned(name, tool, types)}:"
    text = without_middle(printable(inspect.cleandoc(tool.description)), _MAX_DESCRIPTION_CHARS)
    if told:
        text = "\n".join([*([text, ""] if text else []), "Args:", *(f"    {line}" for line in told)])
    if not text:
        return f"{head} ..."
    text = text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    if "\n" in text or text.endswith('"'):
        text = "\n".join(f"    {line}" if line.strip() else "" for line in f"{text}\n".split("\n")).lstrip() + "    "
    return f'{head}\n    """{text}"""'


def _told(name: str, schema: object) -> list[str]:
    """Return the line about a parameter: its description, and its constraints. There is none if it has neither."""
    if not isinstance(schema, Mapping):
        return []
    constraints = [
        f"{word}: {as_line(str(schema[word]), _MAX_DEFAULT_CHARS)}"
        for word in _CONSTRAINTS
        if isinstance(schema.get(word), str | float) or (isinstance(schema.get(word), int) and _is_small(schema[word]))
    ]
    text = as_line(schema.get("description"), _MAX_PARAMETER_CHARS)
    notes = f"({', '.join(constraints)})" if constraints else ""
    return [f"{name}: {' '.join(filter(None, [text, notes]))}"] if text or notes else []


def _default(schema: object) -> str:
    """Return the default of an optional parameter; `...` if it is unknown or long."""
    default = schema.get("default", ...) if isinstance(schema, Mapping) else ...
    is_shown = (
        default in (None, [], {})
        or (isinstance(default, int) and _is_small(default))
        or (isinstance(default, float) and math.isfinite(default))
        or (isinstance(default, str) and len(default) <= _MAX_DEFAULT_CHARS)
    )
    return repr(default) if is_shown else "..."


def _is_small(number: int) -> bool:
    return number.bit_length() <= 256  # Python writes no integer of more than 4,300 digits


# --- the results ------------------------------------------------------------------------------------------------------


def _returned(name: str, tool: Tool, types: SchemaTypes) -> str:
    schema: Mapping[str, Any] | None = tool.output_schema
    if schema is None:
        hint = _return_hint(tool)
        if inspect.isclass(hint) and issubclass(hint, ToolResponse):
            return "str | ToolResult"
        schema = {}
        if hint is not Any:
            with suppress(Exception):  # a type of any library may have no schema
                schema = TypeAdapter(hint).json_schema(mode="serialization")
    types.begin(schema)
    return types.of(resolved(schema, schema), f"{name} result")


def _return_hint(tool: Tool) -> Any:
    """Return the annotation of a function's result; Any if it has none, or if its tool has a definition of its own."""
    if tool.options.get("definition") is not None:
        return Any
    function: Any = tool.__wrapped__
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        hint = get_type_hints(function, include_extras=True).get("return", Any)
    except Exception:  # evaluating annotations may run any code
        return Any
    origin = get_origin(hint)
    if inspect.isclass(origin) and issubclass(origin, AsyncIterator | Iterator):
        return get_args(hint)[0]  # the last value of a generator is the result
    return hint
