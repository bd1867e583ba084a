"""From when on runs are traced, and with what: all, a block, without an SDK, with one that fails."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.metrics import Meter, MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider
from packages.adapters.tests.collected import (
    AGENT,
    CALL_NOW,
    CHAT,
    DONE,
    Collected,
    finished,
    now,
    parents,
    trace_of,
)
from tests.streams import REQUEST
from tests.support import LocalAPI
from tests.tables import rows

import eagerstream
from eagerstream import RunStatus
from eagerstream_adapters.otel import Instrumentation, instrument, uninstrument
from eagerstream_adapters.otel._instrumentation import tracing
from eagerstream_testing import (
    reply,
    tool_use,
)


@pytest.mark.anyio
async def test_sampled_off(collected: Collected) -> None:
    """Nothing is recorded, the peers are told so, and the metrics are kept all the same."""
    collected = Collected(sampler=ALWAYS_OFF)
    with collected.tracing():
        async with collected.serving(reply(tool_use("now", {})), DONE) as (client, server):
            run = await finished(client, now)
            headers = [request.headers.get("traceparent", "") for request in server.requests]
    assert run.result.status is RunStatus.COMPLETED
    assert collected.spans() == []
    assert all(header[-2:] in ("00", "02") for header in headers if header)  # the flag "sampled" is not set
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration["count"] == 2


@pytest.mark.anyio
async def test_instrument(collected: Collected) -> None:
    """For the whole process, once however often it is asked for, until it is undone; a block counts before it."""
    other = Collected()
    first = instrument(tracer_provider=other.tracer_provider)
    handle = instrument(tracer_provider=collected.tracer_provider)
    try:
        assert not first.is_active
        assert handle.is_active
        first.uninstrument()  # it was replaced: nothing to undo
        client = LocalAPI([DONE]).transport()
        await finished(client)
        assert len(collected.spans(AGENT)) == 1
        with other.tracing(), tracing(tracer_provider=other.tracer_provider):
            await finished(client)
        assert len(collected.spans(AGENT)) == len(other.spans(AGENT)) == 1
        handle.uninstrument()
        handle.uninstrument()
        await finished(client)
    finally:
        uninstrument()
    assert len(collected.spans(AGENT)) == len(other.spans(AGENT)) == 1
    assert collected.open == other.open == 0


@pytest.mark.anyio
async def test_without_an_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is not even observed: this is how it costs nothing. One that is switched off is as if there was none."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    handle = instrument()
    try:
        for block in (nullcontext(), Collected().tracing()):
            with block:
                async with eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST) as run:
                    assert run._delivery.observers == (run.marks,)
                    await run.finish()
    finally:
        handle.uninstrument()


@pytest.mark.anyio
async def test_an_sdk_that_is_set_up_later(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order does not matter: the global providers count as they are when a run is entered."""
    handle = instrument()
    try:
        api = LocalAPI([DONE])
        await finished(api.transport())
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", collected.tracer_provider)
        await finished(api.transport())
    finally:
        handle.uninstrument()
    assert [span.name for span in collected.spans()] == [AGENT, CHAT]
    assert collected.open == 0


@pytest.mark.slow
def test_runs_in_threads(collected: Collected) -> None:
    """Each is traced from the first one on, also those that begin while another makes the instruments."""
    at_once = threading.Barrier(6)

    def work(backend: str) -> None:
        at_once.wait()
        for _ in range(3):
            anyio.run(lambda: finished(LocalAPI(CALL_NOW, [DONE]).transport(), now), backend=backend)

    slow = SlowMeters(collected.meter_provider)
    handle = instrument(tracer_provider=collected.tracer_provider, meter_provider=slow)
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, ["asyncio", "trio"] * 3))
    finally:
        handle.uninstrument()
    assert len({trace_of(agent) for agent in collected.spans(AGENT)}) == 18
    assert all(parents(span, collected.spans()) == [AGENT] for span in collected.spans("execute_tool"))
    assert collected.open == 0


