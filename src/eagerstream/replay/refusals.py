"""What the API would refuse in a request, whatever the scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tool_kind import EAGER_FIELD, LEGACY_BETA, EagerSupport, tool_kind


def request_faults(body: Mapping[str, Any]) -> Iterator[str]:
    """What the API would refuse in the body of a request, in its words, the first that it would tell first."""
    # Brings pydantic, which whoever only looks at recordings does without.
    from ..tools.history import count_breakpoints, validate_history

    for name in ("model", "messages", "max_tokens"):
        if body.get(name) is None:
            yield f"{name}: Field required"
    max_tokens = body.get("max_tokens")
    if max_tokens is not None and type(max_tokens) is not int:
        yield "max_tokens: Input should be a valid integer"
    elif max_tokens is not None and max_tokens < 0:
        yield "max_tokens: must be greater than or equal to 0"
    messages = body.get("messages")
    tools = body.get("tools")
    for name, value in (("messages", messages), ("tools", tools)):
        if value is not None and not isinstance(value, list):
            yield f"{name}: Input should be a valid list"
    if isinstance(messages, list) and isinstance(tools, list | None):
        system = count_breakpoints(body.get("system"))
        for fault in validate_history(messages, tools or (), system_breakpoints=system, first_party=True):
            yield fault.message


def eager_faults(
    body: Mapping[str, Any], betas: Sequence[str], support: EagerSupport, unknown_beta: str
) -> Iterator[str]:
    """What a model says that takes eager input streaming in some ways only.

    Args:
        body: The body of the request.
        betas: What it asks for in `anthropic-beta`.
        support: Which ways it takes.
        unknown_beta: The platform's words for a beta that it does not know; `{}` stands for its name.
    """
    if support in ("header", "none"):
        tools = body.get("tools")
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            if isinstance(tool, Mapping) and EAGER_FIELD in tool:
                yield f"tools.{index}.{tool_kind(tool)}.{EAGER_FIELD}: Extra inputs are not permitted"
    if support in ("field", "none") and LEGACY_BETA in betas:
        yield unknown_beta.format(LEGACY_BETA)
