"""Tools that search: `BaseSearchTool` for a search of your own, `BackendSearchTool` for any search service."""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol, Unpack

from ...builtin._search.tool import search_block, takes_blocks
from ...tools import Tool, ToolCall, ToolOptions, ToolResponse, tool
from ...wire import Block, encodable
from .._sync import answering
from ._base_tool import BaseTool, check_names
from ._calling import Call, call_async, run_here

CHARS_PER_TOKEN: Final = 4
"""Characters of English that count as a token. Of Chinese, a character is about a token: such texts are cut late."""

MAX_RESULTS: Final = 100
"""That are shown, however many a model asks for."""

_MAX_SOURCE_CHARS: Final = 2_000
_MAX_TITLE_CHARS: Final = 300
_MAX_CONTENT_CHARS: Final = 100_000
_FRAME: Final = re.compile(r"<(?=\s{0,20}/?\s{0,20}(?:search_results|item|source|page_content)\b)", re.IGNORECASE)


@dataclass
class BaseSearchResult:
    """One thing that was found.

    Attributes:
        content: What it says.
        source: Where it is: a URL, or a name that a person would know it by.
        title: What it is called. New here.
    """

    content: str
    source: str
    title: str = field(default="", kw_only=True)  # programs derive classes that have fields without a default


class BaseSearchTool(BaseTool):
    """A tool of anthropic-tools that searches: derive from it, and define `raw_search`, as a `def` or an `async def`.

    No more than 100 results are shown, of each 100,000 characters, whatever a model asks for and a search gives.

    Args:
        name, description: As of `BaseTool`.
        parameters: `query`, a `str`, and `n_search_results_to_use`, an `int`, in the form that `BaseTool` takes.

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
        """What is found for a query, best first, as a list of `BaseSearchResult`.

        Of more than are wanted, the first ones are shown.
        """

    async def asearch(self, query: str, n_search_results_to_use: int) -> list[BaseSearchResult]:
        """What `raw_search` finds: a `def` runs in a thread.

        Cancelling it cancels an `async def`; a `def` runs on in its thread, and what it finds is dropped.

        Raises:
            ValueError: The number of results is none, or less than 1.
            TypeError: `raw_search` gave something else than results.
            Exception: Whatever `raw_search` raises.
        """
        return await self._found(query, n_search_results_to_use, call_async)

    def use_tool(self, query: str, n_search_results_to_use: int) -> str:
        """What is found, as text.

        It is `<search_results>` with an `<item index="1">` for each, in it `<source>` and `<page_content>`. Where a
        page holds one of these tags itself, the `<` of it is written `&lt;`.

        Raises:
            UsageError: `raw_search` is async, and an event loop runs in this thread: await `ause_tool`, or `asearch`.
            Exception: As `asearch`.
        """
        return results_as_xml(run_here("use_tool", "ause_tool", partial(self._found, query, n_search_results_to_use)))

    async def ause_tool(self, arguments: Mapping[str, Any]) -> Any:
        """The same as `use_tool`, as `asearch` finds it.

        Raises:
            Exception: As `asearch`.
        """
        if self._has_own_answer():
            return await super().ause_tool(arguments)
        return results_as_xml(await self.asearch(**arguments))

    def to_tool(self, *, citations: bool = True, **options: Unpack[ToolOptions]) -> Tool:
        """The same as a tool for `eagerstream.run` and `eagerstream.stream`.

        It answers with a `search_result` block for each result, which the model can cite; where nothing was found, and
        to code that the API runs, which takes no such blocks, with the text of `use_tool`. Its data is
        `{"results": [{"source": str, "title": str, "content": str}]}`. A class with a `use_tool` of its own answers
        with what that returns.

        Args:
            citations: False answers with the text of `use_tool` always. The API wants citations on for all
                `search_result` blocks of a request, or for none.
            options: As of `eagerstream.tool`, without what belongs into the definition.
        """
        if self._has_own_answer():
            return super().to_tool(**options)

        async def search(arguments: dict[str, Any], call: ToolCall) -> ToolResponse:
            with answering(call):
                found = await self.asearch(**arguments)
            data = {
                "results": [{"source": each.source, "title": each.title, "content": each.content} for each in found]
            }
            if found and citations and takes_blocks(call):
                return ToolResponse.success("", data, content=[_block(result) for result in found])
            return ToolResponse.success(results_as_xml(found), data)

        given: ToolOptions = {**options, "definition": self.to_anthropic()}
        return tool(search, **given)

    async def _found(self, query: str, n_search_results_to_use: int, call: Call) -> list[BaseSearchResult]:
        count = checked_count(n_search_results_to_use)
        return results_of(await call_search(call, self.raw_search, query, count), count)

    def _has_own_answer(self) -> bool:
        return type(self).use_tool is not BaseSearchTool.use_tool


class ComposedSearchTool(BaseSearchTool):
    """A search that is made of calls of other objects, sync or async ones.

    `raw_search` is written here, `_search` is to be defined; a program may still define `raw_search` anew.
    """

    def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
        """What is found for a query, best first: a list of `BaseSearchResult`.

        What is async runs in one event loop for all synchronous calls: objects that keep connections open can be used
        by any number of them, but not by these and by async code.

        Raises:
            UsageError: The search is async, and an event loop runs in this thread: await `asearch`.
            Exception: As `asearch`.
        """
        search = partial(self._search, query, checked_count(n_search_results_to_use))
        return run_here("raw_search", "asearch", search)

    @abstractmethod
    async def _search(self, query: str, count: int, call: Call) -> list[BaseSearchResult]:
        """Search by way of `call`."""

    async def _found(self, query: str, n_search_results_to_use: int, call: Call) -> list[BaseSearchResult]:
        if type(self).raw_search is not ComposedSearchTool.raw_search:
            return await super()._found(query, n_search_results_to_use, call)
        return await self._search(query, checked_count(n_search_results_to_use), call)


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
        name, description, parameters: As of `BaseSearchTool`.
        backend: Searches. In async code, and in a run, a `def` of it is called in threads, by several at once.
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
        tokens = self.truncate_to_n_tokens
        return (page_content if tokens is None else page_content[: tokens * CHARS_PER_TOKEN]).strip()

    async def _search(self, query: str, count: int, call: Call) -> list[BaseSearchResult]:
        found = await call_search(call, self._backend.search, query, count)
        results = results_of(found, count)
        for result in results:
            result.content = self.truncate_page_content(result.content)
        return results


def checked_count(n_search_results_to_use: int) -> int:
    """How many results are wanted, at most `MAX_RESULTS`.

    Raises:
        ValueError: It is no number, or less than 1.
    """
    check_positive(n_search_results_to_use=n_search_results_to_use)
    return min(n_search_results_to_use, MAX_RESULTS)


def check_positive(**numbers: int) -> None:
    """Refuse anything but numbers of at least 1.

    Raises:
        ValueError: One is something else. anthropic-tools has no error of its own for this.
    """
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            raise ValueError(f"{name} must be a number, at least 1, not {number!r:.80}")


async def call_search(call: Call, search: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function that searches. If it is a generator, the result is a list."""
    return await call(search if inspect.iscoroutinefunction(search) else partial(_listed, search), *args, **kwargs)


