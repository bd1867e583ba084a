"""`BaseSearchTool`: a tool that searches, of which a program writes nothing but the search itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ....builtin._search.tool import takes_blocks
from ....tools import Tool, ToolCall, ToolOptions, ToolResponse, tool
from ..._answering import answering
from .._base_tool import BaseTool, check_names
from .._steps import Steps, arun_steps, run_steps
from .results import (
    BaseSearchResult,
    checked_count,
    results_as_blocks,
    results_as_xml,
    results_of,
    search_step,
)


class BaseSearchTool(BaseTool):
    """A tool of anthropic-tools that searches: derive from it, and define `raw_search`, as a `def` or an `async def`.

    No more than 100 results are shown, of each 100,000 characters, whatever a model asks for and a search gives.

    Args:
        name: The tool's name.
        description: What the model reads of it.
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
        return await arun_steps(self._steps(query, n_search_results_to_use))

    def use_tool(self, query: str, n_search_results_to_use: int) -> str:
        """What is found, as text.

        It is `<search_results>` with an `<item index="1">` for each, in it `<source>` and `<page_content>`. Where a
        page holds one of these tags itself, the `<` of it is written `&lt;`.

        Raises:
            UsageError: `raw_search` is async, and an event loop runs in this thread: await `ause_tool`, or `asearch`.
            Exception: As `asearch`.
        """
        return results_as_xml(run_steps("use_tool", "ause_tool", self._steps(query, n_search_results_to_use)))

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
                return ToolResponse.success("", data, content=results_as_blocks(found))
            return ToolResponse.success(results_as_xml(found), data)

        given: ToolOptions = {**options, "definition": self.to_anthropic()}
        return tool(search, **given)

    def _steps(self, query: str, n_search_results_to_use: int) -> Steps[list[BaseSearchResult]]:
        count = checked_count(n_search_results_to_use)
        found = yield search_step(self.raw_search, query, count)
        return results_of(found, count)

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
        steps = self._search(query, checked_count(n_search_results_to_use))
        return run_steps("raw_search", "asearch", steps)

    @abstractmethod
    def _search(self, query: str, count: int) -> Steps[list[BaseSearchResult]]:
        """The steps of a search."""

    def _steps(self, query: str, n_search_results_to_use: int) -> Steps[list[BaseSearchResult]]:
        if type(self).raw_search is not ComposedSearchTool.raw_search:
            return (yield from super()._steps(query, n_search_results_to_use))
        return (yield from self._search(query, checked_count(n_search_results_to_use)))
