"""The options of `@tool`: what the API is told, what is ours, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.tools import Group, tool
from tests.tables import rows


async def plain(a: int = 0) -> str:
    """Plain."""
    return str(a)


_EPHEMERAL = {"type": "ephemeral"}


@rows(
    "options, added",
    [
        ({}, {}),
        ({"strict": True}, {"strict": True}),
        ({"strict": False}, {"strict": False}),
        ({"cache_control": _EPHEMERAL}, {"cache_control": _EPHEMERAL}),
        ({"defer_loading": True}, {"defer_loading": True}),
        ({"defer_loading": False, "cache_control": _EPHEMERAL}, {"defer_loading": False, "cache_control": _EPHEMERAL}),
        ({"allowed_callers": ["direct"]}, {"allowed_callers": ["direct"]}),
        ({"input_examples": [{"a": 1}]}, {"input_examples": [{"a": 1}]}),
        ({"eager": False}, {"eager_input_streaming": False}),
        ({"name": "other"}, {"name": "other"}),
        ({"description": "Other."}, {"description": "Other."}),
        (dict.fromkeys(["strict", "cache_control", "defer_loading", "allowed_callers", "input_examples"]), {}),
        ({"group": "g", "timeout_s": 3.5, "include_data": True, "definition": None, "name": None}, {}),
    ],
)
def test_options_in_the_definition(options: Any, added: dict[str, Any]) -> None:
    """Golden: what the API knows stands in the definition, None is left out, and nothing else is there."""
    expected = {
        "name": "plain",
        "description": "Plain.",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer", "default": 0}},
            "additionalProperties": False,
        },
        "eager_input_streaming": True,
    }
    assert tool(plain, **options).to_dict() == expected | added


def test_options_beside_the_definition() -> None:
    """What is ours is an attribute of the tool."""
    made = tool(plain, group="g", timeout_s=3.5, include_data=True)
    assert (made.group, made.timeout_s, made.include_data) == (Group("g"), 3.5, True)
    assert not made.accepts_invalid_input
    group = Group("g", stop_on_error=True)
    assert tool(plain, group=group).group is group
    made = tool(plain)
    assert (made.group, made.timeout_s, made.include_data, made.toolset) == (None, None, False, None)


def test_read_only() -> None:
    """A call that changes nothing may also run twice, unless the option says otherwise."""
    made = [tool(plain), tool(plain, read_only=True), tool(plain, read_only=True, idempotent=False)]
    assert [(each.read_only, each.idempotent) for each in made] == [(False, False), (True, True), (True, False)]
    with pytest.raises(UsageError, match="read_only"):
        tool(plain, read_only="yes")  # type: ignore[call-overload]


def test_unknown_options() -> None:
    """A misspelt option is a mistake, not an option that is left out; all of them are named."""
    misspelt: Any = {"timeout": 3, "egaer": True}
    with pytest.raises(UsageError, match=r"no option 'timeout'.*no option 'egaer'"):
        tool(plain, **misspelt)
    with pytest.raises(UsageError, match=r"no option 'timeout'.*no option 'egaer'"):
        tool(**misspelt)(plain)


@rows(
    "options, fault",
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"allowed_callers": "direct"}, "allowed_callers"),
        ({"cache_control": "ephemeral"}, "cache_control"),
        ({"cache_control": _EPHEMERAL, "defer_loading": True}, "defer_loading"),
        ({"input_examples": [1]}, "input_examples"),
        ({"input_examples": {"a": 1}}, "input_examples"),
        ({"accepts_invalid_input": True}, "INVALID_JSON"),
    ],
)
def test_options_that_cannot_be(options: Any, fault: str) -> None:
    """What the API or the executor could not use is refused when the tool is defined."""
    with pytest.raises(UsageError, match=fault):
        tool(plain, **options)


@rows(
    "options",
    [
        {"timeout_s": "5"},
        {"group": 3},
        {"name": 3},
        {"description": 3},
        {"eager": "yes"},
        {"strict": "yes"},
        {"input_examples": 3},
        {"allowed_callers": 3, "strict": True},
        {"definition": "f"},
    ],
)
def test_options_of_the_wrong_type(options: Any) -> None:
    """Without a type checker these are as easy to get wrong as the others; a wrong group ends the run in admit."""
    with pytest.raises(UsageError):
        tool(plain, **options)


def test_strict_and_calls_from_code(caplog: pytest.LogCaptureFixture) -> None:
    """The API refuses the two together today: a warning that names the tool, since it may not do so tomorrow."""
    callers = ["direct", "code_execution_20260120"]
    tool(plain, strict=True, allowed_callers=["direct"])
    tool(plain, allowed_callers=callers)
    assert "strict" not in caplog.text
    tool(plain, strict=True, allowed_callers=callers)
    assert "the tool plain: strict cannot be combined" in caplog.text


def test_faults_of_function_and_options_at_once() -> None:
    """Golden: everything that is wrong, in one message."""

    async def f(a, *args: int) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(UsageError) as caught:
        tool(f, name="a b", cache_control="x", allowed_callers="direct", input_examples=[1])  # type: ignore[call-overload]
    assert str(caught.value) == (
        "a b cannot be a tool: cache_control: Input should be a valid dictionary; "
        "allowed_callers: 'str' instances are not allowed as a Sequence value; "
        "input_examples: Input should be a valid dictionary; "
        "parameter 'a' has no type annotation; parameter 'args' cannot be given by name; "
        "a tool's name must match [a-zA-Z0-9_-]{1,64}, not 'a b'"
    )


@rows("option", [{"timeout_s": -1}, {"timeout": 1}])
def test_really_all_faults_at_once(option: Any) -> None:
    """Whatever the first fault is, the others are told with it."""
    with pytest.raises(UsageError) as caught:
        tool(plain, name="a b", **option)
    assert "timeout" in str(caught.value)
    assert "name must match" in str(caught.value)


def test_accepts_invalid_input() -> None:
    """The model never sees the parameter; all others need a default, since they are not there then."""

    async def fits(a: int = 0, INVALID_JSON: str = "") -> None:
        """F."""

    async def needs(a: int, INVALID_JSON: str = "") -> None: ...

    assert set(tool(fits, accepts_invalid_input=True).to_dict()["input_schema"]["properties"]) == {"a"}
    assert set(tool(fits).to_dict()["input_schema"]["properties"]) == {"a", "INVALID_JSON"}
    with pytest.raises(UsageError, match="defaults for all the others"):
        tool(needs, accepts_invalid_input=True)


def test_a_definition_is_a_copy_all_the_way_down() -> None:
    """What a caller changes deep in one definition does not change the tool either."""
    made = tool(plain)
    changed = made.to_dict()
    changed["name"] = "other"
    changed["input_schema"]["properties"].clear()
    assert made.to_dict()["name"] == "plain"
    assert "a" in made.to_dict()["input_schema"]["properties"]


def test_tools_whose_schema_the_api_brings_run_in_call_order() -> None:
    """They have a state, and the next call builds on the last. A group that is given, or None, takes precedence."""
    memory = {"type": "memory_20250818", "name": "memory"}

    async def call(input: dict[str, Any]) -> None: ...

    own = {"name": "own", "input_schema": {"type": "object"}}
    assert tool(call, definition=memory).group == Group("memory")
    assert tool(call, definition=memory, group="files").group == Group("files")
    assert tool(call, definition=memory, group=None).group is None
    assert tool(call, definition=own).group is None
