"""The `SQL` tool: queries that are read-only by default, bounded, and stopped after their time limit."""
