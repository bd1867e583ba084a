"""Names of all attributes and metrics: OpenTelemetry's conventions for generative AI, and eagerstream's own names.

The conventions are in development. This module has two versions of them:

- `INSTALLED`: semantic-conventions 1.41, the last release that defines them itself. The package
  `opentelemetry-semantic-conventions` has these names (`opentelemetry.semconv._incubating`).
- `LATEST`: semantic-conventions-genai, their new repository, as implemented by `opentelemetry-util-genai` 1.3b0.

`INSTALLED` is the default. `OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` selects `LATEST`. The
conventions' transition plan asks instrumentations that emitted 1.36 or older to keep it as the default, so that
consumers do not break. This instrumentation never emitted it. Its default has `gen_ai.provider.name`, like the spans of
the anthropic package that nest in its own. It does not have `gen_ai.system`, which 1.37 replaced.

Sources: docs/gen-ai/gen-ai-spans.md, gen-ai-agent-spans.md, gen-ai-metrics.md and anthropic.md of either repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
"""Variable that selects newer names: values separated by commas."""
LATEST_VALUE: Final = "gen_ai_latest_experimental"
"""Value of the variable for the conventions of generative AI."""

# --- names in both versions -------------------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
EXCEPTION: Final = "exception"  # an event of a span
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"
OUTPUT_TYPE: Final = "gen_ai.output.type"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"  # a double in the registry
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_STREAM: Final = "gen_ai.request.stream"

RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds

# The conventions include cached tokens in the input tokens; the API counts them apart. Source: anthropic.md.
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
COUNTED_TYPE: Final = "gen_ai.token.type"

# Contents are "Opt-In" in the conventions. The shapes: gen-ai-input-messages.json, gen-ai-output-messages.json.
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
FUNCTION: Final = "function"
"""Type of a tool that the client runs."""
OTHER: Final = "_other"
"""Replacement for a tool name that the request does not have: a model can write any number of names."""
OTHER_ERROR: Final = "_OTHER"
"""Replacement for an error type that does not look like a name (general/recording-errors.md)."""

# Finish reasons of an output message in the conventions, by the API's stop reasons. The span attribute keeps the API's.
FINISH_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
USAGE: Final = "gen_ai.client.token.usage"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"

DURATION_BUCKETS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
"""Both as gen-ai-metrics.md recommends."""

# --- names that differ ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """Names that differ between the versions. With `None`, the version has no such name, and nothing is emitted.

    Attributes:
        schema_url: URL of the version's schema, if one is published.
        cache_write: Input tokens that were written to the cache ("creation" in 1.41).
        reasoning_level: Requested thinking effort (`output_config.effort`).
        tool_duration: Metric of the duration of a tool, in seconds.
        agent_duration: Metric of the duration of a run, in seconds.
    """

    schema_url: str | None
    cache_write: str
    reasoning_level: str | None = None
    tool_duration: str | None = None
    agent_duration: str | None = None


INSTALLED: Final = Conventions(
    schema_url="https://opentelemetry.io/schemas/1.41.1",
    cache_write="gen_ai.usage.cache_creation.input_tokens",
)
LATEST: Final = Conventions(
    schema_url=None,
    cache_write="gen_ai.usage.cache_write.input_tokens",
    reasoning_level="gen_ai.request.reasoning.level",
    tool_duration="gen_ai.execute_tool.duration",
    agent_duration="gen_ai.invoke_agent.duration",
)

AGENT_BUCKETS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)


def conventions(environment: Mapping[str, str]) -> Conventions:
    """Return the version that the environment variables select."""
    asked = {value.strip().lower() for value in environment.get(OPT_IN, "").split(",")}
    return LATEST if LATEST_VALUE in asked else INSTALLED


# --- eagerstream's names ----------------------------------------------------------------------------------------------

SCOPE: Final = "eagerstream"
"""Instrumentation scope of all spans and metrics."""

RUN_ID: Final = "eagerstream.run.id"
"""Id of a run in a journal: the spans of all processes that continue it have the same."""
RUN_RESUMED_AFTER: Final = "eagerstream.run.resumed_after"
"""Number of turns that earlier processes had settled, if the run was resumed."""
RUN_STATUS: Final = "eagerstream.run.status"
RUN_TURNS: Final = "eagerstream.run.turns"
RUN_VIOLATIONS: Final = "eagerstream.run.violations"
"""Number of violations of the protocol by the peer."""
TOOL_RAN: Final = "eagerstream.tool.ran"
"""`False` on the span of a call that was answered without running its tool."""

TIME_TO_FIRST_FRAGMENT: Final = "eagerstream.tool_input.time_to_first_fragment"
INPUT_DURATION: Final = "eagerstream.tool_input.duration"
INPUT_FRAGMENTS: Final = "eagerstream.tool_input.fragments"
INPUT_SIZE: Final = "eagerstream.tool_input.size"
LEAD_TIME: Final = "eagerstream.tool.lead_time"
LAG_TIME: Final = "eagerstream.tool.lag_time"
"""Negative lead times, as amounts: a histogram of OpenTelemetry takes no negative values."""

# Fragments of an input can arrive within milliseconds; the longest inputs take minutes.
INPUT_BUCKETS_S: Final = (0.001, 0.005, *DURATION_BUCKETS_S, 163.84, 327.68)
COUNT_BUCKETS: Final = tuple(4**power for power in range(12))
"""Bucket bounds for fragments and for characters, up to four million."""
