"""Adapters to the objects of other libraries. Import each module by itself; most need an extra.

- `eagerstream.integrations.langchain`: chunks of chat models, tools in both directions, and a LangGraph node that
  starts tools early (extra `langchain`).
- `eagerstream.integrations.pydantic_ai`: agents that start tools early (extra `pydantic-ai`).
- `eagerstream.integrations.openai`: deltas of OpenAI's protocol, from any server that speaks it (no extra).
- `eagerstream.integrations.tool_call_chunks`: tool calls in pieces, as wire events (no extra).
- `eagerstream.integrations.mcp`: tools of MCP servers (extra `mcp`).
- `eagerstream.integrations.claude_agent_sdk`: growing inputs of Claude Code, and tools that start inside their inputs
  (extra `claude-agent-sdk`).
- `eagerstream_durable.ray`: tools that run on a Ray cluster (extra `ray`).
- `eagerstream_durable.dbos`: runs in workflows of DBOS (extra `dbos`).
- `eagerstream_durable.temporal`: runs in activities of Temporal (extra `temporal`).
- `eagerstream.integrations.otel`: OpenTelemetry traces and metrics (extra `otel`).
"""
