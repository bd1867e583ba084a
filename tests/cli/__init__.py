"""The `eagerstream` command, as a user runs it."""
