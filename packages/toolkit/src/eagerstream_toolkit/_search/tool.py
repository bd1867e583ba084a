"""`SearchTool`: base class of all search tools. Subclass it for your own search."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Final, Unpack
from urllib.parse import urlsplit

from pydantic import Field

from eagerstream import Block
from eagerstream._support.json_values import encodable
from eagerstream._support.options import with_defaults
from eagerstream.tools import RunningCall, Tool, ToolOptions, ToolResponse

from .._truncation import truncate_results

MAX_COUNT: Final = 20
"""Maximum number of results that a model can request. The built-in services return no more."""

_MAX_SOURCE_CHARS: Final = 2_000
_MAX_TITLE_CHARS: Final = 300
_MAX_CONTENT_CHARS: Final = 5_000
_TAG: Final = re.compile(r"<[^<>]*+>")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One search result.

    Attributes:
        source: Its place: a URL, or a name that people recognize.
        title: Its title.
        content: Its text, without markup. If it is empty, the title replaces it.
    """

    source: str = field(repr=False)  # results do not belong in a log
    title: str = field(repr=False)
    content: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The first results of a search.

    Attributes:
        results: The results, best first.
        total: Number of all results. `None` if the service does not count them.
        has_more: True if there are more results than these.
    """

    results: Sequence[SearchResult]
    total: int | None = None
    has_more: bool = False


class SearchTool(Tool, ABC):
    """A tool that searches. The model can cite its results. It is `read_only`, unless an option says otherwise.

        class Manual(SearchTool):
            async def search(self, query: str, count: int) -> list[SearchResult]:
                return [SearchResult("manual#7", "Oil", "Change it once a year.")]

        run(client, tools=[Manual(name="search_manual", description="Search the manual.")], ...)

    Each result is a `search_result` block with citations on. Code that the API runs takes no such blocks: its calls get
    the results as text. The data of a response is `{"results": [{"source", "title", "content"}], "total": int | None,
    "truncated": bool}`. If there are more results than requested, the response is `PARTIAL`.

    Args:
        options: See `ToolOptions`.

    Raises:
        UsageError: An option is wrong.
    """

    def __init__(self, **options: Unpack[ToolOptions]) -> None:
        super().__init__(self._answer, **with_defaults(options, read_only=True))

    @abstractmethod
    async def search(self, query: str, count: int) -> Sequence[SearchResult] | SearchPage:
        """Return the results for a query. If there are more than `count`, only the first `count` are shown.

        Cancelling the call cancels this method.

        Raises:
            ToolError: The search failed. The text is for the model.
        """

    async def _answer(
        self,
        call: RunningCall,
        query: Annotated[str, Field(description="What to look for", min_length=1, max_length=400)],
        count: Annotated[int, Field(description="How many results are wanted", ge=1, le=MAX_COUNT)] = 5,
    ) -> ToolResponse:
        found = await self.search(query, count)
        page = found if isinstance(found, SearchPage) else SearchPage(found)
        results = [asdict(_bounded(result)) for result in page.results]
        response = truncate_results(results, count, total=page.total, has_more=page.has_more)
        shown = response.data["results"]
        if takes_blocks(call):
            response.content = [search_block(**result) for result in shown]
        elif shown:
            items = (
                f'<item index="{index}">\n<source>{html.escape(result["source"])}</source>\n'
                f"<page_content>\n{html.escape(result['content'], quote=False)}\n</page_content>\n</item>"
                for index, result in enumerate(shown, start=1)
            )
            response.text += "\n".join(["", "<search_results>", *items, "</search_results>"])
        return response


def plain_text(markup: object) -> str:
    """Return a service's text without HTML. Anything but a string gives an empty text."""
    if not isinstance(markup, str):
        return ""
    return " ".join(html.unescape(_TAG.sub("", markup[: 4 * _MAX_CONTENT_CHARS])).split())


def is_web_address(url: object) -> bool:
    """Return whether a URL is `http` or `https`. Other URLs are not worth citing, and some do harm when clicked."""
    try:
        return isinstance(url, str) and urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


def _bounded(result: SearchResult) -> SearchResult:
    title = str(encodable(result.title))[:_MAX_TITLE_CHARS] or result.source[:_MAX_TITLE_CHARS]
    content = str(encodable(result.content))[:_MAX_CONTENT_CHARS].strip() or title
    return SearchResult(str(encodable(result.source))[:_MAX_SOURCE_CHARS], title, content)


def takes_blocks(call: RunningCall | None) -> bool:
    """Return whether the response may have `search_result` blocks. Code that the API runs takes none."""
    return call is None or not call.is_programmatic


def search_block(source: str, title: str, content: str) -> Block:
    """Return a `search_result` block with citations on. No text may be empty."""
    return {
        "type": "search_result",
        "source": source,
        "title": title,
        "content": [{"type": "text", "text": content}],
        "citations": {"enabled": True},
    }
