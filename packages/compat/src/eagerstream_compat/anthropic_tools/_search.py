"""Tools that search: `BaseSearchTool` for your own search, `BackendSearchTool` for any search service."""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

from eagerstream._support.json_values import encodable

from .._sync import run_sync
from ._base_tool import BaseTool, call_async, check_names

_CHARS_PER_TOKEN: Final = 4
"""Characters of English per token. A Chinese character is about one token, so Chinese texts are cut late."""

MAX_RESULTS: Final = 100
"""Maximum number of results to show, even if a model asks for more."""

_MAX_SOURCE_CHARS: Final = 2_000
_MAX_TITLE_CHARS: Final = 300
_MAX_CONTENT_CHARS: Final = 100_000
_FRAME: Final = re.compile(r"<(?=\s{0,20}/?\s{0,20}(?:search_results|item|source|page_content)\b)", re.IGNORECASE)


@dataclass
class BaseSearchResult:
    """One result of a search.

    Attributes:
        content: Text of the result.
        source: A URL, or a name that a person would recognize.
        title: Title of the result. New here.
    """

    content: str = field(repr=False)  # results do not belong in a log
    source: str = field(repr=False)
    title: str = field(default="", kw_only=True, repr=False)  # for derived classes: their fields may have no default


class BaseSearchTool(BaseTool):
    """Tool of anthropic-tools that searches. Derive a class, and define `raw_search` as a `def` or an `async def`.

    At most 100 results are shown, with at most 100,000 characters each.

    Args:
        name, description: As for `BaseTool`.
        parameters: `query`, a `str`, and `n_search_results_to_use`, an `int`, in the form of `BaseTool`.

    Raises:
        ValueError: A parameter is wrong.
        TypeError: The class defines no `raw_search`.
    """

    def __init__(self, name: str, description: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(name, description, parameters)
        if not self._has_own_answer():
            check_names(parameters, "query", "n_search_results_to_use")

    @abstractmethod
    def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
        """Return the results of a query, best first, as a list of `BaseSearchResult`.

        If there are more than `n_search_results_to_use`, the first ones are shown.
        """

    async def asearch(self, query: str, n_search_results_to_use: int) -> list[BaseSearchResult]:
        """Return the results of `raw_search`. A `def` runs in a thread.

        Cancelling it cancels an `async def`. A `def` continues in its thread, and its results are dropped.

        Raises:
            ValueError: The number of results is not an int, or is less than 1.
            TypeError: `raw_search` returned no list of results.
            Exception: Any error of `raw_search`.
        """
        count = _checked_count(n_search_results_to_use)
        return _results_of(await _found(self.raw_search, query, count), count)

    def use_tool(self, query: str, n_search_results_to_use: int) -> str:
        """Return the results as text.

        The text is `<search_results>` with an `<item index="1">` for each result. An item has a `<source>` and a
        `<page_content>`. If a page has one of these tags itself, its `<` becomes `&lt;`.

        Raises:
            UsageError: An event loop runs in this thread: await `ause_tool` or `asearch`.
            Exception: As for `asearch`.
        """
        return results_as_xml(run_sync("use_tool", "ause_tool", partial(self.asearch, query, n_search_results_to_use)))

    async def ause_tool(self, arguments: Mapping[str, Any]) -> Any:
        """Return the results of `asearch` as text, in the form of `use_tool`. Cancelling it cancels `asearch`.

        Raises:
            Exception: As for `asearch`.
        """
        if self._has_own_answer():
            return await super().ause_tool(arguments)
        return results_as_xml(await self.asearch(**arguments))

    def _has_own_answer(self) -> bool:
        return type(self).use_tool is not BaseSearchTool.use_tool


class SearchBackend(Protocol):
    """Search service with a `search` as a `def` or an `async def`. A `SearchTool` of `eagerstream_toolkit` is one."""

    def search(self, query: str, count: int, /) -> Any:
        """Return at most `count` results, best first, or an awaitable of them.

        They are a list of objects with the texts `content`, `source` and optionally `title`, or an object with such a
        list as `results`.
        """


class BackendSearchTool(BaseSearchTool):
    """Search with your own object. New here, in place of ElasticsearchSearchTool and VectorSearchTool.

        class Products:
            def search(self, query, count):
                found = client.search(index="products", query={"match": {"text": query}}, size=count)
                return [BaseSearchResult(hit["_source"]["text"], hit["_id"]) for hit in found["hits"]["hits"]]

        BackendSearchTool("search_products", "Search the products.", parameters, Products())

    Args:
        name, description, parameters: As for `BaseSearchTool`.
        backend: Object that searches. In async code and in a run, several threads may call its `def` at once.
        truncate_to_n_tokens: Maximum size of each result, with four characters per token. `None` applies only the
            bounds of `BaseSearchTool`.

    Raises:
        ValueError: A parameter or the number of tokens is wrong.
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
            _check_positive("truncate_to_n_tokens", truncate_to_n_tokens)
        self.truncate_to_n_tokens = truncate_to_n_tokens
        self._backend = backend

    def truncate_page_content(self, page_content: str) -> str:
        """Return the beginning of a content, within the maximum size."""
        tokens = self.truncate_to_n_tokens
        return (page_content if tokens is None else page_content[: tokens * _CHARS_PER_TOKEN]).strip()

    def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
        """Return the results of a query, best first, as a list of `BaseSearchResult`.

        Async methods run in one event loop for all synchronous calls. So any number of synchronous calls can share
        objects with open connections. Synchronous and async calls cannot share them.

        Raises:
            UsageError: An event loop runs in this thread: await `asearch`.
            Exception: As for `asearch`.
        """
        return run_sync("raw_search", "asearch", partial(self._search, query, _checked_count(n_search_results_to_use)))

    async def asearch(self, query: str, n_search_results_to_use: int) -> list[BaseSearchResult]:
        """Return the results of the backend, or those of `raw_search` if a class overrides it.

        Cancelling it cancels an `async def`. A `def` continues in its thread, and its results are dropped.

        Raises:
            Exception: As for `BaseSearchTool.asearch`.
        """
        if type(self).raw_search is not BackendSearchTool.raw_search:
            return await super().asearch(query, n_search_results_to_use)
        return await self._search(query, _checked_count(n_search_results_to_use))

    async def _search(self, query: str, count: int) -> list[BaseSearchResult]:
        results = _results_of(await _found(self._backend.search, query, count), count)
        for result in results:
            result.content = self.truncate_page_content(result.content)
        return results


def _checked_count(n_search_results_to_use: int) -> int:
    """Return the number of results to show, at most `MAX_RESULTS`."""
    _check_positive("n_search_results_to_use", n_search_results_to_use)
    return min(n_search_results_to_use, MAX_RESULTS)


def _check_positive(name: str, number: int) -> None:
    if type(number) is not int or number < 1:  # anthropic-tools has no error of its own for this
        raise ValueError(f"{name} must be a number, at least 1, not {number!r:.80}")


async def _found(search: Callable[..., Any], query: str, count: int) -> Any:
    """Call a function that searches. If it is a generator, the result is a list."""
    called = search if inspect.iscoroutinefunction(search) else partial(_listed, search)
    return await call_async(called, query, count)


def _results_of(found: Any, count: int) -> list[BaseSearchResult]:
    """Return the first results of a search, bounded, and without half surrogates."""
    items = getattr(found, "results", found)
    if not isinstance(items, Iterable) or isinstance(items, str | bytes):
        raise TypeError(f"a search must give a list of BaseSearchResult, not {type(found).__name__}")
    return [_bounded(item) for item in islice(items, count)]


def results_as_xml(results: Sequence[BaseSearchResult]) -> str:
    """Return the text of `use_tool`: items with an index, their sources and contents.

    If a source or a content has a tag of this frame (`</page_content>`, `<item index="9">`), its `<` becomes `&lt;`. So
    no page can end its own item or start another one. All other text is unchanged.
    """
    items = "\n".join(
        f'<item index="{index}">\n<source>{_inside(result.source)}</source>\n'
        f"<page_content>\n{_inside(_page(result))}\n</page_content>\n</item>"
        for index, result in enumerate(results, start=1)
    )
    return f"\n<search_results>\n{items}\n</search_results>"


def _listed(search: Callable[..., Any], query: str, count: int) -> Any:
    found = search(query, count)
    return list(islice(found, MAX_RESULTS)) if inspect.isgenerator(found) else found


def _bounded(item: Any) -> BaseSearchResult:
    try:
        content, source = item.content, item.source
    except AttributeError:
        raise TypeError(f"a search must give a list of BaseSearchResult, not of {type(item).__name__}") from None
    return BaseSearchResult(
        _text(content, _MAX_CONTENT_CHARS),
        _text(source, _MAX_SOURCE_CHARS),
        title=_text(getattr(item, "title", None) or "", _MAX_TITLE_CHARS),
    )


def _text(value: object, max_chars: int) -> str:
    return str(encodable(str(value)[:max_chars]))


def _page(result: BaseSearchResult) -> str:
    return f"{result.title}\n{result.content}" if result.title else result.content


def _inside(text: str) -> str:
    return _FRAME.sub("&lt;", text)
