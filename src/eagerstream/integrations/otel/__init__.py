"""Traces and metrics by OpenTelemetry; needs the extra `otel`.

::

    from eagerstream.integrations.otel import instrument

    instrument()  # the providers are those of the SDK, however it is set up

Spans: `invoke_agent` for a run, in it `chat {model}` for each request, and `execute_tool {name}` for each call. The
client's own spans, what tools trace, and what is done elsewhere for them nest in these: one trace. Metrics: duration,
tokens and time to the first chunk of requests; of tool inputs the time to the first fragment, the duration, the number
of fragments and the size, and by how much tools began before the end of the reply. The names: `conventions`.

Nothing that was said is in any of it, unless asked for by `capture_content`.

The headers that carry a trace are written by the client of the anthropic package; those of an `HTTPTransport` by what
instruments its HTTP library (`opentelemetry-instrumentation-httpx`). Calls of a `Conversation` that is driven by hand
have no spans: only its streams have.
"""

from __future__ import annotations

try:
    from ._instrumentation import Instrumentation, instrument, tracing, uninstrument
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    from ...errors import MissingExtraError

    raise MissingExtraError("otel", "opentelemetry-api") from error

__all__ = ["Instrumentation", "instrument", "tracing", "uninstrument"]
