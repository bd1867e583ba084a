"""Definitions of the tools that the API runs, beside those that the anthropic package has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types.beta import BetaToolUnionParam

import eagerstream
from eagerstream.builtin.server_tools import (
    advisor,
    code_execution,
    mcp_toolset,
    tool_search_bm25,
    tool_search_regex,
    web_fetch,
    web_search,
)
from eagerstream.errors import UsageError
from eagerstream.testing import reply, text
from eagerstream.wire import classify, tool_family
from tests.support import REQUEST, USER, anthropic_since
from tests.tables import rows

Maker = Callable[..., dict[str, Any]]

MAKERS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    # by family: what makes the definition, and what it cannot do without
    "advisor": (advisor, ("claude-opus-4-8",)),
    "code_execution": (code_execution, ()),
    "mcp_toolset": (mcp_toolset, ("pages",)),
    "tool_search_tool_bm25": (tool_search_bm25, ()),
    "tool_search_tool_regex": (tool_search_regex, ()),
    "web_fetch": (web_fetch, ()),
    "web_search": (web_search, ()),
}
SAMPLES: dict[str, Any] = {
    "allowed_callers": ["direct"],
    "allowed_domains": ["example.com"],
    "blocked_domains": ["example.com/blog"],
    "cache_control": {"type": "ephemeral"},
    "caching": {"type": "ephemeral", "ttl": "5m"},
    "citations": True,
    "configs": {"read": {"enabled": True}},
    "default_config": {"enabled": False, "defer_loading": True},
    "defer_loading": True,
    "max_content_tokens": 1000,
    "max_tokens": 500,
    "max_uses": 3,
    "response_inclusion": "excluded",
    "strict": False,
    "tools": [{"name": "read", "input_schema": {"type": "object"}}],
    "url_sources": {"user_input": {"type": "none"}},
    "use_cache": False,
    "user_location": {"city": "Viana do Castelo", "country": "PT"},
}
NEVER_DEFERRED = ("tool_search_tool_bm25", "tool_search_tool_regex")


def package_types() -> Iterator[Any]:
    """Each version of each of these tools that the installed package has, with its fields."""
    for definition in get_args(BetaToolUnionParam):
        hints = get_type_hints(definition)
        (kind, *_) = get_args(hints["type"])
        if isinstance(kind, str) and classify({"type": kind}) == "server":
            yield pytest.param(kind, set(hints), id=kind)


each_package_type = pytest.mark.parametrize(("kind", "fields"), list(package_types()))


def made(kind: str, **fields: Any) -> dict[str, Any]:
    """The definition of this kind."""
    family = tool_family({"type": kind})
    maker, needed = MAKERS[family]
    version = {"version": kind.removeprefix(f"{family}_")} if kind != family else {}
    return maker(*needed, **version, **fields)


def options(maker: Maker) -> set[str]:
    """The fields that a maker takes and may do without."""
    parameters = inspect.signature(maker).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} - {"version"}


@each_package_type
def test_every_field_of_the_anthropic_package(kind: str, fields: set[str]) -> None:
    """Whatever the package can say of a version can be said here, but what the API refuses."""
    definition = made(kind)
    assert definition["type"] == kind
    assert set(definition) <= fields
    family = tool_family({"type": kind})
    left = fields - set(definition) - ({"defer_loading"} if family in NEVER_DEFERRED else set())
    for name in left:
        assert set(made(kind, **{name: SAMPLES[name]})) == {*definition, name}


@anthropic_since("2.12")
@each_package_type
def test_no_other_fields(kind: str, fields: set[str]) -> None:
    """What a version does not have is refused here, before the API does."""
    maker, _ = MAKERS[tool_family({"type": kind})]
    for name in options(maker) - fields:
        with pytest.raises(UsageError, match=f"has {name} since version"):
            made(kind, **{name: SAMPLES[name]})


@anthropic_since("2.12")
def test_the_newest_version_is_the_default() -> None:
    """Of those that the package has; each is one that `classify` knows."""
    newest: dict[str, str] = {}
    for parameter in package_types():
        kind = parameter.values[0]
        family = tool_family({"type": kind})
        newest[family] = max(kind, newest.get(family, ""))
    assert {family: maker(*needed)["type"] for family, (maker, needed) in MAKERS.items()} == newest


def test_what_is_sent() -> None:
    """The definitions as the API's guides have them."""
    assert web_search() == {"type": "web_search_20260318", "name": "web_search"}
    assert web_search(
        max_uses=5, allowed_domains=("example.com",), user_location={"city": "Viana"}, version="20250305"
    ) == {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 5,
        "allowed_domains": ["example.com"],
        "user_location": {"type": "approximate", "city": "Viana"},
    }
    assert web_fetch(citations=False, use_cache=False) == {
        "type": "web_fetch_20260318",
        "name": "web_fetch",
        "citations": {"enabled": False},
        "use_cache": False,
    }
    assert tool_search_regex() == {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert tool_search_bm25() == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert mcp_toolset("pages", configs={"write": {"enabled": False}}) == {
        "type": "mcp_toolset",
        "mcp_server_name": "pages",
        "configs": {"write": {"enabled": False}},
    }
    assert advisor("claude-opus-4-8", max_uses=2) == {
        "type": "advisor_20260301",
        "name": "advisor",
        "model": "claude-opus-4-8",
        "max_uses": 2,
    }


def odd(value: Any) -> Any:
    """What a type checker would not let through."""
    return value


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "allowed and blocked domains": (
        lambda: web_search(allowed_domains=["a.example"], blocked_domains=["b.example"]),
        "exclude each other",
    ),
    "both lists, one of them empty": (lambda: web_fetch(allowed_domains=[], blocked_domains=["a"]), "exclude each"),
    "a domain with its scheme": (lambda: web_search(allowed_domains=["https://a.example"]), "without https://"),
    "an empty domain": (lambda: web_fetch(blocked_domains=[""]), "must be like example.com"),
    "a domain that is no text": (lambda: web_fetch(blocked_domains=[odd(None)]), "must be like example.com"),
    "a text instead of domains": (lambda: web_search(allowed_domains="a.example"), "allowed_domains must be a list"),
    "a text instead of callers": (lambda: code_execution(allowed_callers="direct"), "allowed_callers must be a list"),
    "half a result": (lambda: web_fetch(response_inclusion=odd("half")), "must be one of full, excluded, not 'half'"),
    "no uses": (lambda: web_search(max_uses=0), "max_uses must be a whole number, at least 1, not 0"),
    "uses that are True": (lambda: web_fetch(max_uses=True), "max_uses must be a whole number"),
    "half a token": (lambda: web_fetch(max_content_tokens=odd(0.5)), "max_content_tokens must be"),
    "advice of no tokens": (lambda: advisor("m", max_tokens=-1), "max_tokens must be"),
    "no adviser": (lambda: advisor(""), "model must be a text"),
    "a place with a street": (lambda: web_search(user_location={"street": "1"}), "user_location has no 'street'"),
    "no such version": (lambda: web_search(version="20260209x"), "web_search has the versions 20250305, "),
    "a version with its name": (lambda: code_execution(version="code_execution_20250825"), "has the versions"),
    "no cache in this version": (
        lambda: web_fetch(use_cache=True, version="20260209"),
        "web_fetch has use_cache since version 20260309, not in 20260209",
    ),
    "one domain": (lambda: web_search(allowed_domains=odd(5)), "allowed_domains must be a list, not 5"),
    "citations in words": (lambda: web_fetch(citations=odd("yes")), "citations must be True or False, not 'yes'"),
    "no configuration": (
        lambda: mcp_toolset("a", configs={"b": odd(None)}),
        "a configuration must be a mapping, not None",
    ),
    "no server": (lambda: mcp_toolset(""), "mcp_server_name must be a text"),
    "nobody as adviser": (lambda: advisor(odd(None)), "model must be a text"),
    "a configuration of something else": (lambda: mcp_toolset("a", default_config={"on": True}), "not 'on'"),
    "a configuration that is no boolean": (
        lambda: mcp_toolset("a", configs={"b": {"enabled": odd("yes")}}),
        "True or False, not 'enabled'",
    ),
}


@rows("make, said", WRONG.values())
def test_wrong_arguments(make: Callable[[], Any], said: str) -> None:
    """Said at once, and not by the API after a request."""
    with pytest.raises(UsageError, match=said):
        make()


def test_tool_search_beside_deferred_tools() -> None:
    """The search itself cannot be deferred, and it is enough that nothing else is loaded."""
    deferred = {"name": "now", "input_schema": {"type": "object"}, "defer_loading": True}
    for search in (tool_search_regex(), tool_search_bm25()):
        assert eagerstream.validate_history([USER], [search, deferred]) == []


@pytest.mark.anyio
async def test_they_are_taken_as_they_are() -> None:
    """`stream` and `run` send them, and look for nothing to run them."""
    played = reply(text("Done."))
    definitions = [maker(*needed) for maker, needed in MAKERS.values()]
    async with eagerstream.stream(played, tools=definitions, **REQUEST) as stream:
        await stream.finish()
    async with eagerstream.run(played, tools=definitions, **REQUEST) as run:
        await run.finish()
    assert run.result.status is eagerstream.RunStatus.COMPLETED
