"""Queries to a database: read-only unless said otherwise, bounded, and stopped when their time is up."""
