"""Adapters to the objects of other libraries. Import each module by itself; most need an extra.

- `eagerstream_adapters.langchain`: chunks of chat models, tools in both directions, and a LangGraph node that
  starts tools early (extra `langgraph`).
- `eagerstream_adapters.pydantic_ai`: agents that start tools early (extra `pydantic-ai`).
- `eagerstream_adapters.openai`: deltas of OpenAI's protocol, from any server that speaks it (no extra).
- `eagerstream_adapters.tool_call_chunks`: tool calls in pieces, as wire events (no extra).
- `eagerstream_adapters.mcp`: tools of MCP servers (extra `mcp`).
- `eagerstream_adapters.claude_agent_sdk`: growing inputs of Claude Code, and tools that start inside their inputs
  (extra `claude-agent-sdk`).
- `eagerstream_adapters.otel`: OpenTelemetry traces and metrics (extra `otel`).
"""
