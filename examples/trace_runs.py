"""Trace a run as a tree of its requests, its tools and their own spans, without sending anything.

Needs: `eagerstream-adapters[otel]` and `eagerstream[testing]`, and the package opentelemetry-sdk.

Usage:
    python trace_runs.py
"""

from collections.abc import Sequence

import eagerstream
from eagerstream_adapters.otel import instrument
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, text, tool_use

import anyio
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

tracer = trace.get_tracer("weather")


@eagerstream.tool
async def get_weather(city: str) -> str:
    """Return the current weather in a city."""
    with tracer.start_as_current_span("look it up"):
        await anyio.sleep(0.1)
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"{city}: 15 degrees"


def show(spans: Sequence[ReadableSpan], parent: int | None = None, indent: str = "") -> None:
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if (span.parent.span_id if span.parent else None) == parent and span.context is not None:
            took_ms = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
            error = (span.attributes or {}).get("error.type", "")
            print(f"{indent}{span.name}  {took_ms:.0f} ms  {error}".rstrip())
            show(spans, span.context.span_id, indent + "  ")


async def main() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)  # a real program exports its spans, for example by OTLP
    instrument()
    calls = reply(*(tool_use("get_weather", {"city": city}) for city in ("Oslo", "Atlantis", "Lima")))
    scenario = Scenario(calls, reply(text("15 degrees.")), timing=Timing(tokens_per_second=200))
    question: MessageParam = {"role": "user", "content": "How is the weather in Oslo, Atlantis and Lima?"}
    async with (
        ReplayServer(scenario) as server,
        AsyncAnthropic(base_url=server.base_url, api_key="none") as client,
        eagerstream.run(client, model="m", max_tokens=1024, tools=[get_weather], messages=[question]) as run,
    ):
        await run.finish()
    show(exporter.get_finished_spans())


if __name__ == "__main__":
    anyio.run(main)
