"""`BraveSearch`: web search with the Brave Search API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

from eagerstream._support.options import with_defaults
from eagerstream.errors import UsageError
from eagerstream.tools import ToolOptions

from .._tool_options import take_time_limit_s
from .http import MAX_ITEMS, get_json, items_of
from .tool import SearchPage, SearchResult, SearchTool, is_web_address, plain_text

if TYPE_CHECKING:
    import httpx

_URL: Final = "https://api.search.brave.com/res/v1/web/search"
_KINDS: Final = ("web", "news", "faq")
_MIN_NEWS_CHARS: Final = 5
"""Minimum length of a news item's text. Items with only a headline have less."""
_DESCRIPTION: Final = "Search the web. Gives titles, addresses and short excerpts of pages, not the pages themselves."


class BraveSearch(SearchTool):
    """A tool that searches the web with Brave: pages, news, and questions with answers, in Brave's order.

        run(client, tools=[BraveSearch()], ...)  # with the key in BRAVE_API_KEY

    It does not fetch the pages. See https://api-dashboard.search.brave.com for the API and its keys.

    Args:
        api_key: The key of the API. `None` reads `BRAVE_API_KEY` from the environment. It is never shown.
        client: Sends the requests, and stays open. With `None`, each request uses a client of its own.
        options: See `ToolOptions`. `timeout_s`, 30 by default, limits a search. It includes up to two retries after
            HTTP 429, 5xx and lost connections.

    Raises:
        UsageError: The key is missing or malformed, or an option is wrong.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        client: httpx.AsyncClient | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        key = os.environ.get("BRAVE_API_KEY", "") if api_key is None else api_key
        if not key:
            raise UsageError("BraveSearch needs a key: api_key=..., or BRAVE_API_KEY in the environment")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError("the key of BraveSearch contains a character that is not allowed in keys")
        self._headers = {"x-subscription-token": key}
        self._client = client
        self._limit_s = take_time_limit_s(options)
        options = with_defaults(options, name="search_brave", description=_DESCRIPTION)
        super().__init__(**options)

    async def search(self, query: str, count: int) -> SearchPage:
        """Search, as `SearchTool.search` documents. Cancelling it ends the request."""
        found = await get_json(
            _URL,
            params={"q": query, "count": count},
            headers=self._headers,
            client=self._client,
            timeout_s=self._limit_s,
        )
        asked: object = found.get("query")
        has_more = isinstance(asked, Mapping) and asked.get("more_results_available") is True
        return SearchPage(list(_results(found)), has_more=has_more)


def _results(found: Mapping[str, Any]) -> Iterator[SearchResult]:
    """Yield results of all kinds, in the order of `mixed.main`: `[{"type": "web", "index": 0, "all": False}, ...]`."""
    lists = {kind: [_result(kind, item) for item in items_of(found.get(kind), "results")] for kind in _KINDS}
    order = items_of(found.get("mixed"), "main") or [{"type": kind, "all": True} for kind in _KINDS]
    seen: set[str] = set()
    for place in order:
        results = lists.get(str(place.get("type")), [])
        if place.get("all") is not True:
            index = place.get("index")
            results = results[index : index + 1] if type(index) is int and index >= 0 else []
        for result in results:
            if result is not None and result.source not in seen:
                seen.add(result.source)
                yield result


def _result(kind: str, item: Mapping[str, Any]) -> SearchResult | None:
    url = item.get("url")
    if not isinstance(url, str) or not is_web_address(url):
        return None
    extra = item.get("extra_snippets")
    parts = [item.get("description"), *(extra[:MAX_ITEMS] if isinstance(extra, list) else ())]
    if kind == "faq":
        parts = [item.get("question"), item.get("answer")]
    content = "\n".join(text for text in map(plain_text, parts) if text)
    if kind == "news" and len(content) < _MIN_NEWS_CHARS:
        return None
    return SearchResult(url, plain_text(item.get("title")), content)
