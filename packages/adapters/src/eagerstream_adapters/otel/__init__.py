"""OpenTelemetry traces and metrics. Needs the extra `otel`.

::

    from eagerstream_adapters.otel import instrument

    instrument()  # uses the providers of the SDK, as you configured it

Spans: `invoke_agent` for a run. In it, `chat {model}` for each request and `execute_tool {name}` for each call. The
client's spans, the spans of tools and the spans of remote executors nest in these, so that each run is one trace.

Metrics of requests: duration, tokens and time to the first chunk. Metrics of tool inputs: time to the first fragment,
duration, number of fragments, and size. One more metric reports the time from the start of a tool to the end of the
response. `_conventions` has all names.

An exception that a tool did not mean for the model is an event of its span, with its class and the places in the code.
Its message may quote an argument, so it is left out.

Prompts, responses, arguments and results are recorded only if you set `capture_content`.

The client of the anthropic package writes the headers that carry a trace. For an `HTTPTransport`, the instrumentation
of its HTTP library writes them (`opentelemetry-instrumentation-aiohttp-client` or `-httpx`). If you drive a
`Conversation` by hand, its streams have spans and its calls have none.
"""

from __future__ import annotations

try:
    from ._instrumentation import Instrumentation, instrument, uninstrument
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("opentelemetry"):
        raise
    from eagerstream.errors import MissingExtraError

    raise MissingExtraError("otel", "opentelemetry-api", package="eagerstream-adapters") from _error

__all__ = ["Instrumentation", "instrument", "uninstrument"]
