"""`classify` and `betas_for`: where the calls of a tool run, and which betas it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

from anthropic.types import ToolUnionParam
from anthropic.types.beta import BetaToolUnionParam
from tests.missing import anthropic_since
from tests.tables import rows

from eagerstream_wire import classify
from eagerstream_wire._tool_kind import ToolClass, accepted_betas, betas_for, tool_family

KNOWN: dict[ToolClass, list[str | None]] = {
    "user": [None, "", "custom"],
    "anthropic_client": [
        "bash_20241022",
        "bash_20250124",
        "browser_toolset_20260801",
        "computer_20241022",
        "computer_20250124",
        "computer_20251124",
        "computer_toolset_20260801",
        "memory_20250818",
        "text_editor_20241022",
        "text_editor_20250124",
        "text_editor_20250429",
        "text_editor_20250728",
    ],
    "server": [
        "advisor_20260301",
        "code_execution_20250522",
        "code_execution_20250825",
        "code_execution_20260120",
        "code_execution_20260521",
        "mcp_toolset",
        "tool_search_tool_bm25",
        "tool_search_tool_bm25_20251119",
        "tool_search_tool_regex",
        "tool_search_tool_regex_20251119",
        "web_fetch_20250910",
        "web_fetch_20260209",
        "web_fetch_20260309",
        "web_fetch_20260318",
        "web_search_20250305",
        "web_search_20260209",
        "web_search_20260318",
        "web_search_20991231",  # a version of tomorrow
    ],
    "opaque": [
        "hologram_20270101",
        "web_search_2026031",
        "web_search_20260318x",
        "web_search_20260318\n",
        "web_search_٢٠٢٦٠٣١٨",
        "Web_Search_20260318",
        "_20260318",
        "tool_search_tool",
        "function",
    ],
}


@rows("kind, expected", [(kind, where) for where, kinds in KNOWN.items() for kind in kinds])
def test_where_a_tool_runs(kind: str | None, expected: ToolClass) -> None:
    """A tool that is taken for the API's is never answered, and one that is taken for ours has to be."""
    assert classify({"type": kind, "name": "a"}) == expected


def test_a_definition_without_a_type() -> None:
    """It is a user's own, as the API has it."""
    assert classify({"name": "a", "input_schema": {"type": "object"}}) == "user"


@rows("kind", [3, ["web_search_20260318"], {"a": 1}, True])
def test_a_type_that_is_no_text(kind: Any) -> None:
    """Whatever it is, nothing runs it."""
    assert classify({"type": kind}) == "opaque"


def kinds_of_the_package(*unions: Any) -> Iterator[str]:
    """Yield each `type` that the installed anthropic package has for a tool in these unions."""
    for definition in {definition for union in unions for definition in get_args(union)}:
        (kinds,) = [hint for name, hint in get_type_hints(definition).items() if name == "type"]
        yield from (text for text in _literals(kinds) if text is not None)


def _literals(hint: Any) -> Iterator[Any]:
    for inner in get_args(hint):
        if isinstance(inner, str):
            yield inner
        else:
            yield from _literals(inner)


def test_the_kinds_of_the_anthropic_package() -> None:
    """What the package can send is not taken for unknown: a new family has to be looked at."""
    kinds = sorted(kinds_of_the_package(ToolUnionParam, BetaToolUnionParam))
    assert "custom" in kinds
    assert "bash_20250124" in kinds
    assert [kind for kind in kinds if classify({"type": kind}) == "opaque"] == []


def test_families() -> None:
    """The date is cut off, and nothing else."""
    kinds = ("web_search_20260318", "tool_search_tool_regex", "mcp_toolset", None)
    families = ["web_search", "tool_search_tool_regex", "mcp_toolset", "custom"]
    assert [tool_family({"type": kind}) for kind in kinds] == families


# --- betas ------------------------------------------------------------------------------------------------------------

_MCP, _PINNED_MCP = "mcp-client-2025-11-20", "mcp-client-2026-09-15"
_OTHER = "context-1m-2025-08-07"
_TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "a"}
_ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "m"}

BETAS: dict[str, tuple[list[Mapping[str, Any]], list[str], list[str]]] = {
    # name: the tools, the betas of the request, those to add
    "nothing": ([], [], []),
    "an own tool": ([{"name": "now", "input_schema": {"type": "object"}}], [], []),
    "kinds without a beta": ([{"type": "web_search_20260318"}, {"type": "computer_toolset_20260801"}], [_OTHER], []),
    "a kind from the future": ([{"type": "hologram_20270101", "name": "hologram"}], [], []),
    "the earlier computer": ([{"type": "computer_20250124"}], [], ["computer-use-2025-01-24"]),
    "the later computer": ([{"type": "computer_20251124"}], [], ["computer-use-2025-11-24"]),
    "the first computer and its companions": (
        [{"type": "bash_20241022"}, {"type": "text_editor_20241022"}, {"type": "computer_20241022"}],
        [],
        ["computer-use-2024-10-22"],
    ),
    "several, in order": (
        [_TOOLSET, _ADVISOR, {**_TOOLSET, "mcp_server_name": "b"}],
        [_OTHER],
        [_MCP, "advisor-tool-2026-03-01"],
    ),
    "one that is there": ([_ADVISOR], ["advisor-tool-2026-03-01"], []),
    "one that is there in a newer version": ([_TOOLSET], [_PINNED_MCP], []),
    "pinned tools": ([{**_TOOLSET, "tools": []}], [], [_PINNED_MCP]),
    "pinned tools, and only the earlier version": ([{**_TOOLSET, "tools": []}], [_MCP], [_PINNED_MCP]),
}


@rows("tools, given, added", BETAS.values())
def test_betas_of_tools(tools: list[Mapping[str, Any]], given: list[str], added: list[str]) -> None:
    """A tool without its beta is refused, and a beta that is not needed may be unknown to the platform."""
    assert betas_for(iter(tools), iter(given)) == added
    assert betas_for(tools, [*given, *added]) == []


@anthropic_since("2.12")  # its kinds were betas in older versions
def test_the_betas_are_those_of_the_anthropic_package() -> None:
    """Its beta namespace has the kinds that need a beta, its main one all others. A new kind is noticed here."""
    stable, all_kinds = (set(kinds_of_the_package(union)) for union in (ToolUnionParam, BetaToolUnionParam))
    assert {kind for kind in all_kinds if accepted_betas({"type": kind})} == all_kinds - stable
