"""The `bash` tool: a shell that keeps its state. Its output cannot imitate the end or the status of a command."""
