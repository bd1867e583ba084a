"""Every name that traces and metrics have: OpenTelemetry's conventions for generative AI, and our own beside them.

The conventions are in development. Two versions of them are known here:

- `INSTALLED`, of semantic-conventions 1.41, the last release that defines them itself; the names that the package
  `opentelemetry-semantic-conventions` has (`opentelemetry.semconv._incubating`);
- `LATEST`, of semantic-conventions-genai, where they have moved to, as `opentelemetry-util-genai` 1.3b0 has them.

`INSTALLED` is the default; `OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` asks for the other. The
conventions' transition plan asks instrumentations that emitted 1.36 or older to go on with it by default, so that what
reads them does not break. This one never did: its default has `gen_ai.provider.name`, as the spans of the anthropic
package have that nest in its own, and not the `gen_ai.system` that 1.37 replaced.

Sources: docs/gen-ai/gen-ai-spans.md, gen-ai-agent-spans.md, gen-ai-metrics.md and anthropic.md of either repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
"""The variable that asks for newer names: values between commas."""
LATEST_VALUE: Final = "gen_ai_latest_experimental"
"""The value among them that asks for those of generative AI."""

# --- what both versions have ------------------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
OUTPUT_TYPE: Final = "gen_ai.output.type"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"  # a double, says the registry
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_STREAM: Final = "gen_ai.request.stream"

RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds

# The conventions count cached tokens into the input tokens; the API counts them apart. Source: anthropic.md.
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
COUNTED_TYPE: Final = "gen_ai.token.type"

# Contents: "Opt-In" in the conventions. The shapes: gen-ai-input-messages.json, gen-ai-output-messages.json.
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
"""The type of a tool that the client runs."""
OTHER: Final = "_other"
"""Stands for the name of a tool that the request does not have: names are written by a model, without end."""
OTHER_ERROR: Final = "_OTHER"
"""Stands for an error whose name is no such (general/recording-errors.md)."""

# The API's stop reasons, in the conventions' words for an output message; the attribute has the API's own.
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
"""Both as gen-ai-metrics.md wants them."""

# --- what differs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """The names that are not the same in both versions; None: the version has none, and nothing is emitted.

    Attributes:
        schema_url: Of the version, where it has a published one.
        cache_write: Input tokens that were written to the cache; what 1.41 calls creation.
        reasoning_level: How much the model was asked to think (`output_config.effort`).
        tool_duration: A metric, in seconds: how long a tool ran.
        agent_duration: A metric, in seconds: how long a run took.
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
    """The version that the environment asks for."""
    asked = {value.strip().lower() for value in environment.get(OPT_IN, "").split(",")}
    return LATEST if LATEST_VALUE in asked else INSTALLED


# --- ours -------------------------------------------------------------------------------------------------------------

SCOPE: Final = "eagerstream"
"""The instrumentation scope of all spans and metrics."""

RUN_STATUS: Final = "eagerstream.run.status"
RUN_TURNS: Final = "eagerstream.run.turns"
RUN_VIOLATIONS: Final = "eagerstream.run.violations"
"""Number of violations of the protocol by the peer."""
TOOL_RAN: Final = "eagerstream.tool.ran"
"""False on the span of a call that was answered without its tool."""

TIME_TO_FIRST_FRAGMENT: Final = "eagerstream.tool_input.time_to_first_fragment"
INPUT_DURATION: Final = "eagerstream.tool_input.duration"
INPUT_FRAGMENTS: Final = "eagerstream.tool_input.fragments"
INPUT_SIZE: Final = "eagerstream.tool_input.size"
LEAD_TIME: Final = "eagerstream.tool.lead_time"

# Fragments of an input come within milliseconds, too; the longest inputs take minutes.
INPUT_BUCKETS_S: Final = (0.001, 0.005, *DURATION_BUCKETS_S, 163.84, 327.68)
COUNT_BUCKETS: Final = tuple(4**power for power in range(12))
"""Of fragments, and of characters: up to four million."""
