"""`BackendSearchTool`: any search service, given as an object, as a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._steps import Steps
from .._tokens import truncate
from .base import ComposedSearchTool
from .results import BaseSearchResult, check_positive, results_of, search_step


class SearchBackend(Protocol):
    """A search service; `search` is a `def` or an `async def`. A `SearchTool` of `eagerstream.builtin` is one."""

    def search(self, query: str, count: int, /) -> Any:
        """At most `count` results, best first; or an awaitable of them.

        They are a list of objects with `content`, `source` and perhaps `title`, which are texts, or an object with such
        a list as its `results`.
        """


class BackendSearchTool(ComposedSearchTool):
    """Searches with an object of one's own; new here, for what ElasticsearchSearchTool did.

        class Products:
            def search(self, query, count):
                found = client.search(index="products", query={"match": {"text": query}}, size=count)
                return [BaseSearchResult(hit["_source"]["text"], hit["_id"]) for hit in found["hits"]["hits"]]

        BackendSearchTool("search_products", "Search the products.", parameters, Products())

    Args:
        name: The tool's name.
        description: What the model reads of it.
        parameters: As of `BaseSearchTool`.
        backend: What searches. In async code, and in a run, a `def` of it is called in threads, by several at once.
        truncate_to_n_tokens: Of each result, about: four characters are taken for a token. None cuts nothing, but what
            is cut of all results (see `BaseSearchTool`).

    Raises:
        ValueError: A parameter is wrong, or the number of tokens.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Sequence[Mapping[str, Any]],
        backend: SearchBackend,
        truncate_to_n_tokens: int | None = 5000,
    ) -> None:
        super().__init__(name, description, parameters)
        if truncate_to_n_tokens is not None:
            check_positive(truncate_to_n_tokens=truncate_to_n_tokens)
        self.truncate_to_n_tokens = truncate_to_n_tokens
        self._backend = backend

    def truncate_page_content(self, page_content: str) -> str:
        """The beginning of a content, as long as it may be."""
        return truncate(page_content, self.truncate_to_n_tokens)

    def _search(self, query: str, count: int) -> Steps[list[BaseSearchResult]]:
        found = yield search_step(self._backend.search, query, count)
        results = results_of(found, count)
        for result in results:
            result.content = self.truncate_page_content(result.content)
        return results
