"""Queries to a database: read-only unless said otherwise, bounded, and stopped when their time is up."""

from __future__ import annotations

from .tool import SQL

__all__ = ["SQL"]
