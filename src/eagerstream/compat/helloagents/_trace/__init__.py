"""Traces of sessions: events as lines of JSON, their statistics, and a page for readers."""

from .logger import TraceLogger
from .statistics import TraceError, TraceStatistics, TraceStats

__all__ = ["TraceError", "TraceLogger", "TraceStatistics", "TraceStats"]
