"""Faults of a request's parameters, beside its messages and its tools, in the API's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_MIN_BUDGET: Final = 1_024
_INTERLEAVED: Final = "interleaved-thinking-"
"""Start of the beta with which a budget may be larger than `max_tokens`: it is for all thinking of a turn."""


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
    yield from _thinking_faults(body, betas, forces_a_call=bool(forced))
    yield from _choice_faults(body, forced)


def _thinking_faults(body: Mapping[str, Any], betas: Sequence[str], *, forces_a_call: bool) -> Iterator[str]:
    thinking = body.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return
    budget, max_tokens = thinking.get("budget_tokens"), body.get("max_tokens")
    if budget is None:
        yield "thinking.enabled.budget_tokens: Field required"
    elif type(budget) is not int:
        yield "thinking.enabled.budget_tokens: Input should be a valid integer"
    elif budget < _MIN_BUDGET:
        yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_MIN_BUDGET}"
    elif type(max_tokens) is int and max_tokens <= budget and not any(beta.startswith(_INTERLEAVED) for beta in betas):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if forces_a_call:
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _choice_faults(body: Mapping[str, Any], forced: Mapping[str, Any]) -> Iterator[str]:
    tools, messages = body.get("tools") or (), body.get("messages") or ()
    if any(isinstance(message, Mapping) and message.get("role") == "system" for message in messages):
        return  # it may define tools
    if forced.get("type") == "any" and not tools:
        yield "tool_choice.any may only be specified while providing tools."
    named = [tool.get("name") for tool in tools if isinstance(tool, Mapping)]
    if forced.get("type") == "tool" and None not in named and forced.get("name") not in named:  # toolsets have no name
        yield f"Tool '{forced.get('name')!s:.80}' not found in provided tools"
