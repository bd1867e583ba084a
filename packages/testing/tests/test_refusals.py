"""Parameters that the API refuses, in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from anthropic.types import ToolUnionParam
from packages.wire.tests.test_block_rules import FAULTY
from packages.wire.tests.test_history import CACHED, user, words
from packages.wire.tests.test_tool_kind import kinds_of_the_package
from tests.missing import anthropic_since
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows

from eagerstream_testing import ReplayServer, Scenario, reply, text
from eagerstream_testing._refusals import KINDS_WITHOUT_BETA, parameter_faults, request_faults

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


@pytest.mark.anyio
async def test_faulty_histories() -> None:
    """With the same words, through the client of the anthropic package."""
    async with ReplayServer(Scenario.scripted()) as server, anthropic_client(server.base_url) as client:
        messages: Any
        mended: Any
        for messages, words, mended in FAULTY[:-1]:  # that one no client can send
            with pytest.raises(Exception, match="400") as caught:
                await client.messages.create(model="claude-haiku-4-5", max_tokens=9, messages=messages)
            assert words in str(caught.value)
            await client.messages.create(model="claude-haiku-4-5", max_tokens=9, messages=mended)


@rows(
    "change, message",
    [
        ({"model": None}, "model: Field required"),
        ({"messages": None}, "messages: Field required"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": -1}, "max_tokens: must be greater than or equal to 0"),
        ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        ({"tools": 5}, "tools: Input should be a valid list"),
    ],
)
def test_a_wrong_request(change: dict[str, Any], message: str) -> None:
    """What every request has is asked for first."""
    assert list(request_faults({**REQUEST, **change})) == [message]
    assert list(request_faults(REQUEST)) == []
    assert list(request_faults({**REQUEST, "max_tokens": 0})) == [], "it only fills the cache, and the API allows it"


def test_breakpoints_of_the_system_prompt() -> None:
    """They count like all others."""
    body = {**REQUEST, "system": [words() | CACHED], "messages": [user(*(words() | CACHED for _ in range(4)))]}
    assert list(request_faults(body)) == ["A maximum of 4 blocks with cache_control may be provided. Found 5."]


@anthropic_since("2.12")  # its kinds were betas in older versions
def test_kinds_without_a_beta_are_those_of_the_anthropic_package() -> None:
    """The double accepts them without one. A new kind is noticed here."""
    assert list(KINDS_WITHOUT_BETA) == sorted(set(kinds_of_the_package(ToolUnionParam)))
