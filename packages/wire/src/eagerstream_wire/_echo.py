"""Repair of starting blocks, so that the API accepts them back in a history.

If one block of a history has an overlong tool name, an id with illegal characters, or a field without a JSON form, the
API refuses each later request of the conversation. Calls are repaired here once, when they open. Therefore no later
step can discover that a call which already runs cannot be kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ._server_tools import call_kind, is_server_result
from ._values import long_texts_apart

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_LEGAL_SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_CHARS: Final = 64
_MAX_MCP_NAME_CHARS: Final = 200
_PREFIXES: Final = {"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}


def id_pattern(kind: str) -> re.Pattern[str]:
    """Return the pattern of ids of calls of type `kind`. The API has a stricter rule for ids of its own tools."""
    return _LEGAL_SERVER_ID if kind == "server_tool_use" else _LEGAL_ID


def legal_id(id: object, kind: str) -> str:
    """Return `id` if the API accepts it as the id of a block of type `kind`, and a stand-in otherwise.

    Calls and results get the same stand-in for the same id. If the id is empty or not a string, the result is empty.
    """
    if not isinstance(id, str) or not id:
        return ""
    return id if id_pattern(kind).fullmatch(id) else stand_in_id(id, kind)


def stand_in_id(seed: str, kind: str) -> str:
    """Return a legal id for a block of type `kind`: at most 64 characters, always the same for the same `seed`.

    It is a hash, not the legal characters of the seed, because ids that differ only in illegal characters must stay
    distinct. A counter would differ between the call and its result, which may come in another response.
    """
    from hashlib import sha256  # takes as long as four of our modules, and few programs meet an illegal id

    return _PREFIXES.get(kind, "toolu_") + sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def legal_name(name: object, kind: str) -> str:
    """Return `name` if the API accepts it in a call of type `kind`, and a stand-in of at most 64 characters otherwise.

    The strictest rule of the API applies, `^[a-zA-Z0-9_-]{1,64}$`. A tool of an MCP server may have any name of up to
    200 characters. For a tool of the API's own the result is empty instead of a stand-in: the API would look for it.
    """
    name = name if isinstance(name, str) else ""
    if LEGAL_NAME.fullmatch(name) or (kind == "mcp_tool_use" and 0 < len(name) <= _MAX_MCP_NAME_CHARS):
        return name
    if kind == "server_tool_use":
        return ""
    return _ILLEGAL.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed_tool"


def repaired(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a starting block, with legal references to calls, and a call without unsendable fields.

    The `input` of a call is ignored: its outcome decides what to echo. So are `id` and `name`: its `ToolInput` has
    their legal forms. Fields of other blocks may be large, so they are checked when a history is made.
    """
    kept = dict(block)
    kind = kept.get("type")
    if not isinstance(kind, str):
        return kept
    if kind == "tool_use" or kind in _PREFIXES:
        for name, value in block.items():
            if type(value) is not str and name != "input" and not has_json_form(value):
                del kept[name]
        caller = kept.get("caller")
        if caller is not None:
            if not isinstance(caller, Mapping):
                del kept["caller"]
            elif isinstance(caller.get("tool_id"), str):
                kept["caller"] = {**caller, "tool_id": legal_id(caller["tool_id"], "server_tool_use")}
    elif is_server_result(kind) and "tool_use_id" in kept:
        kept["tool_use_id"] = legal_id(kept["tool_use_id"], call_kind(kind))
    return kept


def has_json_form(value: object) -> bool:
    """Return False for an infinity, an integer of thousands of digits, and values nested too deep to write."""
    try:
        for part in long_texts_apart(value):
            if part is not None and not isinstance(part, str | bool):
                json.dumps(part, allow_nan=False)
    except (ValueError, RecursionError, TypeError):
        return False
    return True
