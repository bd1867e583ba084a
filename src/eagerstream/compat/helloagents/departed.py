"""What HelloAgents has beside its tools, and what does the same here."""

from __future__ import annotations

from typing import Final

_LOOP: Final = "the loop is eagerstream.run(client, tools=registry.to_tools(), ...)"
_CLIENT: Final = (
    "give eagerstream.run a client of the anthropic package, anthropic.AsyncAnthropic(), or an HTTPTransport"
)
_HISTORY: Final = "messages are plain dicts, and run.result.messages is the history to go on from"
_CONTEXT: Final = "the request's own arguments are the context: system=... and messages=[...] of eagerstream.run"
_SUBAGENT: Final = (
    "call eagerstream.run inside a tool, with other messages and tools=registry.to_tools(filter=ReadOnlyFilter())"
)
_OWN_TOOL: Final = "write it as a tool of your own, a class that derives from eagerstream.compat.helloagents.Tool"
_ERRORS: Final = "exceptions derive from eagerstream.EagerStreamError, and those of a tool become its ToolResponse"

INSTEAD: Final = {
    **dict.fromkeys(
        (
            "Agent",
            "FunctionCallAgent",
            "PlanAndSolveAgent",
            "PlanSolveAgent",
            "ReActAgent",
            "ReflectionAgent",
            "SimpleAgent",
        ),
        _LOOP,
    ),
    **dict.fromkeys(("HelloAgentsLLM", "LLMResponse", "StreamStats"), _CLIENT),
    **dict.fromkeys(("HistoryManager", "Message", "SessionStore"), _HISTORY),
    **dict.fromkeys(("TaskTool", "create_agent", "default_subagent_factory"), _SUBAGENT),
    **dict.fromkeys(
        (
            *("CATEGORIES", "DevLogEntry", "DevLogStore", "DevLogTool", "SkillLoader", "SkillTool"),
            *("TodoItem", "TodoList", "TodoWriteTool"),
        ),
        _OWN_TOOL,
    ),
    "Config": "settings are arguments: of eagerstream.run, eagerstream.Limits and CircuitBreaker",
    **dict.fromkeys(("ContextBuilder", "ContextConfig", "ContextPacket"), _CONTEXT),
    "TokenCounter": "run.result.usage has the tokens that the API counted",
    "HelloAgentsException": _ERRORS,
}
"""By name: what takes its place."""


def departed(name: str) -> Exception:
    """What to raise where a module is asked for a name that it does not have.

    An `ImportError` where the name was one of HelloAgents: of an `AttributeError`, `from ... import` would not show the
    text.
    """
    if name in INSTEAD:
        return ImportError(f"{name} of HelloAgents is not part of eagerstream: {INSTEAD[name]}", name=name)
    return AttributeError(f"eagerstream.compat.helloagents has no {name!r}")
