"""Responses to try programs without the API: a poem that is written into a file, and a small coding agent."""
