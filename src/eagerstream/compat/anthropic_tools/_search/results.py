"""What a search found, and the two forms in which a model reads it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from ....builtin._search.tool import search_block
from ....wire import Block, encodable

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


def search_step(search: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
    """The call of a search, as a step: what it gives is a list also where the function is a generator."""
    call = partial(search, *args, **kwargs)
    return call if inspect.iscoroutinefunction(search) else partial(_listed, call)


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


def results_as_blocks(results: Sequence[BaseSearchResult]) -> list[Block]:
    """A `search_result` block for each, with citations on."""
    return [_block(result) for result in results]


def _listed(call: Callable[[], Any]) -> Any:
    found = call()
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
