"""`classify`: where the calls of a tool run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import ToolUnionParam
from anthropic.types.beta import BetaToolUnionParam

from eagerstream.tool_kind import ToolClass, classify, tool_family

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


@pytest.mark.parametrize(("kind", "expected"), [(kind, where) for where, kinds in KNOWN.items() for kind in kinds])
def test_where_a_tool_runs(kind: str | None, expected: ToolClass) -> None:
    """A tool that is taken for the API's is never answered, and one that is taken for ours has to be."""
    assert classify({"type": kind, "name": "a"}) == expected


def test_a_definition_without_a_type() -> None:
    """It is a user's own, as the API has it."""
    assert classify({"name": "a", "input_schema": {"type": "object"}}) == "user"


@pytest.mark.parametrize("kind", [3, ["web_search_20260318"], {"a": 1}, True])
def test_a_type_that_is_no_text(kind: Any) -> None:
    """Whatever it is, nothing runs it."""
    assert classify({"type": kind}) == "opaque"


def kinds_of_the_package() -> Iterator[str]:
    """Each `type` that the installed anthropic package has for a tool."""
    for definition in {*get_args(ToolUnionParam), *get_args(BetaToolUnionParam)}:
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
    kinds = sorted(kinds_of_the_package())
    assert "custom" in kinds
    assert "bash_20250124" in kinds
    assert [kind for kind in kinds if classify({"type": kind}) == "opaque"] == []


def test_families() -> None:
    """The date is cut off, and nothing else."""
    kinds = ("web_search_20260318", "tool_search_tool_regex", "mcp_toolset", None)
    families = ["web_search", "tool_search_tool_regex", "mcp_toolset", "custom"]
    assert [tool_family({"type": kind}) for kind in kinds] == families
