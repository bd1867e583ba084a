"""Definitions of tools that the API runs itself: plain dicts for `tools=[...]` of `run` and `stream`.

    async with eagerstream.run(client, tools=[web_search(max_uses=5), get_weather], ...) as run:
        async for event in run:
            match event:
                case ServerToolUse(input=call): print("searches for", call.value)
                case ServerToolResult(is_error=True, error_code=code): print("failed:", code)

Nothing here runs a tool: the response contains the calls and their results, see `ServerToolUse` and `ServerToolResult`.
Each function returns the newest version known here, or the one whose date is given as `version=`. Pass a still newer
version as a dict. A field that is None is omitted, and the API uses its own default.

Fields that most tools have: `cache_control` (a cache breakpoint behind the definition), `defer_loading` (only tool
search finds the tool), `allowed_callers` (who may call it: `"direct"`, or the `type` of a code execution tool), and
`strict` (the API holds the model to the schema).

Sources: the API's guides to each tool, and the anthropic package's types of their definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import UsageError
from ..wire import check_choice, check_count

Definition: TypeAlias = dict[str, Any]
"""As the API takes it."""

Inclusion: TypeAlias = Literal["full", "excluded"]

_VERSIONS: Final[Mapping[str, Sequence[str]]] = {
    "advisor": ("20260301",),
    "code_execution": ("20250522", "20250825", "20260120", "20260521"),
    "tool_search_tool_bm25": ("20251119",),
    "tool_search_tool_regex": ("20251119",),
    "web_fetch": ("20250910", "20260209", "20260309", "20260318"),
    "web_search": ("20250305", "20260209", "20260318"),
}
_SINCE: Final[Mapping[str, Mapping[str, str]]] = {
    "web_fetch": {"use_cache": "20260309", "response_inclusion": "20260318"},
    "web_search": {"response_inclusion": "20260318"},
}
"""The version that brought a field, where it was not there from the start."""

_LOCATION: Final = ("city", "country", "region", "timezone")
_MCP_CONFIG: Final = ("enabled", "defer_loading")
_REQUIRED: Final = ("mcp_server_name", "model")


def web_search(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    user_location: Mapping[str, str | None] | None = None,
    response_inclusion: Inclusion | None = None,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    defer_loading: bool | None = None,
    strict: bool | None = None,
    version: str = "20260318",
) -> Definition:
    """The model searches the web. No beta header.

    Args:
        max_uses: Searches in one request, at most.
        allowed_domains: Only pages of these are found: `"example.com"`, with a path or without, never with `https://`.
        blocked_domains: Pages of these are not found; not beside `allowed_domains`.
        user_location: Where results are wanted for: `{"city": ..., "region": ..., "country": ..., "timezone": ...}`,
            each of which may be missing.
        response_inclusion: `"excluded"` leaves results out of the reply that code at the API has used up.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: From `"20260209"` on, the model may filter what it finds by code that the API runs, which is for Claude
            4.6 and later; older models take `"20250305"`.

    Raises:
        UsageError: A value is out of range, both lists of domains are given, or the version has no such field.
    """
    return _definition("web_search", **locals())


def web_fetch(
    *,
    max_uses: int | None = None,
    allowed_domains: Sequence[str] | None = None,
    blocked_domains: Sequence[str] | None = None,
    citations: bool | None = None,
    max_content_tokens: int | None = None,
    url_sources: Mapping[str, Any] | None = None,
    use_cache: bool | None = None,
    response_inclusion: Inclusion | None = None,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    defer_loading: bool | None = None,
    strict: bool | None = None,
    version: str = "20260318",
) -> Definition:
    """The model reads web pages and PDFs whose addresses are in the conversation. No beta header.

    Args:
        max_uses: Pages in one request, at most.
        allowed_domains, blocked_domains: As for `web_search`.
        citations: Text of the reply cites the pages; it does not by default.
        max_content_tokens: About how much of the text of one page is read.
        url_sources: From where addresses are taken, for example `{"user_input": {"type": "none"}}`; from everywhere by
            default.
        use_cache: False fetches pages anew; from version `"20260309"` on.
        response_inclusion: As for `web_search`.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: From `"20260209"` on, the model may filter what it reads by code that the API runs, which is for Claude
            4.6 and later; older models take `"20250910"`.

    Raises:
        UsageError: As `web_search`.
    """
    return _definition("web_fetch", **locals())


def code_execution(
    *,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    defer_loading: bool | None = None,
    strict: bool | None = None,
    version: str = "20260521",
) -> Definition:
    """The model runs code in a container at the API. No beta header; files to and from it need that of the Files API.

    A tool of your own that this code may call says so with `allowed_callers=[code_execution()["type"]]`. The calls come
    as any others do, and the container's id goes along with the requests of a run by itself.

    Args:
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: `"20250522"` runs Python alone, `"20250825"` also Bash and edits of files; where code calls tools, the
            later ones keep what it has defined from request to request.

    Raises:
        UsageError: There is no such version.
    """
    return _definition("code_execution", **locals())


def tool_search_regex(
    *,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    strict: bool | None = None,
    version: str = "20251119",
) -> Definition:
    """The model finds tools with `defer_loading` by regular expressions. No beta header.

    It is never deferred itself. All definitions are sent with each request; what is deferred costs no tokens until it
    is found, and at least one tool must not be deferred.

    Args:
        allowed_callers, cache_control, strict: See `eagerstream.builtin.server_tools`.
        version: Its date.

    Raises:
        UsageError: There is no such version.
    """
    return _definition("tool_search_tool_regex", **locals())


def tool_search_bm25(
    *,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    strict: bool | None = None,
    version: str = "20251119",
) -> Definition:
    """The model finds tools with `defer_loading` by words. No beta header; otherwise as `tool_search_regex`."""
    return _definition("tool_search_tool_bm25", **locals())


def mcp_toolset(
    mcp_server_name: str,
    *,
    default_config: Mapping[str, bool] | None = None,
    configs: Mapping[str, Mapping[str, bool]] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    cache_control: Mapping[str, Any] | None = None,
) -> Definition:
    """The tools of an MCP server that the API connects to.

    The request needs the server itself: `run(..., mcp_servers=[{"type": "url", "url": "https://...", "name":
    mcp_server_name}])`. It also needs the beta `mcp-client-2025-11-20`, which the definition brings.

    Args:
        mcp_server_name: As in `mcp_servers`.
        default_config: For all its tools: `{"enabled": bool, "defer_loading": bool}`, each of which may be missing.
        configs: The same for single tools, by name.
        tools: The server's tools, from the `mcp_tool_listing` block of an earlier response. The API then uses exactly
            these and does not ask the server. The definition brings the beta `mcp-client-2026-09-15` instead.
        cache_control: See `eagerstream.builtin.server_tools`.

    Raises:
        UsageError: The name is empty, or a configuration has something else in it.
    """
    return {"type": "mcp_toolset", **_checked(locals())}


def advisor(
    model: str,
    *,
    max_uses: int | None = None,
    max_tokens: int | None = None,
    caching: Mapping[str, Any] | None = None,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    defer_loading: bool | None = None,
    strict: bool | None = None,
    version: str = "20260301",
) -> Definition:
    """The model asks a stronger one for advice. The definition brings the beta `advisor-tool-2026-03-01`.

    Args:
        model: Who gives the advice.
        max_uses: How often in one request, at most.
        max_tokens: Of one piece of advice, thinking included.
        caching: A cache entry of the adviser's own, for example `{"type": "ephemeral", "ttl": "5m"}`.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: Its date.

    Raises:
        UsageError: A value is out of range, or there is no such version.
    """
    return _definition("advisor", **locals())


def _definition(name: str, /, *, version: str, **fields: object) -> Definition:
    versions = _VERSIONS[name]
    if version not in versions:
        raise UsageError(f"{name} has the versions {', '.join(versions)}, not {version!r:.80}; give another as a dict")
    known = _checked(fields)
    for field, since in _SINCE.get(name, {}).items():
        if field in known and version < since:
            raise UsageError(f"{name} has {field} since version {since}, not in {version}")
    return {"type": f"{name}_{version}", "name": name, **known}


def _checked(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields that are not None, each checked and in the form that the API takes."""
    known = {name: value for name, value in fields.items() if value is not None or name in _REQUIRED}
    if {"allowed_domains", "blocked_domains"} <= known.keys():
        raise UsageError("allowed_domains and blocked_domains exclude each other: give one of them")
    return {name: _form(name, value) for name, value in known.items()}


