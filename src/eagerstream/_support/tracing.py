"""`trace_headers`: a tracer's word to the transport that it reports the next request itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

trace_headers: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("trace_headers", default=None)
"""Headers with the trace context of the next request, if a tracer reports it.

A client that makes spans of its own makes none for this request then: two spans for one request would count it twice.
`None` leaves spans and headers to the client.
"""
