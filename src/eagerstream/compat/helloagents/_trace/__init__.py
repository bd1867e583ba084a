"""Traces of sessions: events as lines of JSON, their statistics, and a page for readers."""

from .logger import TraceLogger
from .statistics import TraceStatistics, TraceStats

__all__ = ["TraceLogger", "TraceStatistics", "TraceStats"]
