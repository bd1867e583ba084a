"""`count_tokens`: a deterministic estimate, and the API's refusals."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import pytest
from packages.testing.tests.test_one_piece import one_client_of_each_platform
from tests.platforms import PlatformClient

from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, reply, text
from eagerstream_testing._platforms import DIALECTS
from eagerstream_testing._token_count import count_tokens

pytestmark = pytest.mark.anyio

_ASK: dict[str, Any] = {"model": "claude-opus-4-7", "messages": [{"role": "user", "content": "Hi"}]}
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}


def _messages(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*blocks]}]}


def test_the_estimate() -> None:
    """A quarter of the characters, and a constant for each image. Marks of the cache make no difference."""
    assert count_tokens(_ASK) == -(-len('{"messages":[{"role":"user","content":"Hi"}]}') // 4)
    text_block = {"type": "text", "text": "x" * 4_000}
    assert count_tokens(_messages(text_block)) == 1_000 + count_tokens(_messages({**text_block, "text": ""}))
    marked = {**text_block, "cache_control": {"type": "ephemeral"}}
    assert count_tokens(_messages(marked)) == count_tokens(_messages(text_block))
    assert 1_500 < count_tokens(_messages(_IMAGE)) < 1_600
    assert count_tokens({**_ASK, "tools": [{"name": "f", "input_schema": {}}]}) > count_tokens(_ASK)


@one_client_of_each_platform
async def test_every_client_that_counts(platform_client: PlatformClient) -> None:
    """Bedrock has no such request for this client, which says so itself. Faults are for messages, and none is used up."""
    faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529)]})
    async with ReplayServer(reply(text("Hi")), faults=faults) as server, platform_client.client(server) as client:
        if DIALECTS[platform_client.platform].count_path is None:
            with pytest.raises(anthropic.AnthropicError, match="not supported"):
                await client.messages.count_tokens(**_ASK)
            return
        counted = await client.messages.count_tokens(**_ASK)
        assert counted.input_tokens == count_tokens(_ASK)
        assert server.requests[-1].body["messages"] == _ASK["messages"]
        assert faults.injected.total() == 0
        with pytest.raises(anthropic.BadRequestError, match="max_tokens: Extra inputs are not permitted"):
            await client.messages.count_tokens(**_ASK, extra_body={"max_tokens": 5})
        with pytest.raises(anthropic.BadRequestError, match="tool_use_id"):
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "15"}
            await client.messages.count_tokens(**{**_ASK, **_messages(result)})


async def test_counts_of_the_beta() -> None:
    """With context management, the answer also says how many tokens there were before."""
    async with (
        ReplayServer(reply(text("Hi"))) as server,
        anthropic.AsyncAnthropic(base_url=server.base_url, api_key="k") as client,
    ):
        counted = await client.beta.messages.count_tokens(
            **_ASK, context_management={"edits": []}, betas=["context-management-2025-06-27"]
        )
        assert counted.context_management is not None
        assert counted.context_management.original_input_tokens == counted.input_tokens


async def test_depth() -> None:
    """A request that is too deep to be counted is refused."""
    deep: Any = json.loads('{"a":' * 900 + "1" + "}" * 900)
    body = {**_ASK, "system": [deep]}
    async with ReplayServer(reply(text("Hi"))) as server, httpx.AsyncClient(verify=False) as client:
        response = await client.post(f"{server.base_url}/v1/messages/count_tokens", json=body)
    assert response.status_code == 400
    assert "nested" in response.json()["error"]["message"]
