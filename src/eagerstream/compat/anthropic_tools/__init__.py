"""anthropic-tools, on this library's loop: `BaseTool`, `ToolUser`, and their message format.

The library is deprecated by its authors: importing this says so, once.
"""

from ..deprecation import deprecated
from .base_tool import BaseTool

__all__ = ["BaseTool"]

deprecated(
    "eagerstream.compat.anthropic_tools",
    "write tools as functions with @eagerstream.tool, and run them with eagerstream.run",
)
