"""What is wrong with a call, and what a tool gets."""

from __future__ import annotations

from typing import Any

import pytest
from packages.compat.tests.anthropic_tools.support import MISSING_B, AdditionTool
from tests.streams import MESSAGE_STOP, block_stop, input_delta, message_delta, message_start, tool_start
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_compat.anthropic_tools import BaseTool
from eagerstream_compat.anthropic_tools._checks import CallCheck, Validate
from eagerstream_wire import MessageAssembler, ToolInput


class Echo(BaseTool):
    def use_tool(self, **given: Any) -> Any:
        return given


def parameter(name: str, type: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "description": "x", **more}


KINDS = Echo(
    "kinds",
    "Kinds.",
    [parameter(f"a_{kind}", kind, required=False) for kind in ("str", "int", "float", "bool", "list", "dict")],
)
DEFAULTS = Echo("defaults", "Defaults.", [parameter("unit", "str", enum=["c", "f"], default="c")])


def call(raw: str, name: str = "perform_addition", *, closed: bool = True) -> ToolInput:
    """A call as it was written."""
    assembler = MessageAssembler()
    end = [block_stop(0), message_delta("tool_use"), MESSAGE_STOP] if closed else []
    for event in [message_start(), tool_start(0, name), input_delta(0, raw), *end]:
        assembler.feed(event)
    if not closed:
        assembler.close()
    return assembler.inputs[0]


def fault(input: ToolInput, validate: Validate | None = None) -> str | None:
    return CallCheck([AdditionTool(), KINDS, DEFAULTS], validate).fault_of(input)


@rows(
    "raw, told",
    [
        ('{"a": 9, "b": 1}', None),
        ('{"a": 9}', MISSING_B),
        ("{}", 'Missing required parameters "a", "b" in tool perform_addition.'),
        ('{"a": 9, "b": 1, "c": 2}', "Invalid parameters {'c'} for <tool_name>perform_addition</tool_name>."),
        ('{"a": 9, "d": 1, "c": 2}', "Invalid parameters {'c', 'd'} for <tool_name>perform_addition</tool_name>."),
        ('{"a": "nine", "b": 1}', "Error: Invalid parameter 'a': expected number, got \"nine\""),
        ('{"a": true, "b": 1}', "Error: Invalid parameter 'a': expected number, got true"),
    ],
)
def test_faults(raw: str, told: str | None) -> None:
    """In the words of the document; what it has no words for in those of this library."""
    assert fault(call(raw)) == told


def test_a_tool_that_is_not_there() -> None:
    """Names of any length, also those of parameters, are no reason for an answer of any length."""
    assert fault(call("{}", "nope")) == "No tool named <tool_name>nope</tool_name> available."
    assert len(fault(call("{}", "n" * 100_000)) or "") < 200
    written = ", ".join(f'"{"n" * 1_000}{number}": 1' for number in range(1_000))
    assert len(fault(call(f"{{{written}}}")) or "") < 4_000


def test_arguments_that_are_no_json() -> None:
    """And those that were cut."""
    assert (fault(call('{"a": nine}')) or "").startswith(
        "The arguments of tool perform_addition are not a JSON object: "
    )
    cut = fault(call('{"a": 9', closed=False))
    assert cut == "The arguments of tool perform_addition were cut off before they were complete."


@rows(
    "kind, written, value",
    [
        ("str", "17", "17"),
        ("int", "17", 17),
        ("float", "17", 17),
        ("float", " -1.5e3 ", -1500.0),
        ("bool", "True", True),
        ("bool", "false", False),
        ("list", "[1, 2]", [1, 2]),
        ("dict", '{"a": null}', {"a": None}),
    ],
)
def test_texts_that_say_a_value(kind: str, written: str, value: Any) -> None:
    """They become it: `"False"` is not true."""
    made = CallCheck([KINDS]).arguments_of("kinds", {f"a_{kind}": written})[f"a_{kind}"]
    assert made == value
    assert type(made) is type(value)


@rows(
    "kind, written",
    [
        ("int", "3.5"),
        ("int", "true"),
        ("float", "NaN"),
        ("float", "1e999"),
        ("float", "false"),
        ("bool", "1"),
        ("bool", "yes"),
        ("list", "{}"),
        ("list", "[-1e999]"),
        ("list", "__import__('os')"),
        ("list", "[" * 100_000),
        ("int", "9" * 5_000),
        ("dict", "[]"),
    ],
)
def test_texts_that_do_not(kind: str, written: str) -> None:
    """They stay, and are told as wrong."""
    given = {f"a_{kind}": written}
    check = CallCheck([KINDS])
    assert check.arguments_of("kinds", given) == given
    with pytest.raises(Exception, match="Invalid parameter"):
        check.runnable["kinds"].check(given)


def test_defaults() -> None:
    """They are filled in, so that `use_tool` need not repeat them."""
    check = CallCheck([DEFAULTS])
    assert check.arguments_of("defaults", {}) == {"unit": "c"}
    assert check.arguments_of("defaults", {"unit": "f"}) == {"unit": "f"}


def test_a_hook() -> None:
    """It sees what the tool would get, and its word counts; what it raises does, too."""
    seen: list[tuple[str, dict[str, Any]]] = []

    def validate(name: str, arguments: dict[str, Any]) -> str | None:
        seen.append((name, arguments))
        if arguments["a"] > 100:
            raise PermissionError("too much")
        return "No nine." if arguments["a"] == 9 else None

    assert fault(call('{"a": "8", "b": 1}'), validate) is None
    assert fault(call('{"a": 9, "b": 1}'), validate) == "No nine."
    assert fault(call('{"a": 900, "b": 1}'), validate) == "PermissionError: too much"
    assert fault(call('{"a": 9}'), validate) == MISSING_B
    assert [arguments for _, arguments in seen] == [{"a": 8, "b": 1}, {"a": 9, "b": 1}, {"a": 900, "b": 1}]


def test_the_first_fault() -> None:
    """In the order of the calls."""
    calls = [call('{"a": 1, "b": 1}'), call('{"a": 9}'), call("{}", "nope")]
    assert CallCheck([AdditionTool()]).first_fault(calls) == MISSING_B
    assert CallCheck([AdditionTool()]).first_fault(calls[:1]) is None
    # The API takes no two tools of one name.
    with pytest.raises(UsageError, match="more than one tool is named 'perform_addition'"):
        CallCheck([AdditionTool(), AdditionTool()])
