"""The spans and the metrics of the SDK, in memory, for the tests of traces, and a client whose own spans go there, too."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic
from opentelemetry import context as otel_context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanContext
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.support import Piece, anthropic_http_library, whole_call

import eagerstream
from eagerstream import ToolError, tool
from eagerstream.loop import Run
from eagerstream.recordings import Recording
from eagerstream_adapters.otel._instrumentation import tracing
from eagerstream_testing import Faults, ReplayServer, Scenario, reply, text

CLIENT_TRACES = "open_telemetry" in inspect.signature(AsyncAnthropic.__init__).parameters
needs_client_spans = pytest.mark.skipif(not CLIENT_TRACES, reason="this version of the client has no spans of its own")


class _Counts(SpanProcessor):
    def __init__(self) -> None:
        self.started = 0
        self.ended = 0

    def on_start(self, span: Any, parent_context: otel_context.Context | None = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class Collected:
    """An SDK of its own, and what it was given.

    Attributes:
        tracer: For spans of the test itself.
    """

    def __init__(self, *, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self._counts = _Counts()
        self.tracer_provider = TracerProvider(sampler=sampler)
        self.tracer_provider.add_span_processor(self._counts)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meter_provider = MeterProvider([self.reader])
        self.tracer = self.tracer_provider.get_tracer("test")

    @contextmanager
    def tracing(self, *, capture_content: bool | None = None) -> Iterator[None]:
        """Runs are traced, and afterwards nothing is open."""
        with tracing(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, capture_content=capture_content
        ):
            yield
        assert self.open == 0

    @property
    def open(self) -> int:
        """Spans that have begun, and not ended."""
        return self._counts.started - self._counts.ended

    @property
    def started(self) -> int:
        """Spans that have begun."""
        return self._counts.started

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Those whose name begins so, in the order in which they began."""
        found = (span for span in self.exporter.get_finished_spans() if span.name.startswith(name))
        return sorted(found, key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        """The only one whose name begins so."""
        (span,) = self.spans(name)
        return span

    def children(self, parent: ReadableSpan) -> list[str]:
        """The names of the spans right below one."""
        return [span.name for span in self.spans() if span.parent and span.parent.span_id == id_of(parent)]

    def metrics(self) -> dict[str, Any]:
        """By name: the unit, and the data points."""
        data = self.reader.get_metrics_data()
        plain = json.loads(data.to_json()) if data is not None else {"resource_metrics": []}
        return {
            metric["name"]: {"unit": metric["unit"], "points": metric["data"]["data_points"]}
            for resource in plain["resource_metrics"]
            for scope in resource["scope_metrics"]
            for metric in scope["metrics"]
        }

    def points(self, name: str) -> list[dict[str, Any]]:
        """The data points of a metric; none where it was not recorded."""
        found: list[dict[str, Any]] = self.metrics().get(name, {"points": []})["points"]
        return found

    def everything(self) -> str:
        """All that was exported, as one text."""
        return "".join(span.to_json() for span in self.spans()) + json.dumps(self.metrics())

    def client(self, base_url: str) -> AsyncAnthropic:
        """The anthropic package's own client."""
        options: dict[str, Any] = {"open_telemetry": {"tracer_provider": self.tracer_provider}} if CLIENT_TRACES else {}
        http_client = anthropic_http_library().AsyncClient(verify=False)
        return AsyncAnthropic(api_key="k", base_url=base_url, max_retries=0, http_client=http_client, **options)

    @asynccontextmanager
    async def serving(
        self, *replies: Recording | Scenario, faults: Faults | None = None
    ) -> AsyncIterator[tuple[AsyncAnthropic, ReplayServer]]:
        """A client, and the server that it is answered by."""
        scenario = Scenario(*(each for each in replies if isinstance(each, Recording)))
        async with (
            ReplayServer(scenario, speed=float("inf"), faults=faults) as server,
            self.client(server.base_url) as client,
        ):
            yield client, server


def id_of(span: ReadableSpan) -> int:
    """Of a span, unique in its trace."""
    return _context_of(span).span_id


def trace_of(span: ReadableSpan) -> int:
    """The trace that a span is in."""
    return _context_of(span).trace_id


def _context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """The attributes of a span."""
    return span.attributes or {}


def parents(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> list[str]:
    """The names of the spans that one is in, the next one first."""
    by_id = {id_of(each): each for each in spans}
    names: list[str] = []
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names


def failed(span: ReadableSpan) -> str | None:
    """The type of a span's error; None where it has none. The status and the attribute agree, and quote nothing."""
    error = attributes(span).get("error.type")
    assert (error is not None) == (span.status.status_code.name == "ERROR")
    assert not span.status.description
    for event in span.events:
        assert event.name == "exception"
        assert event.attributes is not None
        assert event.attributes.keys() == {"exception.type", "exception.stacktrace"}  # no message
    return error


# --- what the tests run -----------------------------------------------------------------------------------------------

SLOWLY_S = 15
DONE = reply(text("Done."), message_id="msg_done")
AGENT, CHAT = "invoke_agent", f"chat {REQUEST['model']}"
CLIENT = "anthropic.messages.create"
"""The name that the client gives to its own span."""

END: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP]
CALL_NOW: list[Piece] = [message_start(), *whole_call(0, "now"), *END]


@tool
async def now() -> str:
    """The time."""
    return "noon"


@tool
async def fail(code: str | None = None) -> None:
    """Fail."""
    if code is not None:
        raise ToolError("no", code=code)
    raise ZeroDivisionError("no route")


async def finished(client: Any, *tools: Any, **parameters: Any) -> Run:
    """A run that came to its end, however."""
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **{**REQUEST, "restart_delay_s": 0, **parameters}, tools=tools) as run:
            await run.finish()
    return run


def assert_within(inner: ReadableSpan, outer: ReadableSpan) -> None:
    """A span lies in another."""
    times = [outer.start_time, inner.start_time, inner.end_time, outer.end_time]
    assert times == sorted(time for time in times if time is not None)
