"""`TextEdit`, and the option of tools that returns it."""

from __future__ import annotations

from typing import Any

import pytest

import eagerstream
from eagerstream import InputStart, TextEdit, UsageError, tool
from eagerstream_testing import reply, server_tool_use, tool_use
from tests.streams import REQUEST
from tests.support import LocalAPI

pytestmark = pytest.mark.anyio


def test_the_option_takes_a_plain_function() -> None:
    """It runs in a thread: a coroutine would never be awaited there."""

    async def edits(_: Any) -> None: ...

    with pytest.raises(UsageError, match="edits must be a plain function"):
        tool(edits=edits)(lambda: None)
    with pytest.raises(UsageError, match="edits"):
        tool(edits="path")(lambda: None)  # type: ignore[call-overload]


async def test_a_run_knows_the_tools_of_its_inputs() -> None:
    """An observer finds the option of a call's tool as soon as its input starts. Calls that the API runs have none."""

    @tool(edits=lambda input: TextEdit(path=input["path"], new="text"))
    async def put(path: str, text: str) -> str:
        """Put a text."""
        return "put"

    client = LocalAPI(reply(server_tool_use("put", {}), tool_use("put", {}), tool_use("other", {}))).anthropic()
    found: list[Any] = []
    async with eagerstream.run(client, **REQUEST, tools=[put], max_turns=1) as run:
        async for event in run:
            if isinstance(event, InputStart):
                found.append(run.tool_of(event.input))
    assert found == [None, put, None]
    assert put.edits is not None
    assert put.edits({"path": "a"}) == TextEdit(path="a", new="text")
