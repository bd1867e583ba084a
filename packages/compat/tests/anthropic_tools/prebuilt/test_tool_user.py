"""The prebuilt tools in the hands of `ToolUser`, synchronous and asynchronous."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
import httpx
import pytest
from packages.compat.tests.anthropic_tools.prebuilt.support import XML, AsyncManual, Manual, manual
from tests.sites import site
from tests.support import anthropic_client

from eagerstream_compat._sync import run_sync
from eagerstream_compat.anthropic_tools import (
    BaseSearchResult,
    BaseTool,
    BraveSearchTool,
    SQLTool,
    ToolUser,
    handle_manual_claude_res,
)
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit._search import brave

ASKED = {"query": "bicycle", "n_search_results_to_use": 2}
ROWS = '["name"]\n["John"]\n(1 row)'


def answered(server: ReplayServer) -> list[Any]:
    """The contents of the results in the latest request."""
    results: list[Any] = [each.get("content") for each in server.requests[-1].body["messages"][-1]["content"]]
    return results


def using(tool: BaseTool, input: dict[str, Any], use: Callable[[ToolUser, list[dict[str, Any]]], Any]) -> list[Any]:
    """What a conversation with one call answers it with."""
    scenario = Scenario(reply(tool_use(tool.name, input)), reply(text("Done.")))
    with ReplayServer(scenario) as server:
        user = ToolUser([tool], model="m", client=anthropic_client(server.base_url))
        assert use(user, [{"role": "user", "content": "Look it up."}])["content"] == "Done."
        if use is not awaited:
            run_sync("use_tools", "ause_tools", user.client.close)
        (definition,) = server.requests[0].body["tools"]
        assert definition["description"] == tool.to_anthropic()["description"]  # a database's schema is in it
        return answered(server)


def automatic(user: ToolUser, messages: list[dict[str, Any]]) -> Any:
    return user.use_tools(messages, execution_mode="automatic")


def awaited(user: ToolUser, messages: list[dict[str, Any]]) -> Any:
    async def use() -> Any:
        async with user.client:
            return await user.ause_tools(messages, execution_mode="automatic")

    return anyio.run(use)


def by_hand(user: ToolUser, messages: list[dict[str, Any]]) -> Any:
    while True:
        reply = user.use_tools(messages)
        if handle_manual_claude_res(messages, reply, user)["next_action"] == "user_input":
            return reply


@pytest.mark.parametrize("kind", [Manual, AsyncManual])
@pytest.mark.parametrize("use", [automatic, awaited, by_hand])
def test_search(kind: type[Manual], use: Callable[..., Any]) -> None:
    """The answer is the text that `use_tool` returns."""
    assert using(manual(kind), ASKED, use) == [XML]


def test_a_search_in_the_thread_of_the_program() -> None:
    """What belongs to it, as connections to databases do, is there."""
    threads: list[int] = []

    class Here(Manual):
        def raw_search(self, query: str, n_search_results_to_use: int) -> list[BaseSearchResult]:
            threads.append(threading.get_ident())
            return []

    using(manual(Here), ASKED, automatic)
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize(("use", "expected"), [(automatic, ROWS), (awaited, ROWS), (by_hand, '[["John"]]')])
def test_sql_in_memory(use: Callable[..., Any], expected: str) -> None:
    """A database that only this thread can reach."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("CREATE TABLE employees (name); INSERT INTO employees VALUES ('John')")
        parameters = [{"name": "sql_query", "type": "str", "description": "The query."}]
        tool = SQLTool("sql", "Query.", parameters, "CREATE TABLE employees (name)", connection, "SQLite")
        assert using(tool, {"sql_query": "SELECT name FROM employees"}, use) == [expected]


def test_a_client_that_keeps_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client for any number of synchronous searches, by a program and by a model."""
    found = {"web": {"results": [{"title": "Oslo", "url": "https://a.example", "description": "A city."}]}}
    with site({"/b?q=oslo&count=1": json.dumps(found)}) as served:
        monkeypatch.setattr(brave, "_URL", f"{served.origin}/b")
        client = httpx.AsyncClient(verify=False, trust_env=False)
        tool = BraveSearchTool(brave_api_key="k", client=client)
        input = {"query": "oslo", "n_search_results_to_use": 1}
        for _ in range(2):
            assert tool.raw_search("oslo", 1) == [BaseSearchResult("A city.", "https://a.example", title="Oslo")]
            (said,) = using(tool, input, automatic)
            assert "Oslo\nA city." in said
        run_sync("raw_search", "asearch", client.aclose)
