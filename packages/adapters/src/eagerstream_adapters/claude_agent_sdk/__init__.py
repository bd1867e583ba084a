"""The Claude Agent SDK: inputs that you can watch, and tools that start inside their inputs. Extra `claude-agent-sdk`.

    async with EarlyTools([make_file]) as early:
        options = early.options(ClaudeAgentOptions())
        async for message in early.follow(query(prompt="Write a poem into a file.", options=options)):
            print(message)

If you only watch, use `AgentInputs`. It reads the partial messages (`include_partial_messages=True`) of the agent and
its sub-agents.

Claude Code itself starts each call at the end of its own input. `EarlyTools` starts tools with streaming parameters
before that.
"""

from __future__ import annotations

try:
    from ._early_tools import EarlyTools
    from ._inputs import AgentInputs
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith(("claude_agent_sdk", "mcp")):
        raise
    from eagerstream.errors import MissingExtraError

    raise MissingExtraError("claude-agent-sdk", "claude-agent-sdk", package="eagerstream-adapters") from _error

__all__ = ["AgentInputs", "EarlyTools"]
