"""`BaseSearchTool`: what a program finds, as text and as blocks that can be cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st
from packages.compat.tests.anthropic_tools.prebuilt.support import PAGES, PARAMETERS, XML, AsyncManual, Manual, manual
from packages.toolkit.tests.support import conversation, results
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_compat.anthropic_tools import BackendSearchTool, BaseSearchResult, BaseSearchTool
from eagerstream_compat.anthropic_tools._search import MAX_RESULTS, results_as_xml

KINDS = [Manual, AsyncManual]
NOTHING = "\n<search_results>\n\n</search_results>"
ASKED = {"query": "bicycle", "n_search_results_to_use": 2}


def test_raw_search_is_needed() -> None:
    """A class without one is no tool."""
    with pytest.raises(TypeError, match="raw_search"):
        BaseSearchTool("a", "b", PARAMETERS)  # type: ignore[abstract]


def test_parameters_of_another_name() -> None:
    """They would never reach the search."""
    with pytest.raises(ValueError, match="must be query, n_search_results_to_use, not q"):
        Manual("search", "x", [{"name": "q", "type": "str", "description": "x"}])


@rows("kind", KINDS)
def test_use_tool(kind: type[Manual]) -> None:
    """The text of anthropic-tools, to the character."""
    assert manual(kind).use_tool("bicycle", 2) == XML
    assert manual(kind).use_tool(query="bicycle", n_search_results_to_use=2) == XML
    assert manual(kind, []).use_tool("bicycle", 2) == NOTHING


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_in_an_event_loop(kind: type[Manual]) -> None:
    """The async forms give the same. The plain one would block the loop, and says what does not."""
    assert await manual(kind).asearch("bicycle", 2) == PAGES[:2]
    assert await manual(kind).ause_tool(ASKED) == XML
    with pytest.raises(UsageError, match="await ause_tool"):
        manual(kind).use_tool("bicycle", 2)


# --- for the model ----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_in_a_run(kind: type[Manual]) -> None:
    """A run answers with the same text, and names the parameters as the program did."""
    used = manual(kind).to_tool()
    assert used.to_dict()["input_schema"]["required"] == ["query", "n_search_results_to_use"]
    assert results(await conversation(used, ASKED)) == [(XML, False)]
    nothing = await conversation(manual(pages=[]).to_tool(), ASKED)
    assert results(nothing) == [(NOTHING, False)]


class Telling(Manual):
    """A program that words its answer itself."""

    def use_tool(self, query: str, n_search_results_to_use: int) -> str:
        return f"{query}: {len(self.raw_search(query, n_search_results_to_use))} pages"


@pytest.mark.anyio
async def test_a_use_tool_of_its_own() -> None:
    """It is what answers, in a run too."""
    assert await manual(Telling).ause_tool(ASKED) == "bicycle: 2 pages"
    assert results(await conversation(manual(Telling).to_tool(), ASKED)) == [("bicycle: 2 pages", False)]


@pytest.mark.anyio
async def test_what_goes_wrong_is_told() -> None:
    """The model is told of its mistakes and of those of the search, and the run goes on."""

    class Broken(Manual):
        def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
            raise ConnectionError("no route")

    asked = [{**ASKED, "n_search_results_to_use": number} for number in (0, -1, True, "2")]
    found = results(await conversation(manual().to_tool(), *asked, {"query": "a"}))
    assert [is_error for _, is_error in found] == [True] * 5
    assert "at least 1, not -1" in found[1][0]
    assert "n_search_results_to_use" in found[4][0]
    assert results(await conversation(manual(Broken).to_tool(), ASKED)) == [("ConnectionError: no route", True)]


@rows("number", [0, -3, True, 2.5, "2", None])
def test_numbers_that_are_none(number: Any) -> None:
    """Nothing is searched for them."""
    with pytest.raises(ValueError, match="n_search_results_to_use must be a number, at least 1"):
        manual(pages="not asked").use_tool("a", number)


@pytest.mark.anyio
async def test_cancelling_a_search() -> None:
    """The search is cancelled with it."""
    seen: list[str] = []

    class Slow(Manual):
        async def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
            scope.cancel()
            try:
                await anyio.sleep_forever()
            finally:
                seen.append("cancelled")

    with anyio.CancelScope() as scope:
        await manual(Slow).ause_tool(ASKED)
    assert seen == ["cancelled"]


# --- what a search gives ----------------------------------------------------------------------------------------------


class Yielding(Manual):
    def raw_search(self, query: str, n_search_results_to_use: int) -> Iterator[BaseSearchResult]:
        yield from PAGES


def test_other_things_than_lists() -> None:
    """Iterators do, as they did; what is no list of results is said to be none."""
    assert manual(Yielding).use_tool("bicycle", 2) == XML
    assert manual(pages=tuple(PAGES)).use_tool("bicycle", 2) == XML
    for wrong in ("pages", [1, 2]):
        with pytest.raises(TypeError, match="must give a list of BaseSearchResult"):
            manual(pages=wrong).use_tool("bicycle", 2)


@pytest.mark.anyio
async def test_an_iterator_in_async_code() -> None:
    """No item of it is lost on the way through a thread."""
    assert await manual(Yielding).asearch("bicycle", 3) == PAGES


def test_classes_of_results() -> None:
    """Programs derive their own, with fields that have no default."""

    @dataclass
    class Scored(BaseSearchResult):
        score: float

    assert manual(pages=[Scored("Oil the chain.", "manual#1", 0.5), PAGES[1]]).use_tool("a", 2) == XML


def test_a_title() -> None:
    """It stands above the content, where there is one."""
    assert "<page_content>\nChains\nOil.\n</page_content>" in results_as_xml(
        [BaseSearchResult("Oil.", "s", title="Chains")]
    )


@pytest.mark.anyio
async def test_bounds() -> None:
    """Whatever a model asks for and a search gives; half surrogates cannot be sent."""
    many = [BaseSearchResult("c" * 200_000, "s" * 9_000)] + [BaseSearchResult("", "\ud800")] * 300
    found = await manual(pages=many).asearch("a", 10**30)
    assert len(found) == MAX_RESULTS
    assert (len(found[0].content), len(found[0].source)) == (100_000, 2_000)
    assert found[1] == BaseSearchResult("", "\ufffd")


FRAME = re.compile(r'\n<search_results>\n((?:<item index="\d+">\n<source>.*?</source>\n<page_content>\n.*?\n</page_content>\n</item>\n?)*)\n</search_results>', re.DOTALL)  # fmt: skip
ITEM = re.compile(r'<item index="(\d+)">\n<source>(.*?)</source>\n<page_content>\n(.*?)\n</page_content>\n</item>', re.DOTALL)  # fmt: skip

TAGS = ("</page_content>", "</item>", '<item index="9">', "</ SEARCH_results >", "<\n/source>", "<source>", *"<>\n")
hostile = st.lists(st.sampled_from(TAGS) | st.text(max_size=5)).map("".join)


@given(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=4))
def test_no_page_leaves_its_item(pages: list[tuple[str, str]]) -> None:
    """Whatever pages hold, the text has one item for each, with all of the page in it."""
    told = results_as_xml([BaseSearchResult(content, source) for content, source in pages])
    assert FRAME.fullmatch(told)
    items = ITEM.findall(told)
    assert [number for number, _, _ in items] == [str(number) for number in range(1, len(pages) + 1)]
    assert [(content.replace("&lt;", "<"), source.replace("&lt;", "<")) for _, source, content in items] == [
        (content.replace("&lt;", "<"), source.replace("&lt;", "<")) for content, source in pages
    ]
    # A reader that is not strict finds no other tags of the frame either.
    assert len(re.findall(r"(?i)<\s*/?\s*(?:search_results|item|source|page_content)\b", told)) == 2 + 6 * len(pages)


@given(st.text().filter(lambda text: "<" not in text) | st.sampled_from(["a < b && c > d", "<b>bold</b>", "&lt;p&gt;"]))
def test_other_markup_stays(content: str) -> None:
    """Pages on programs, say, come as they are."""
    assert f"<page_content>\n{content}\n</page_content>" in results_as_xml([BaseSearchResult(content, "s")])


# --- services ---------------------------------------------------------------------------------------------------------


@dataclass
class Hit:
    source: str
    content: str
    title: str = "T"


class Backend:
    def search(self, query: str, count: int) -> list[Hit]:
        return [Hit(f"{query}/{number}", " 0123456789 ") for number in range(count)]


class AsyncBackend:
    async def search(self, query: str, count: int) -> list[Hit]:
        await anyio.lowlevel.checkpoint()
        return Backend().search(query, count)


@pytest.mark.anyio
@pytest.mark.parametrize("backend", [Backend(), AsyncBackend()])
async def test_a_backend(backend: Any) -> None:
    """Any object that searches, sync or async, with contents cut."""
    tool = BackendSearchTool("search", "Search.", PARAMETERS, backend, truncate_to_n_tokens=2)
    assert await tool.asearch("a", 1) == [BaseSearchResult("0123456", "a/0", title="T")]
    ((said, is_error),) = results(await conversation(tool.to_tool(), {"query": "a", "n_search_results_to_use": 1}))
    assert "<source>a/0</source>\n<page_content>\nT\n0123456\n" in said
    assert not is_error


@pytest.mark.parametrize("backend", [Backend(), AsyncBackend()])
def test_a_backend_in_sync_code(backend: Any) -> None:
    """`raw_search` gives a list, as that of the tools of anthropic-tools."""
    tool = BackendSearchTool("search", "Search.", PARAMETERS, backend, truncate_to_n_tokens=None)
    assert tool.raw_search("a", 1) == [BaseSearchResult("0123456789", "a/0", title="T")]
    assert tool.truncate_page_content(" all of it ") == "all of it"
    tool.truncate_to_n_tokens = 2  # of four characters each
    assert tool.truncate_page_content("  abcdefgh  ") == "abcdef"


@pytest.mark.anyio
async def test_a_raw_search_over_another() -> None:
    """A program that changes what is found is asked, in a run too."""

    class Last(BackendSearchTool):
        def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
            return super().raw_search(query, n_search_results_to_use + 3)[-1:]

    tool = Last("search", "Search.", PARAMETERS, AsyncBackend())
    assert [found.source for found in await tool.asearch("a", 1)] == ["a/3"]


@rows("number", [0, -1, True, 1.5, "9"])
def test_numbers_of_tokens(number: Any) -> None:
    """None, or at least one."""
    with pytest.raises(ValueError, match="truncate_to_n_tokens"):
        BackendSearchTool("search", "Search.", PARAMETERS, Backend(), truncate_to_n_tokens=number)
