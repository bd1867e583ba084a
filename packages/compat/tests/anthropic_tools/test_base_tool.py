"""`BaseTool`: what can be made, and what the model is told of it."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from packages.compat.tests.anthropic_tools.support import AdditionTool, AsyncTool
from packages.toolkit.tests.support import conversation, results
from tests.support import until
from tests.tables import rows

from eagerstream_compat.anthropic_tools import BaseTool
from eagerstream_compat.anthropic_tools._base_tool import call_async


class Echo(BaseTool):
    def use_tool(self, **given: Any) -> Any:
        return given


def test_a_class_without_use_tool() -> None:
    """There is nothing to run."""

    class Nothing(BaseTool): ...

    with pytest.raises(TypeError):
        Nothing("nothing", "Nothing.", [])  # type: ignore[abstract]


@rows(
    "parameters, told",
    [
        (["city"], "A parameter must be a dict"),
        ([{"name": "a", "type": "str"}], "A parameter needs a 'description'"),
        ([{"type": "str", "description": "x"}], "A parameter needs a 'name'"),
        ([{"name": "a", "type": "text", "description": "x"}], "must be one of str, int, float, bool, list, dict"),
        ([{"name": "a", "type": "str", "description": "x"}] * 2, "more than one parameter a"),
    ],
)
def test_parameters_that_are_none(parameters: Any, told: str) -> None:
    """Told when the tool is made, not when the model calls it."""
    with pytest.raises(ValueError, match=told):
        Echo("echo", "Echo.", parameters)


def test_the_definition() -> None:
    """Python's names of types become JSON's; all are required that have no default and do not say otherwise."""
    given = [
        {"name": name, "type": name, "description": "x"} for name in ("str", "int", "float", "bool", "list", "dict")
    ]
    given += [{"name": "unit", "type": "str", "description": "x", "enum": ["c", "f"], "default": "c"}]  # type: ignore[dict-item]
    given += [{"name": "tags", "type": "list", "description": "x", "items": {"type": "string"}, "required": False}]  # type: ignore[dict-item]
    tool = Echo("echo", "Echo.", given)
    assert (tool.name, tool.description, tool.parameters) == ("echo", "Echo.", given)
    definition = tool.to_anthropic()
    assert {key: definition[key] for key in ("name", "description")} == {"name": "echo", "description": "Echo."}
    schema = definition["input_schema"]
    assert schema["required"] == ["str", "int", "float", "bool", "list", "dict"]
    kinds = ["string", "integer", "number", "boolean", "array", "object", "string", "array"]
    assert [each["type"] for each in schema["properties"].values()] == kinds
    assert schema["properties"]["unit"] == {"type": "string", "description": "x", "default": "c", "enum": ["c", "f"]}
    assert schema["properties"]["tags"]["items"] == {"type": "string"}


def test_the_description_of_old() -> None:
    """Who shows it, or looks at it, gets the same text."""
    assert AdditionTool().format_tool_for_claude() == (
        "<tool_description>\n<tool_name>perform_addition</tool_name>\n<description>\nAdd one number to another.\n"
        "</description>\n<parameters>\n<parameter>\n<name>a</name>\n<type>float</type>\n"
        "<description>The first number to add, such as 5</description>\n</parameter>\n<parameter>\n<name>b</name>\n"
        "<type>float</type>\n<description>The second number to add, such as 4.6</description>\n</parameter>\n"
        "</parameters>\n</tool_description>"
    )


def test_a_class_that_says_more() -> None:
    """What it tells of itself in the old way is what the model reads."""

    class Query(AdditionTool):
        def format_tool_for_claude(self) -> str:
            return f"{self.description} <schema>CREATE TABLE employee_data (id)</schema>"

    definition = Query().to_anthropic()
    assert definition["description"] == "Add one number to another. <schema>CREATE TABLE employee_data (id)</schema>"
    assert {**definition, "description": ""} == {**AdditionTool().to_anthropic(), "description": ""}


@pytest.mark.anyio
async def test_both_kinds_can_be_awaited() -> None:
    """A `def`, an `async def`, and a `def` that gives an awaitable."""

    class Lazy(BaseTool):
        def use_tool(self, word: str) -> Any:
            return AsyncTool().use_tool(word)

    assert await AdditionTool().ause_tool({"a": 1, "b": 2}) == 3
    assert await AsyncTool().ause_tool({"word": "hey"}) == "HEY"
    assert await Lazy("lazy", "Lazy.", []).ause_tool({"word": "hey"}) == "HEY"


class Weather(BaseTool):
    def use_tool(self, city: str) -> dict[str, Any]:
        if city != "Oslo":
            raise ValueError(f"no place {city}")
        return {"temperature": 14.5, "unit": "°C"}


@pytest.mark.anyio
async def test_as_a_tool_of_this_library() -> None:
    """It can be given to `eagerstream.run`, too: data is sent as JSON, and what it raises is told to the model."""
    tool = Weather("weather", "Weather.", [{"name": "city", "type": "str", "description": "Where."}])
    used = tool.to_tool(timeout_s=5)
    assert (used.name, used.timeout_s, used.to_dict()["input_schema"]["required"]) == ("weather", 5, ["city"])
    assert results(await conversation(used, {"city": "Oslo"}, {"city": "Atlantis"})) == [
        ('{"temperature": 14.5, "unit": "°C"}', False),
        ("ValueError: no place Atlantis", True),
    ]


# --- calls of functions that may be sync or async ---------------------------------------------------------------------


async def waiting(value: int) -> int:
    await anyio.lowlevel.checkpoint()
    return value + 1


def giving(value: int) -> Any:
    return waiting(value)


@pytest.mark.parametrize("function", [lambda value: value + 1, waiting, giving], ids=["plain", "async", "awaitable"])
@pytest.mark.anyio
async def test_any_function_is_called(function: Any) -> None:
    """A plain one, an async one, and a plain one that gives something to be awaited."""
    assert await call_async(function, 1) == 2


@pytest.mark.anyio
async def test_plain_functions_run_in_threads_of_async_code() -> None:
    """They may block."""
    assert await call_async(threading.get_ident) != threading.get_ident()


@pytest.mark.anyio
async def test_cancelling_ends_a_call() -> None:
    """What is awaited is cancelled, and a thread is left behind."""
    seen: list[str] = []
    began, release = threading.Event(), threading.Event()

    async def forever() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    def blocked() -> None:
        began.set()
        release.wait(20)

    for function in (forever, blocked):
        began.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_async, function)
            await until(began.is_set)
            tasks.cancel_scope.cancel()
    release.set()
    assert seen == ["cancelled"]