def results_of(found: Any, count: int) -> list[BaseSearchResult]:
    """The first results of what a search gave, bounded, and without half surrogates.

    It gave a list of anything with `content` and `source`, or an object with such `results`.

    Raises:
        TypeError: It is nothing of the kind.
    """
    items = getattr(found, "results", found)
    if not isinstance(items, Iterable) or isinstance(items, str | bytes):
        raise TypeError(f"a search must give a list of BaseSearchResult, not {type(found).__name__}")
    return [_bounded(item) for item in islice(items, count)]


def results_as_xml(results: Sequence[BaseSearchResult]) -> str:
    """The text that `use_tool` gives: items with an index, their sources and contents.

    Where a source or a content holds a tag of this frame itself (`</page_content>`, `<item index="9">`), its `<` is
    written `&lt;`: no page can end its own item, or begin another. Everything else is as it was found.
    """
    items = "\n".join(
        f'<item index="{index}">\n<source>{_inside(result.source)}</source>\n'
        f"<page_content>\n{_inside(_page(result))}\n</page_content>\n</item>"
        for index, result in enumerate(results, start=1)
    )
    return f"\n<search_results>\n{items}\n</search_results>"


def _listed(search: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    found = search(*args, **kwargs)
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


def _block(result: BaseSearchResult) -> Block:
    title = result.title or result.source[:_MAX_TITLE_CHARS]
    return search_block(result.source, title, result.content if result.content.strip() else title or "(nothing)")