class SlowMeters(MeterProvider):
    """Lets other threads have their turn while it makes a meter."""

    def __init__(self, provider: MeterProvider) -> None:
        self._provider = provider

    def get_meter(self, *args: Any, **kwargs: Any) -> Meter:
        """See `MeterProvider.get_meter`."""
        time.sleep(0.05)
        return self._provider.get_meter(*args, **kwargs)


@pytest.mark.anyio
async def test_a_frozen_program(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not know which packages it is made of is traced all the same."""

    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("eagerstream_adapters.otel._instrumentation.version_of", unknown)
    with collected.tracing():
        await finished(LocalAPI([DONE]).transport())
    assert collected.span(AGENT).instrumentation_scope is not None


@pytest.mark.anyio
@pytest.mark.parametrize("part", ["chat.input_attributes", "chat.output_attributes", "observer.call_attributes"])
async def test_contents_that_cannot_be_written(
    part: str, collected: Collected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Should this fail, it costs the trace, and not the run."""

    def fails(_: Any) -> Any:
        raise RecursionError("a secret of the run")

    monkeypatch.setattr(f"eagerstream_adapters.otel._{part}", fails)
    with collected.tracing(capture_content=True):
        run = await finished(LocalAPI(CALL_NOW, [DONE]).transport(), now)
    assert run.result.status is RunStatus.COMPLETED
    assert collected.spans(AGENT)
    assert "RecursionError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.anyio
async def test_spans_alone(collected: Collected) -> None:
    """Without metrics, the spans are the same."""
    with tracing(tracer_provider=collected.tracer_provider, meter_provider=NoOpMeterProvider()):
        await finished(LocalAPI(CALL_NOW, [DONE]).transport(), now)
    assert sorted(span.name for span in collected.spans()) == sorted([AGENT, CHAT, CHAT, "execute_tool now"])
    assert collected.metrics() == {}


@pytest.mark.anyio
async def test_metrics_alone(collected: Collected) -> None:
    """Without spans, the metrics are the same."""
    with tracing(tracer_provider=NoOpTracerProvider(), meter_provider=collected.meter_provider):
        await finished(LocalAPI(CALL_NOW, [DONE]).transport(), now)
    assert collected.spans() == []
    assert sum(point["count"] for point in collected.points("gen_ai.client.operation.duration")) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["invoke_agent", "chat", "execute_tool"])
@pytest.mark.parametrize("hook", ["on_start", "on_end"])
async def test_a_processor_that_fails(
    when: str, hook: str, collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    """The run knows nothing of it, the log says so once and quotes nothing, and what had begun has ended."""

    class Fails(type(collected._counts)):  # type: ignore[misc]
        def _fail(self, span: Any) -> None:
            if span.name.startswith(when):
                raise ValueError("a secret of the run")

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if hook == "on_start":
                self._fail(span)
            super().on_start(span, parent_context)

        def on_end(self, span: Any) -> None:
            super().on_end(span)
            if hook == "on_end":
                self._fail(span)

    fails = Fails()
    collected.tracer_provider._active_span_processor._span_processors = (fails,)
    api = LocalAPI(CALL_NOW, [DONE])
    with tracing(tracer_provider=collected.tracer_provider):
        run = await finished(api.transport(), now)
    assert run.result.status is RunStatus.COMPLETED
    assert fails.started == fails.ended > 0 or (when, hook) == ("invoke_agent", "on_start")
    assert len([record for record in caplog.records if record.name.startswith("eagerstream")]) == 1
    assert "secret" not in caplog.text


@rows("arguments", [{"tracer_provider": 5}, {"meter_provider": "sdk"}, {"capture_content": "yes"}])
def test_wrong_arguments(arguments: dict[str, Any]) -> None:
    """Told at once."""
    (name,) = arguments
    with pytest.raises(eagerstream.UsageError, match=name):
        Instrumentation(**arguments)
