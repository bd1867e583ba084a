"""What the tests of the file tools share: what somebody else does, and a change by each tool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from eagerstream_compat.helloagents import EditTool, MultiEditTool, ReadTool, WriteTool
from eagerstream_compat.helloagents._builtin import FileTool

EACH: tuple[type[FileTool], ...] = (ReadTool, WriteTool, EditTool, MultiEditTool)


def touch(path: Path, content: str | None = None, *, mtime_s: int = 1_700_000_000) -> int:
    """Somebody else changes a file; gives its mtime in milliseconds."""
    if content is not None:
        path.write_text(content)
    os.utime(path, (mtime_s, mtime_s))
    return mtime_s * 1000


CHANGES: list[tuple[type[FileTool], dict[str, Any]]] = [
    (WriteTool, {"content": "mine"}),
    (EditTool, {"old_string": "a = 1", "new_string": "mine"}),
    (MultiEditTool, {"edits": [{"old_string": "a = 1", "new_string": "mine"}]}),
]
each_change = pytest.mark.parametrize(("kind", "change"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
