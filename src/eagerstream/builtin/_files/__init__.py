"""Files of a folder, read, written and edited with optimistic locks."""

from __future__ import annotations

from .edit import Edit, MultiEdit
from .read import Read
from .toolset import Files
from .write import Write

__all__ = ["Edit", "Files", "MultiEdit", "Read", "Write"]
