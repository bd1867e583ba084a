"""The `bash` tool: a shell that keeps its state, and whose output cannot pass for anything else."""

from __future__ import annotations

from .tool import Bash

__all__ = ["Bash"]