def _form(name: str, value: Any) -> object:
    """Return a field in the form that the API takes.

    Raises:
        UsageError: It has another type, or is out of its range.
    """
    match name:
        case "max_uses" | "max_content_tokens" | "max_tokens":
            check_count(name, value)
        case "response_inclusion":
            check_choice(name, value, get_args(Inclusion))
        case "mcp_server_name" | "model" if not isinstance(value, str) or not value:
            raise UsageError(f"{name} must be a text that is not empty, not {value!r:.80}")
        case "citations":
            if not isinstance(value, bool):
                raise UsageError(f"{name} must be True or False, not {value!r:.80}")
            return {"enabled": value}
        case "allowed_domains" | "blocked_domains" | "allowed_callers" | "tools":
            return _list(name, value)
        case "user_location":
            if unknown := sorted(set(value) - {"type", *_LOCATION}):
                raise UsageError(f"{name} has no {', '.join(map(repr, unknown))}, only {', '.join(_LOCATION)}")
            return {**value, "type": "approximate"}
        case "default_config":
            return _config(value)
        case "configs":
            return {tool: _config(config) for tool, config in value.items()}
        case _:
            pass
    return value


def _list(name: str, values: object) -> list[object]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise UsageError(f"{name} must be a list, not {values!r:.80}")
    listed = list(values)
    for domain in listed if name.endswith("_domains") else ():
        if not isinstance(domain, str) or not domain or "://" in domain:
            raise UsageError(f"a domain is written example.com, without https://, not {domain!r:.80}")
    return listed


def _config(config: object) -> object:
    if not isinstance(config, Mapping):
        raise UsageError(f"a configuration is a mapping, not {config!r:.80}")
    if wrong := [name for name in config if name not in _MCP_CONFIG or not isinstance(config[name], bool)]:
        raise UsageError(f"a configuration has {' and '.join(_MCP_CONFIG)}, True or False, not {wrong[0]!r:.80}")
    return config
