"""Names of the older libraries that are not here, and what does the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOOP: Final = "the loop is eagerstream.run(client, tools=registry.to_tools(), ...)"
_CLIENT: Final = (
    "give eagerstream.run a client of the anthropic package, anthropic.AsyncAnthropic(), or an HTTPTransport"
)
_HISTORY: Final = "messages are plain dicts, and run.result.messages is the history to go on from"
_SUBAGENT: Final = (
    "call eagerstream.run inside a tool, with other messages and tools=registry.to_tools(filter=ReadOnlyFilter())"
)
_CONTEXT: Final = "the request's own arguments are the context: system=... and messages=[...] of eagerstream.run"
_OWN_TOOL: Final = "write it as a tool of your own, a class that derives from eagerstream.compat.helloagents.Tool"
_LATENCY: Final = "run.result.usage has the tokens, and run.latency the times"
_SESSION: Final = (
    "save Message.to_dict() of agent.get_history(), or agent.result.to_json(): RunResult.from_json(...) continues it"
)
_SKILL: Final = "return the text of the file from a tool of your own, or name it in system_prompt"
_TOKENS: Final = "run.result.usage has the tokens that the API counted"
_ERRORS: Final = "exceptions derive from eagerstream.EagerStreamError, and those of a tool become its ToolResponse"

_OF_HELLOAGENTS: Final = {
    **dict.fromkeys(
        (
            "FunctionCallAgent",
            "PlanAndSolveAgent",
            "PlanSolveAgent",
            "ReflectionAgent",
        ),
        _LOOP,
    ),
    **dict.fromkeys(("LLMResponse", "StreamStats"), _CLIENT),
    **dict.fromkeys(("HistoryManager", "SessionStore"), _HISTORY),
    **dict.fromkeys(("TaskTool", "create_agent", "default_subagent_factory"), _SUBAGENT),
    **dict.fromkeys(
        (
            *("CATEGORIES", "DevLogEntry", "DevLogStore", "DevLogTool", "SkillLoader", "SkillTool"),
            *("TodoItem", "TodoList", "TodoWriteTool"),
        ),
        _OWN_TOOL,
    ),
    **dict.fromkeys(("ContextBuilder", "ContextConfig", "ContextPacket"), _CONTEXT),
    "TokenCounter": "run.result.usage has the tokens that the API counted",
    "HelloAgentsException": _ERRORS,
}

_OF_ANTHROPIC_TOOLS: Final = {
    "ElasticsearchSearchTool": (
        "give BackendSearchTool an object whose search(query, count) asks the client of Elasticsearch"
    ),
    "HuggingFaceEmbedder": "write a class with embed(text) and embed_batch(texts), see BaseEmbedder",
    "PineconeVectorStore": (
        "write a class with upsert(embeddings) and query(query_embedding, n_search_results_to_use) around the client "
        "of Pinecone, see BaseVectorStore; InMemoryVectorStore does for tests and small programs"
    ),
    "construct_format_tool_for_claude_prompt": "a tool's own format_tool_for_claude() gives that text",
    "upload_to_elasticsearch": "use elasticsearch.helpers.bulk, of the client of Elasticsearch",
}

INSTEAD: Final[Mapping[str, Mapping[str, str]]] = {
    "eagerstream.compat.anthropic_tools": _OF_ANTHROPIC_TOOLS,
    "eagerstream.compat.helloagents": _OF_HELLOAGENTS,
}
"""By package and name: what takes its place."""


_ASK: Final = "ask with SimpleAgent(name, llm).run(text), or with eagerstream.run(client, **llm.request(), ...)"

INSTEAD_OF_ATTRIBUTES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ainvoke", "ainvoke_with_tools", "invoke", "invoke_with_tools", "think"), _ASK),
    **dict.fromkeys(("astream_invoke", "stream_invoke"), _ASK),
    "last_call_stats": _LATENCY,
    **dict.fromkeys(("list_sessions", "load_session", "save_session", "session_store"), _SESSION),
    "history_manager": _HISTORY,
    "run_as_subagent": _SUBAGENT,
    "skill_loader": _SKILL,
    "token_counter": _TOKENS,
    "truncator": "call ObservationTruncator in the tool whose output is too long",
}
"""The replacement of each attribute of agents and of `HelloAgentsLLM`, by name."""


def departed(package: str, name: str) -> Exception:
    """What to raise where a package is asked for a name that it does not have.

    An `ImportError` where the older library has the name: of an `AttributeError`, `from ... import` would not show the
    text.
    """
    instead = INSTEAD[package].get(name)
    if instead is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    return ImportError(f"{package} has no {name}: {instead}", name=package)


def departed_attribute(owner: object, name: str) -> AttributeError:
    """Return the exception to raise if an object has no such attribute."""
    kind = type(owner).__name__
    instead = INSTEAD_OF_ATTRIBUTES.get(name)
    told = f"{kind!r} object has no attribute {name!r}" if instead is None else f"{kind} has no {name}: {instead}"
    return AttributeError(told, name=name, obj=owner)
