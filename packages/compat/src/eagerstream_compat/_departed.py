"""Names of the older libraries that do not exist here, and their replacements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LATENCY: Final = "run.result.usage has the tokens, and run.latency the times"
_HISTORY: Final = "an agent keeps its own history: add_message, get_history and clear_history"
_SESSION: Final = (
    "save Message.to_dict() of agent.get_history(), or agent.result.to_json(): RunResult.from_json(...) continues it"
)
_SUBAGENT: Final = (
    "call eagerstream.run inside a tool, with other messages and the tools of registry.to_tools() that it may use"
)
_EVENTS: Final = (
    "iterate over the events of eagerstream.run(client, tools=registry.to_tools(), **llm.request(), messages=[...]), "
    "or serve them with eagerstream_progress"
)
_FILTERS: Final = "give the run those tools of registry.to_tools() that it may use"
_TRUNCATOR: Final = "call eagerstream_toolkit.truncate_output in the tool whose output is too long"
_SKILL: Final = "return the text of the file from a tool of your own, or name it in system_prompt"
_TOKENS: Final = "run.result.usage has the tokens that the API counted"

_OF_HELLOAGENTS: Final = {
    "FunctionCallAgent": "use ReActAgent or SimpleAgent: both call tools",
    "PlanAndSolveAgent PlanSolveAgent Planner Executor Memory ReflectionAgent": (
        "call a SimpleAgent several times, with other instructions each time, or eagerstream.run"
    ),
    "DEFAULT_REACT_SYSTEM_PROMPT": "ReActAgent needs no instructions; give it yours as system_prompt",
    "AnthropicAdapter BaseLLMAdapter GeminiAdapter OpenAIAdapter create_adapter": (
        "give eagerstream.run a client of the anthropic package, anthropic.AsyncAnthropic(), or an HTTPTransport"
    ),
    "LLMResponse LLMToolResponse": "agent.result or run.result has the message, the calls, the usage and the status",
    "ToolCall": "eagerstream.tools.ToolCall is a call of a run, with its input and its result",
    "StreamStats": _LATENCY,
    """
AgentEvent EventType ExecutionContext LifecycleHook StreamBuffer StreamEvent StreamEventType stream_to_json
stream_to_sse
""": _EVENTS,
    "CustomFilter FullAccessFilter ReadOnlyFilter ToolFilter": _FILTERS,
    "ObservationTruncator": _TRUNCATOR,
    "HistoryManager": _HISTORY,
    "MessageRole": 'the role of a Message is "user" or "assistant"',
    "SessionStore": _SESSION,
    "TaskTool create_agent default_subagent_factory": _SUBAGENT,
    "CATEGORIES DevLogEntry DevLogStore DevLogTool TodoItem TodoList TodoWriteTool": (
        "write it as a tool of your own, a class that derives from eagerstream_compat.helloagents.Tool"
    ),
    "Skill SkillLoader SkillTool": _SKILL,
    "ContextBuilder ContextConfig ContextPacket": (
        "the request's own arguments are the context: system=... and messages=[...] of eagerstream.run"
    ),
    "TokenCounter count_tokens": _TOKENS,
    "AgentException ConfigException HelloAgentsException LLMException ToolException": (
        "exceptions derive from eagerstream.EagerStreamError, and those of a tool become its ToolResponse"
    ),
    "__author__ __description__ __email__ __version__": (
        'importlib.metadata describes this library: version("eagerstream")'
    ),
}

_VECTORS: Final = (
    "give BackendSearchTool an object whose search(query, count) embeds the query, and asks the client of your store"
)

_OF_ANTHROPIC_TOOLS: Final = {
    "ElasticsearchSearchTool": (
        "give BackendSearchTool an object whose search(query, count) asks the client of Elasticsearch"
    ),
    "BraveAPI": "BraveSearchTool sends the requests itself",
    "BaseEmbedder BaseVectorStore DEFAULT_EMBEDDER DEFAULT_SPARSE_EMBEDDER Embedding HuggingFaceEmbedder": _VECTORS,
    "DATA_FILE Document PineconeVectorStore VectorSearchTool chunk_document embed_and_upload": _VECTORS,
    "construct_format_sql_tool_for_claude_prompt construct_format_tool_for_claude_prompt": (
        "a tool's own format_tool_for_claude() gives that text"
    ),
    """
construct_error_function_run_injection_prompt construct_format_parameters_prompt construct_prompt_from_messages
construct_successful_function_run_injection_prompt construct_tool_use_system_prompt construct_use_tools_prompt
""": "the API takes tools and calls as data: eagerstream.run builds the requests",
    """
MiniCompletion construct_tool_inputs_message construct_tool_outputs_message convert_completion_to_messages
convert_messages_completion_object_to_completions_completion_object
""": "responses need no conversion: from_history and to_history convert whole conversations",
    "upload_to_elasticsearch": "use elasticsearch.helpers.bulk, of the client of Elasticsearch",
    "validate_messages": "check_messages does the same",
}

_OF_AGENTS: Final = {
    "ainvoke ainvoke_with_tools astream_invoke invoke invoke_with_tools stream_invoke think": (
        "ask with SimpleAgent(name, llm).run(text), or with eagerstream.run(client, **llm.request(), ...)"
    ),
    "arun_stream": _EVENTS,
    "last_call_stats": _LATENCY,
    "list_sessions load_session save_session session_store": _SESSION,
    "history_manager": _HISTORY,
    "run_as_subagent": _SUBAGENT,
    "skill_loader": _SKILL,
    "token_counter": _TOKENS,
    "truncator": _TRUNCATOR,
}


def _by_name(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each name, from a table with names between blanks as keys."""
    return {name: text for names, text in texts.items() for name in names.split()}


INSTEAD: Final[Mapping[str, Mapping[str, str]]] = {
    "eagerstream_compat.anthropic_tools": _by_name(_OF_ANTHROPIC_TOOLS),
    "eagerstream_compat.helloagents": _by_name(_OF_HELLOAGENTS),
}
"""The replacement of each name, by package and name."""

INSTEAD_OF_ATTRIBUTES: Final = _by_name(_OF_AGENTS)
"""The replacement of each attribute of agents and of `HelloAgentsLLM`, by name."""


def departed(package: str, name: str) -> Exception:
    """Return the exception to raise if a package has no such name.

    It is an `ImportError` if the older library has the name, because `from ... import` would not show the text of an
    `AttributeError`.
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
