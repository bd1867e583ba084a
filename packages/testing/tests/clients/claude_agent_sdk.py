"""The Claude Agent SDK, with the program Claude Code that it brings. Without its requests for titles and the like."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    TextBlock,
    ThinkingBlock,
    create_sdk_mcp_server,
    query,
    tool,
)

from .job import MODEL, RESULT, TOOL, Job, Result


class ClaudeCodeError(Exception):
    """Raised for a session that ended with an error: its text."""


async def converse(job: Job) -> Result:
    result = Result()

    @tool(TOOL["name"], TOOL["description"], TOOL["input_schema"])
    async def get_weather(input: dict[str, Any]) -> dict[str, Any]:
        result.calls.append(input)
        return {"content": [{"type": "text", "text": RESULT}]}

    server = create_sdk_mcp_server("weather", tools=[get_weather])
    with tempfile.TemporaryDirectory() as folder:
        options = ClaudeAgentOptions(
            model=MODEL,
            env={**_environment(job, Path(folder))},
            cwd=folder,
            setting_sources=[],
            tools=[],
            mcp_servers={"weather": server} if job.tool else {},
            allowed_tools=["mcp__weather__get_weather"],
            max_turns=5,
        )
        async for message in query(prompt="/context" if job.count else job.question, options=options):
            match message:
                case AssistantMessage(content=blocks):
                    result.text += "".join(block.text for block in blocks if isinstance(block, TextBlock))
                    result.thinking += "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
                case ResultMessage(is_error=True):
                    raise ClaudeCodeError(message.result)
                case ResultMessage():
                    result.text = message.result or ""
                case _:
                    pass
    if job.count:
        found = re.search(r"\*\*Tokens:\*\* (\d+)", result.text)
        assert found is not None, result.text
        result.tokens = int(found[1])
    return result


def _environment(job: Job, folder: Path) -> Mapping[str, str]:
    settings = {
        "ANTHROPIC_BASE_URL": job.base_url,
        "ANTHROPIC_API_KEY": "any",
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1",  # the tool has the name that all clients give it
        "ENABLE_TOOL_SEARCH": "false",
    }
    return {**settings, "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING": "1"} if job.eager else settings
