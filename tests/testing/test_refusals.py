"""Parameters that the API refuses, in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from eagerstream.testing import ReplayServer, reply, text
from eagerstream.testing._refusals import parameter_faults
from tests.tables import rows

TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
ENABLED = {"type": "enabled", "budget_tokens": 2_048}
FORCED = {"type": "tool", "name": "f"}
BUDGET = "thinking.enabled.budget_tokens"
SMALL = "`max_tokens` must be greater than `thinking.budget_tokens`."


@rows(
    "parameters, fault",
    [
        ({"temperature": 1.01}, "temperature: range: 0..1"),
        ({"temperature": True}, "temperature: Input should be a valid number"),
        ({"thinking": {"type": "enabled"}}, f"{BUDGET}: Field required"),
        ({"thinking": {**ENABLED, "budget_tokens": "1024"}}, f"{BUDGET}: Input should be a valid integer"),
        ({"thinking": {**ENABLED, "budget_tokens": 9}}, f"{BUDGET}: Input should be greater than or equal to 1024"),
        ({"thinking": ENABLED, "max_tokens": 2_048}, SMALL),
        (
            {"thinking": ENABLED, "tools": TOOLS, "tool_choice": FORCED},
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice.any may only be specified while providing tools."),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "g"}}, "Tool 'g' not found in provided tools"),
    ],
)
def test_refused(parameters: Mapping[str, Any], fault: str) -> None:
    assert list(parameter_faults({"max_tokens": 4_096, **parameters}, ())) == [fault]


@rows(
    "parameters",
    [
        {"temperature": 0},
        {"temperature": None, "tool_choice": None, "thinking": None},
        {"thinking": ENABLED, "tools": TOOLS, "tool_choice": {"type": "auto"}},
        {"thinking": {"type": "adaptive"}, "tools": TOOLS, "tool_choice": FORCED},
        {"tools": TOOLS, "tool_choice": FORCED},
        {"tool_choice": {"type": "auto"}},
        {"tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}], "tool_choice": FORCED},
        {"messages": [{"role": "system", "content": []}], "tool_choice": FORCED},
    ],
)
def test_accepted(parameters: Mapping[str, Any]) -> None:
    assert list(parameter_faults({"max_tokens": 4_096, **parameters}, ())) == []


def test_interleaved_thinking() -> None:
    """With its beta, the budget is for the complete turn."""
    body = {"thinking": ENABLED, "max_tokens": 1_024}
    assert list(parameter_faults(body, ["interleaved-thinking-2025-05-14"])) == []


def test_over_http() -> None:
    """The double refuses them for messages and for counts."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tool_choice": FORCED}
    with ReplayServer(reply(text("Hello."))) as server:
        for path, more in (("", {"max_tokens": 9}), ("/count_tokens", {})):
            answer = httpx.post(f"{server.base_url}/v1/messages{path}", json={**body, **more})
            assert answer.status_code == 400
            assert answer.json()["error"]["message"] == "Tool 'f' not found in provided tools"
