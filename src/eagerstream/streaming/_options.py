"""The options of a request and of reading its response: each has its type, its meaning and its default here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, cast

from eagerstream_wire import INVALID_JSON, ParserFactory, PartialJSON

from ..errors import UsageError
from ..limits import Limits
from ._delivery import Delivery
from ._event_buffer import BufferMode, EventBuffer
from ._marks import Clock
from ._output_format import OutputMode
from ._thinning import Thinning

if TYPE_CHECKING:  # importing anthropic takes seconds
    from anthropic.types.anthropic_beta_param import AnthropicBetaParam
    from anthropic.types.beta import (
        BetaBillingPolicyParam,
        BetaCacheControlEphemeralParam,
        BetaCompactionConfigParam,
        BetaContextManagementConfigParam,
        BetaDiagnosticsParam,
        BetaFallbacksParam,
        BetaMessageThreadParam,
        BetaMetadataParam,
        BetaOutputConfigParam,
        BetaRequestMCPServerURLDefinitionParam,
        BetaTextBlockParam,
        BetaThinkingConfigParam,
        BetaToolChoiceParam,
    )
    from anthropic.types.beta.message_create_params import Container, FallbackCreditToken
else:  # for `typing.get_type_hints`, which looks the names up here
    AnthropicBetaParam = BetaBillingPolicyParam = BetaCacheControlEphemeralParam = BetaCompactionConfigParam = Any
    BetaContextManagementConfigParam = BetaDiagnosticsParam = BetaFallbacksParam = BetaMessageThreadParam = Any
    BetaMetadataParam = BetaOutputConfigParam = BetaRequestMCPServerURLDefinitionParam = BetaTextBlockParam = Any
    BetaThinkingConfigParam = BetaToolChoiceParam = Container = FallbackCreditToken = Any

T = TypeVar("T")


class RequestParameters(TypedDict, total=False):
    """The parameters of the Messages API other than the model, `max_tokens`, the messages and the tools.

    They are sent as they are. A parameter that the API knows and this list does not goes into `extra_body`.

    Attributes:
        extra_body, extra_headers, extra_query, timeout: As for a request of the anthropic package.
    """

    betas: Iterable[AnthropicBetaParam]
    billing_policy: BetaBillingPolicyParam | None
    cache_control: BetaCacheControlEphemeralParam | None
    compaction: BetaCompactionConfigParam | None
    container: Container | str | None
    context_management: BetaContextManagementConfigParam | None
    diagnostics: BetaDiagnosticsParam | None
    fallback_credit_token: FallbackCreditToken | None
    fallbacks: BetaFallbacksParam | None
    inference_geo: str | None
    mcp_servers: Iterable[BetaRequestMCPServerURLDefinitionParam]
    metadata: BetaMetadataParam
    output_config: BetaOutputConfigParam
    service_tier: Literal["auto", "standard_only"]
    speed: Literal["standard", "fast"] | None
    stop_sequences: Iterable[str]
    system: str | Iterable[BetaTextBlockParam]
    temperature: float
    thinking: BetaThinkingConfigParam
    thread: BetaMessageThreadParam | None
    tool_choice: BetaToolChoiceParam
    top_k: int
    top_p: float
    user_profile_id: str
    workspace_id: str
    extra_body: Mapping[str, Any]
    extra_headers: Mapping[str, str]
    extra_query: Mapping[str, Any]
    timeout: object


class OutputOptions(TypedDict, total=False):
    """The options for JSON in the text of a response.

    Attributes:
        output_mode: The way in which the model is asked for the JSON of `output`. `"native"` (default): the request has
            `output_config.format`, and the text must be the JSON alone. `"prompted"`: nothing is sent, because your
            prompt asks for it, for servers and models without that feature. Then the JSON is the text itself, if that
            starts with a bracket, or the contents of its one fenced block.
    """

    output_mode: OutputMode


class InputOptions(TypedDict, total=False):
    """The options for parsing and echoing tool inputs.

    Attributes:
        parser: Makes the parser of each tool input; `PartialJSON` by default.
        invalid_key: The key under which an input that is not usable is echoed: `{"INVALID_JSON": raw}` by default.
    """

    parser: ParserFactory
    invalid_key: str


class FeedOptions(TypedDict, total=False):
    """The options for handing events to their consumer.

    Attributes:
        buffer: The reaction when more than 256 events wait for the consumer: `"merge"` (default) merges deltas of the
            same block, `"wait"` stops the reading until there is room.
        min_interval_s: Least time in seconds between two `InputDelta`s of an input, 0 by default. No text is lost, and
            the last one comes before the `InputStop`.
        min_chars: Least number of characters of an `InputDelta`, except the last; 0 by default.
        pings: The events have a `Ping` for each sign of life that the API sends while the model writes nothing, for
            consumers who must tell a model that thinks from a dead connection; False by default. `idle_s` of the stream
            or the run is the age of the last byte. A peer that is silent for too long is given up without them, see
            `Limits`.
        clock: Returns the time for the marks, in seconds; never falling. `time.monotonic` by default.
        eager_fallback: The reaction if the API refuses `eager_input_streaming`, a field that some platforms do not take
            for some models. `"auto"` (default): the request is sent once more with the beta that came before the field
            (`fine-grained-tool-streaming-2025-05-14`), which holds for all its tools. If that is refused, too, or if
            some tool has `eager_input_streaming: false`, which the beta cannot express, the request goes without either
            of them, and its inputs arrive buffered. A warning is logged, the client's next requests to that model start
            with the accepted form, and `eager` of the stream or the run has it. If you send that beta yourself, it
            stays. None: the refusal is raised.
    """

    buffer: BufferMode
    min_interval_s: float
    min_chars: int
    pings: bool
    clock: Clock
    eager_fallback: Literal["auto"] | None


class StreamOptions(RequestParameters, OutputOptions, InputOptions, FeedOptions, total=False):
    """The options of `stream`.

    Attributes:
        eager: Add `eager_input_streaming: true` to each user-defined tool whose definition does not have the field;
            True by default. An explicit `false` wins. If False, definitions are sent unchanged.
        limits: Bounds on the response and its inputs.
    """

    eager: bool
    limits: Limits


class SourceOptions(OutputOptions, InputOptions, FeedOptions, total=False):
    """The options of `events`.

    Attributes:
        limits: Bounds on the response and its inputs.
    """

    limits: Limits


INPUT_DEFAULTS: Final[InputOptions] = {"parser": PartialJSON, "invalid_key": INVALID_JSON}
FEED_DEFAULTS: Final[FeedOptions] = {
    # Merged, because by default a slow consumer must slow nobody else: reading and tools continue, and no text is lost.
    "buffer": "merge",
    "min_interval_s": 0.0,
    "min_chars": 0,
    "pings": False,
    "clock": time.monotonic,
    "eager_fallback": "auto",
}


def taken(options: dict[str, Any], defaults: T) -> T:
    """Remove the options of one group from `options`, and return them. Any that is not given has its default."""
    # Removed, so that what is left over at the end is for the API, whatever parameters it may have tomorrow.
    names = cast("Mapping[str, Any]", defaults)
    return cast("T", {name: options.pop(name, default) for name, default in names.items()})


def check_names(parameters: Iterable[str], options: type) -> None:
    """Raise an error for a parameter whose name looks like a misspelt one.

    Any other unknown name is sent: the API may know it.

    Args:
        parameters: Names that are about to be sent.
        options: The TypedDict of all names that the caller could have meant.

    Raises:
        UsageError: It says which name was probably meant.
    """
    known = options.__annotations__.keys() | {"model", "max_tokens", "messages", "tools", "output"}
    for name in parameters:
        if name not in known and (meant := get_close_matches(name, known, n=1, cutoff=0.75)):
            raise UsageError(f"{name} is unknown: did you mean {meant[0]}? If the API knows {name}, use extra_body")


def delivery_for(options: FeedOptions, limits: Limits) -> Delivery[Any]:
    """Return the way from the reader to the consumer.

    Raises:
        UsageError: An option is out of range.
    """
    buffer: EventBuffer[Any] = EventBuffer(mode=options["buffer"], maximum=limits.max_waiting_events)
    thinning = Thinning(buffer, min_interval_s=options["min_interval_s"], min_chars=options["min_chars"])
    thins = options["min_interval_s"] > 0 or options["min_chars"] > 0
    if not isinstance(options["pings"], bool):
        raise UsageError(f"pings must be True or False, not {options['pings']!r:.80}")
    return Delivery(buffer, thinning if thins else None, pings=options["pings"])
