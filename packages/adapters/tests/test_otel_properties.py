"""Whatever a run meets, its trace is whole, and the run is the same as without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from packages.adapters.tests.collected import AGENT, CHAT, Collected, assert_within, attributes, failed, parents
from tests.loop.test_properties import SCRIPTS, Ledger, Script, converse
from tests.reliability.conversations import converse_all
from tests.reliability.schedules import at_events

from eagerstream.loop import Run, RunEvent, ToolStart, ToolStop
from eagerstream.streaming import EventFeed, FeedEnd, on_feed
from eagerstream_adapters.otel import instrument
from eagerstream_adapters.otel._attributes import bounded

RUNS = SCRIPTS.map(lambda script: replace(script, form="run"))
"""Scripts that are carried out by a run: a trace is of these only."""


class Seen:
    """What an observer sees of a run: its events, but for the fragments, and how it ended."""

    wants_deltas = False

    def __init__(self, run: EventFeed[Any]) -> None:
        assert isinstance(run, Run)
        self.run = run
        self.events: list[str] = []
        self.calls: Counter[tuple[type, str]] = Counter()
        self.end_of_run: FeedEnd | None = None

    def take(self, events: Sequence[RunEvent]) -> None:
        """See `Observer.take`."""
        for event in events:
            self.events.append(type(event).__name__)
            if isinstance(event, ToolStart | ToolStop):
                self.calls[type(event), event.call.id] += 1

    def end(self, end: FeedEnd) -> None:
        """See `Observer.end`."""
        self.end_of_run = end


async def seen_in(script: Script) -> tuple[Seen, Ledger]:
    """A script, carried out, and what was seen of it."""
    found: list[Seen] = []

    def begin(run: EventFeed[Any]) -> None:
        found.append(Seen(run))
        run.observe(found[-1])

    with on_feed(begin):
        ledger = await converse(script)
    (seen,) = found
    return seen, ledger


async def check(script: Script, *, compares: bool) -> None:
    """The trace of a script tells what happened; where it is told, the run is the same as without it."""
    collected = Collected()
    with collected.tracing(capture_content=True):
        seen, ledger = await seen_in(script)
    agent = collected.span(AGENT)
    assert attributes(agent)["eagerstream.run.status"] == seen.run.result.status.value
    assert len(collected.spans(CHAT)) == len(seen.run.marks.requests)
    for span in collected.spans():
        failed(span)  # its status and its attribute agree
        assert_within(span, agent)
        assert span is agent or parents(span, collected.spans()) == [AGENT]
    tools = collected.spans("execute_tool")
    ran = [span for span in tools if attributes(span).get("eagerstream.tool.ran", True)]
    starts: Counter[str] = Counter()
    for (kind, id), count in seen.calls.items():
        if kind is ToolStart:
            starts[bounded(id)] += count
    assert Counter(attributes(span)["gen_ai.tool.call.id"] for span in ran) == starts
    if compares and all(call.name != "threaded" for call in seen.run.result.calls):  # threads come as they like
        plain, plain_ledger = await seen_in(script)
        assert plain_ledger.tags() == ledger.tags()
        assert plain.events == seen.events
        assert plain.calls == seen.calls
        assert plain.end_of_run == seen.end_of_run
        assert plain.run.result.messages == seen.run.result.messages


@pytest.mark.slow
@settings(max_examples=30)
@given(script=RUNS)
def test_any_run(script: Script) -> None:
    """Any replies, tools and consumer: each span ends, is where it belongs, and costs the run nothing."""
    anyio.run(lambda: check(script, compares=True))


@settings(max_examples=30)
@given(script=RUNS)
@pytest.mark.slow
def test_any_run_on_trio(script: Script) -> None:
    """The same; trio has its tasks take turns by chance, so that no run is like another."""
    anyio.run(lambda: check(script, compares=False), backend="trio")


@pytest.mark.slow
def test_any_fault() -> None:
    """Everything that may go wrong with a reply over real sockets, many conversations at once: none is in another."""
    collected = Collected()
    handle = instrument(tracer_provider=collected.tracer_provider, meter_provider=collected.meter_provider)
    try:
        reports = converse_all(at_events(step=7), "asyncio")
    finally:
        handle.uninstrument()
    assert collected.open == 0
    agents = {span.context.trace_id: span for span in collected.spans(AGENT) if span.context}
    assert len(agents) == len(reports)
    for span in collected.spans():
        assert span.context is not None
        assert_within(span, agents[span.context.trace_id])
        assert span.name == AGENT or parents(span, collected.spans()) == [AGENT]
