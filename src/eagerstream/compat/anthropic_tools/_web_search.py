"""`BraveSearchTool` and `WikipediaSearchTool`: the builtin searches, as anthropic-tools has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...builtin import BraveSearch, WikipediaSearch
from ._calling import Call
from ._search import BackendSearchTool, BaseSearchResult

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 60.0
_MAX_QUERY_CHARS: Final = 400
_MAX_RESULTS: Final = 20  # that the services give


def _parameters(of: str, result: str) -> list[dict[str, str]]:
    return [
        {"name": "query", "type": "str", "description": f"What to look for {of}, in a few words."},
        {
            "name": "n_search_results_to_use",
            "type": "int",
            "description": f"How many results are wanted, each of which is {result}; at most {_MAX_RESULTS}.",
        },
    ]


_BRAVE_PARAMETERS: Final = tuple(_parameters("on the web", "a web page"))
_WIKIPEDIA_PARAMETERS: Final = tuple(_parameters("in Wikipedia", "an article"))


class _WebSearchTool(BackendSearchTool):
    async def _search(self, query: str, count: int, call: Call) -> list[BaseSearchResult]:
        if not 0 < len(query.strip()) <= len(query) <= _MAX_QUERY_CHARS:
            raise ValueError(f"query must be a text of 1 to {_MAX_QUERY_CHARS} characters")
        return await super()._search(query, min(count, _MAX_RESULTS), call)


class BraveSearchTool(_WebSearchTool):
    """Searches the web with Brave, by `eagerstream.builtin.BraveSearch`: at most 20 results.

    Unlike the tool of anthropic-tools it does not fetch the pages: a content is what Brave tells of a page. A search
    that fails raises `ToolError`, where that one had no results.

    Args:
        name, description, parameters: As of `BaseSearchTool`.
        brave_api_key: Of the API; where it is None, the environment's `BRAVE_API_KEY`, as it is when this is called.
        truncate_to_n_tokens: As of `BackendSearchTool`.
        client: Sends the requests, and stays open; it is for synchronous calls, or for one event loop of async code.
            None makes one for each request. A search with its repetitions takes 60 seconds at most.

    Raises:
        UsageError: There is no key, or it cannot be one.
        ValueError: A parameter is wrong, or the number of tokens.
    """

    def __init__(
        self,
        name: str = "search_brave",
        description: str = "Search the web with Brave. Gives for each page its address, its title and excerpts of it.",
        parameters: Sequence[Mapping[str, Any]] = _BRAVE_PARAMETERS,
        brave_api_key: str | None = None,
        truncate_to_n_tokens: int | None = 5000,
        *,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        backend = BraveSearch(api_key=brave_api_key, client=client, timeout_s=_TIMEOUT_S)
        super().__init__(name, description, parameters, backend, truncate_to_n_tokens)


class WikipediaSearchTool(_WebSearchTool):
    """Searches Wikipedia, by `eagerstream.builtin.WikipediaSearch`: at most 20 articles.

    Unlike the tool of anthropic-tools it gives the introduction of an article, not all of it. A search that fails
    raises `ToolError`.

    Args:
        name, description, parameters: As of `BaseSearchTool`.
        truncate_to_n_tokens: As of `BackendSearchTool`.
        client: As of `BraveSearchTool`.
        edition: The language of the articles, as in the address of that Wikipedia.

    Raises:
        UsageError: There can be no such edition.
        ValueError: A parameter is wrong, or the number of tokens.
    """

    def __init__(
        self,
        name: str = "search_wikipedia",
        description: str = (
            "Search Wikipedia, and nothing else. Gives for each article its address, its title and its introduction. "
            "Look for one subject at a time, by the name that its article would have."
        ),
        parameters: Sequence[Mapping[str, Any]] = _WIKIPEDIA_PARAMETERS,
        truncate_to_n_tokens: int | None = 5000,
        *,
        client: httpx.AsyncClient | None = None,
        edition: str = "en",
    ) -> None:
        backend = WikipediaSearch(edition=edition, client=client, timeout_s=_TIMEOUT_S)
        super().__init__(name, description, parameters, backend, truncate_to_n_tokens)
