"""`BrowserToolset`: its definition, and the way from a call to a function."""

from __future__ import annotations

import itertools
import json
from typing import Any

import anyio
import pytest
from packages.toolkit.tests.cases import case
from tests.tables import rows
from tests.tools.calls import a_call

from eagerstream.errors import UsageError
from eagerstream.tools import InProcessExecutor
from eagerstream_toolkit import BrowserToolset
from eagerstream_toolkit._browser_toolset import BROWSER_MEMBERS

TURNS = itertools.count(1)
STATE = {"type": "browser_state", "tabs": [{"tab_id": "1", "url": "https://a.example/", "title": "A"}]}


async def navigate(input: dict[str, Any]) -> str:
    if "url" not in input:
        raise ValueError("no url")
    return f"Navigated to {input['url']}"


async def list_tabs(input: dict[str, Any]) -> list[dict[str, Any]]:
    return [STATE]


def plain(input: dict[str, Any]) -> None: ...


def test_the_members_are_those_of_the_anthropic_package() -> None:
    """One that it adds is noticed here."""
    members = pytest.importorskip("anthropic.types.browser_member_name")
    assert members.BROWSER_MEMBER_NAME_VALUES == BROWSER_MEMBERS


def test_the_definition() -> None:
    """It says of each member whether there is a function for it; settings of the user stay."""
    toolset = BrowserToolset(
        {"navigate": navigate, "javascript_exec": list_tabs},
        configs={"navigate": {"defer_loading": True}},
        cache_control={"type": "ephemeral"},
    )
    definition = toolset.to_dict()
    configs = definition.pop("configs")
    assert definition == {"type": "browser_toolset_20260801", "cache_control": {"type": "ephemeral"}}
    assert {name for name, config in configs.items() if config["enabled"]} == {"navigate", "javascript_exec"}
    assert configs["navigate"] == {"enabled": True, "defer_loading": True}
    assert set(configs) == set(BROWSER_MEMBERS)


@rows(
    "members, options, said",
    [
        ({"fly": navigate}, {}, "has no fly"),
        ({"navigate": plain}, {}, "async functions: navigate"),
        ({}, {"configs": {"swim": {"enabled": True}}}, "has no swim"),
        ({}, {"configs": {"zoom": {"enabled": True}}}, "no function for zoom"),
        ({}, {"definition": {}}, "definition"),
        ({}, {"strict": True}, "strict"),
    ],
)
def test_wrong_settings(members: dict[str, Any], options: dict[str, Any], said: str) -> None:
    """When it is made, not when the API refuses the request."""
    with pytest.raises(UsageError, match=said):
        BrowserToolset(members, **options)


@pytest.mark.anyio
async def test_calls() -> None:
    """To the function of their member, in order; after one that failed none of the others."""
    toolset = BrowserToolset({"navigate": navigate, "list_tabs": list_tabs})
    turn = next(TURNS)
    calls = [
        a_call(name, json.dumps(input), index=index, turn=turn, toolset_name="browser")
        for index, (name, input) in enumerate(
            [("list_tabs", {}), ("navigate", {"url": "https://a.example/"}), ("navigate", {}), ("list_tabs", {})]
        )
    ]
    executor = InProcessExecutor([toolset])
    with anyio.fail_after(50):
        for call in calls:
            executor.admit(call)
        for call in calls:
            await executor.execute(call)
    results = [call.result or {} for call in calls]
    assert [result["content"] for result in results] == [
        [STATE],
        "Navigated to https://a.example/",
        "ValueError: no url",
        "Not executed: an earlier action in this turn failed.",
    ]
    assert {result["toolset_name"] for result in results} == {"browser"}


@pytest.mark.anyio
async def test_members_without_a_function() -> None:
    """The model may call them all the same."""
    for name in ["screenshot", "fly", "__init__"]:
        with case(name):
            call = a_call(name, "{}", toolset_name="browser")
            await InProcessExecutor([BrowserToolset({"navigate": navigate})]).execute(call)
            assert call.result is not None
            assert (call.result["content"], call.is_error) == (f"Error: {name!r} is not available here.", True)
