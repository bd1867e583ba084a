"""Adapters to what other people made; each is imported by itself, and needs the extra of its name.

- `eagerstream.integrations.langchain`: chat models' chunks, tools both ways, and a LangGraph node that starts tools
  early (extra `langchain`).
- `eagerstream.integrations.pydantic_ai`: agents whose tools begin early (extra `pydantic-ai`).
- `eagerstream.integrations.openai`: the deltas of OpenAI's protocol, whoever speaks it (no extra).
- `eagerstream.integrations.mcp`: the tools of MCP servers (extra `mcp`).
- `eagerstream.integrations.claude_agent_sdk`: inputs of Claude Code as they grow, and tools begun inside theirs (extra
  `claude-agent-sdk`).
- `eagerstream.integrations.ray`: tools that run on a Ray cluster (extra `ray`).
- `eagerstream.integrations.otel`: traces and metrics by OpenTelemetry (extra `otel`).
"""
