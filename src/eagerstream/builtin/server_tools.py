"""Definitions of tools that the API runs itself: plain dicts for `tools=[...]` of `run` and `stream`.

    async with eagerstream.run(client, tools=[web_search(max_uses=5), get_weather], ...) as run:
        async for event in run:
            match event:
                case ServerToolUse(input=call): print("searches for", call.value)
                case ServerToolResult(is_error=True, error_code=code): print("failed:", code)

Nothing here runs a tool: the response contains the calls and their results. See `ServerToolUse` and `ServerToolResult`.
Each function returns the newest version known here. Pass the date of another version as `version=`. If the API has a
newer one, write the definition as a dict. A field that is `None` is omitted, and the API uses its own default.

Fields of most tools:

- `cache_control`: A cache breakpoint behind the definition.
- `defer_loading`: True hides the tool until tool search finds it.
- `allowed_callers`: The permitted callers: `"direct"`, or the `type` of a code execution tool.
- `strict`: True makes the API enforce the schema.

Sources: the API's guides to each tool, and the anthropic package's types of their definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import UsageError
from ..wire import check_choice, check_count

Definition: TypeAlias = dict[str, Any]
"""A tool definition in the API's form."""

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
"""The first version with a field, for fields that the first version of the tool does not have."""

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
    """Return the definition of web search. It needs no beta header.

    Args:
        max_uses: Maximum number of searches in one request.
        allowed_domains: Domains to search exclusively, for example `"example.com"`. A path may follow, `https://` may
            not precede.
        blocked_domains: Domains to exclude. They cannot be combined with `allowed_domains`.
        user_location: The user's place: `{"city": ..., "region": ..., "country": ..., "timezone": ...}`. Each key is
            optional.
        response_inclusion: `"excluded"` omits results from the response if code at the API has consumed them.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: From `"20260209"` on, the model may filter results with code that the API runs. This needs Claude 4.6
            or later. Older models take `"20250305"`.

    Raises:
        UsageError: A value has the wrong type or is out of range, both lists of domains are given, the version is
            unknown, or it does not have a given field.
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
    """Return the definition of web fetch. The model reads web pages and PDFs whose addresses are in the conversation.

    It needs no beta header.

    Args:
        max_uses: Maximum number of pages in one request.
        allowed_domains, blocked_domains: As for `web_search`.
        citations: True makes the response cite the pages. By default it does not.
        max_content_tokens: Approximate maximum size of one page's text.
        url_sources: Allowed sources of addresses, for example `{"user_input": {"type": "none"}}`. By default all are
            allowed.
        use_cache: False fetches pages anew. Needs version `"20260309"` or later.
        response_inclusion: As for `web_search`.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: From `"20260209"` on, the model may filter pages with code that the API runs. This needs Claude 4.6 or
            later. Older models take `"20250910"`.

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
    """Return the definition of code execution. The model runs code in a container at the API.

    It needs no beta header. Files to and from the container need the header of the Files API. If this code may call a
    tool of yours, give that tool `allowed_callers=[code_execution()["type"]]`. Its calls arrive like any others. `run`
    sends the container's id with each request.

    Args:
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: `"20250522"` runs Python only. `"20250825"` adds Bash and file edits. If code calls tools, later
            versions keep its definitions from request to request.

    Raises:
        UsageError: The version is unknown, or `allowed_callers` is not a list.
    """
    return _definition("code_execution", **locals())


def tool_search_regex(
    *,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    strict: bool | None = None,
    version: str = "20251119",
) -> Definition:
    """Return the definition of tool search by regular expressions. The model finds tools that have `defer_loading`.

    It needs no beta header, and is never deferred itself. Each request contains all definitions. A deferred one costs
    no tokens until it is found. At least one tool must not be deferred.

    Args:
        allowed_callers, cache_control, strict: See `eagerstream.builtin.server_tools`.
        version: The date of the version.

    Raises:
        UsageError: The version is unknown, or `allowed_callers` is not a list.
    """
    return _definition("tool_search_tool_regex", **locals())


def tool_search_bm25(
    *,
    allowed_callers: Sequence[str] | None = None,
    cache_control: Mapping[str, Any] | None = None,
    strict: bool | None = None,
    version: str = "20251119",
) -> Definition:
    """Return the definition of tool search by words. Everything else is as for `tool_search_regex`."""
    return _definition("tool_search_tool_bm25", **locals())


def mcp_toolset(
    mcp_server_name: str,
    *,
    default_config: Mapping[str, bool] | None = None,
    configs: Mapping[str, Mapping[str, bool]] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    cache_control: Mapping[str, Any] | None = None,
) -> Definition:
    """Return the definition of the tools of an MCP server that the API connects to.

    The request must also name the server: `run(..., mcp_servers=[{"type": "url", "url": "https://...", "name":
    mcp_server_name}])`. It needs the beta `mcp-client-2025-11-20`, which the definition adds.

    Args:
        mcp_server_name: The server's name in `mcp_servers`.
        default_config: Configuration of all its tools: `{"enabled": bool, "defer_loading": bool}`. Each key is
            optional.
        configs: Configuration of single tools, by name.
        tools: The server's tools, from the `mcp_tool_listing` block of an earlier response. The API then uses exactly
            these and does not ask the server. The definition adds the beta `mcp-client-2026-09-15` instead.
        cache_control: See `eagerstream.builtin.server_tools`.

    Raises:
        UsageError: The name is empty, a configuration has another key or a value that is not a boolean, or `tools` is
            not a list.
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
    """Return the definition of the advisor: the model asks a stronger model for advice.

    The definition adds the beta `advisor-tool-2026-03-01`.

    Args:
        model: The model that gives the advice.
        max_uses: Maximum number of questions in one request.
        max_tokens: Maximum size of one piece of advice, including thinking.
        caching: A cache entry for the advisor, for example `{"type": "ephemeral", "ttl": "5m"}`.
        allowed_callers, cache_control, defer_loading, strict: See `eagerstream.builtin.server_tools`.
        version: The date of the version.

    Raises:
        UsageError: A value has the wrong type or is out of range, or the version is unknown.
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
    """Return the checked fields in the API's form, without those that are `None`."""
    known = {name: value for name, value in fields.items() if value is not None or name in _REQUIRED}
    if {"allowed_domains", "blocked_domains"} <= known.keys():
        raise UsageError("allowed_domains and blocked_domains exclude each other: give only one")
    return {name: _form(name, value) for name, value in known.items()}


def _form(name: str, value: Any) -> object:
    """Return a field in the API's form.

    Raises:
        UsageError: The value has the wrong type or is out of range.
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
            raise UsageError(f"a domain must be like example.com, without https://, not {domain!r:.80}")
    return listed


def _config(config: object) -> object:
    if not isinstance(config, Mapping):
        raise UsageError(f"a configuration must be a mapping, not {config!r:.80}")
    if wrong := [name for name in config if name not in _MCP_CONFIG or not isinstance(config[name], bool)]:
        raise UsageError(f"a configuration may have {' and '.join(_MCP_CONFIG)}, True or False, not {wrong[0]!r:.80}")
    return config
