"""Traces of sessions: what happened as lines of JSON, what it sums up to, and a page to read it on."""

from .logger import TraceLogger
from .statistics import TraceStatistics, TraceStats

__all__ = ["TraceLogger", "TraceStatistics", "TraceStats"]
