"""The `bash` tool: a shell that keeps its state, and whose output cannot pass for anything else."""
