"""`BraveSearchTool` and `WikipediaSearchTool`: the builtin searches in the form of anthropic-tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from eagerstream_toolkit import BraveSearch, WikipediaSearch

from ._search import BackendSearchTool, BaseSearchResult

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 60.0
_MAX_QUERY_CHARS: Final = 400
_MAX_RESULTS: Final = 20  # maximum of the services


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
    async def _search(self, query: str, count: int) -> list[BaseSearchResult]:
        if not 0 < len(query.strip()) <= len(query) <= _MAX_QUERY_CHARS:
            raise ValueError(f"query must be a text of 1 to {_MAX_QUERY_CHARS} characters")
        return await super()._search(query, min(count, _MAX_RESULTS))


class BraveSearchTool(_WebSearchTool):
    """Web search with Brave, by `eagerstream_toolkit.BraveSearch`: at most 20 results.

    Unlike the tool of anthropic-tools, it does not fetch the pages: a content is Brave's excerpts of a page. A failed
    search raises `ToolError`. In anthropic-tools it had no results.

    Args:
        name, description, parameters: As for `BaseSearchTool`.
        brave_api_key: Key of the API. `None` uses the environment's `BRAVE_API_KEY` at the time of this call.
        truncate_to_n_tokens: As for `BackendSearchTool`.
        client: Client that sends the requests, and stays open. Use it for synchronous calls, or for one event loop of
            async code. `None` makes one for each request. A search with its retries takes at most 60 seconds.

    Raises:
        UsageError: There is no key, or it is not valid.
        ValueError: A parameter or the number of tokens is wrong.
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
    """Search in Wikipedia, by `eagerstream_toolkit.WikipediaSearch`: at most 20 articles.

    Unlike the tool of anthropic-tools, it returns only the introduction of an article. A failed search raises
    `ToolError`.

    Args:
        name, description, parameters: As for `BaseSearchTool`.
        truncate_to_n_tokens: As for `BackendSearchTool`.
        client: As for `BraveSearchTool`.
        edition: Language of the articles, as in the address of that Wikipedia.

    Raises:
        UsageError: The edition is not valid.
        ValueError: A parameter or the number of tokens is wrong.
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
