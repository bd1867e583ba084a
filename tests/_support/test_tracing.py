"""The word of a tracer to the transport, which `tests/transports/test_anthropic.py` shows at work."""

from __future__ import annotations

from contextvars import copy_context

from eagerstream._support.tracing import trace_headers


def test_it_belongs_to_a_context() -> None:
    """What is set for one request is not seen by requests of other tasks."""
    copy_context().run(trace_headers.set, {"traceparent": "00-1-2-01"})
    assert trace_headers.get() is None
