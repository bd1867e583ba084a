"""`WikipediaSearch`: search for articles of Wikipedia."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

from eagerstream._support.options import with_defaults
from eagerstream.errors import UsageError
from eagerstream.tools import ToolOptions

from .._tool_options import take_time_limit_s
from .http import get_json, items_of
from .tool import SearchPage, SearchResult, SearchTool, is_web_address, plain_text

if TYPE_CHECKING:
    import httpx

_EDITION: Final = re.compile(r"[a-z]{2,}(?:-[a-z]+)*")
_EXTRACT_CHARS: Final = 1_200  # the API's maximum
_USER_AGENT: Final = "eagerstream (Python SDK, search tool)"
_DESCRIPTION: Final = "Search Wikipedia. Gives the titles, addresses and first paragraphs of articles."


class WikipediaSearch(SearchTool):
    """A tool that searches Wikipedia. It returns articles with their introductions.

        run(client, tools=[WikipediaSearch()], ...)

    Args:
        edition: The language of the articles, as in the address of that Wikipedia: `"en"`, `"zh"`, `"simple"`.
        client: Sends the requests, and stays open. With `None`, each request uses a client of its own. Give your client
            a `user-agent` that says who you are: Wikimedia asks this of clients that send many requests.
        options: See `ToolOptions`. `timeout_s`, 30 by default, limits a search. It includes up to two retries after
            HTTP 429, 5xx and lost connections.

    Raises:
        UsageError: The edition is not a language code, or an option is wrong.
    """

    def __init__(
        self,
        *,
        edition: str = "en",
        client: httpx.AsyncClient | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not _EDITION.fullmatch(str(edition)):
            raise UsageError(f"an edition of Wikipedia must be a language code, not {edition!r:.80}")
        self._url = f"https://{edition}.wikipedia.org/w/api.php"
        self._client = client
        self._limit_s = take_time_limit_s(options)
        options = with_defaults(options, name="search_wikipedia", description=_DESCRIPTION)
        super().__init__(**options)

    async def search(self, query: str, count: int) -> SearchPage:
        """Search, as `SearchTool.search` documents. Cancelling it ends the request."""
        own_agent = self._client is not None and "python-httpx" not in self._client.headers.get("user-agent", "")
        found = await get_json(
            self._url,
            # Articles as a generator, and the search as a list, which has the total.
            params={
                "action": "query",
                "format": "json",
                "formatversion": 2,
                "generator": "search",
                "gsrsearch": query,
                "gsrlimit": count,
                "prop": "extracts|info",
                "exintro": 1,
                "explaintext": 1,
                "exchars": _EXTRACT_CHARS,
                "exlimit": "max",
                "inprop": "url",
                "list": "search",
                "srsearch": query,
                "srlimit": count,
                "srinfo": "totalhits",
                "srprop": "snippet",
            },
            headers={} if own_agent else {"user-agent": _USER_AGENT},
            client=self._client,
            timeout_s=self._limit_s,
        )
        answer: object = found.get("query")
        if not isinstance(answer, Mapping):
            return SearchPage([], total=0)  # no results
        info = answer.get("searchinfo")
        hits = info.get("totalhits") if isinstance(info, Mapping) else None
        results = list(_results(answer))
        total = hits if type(hits) is int and hits >= len(results) else None
        return SearchPage(results, total=total, has_more="continue" in found)


def _results(answer: Mapping[str, Any]) -> Iterator[SearchResult]:
    snippets = {item.get("pageid"): plain_text(item.get("snippet")) for item in items_of(answer, "search")}
    for page in sorted(items_of(answer, "pages"), key=_place):
        url = page.get("fullurl")
        if isinstance(url, str) and is_web_address(url):
            content = plain_text(page.get("extract")) or snippets.get(page.get("pageid"), "")
            yield SearchResult(url, plain_text(page.get("title")), content)


def _place(page: Mapping[str, Any]) -> int:
    index = page.get("index")
    return index if type(index) is int else 1_000
