"""Faults for which the API refuses a request, whatever the scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eagerstream import EagerSupport
from eagerstream._support.terms import EAGER_FIELD, LEGACY_BETA, accepted_betas, forbids_legacy_beta, tool_kind

KINDS_WITHOUT_BETA: Final = (
    *("bash_20250124", "browser_toolset_20260801", "code_execution_20250522", "code_execution_20250825"),
    *("code_execution_20260120", "code_execution_20260521", "computer_toolset_20260801", "custom", "memory_20250818"),
    *("text_editor_20250124", "text_editor_20250429", "text_editor_20250728", "tool_search_tool_bm25"),
    *("tool_search_tool_bm25_20251119", "tool_search_tool_regex", "tool_search_tool_regex_20251119"),
    *("web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318"),
    *("web_search_20250305", "web_search_20260209", "web_search_20260318"),
)
"""Kinds of tools that need no beta, in the order in which the API lists them."""


_BETA: Final = re.compile(r"[a-z0-9.-]+-[0-9]{4}-?[0-9]{2}-?[0-9]{2}")
"""The form of every beta so far: a name and a date."""

_MIN_BUDGET: Final = 1_024
_INTERLEAVED: Final = "interleaved-thinking-"
"""Start of the beta with which a budget may be larger than `max_tokens`: it is for all thinking of a turn."""


def request_faults(
    body: Mapping[str, Any], required: Sequence[str] = ("model", "messages", "max_tokens")
) -> Iterator[str]:
    """Yield the faults that the API would report for a request with these `required` fields, in its words and order."""
    # Imports pydantic, which readers of recordings do not need.
    from eagerstream import count_breakpoints, request_faults_of_model, validate_history

    for name in required:
        if body.get(name) is None:
            yield f"{name}: Field required"
    max_tokens = body.get("max_tokens")
    if max_tokens is not None and type(max_tokens) is not int:
        yield "max_tokens: Input should be a valid integer"
    elif max_tokens is not None and max_tokens < 0:
        yield "max_tokens: must be greater than or equal to 0"
    if not isinstance(body.get("stream"), bool | None):
        yield "stream: Input should be a valid boolean"
    messages = body.get("messages")
    tools = body.get("tools")
    for name, value in (("messages", messages), ("tools", tools)):
        if value is not None and not isinstance(value, list):
            yield f"{name}: Input should be a valid list"
    if isinstance(messages, list) and isinstance(tools, list | None):
        system = count_breakpoints(body.get("system"))
        model = body.get("model")
        for fault in validate_history(
            messages,
            tools or (),
            system_breakpoints=system,
            first_party=True,
            model=model if isinstance(model, str) else None,
        ):
            yield fault.message
    yield from request_faults_of_model(body)


def parameter_faults(body: Mapping[str, Any], betas: Sequence[str]) -> Iterator[str]:
    """Yield the faults of the temperature, the thinking and the tool choice of a request.

    Models differ in other combinations (a temperature with adaptive thinking, for example). Those are accepted.
    """
    temperature = body.get("temperature")
    if temperature is not None and type(temperature) not in (int, float):
        yield "temperature: Input should be a valid number"
    elif temperature is not None and not 0 <= temperature <= 1:
        yield "temperature: range: 0..1"
    choice = body.get("tool_choice")
    forced = choice if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool") else {}
    thinking = body.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("type") == "enabled":
        budget, max_tokens = thinking.get("budget_tokens"), body.get("max_tokens")
        interleaves = any(beta.startswith(_INTERLEAVED) for beta in betas)
        if budget is None:
            yield "thinking.enabled.budget_tokens: Field required"
        elif type(budget) is not int:
            yield "thinking.enabled.budget_tokens: Input should be a valid integer"
        elif budget < _MIN_BUDGET:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_MIN_BUDGET}"
        elif type(max_tokens) is int and max_tokens <= budget and not interleaves:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
        if forced:
            yield "Thinking may not be enabled when tool_choice forces tool use."
    tools, messages = body.get("tools") or (), body.get("messages") or ()
    if any(isinstance(message, Mapping) and message.get("role") == "system" for message in messages):
        return  # it may define tools
    if forced.get("type") == "any" and not tools:
        yield "tool_choice.any may only be specified while providing tools."
    named = [tool.get("name") for tool in tools if isinstance(tool, Mapping)]
    if forced.get("type") == "tool" and None not in named and forced.get("name") not in named:  # toolsets have no name
        yield f"Tool '{forced.get('name')!s:.80}' not found in provided tools"


def unknown_betas(betas: Sequence[str], words: str) -> Iterator[str]:
    """Yield the faults of betas that cannot exist, because they do not end with a date.

    Args:
        betas: The betas of the request.
        words: The platform's words for a beta that it does not know, with `{}` for its name.
    """
    for beta in betas:
        if beta and not _BETA.fullmatch(beta):
            yield words.format(f"{beta:.80}")


def eager_faults(
    body: Mapping[str, Any], betas: Sequence[str], support: EagerSupport, unknown_beta: str
) -> Iterator[str]:
    """Yield the errors of a model that accepts only some ways to ask for eager input streaming."""
    if support in ("header", "none"):
        tools = body.get("tools")
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            if isinstance(tool, Mapping) and EAGER_FIELD in tool:
                yield f"tools.{index}.{tool_kind(tool)}.{EAGER_FIELD}: Extra inputs are not permitted"
    if support in ("field", "none") and LEGACY_BETA in betas:
        yield unknown_beta.format(LEGACY_BETA)


def beta_faults(body: Mapping[str, Any], betas: Sequence[str]) -> Iterator[str]:
    """Yield the faults of tools whose beta is missing, or that do not go with a beta.

    A kind that this library does not know needs no beta. The words for a missing beta are the API's. Its words for a
    toolset with the legacy beta are not known, only that it answers with status 400.
    """
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, Mapping):
            continue
        kind = tool_kind(tool)
        if (accepted := accepted_betas(tool)) and not set(accepted) & set(betas):
            if set(accepted_betas({"type": kind})) & set(betas):
                yield f"tools.{index}.{kind}.tools: Extra inputs are not permitted"
            else:
                known = ", ".join(f"'{known}'" for known in KINDS_WITHOUT_BETA)
                what = "found using 'type' does not match any of the expected tags"
                yield f"tools.{index}: Input tag '{kind}' {what}: {known}"
        elif LEGACY_BETA in betas and forbids_legacy_beta(tool):
            yield f"tools.{index}: {kind} cannot be used with the beta `{LEGACY_BETA}`"
