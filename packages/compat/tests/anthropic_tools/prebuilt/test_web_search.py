"""`BraveSearchTool` and `WikipediaSearchTool`: the constructors of anthropic-tools, the searches that are builtin."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

import httpx
import pytest
from packages.compat.tests.anthropic_tools.prebuilt.support import PARAMETERS
from packages.toolkit.tests.support import conversation, results
from tests.sites import site

from eagerstream.errors import ToolError, UsageError
from eagerstream_compat.anthropic_tools import BaseSearchResult, BraveSearchTool, WikipediaSearchTool
from eagerstream_toolkit._search import brave

KEY: Final = "BSA-top-secret-key"

BRAVE: Final[dict[str, Any]] = {
    "mixed": {"main": [{"type": "web", "index": 1, "all": False}, {"type": "web", "index": 0, "all": False}]},
    "web": {
        "results": [
            {"title": "Oslo", "url": "https://a.example", "description": "The <strong>capital</strong> &amp; more"},
            {"title": "B", "url": "https://b.example", "description": "out"},
        ]
    },
}
BRAVE_FOUND: Final = [
    BaseSearchResult("out", "https://b.example", title="B"),
    BaseSearchResult("The capital & more", "https://a.example", title="Oslo"),
]
WIKIPEDIA: Final[dict[str, Any]] = {
    "query": {
        "pages": [
            {
                "pageid": 1,
                "index": 1,
                "title": "Oslo",
                "fullurl": "https://en.wikipedia.org/wiki/Oslo",
                "extract": "Oslo is a city.",
            }
        ]
    }
}


def client(answer: Any, seen: list[httpx.Request] | None = None) -> httpx.AsyncClient:
    """A client that gets this answer to everything."""

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


def test_signatures() -> None:
    """By position and by name, as programs call them; the key is no default any more."""
    assert list(inspect.signature(BraveSearchTool).parameters)[:5] == [
        "name",
        "description",
        "parameters",
        "brave_api_key",
        "truncate_to_n_tokens",
    ]
    assert list(inspect.signature(WikipediaSearchTool).parameters)[:4] == [
        "name",
        "description",
        "parameters",
        "truncate_to_n_tokens",
    ]
    for tool, name in (
        (BraveSearchTool(brave_api_key=KEY), "search_brave"),
        (WikipediaSearchTool(), "search_wikipedia"),
    ):
        assert tool.name == name
        assert tool.truncate_to_n_tokens == 5000
        assert [(each["name"], each["type"]) for each in tool.parameters] == [
            ("query", "str"),
            ("n_search_results_to_use", "int"),
        ]


def test_the_key_of_brave(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when a tool is made, is told of where it is missing, and is shown nowhere."""
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    with pytest.raises(UsageError, match="BRAVE_API_KEY"):
        BraveSearchTool()
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    seen: list[httpx.Request] = []
    tool = BraveSearchTool(client=client(BRAVE, seen))
    assert tool.raw_search("oslo", 1) == BRAVE_FOUND[:1]
    assert seen[0].headers["x-subscription-token"] == KEY
    assert KEY not in f"{tool!r}{tool.to_anthropic()}{tool.format_tool_for_claude()}"


@pytest.mark.anyio
async def test_brave() -> None:
    """The model gets pages in Brave's order; the text is that of the other tools that search."""
    async with client(BRAVE) as used:
        tool = BraveSearchTool("web", "Search the web.", PARAMETERS, KEY, client=used)
        assert await tool.asearch("oslo", 5) == BRAVE_FOUND
        found = await conversation(tool.to_tool(), {"query": "oslo", "n_search_results_to_use": 1})
        told = await tool.ause_tool({"query": "oslo", "n_search_results_to_use": 1})
    assert told == (
        '\n<search_results>\n<item index="1">\n<source>https://b.example</source>\n'
        "<page_content>\nB\nout\n</page_content>\n</item>\n</search_results>"
    )
    assert results(found) == [(told, False)]


@pytest.mark.anyio
async def test_wikipedia() -> None:
    """Articles with their introductions, cut."""
    seen: list[httpx.Request] = []
    async with client(WIKIPEDIA, seen) as used:
        tool = WikipediaSearchTool(client=used, edition="simple", truncate_to_n_tokens=1)
        assert await tool.asearch("oslo", 99) == [
            BaseSearchResult("Oslo", "https://en.wikipedia.org/wiki/Oslo", title="Oslo")
        ]
    assert seen[0].url.host == "simple.wikipedia.org"
    assert seen[0].url.params["gsrlimit"] == "20"  # no more than it gives


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["", "  ", "a" * 401])
async def test_queries_that_no_service_takes(query: str) -> None:
    """They are not sent, and the model is told."""
    seen: list[httpx.Request] = []
    async with client(BRAVE, seen) as used:
        tool = BraveSearchTool(brave_api_key=KEY, client=used).to_tool()
        ((said, is_error),) = results(await conversation(tool, {"query": query, "n_search_results_to_use": 1}))
    assert (said, is_error, seen) == ("ValueError: query must be a text of 1 to 400 characters", True, [])


@pytest.mark.anyio
async def test_a_search_that_fails() -> None:
    """It is an error, in words without the key, and not an empty result."""
    async with client(httpx.Response(401, json={"error": KEY})) as used:
        tool = BraveSearchTool(brave_api_key=KEY, client=used)
        with pytest.raises(ToolError, match="refused its key"):
            await tool.asearch("oslo", 1)
        ((said, is_error),) = results(
            await conversation(tool.to_tool(), {"query": "oslo", "n_search_results_to_use": 1})
        )
    assert is_error
    assert KEY not in said


def test_sync_code_over_real_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, each time in an event loop that is gone afterwards: nothing stays open, and nothing breaks."""
    with site({"/b?q=oslo&count=1": json.dumps(BRAVE)}) as served:
        monkeypatch.setattr(brave, "_URL", f"{served.origin}/b")
        tool = BraveSearchTool(brave_api_key=KEY)
        for _ in range(3):
            assert tool.raw_search("oslo", 1) == BRAVE_FOUND[:1]
        assert tool.use_tool("oslo", 1).count("<item") == 1
    assert len(served.asked) == 4
