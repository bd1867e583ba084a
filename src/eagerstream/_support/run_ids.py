"""Ids of runs. In a gateway of several processes, they begin with the name of the process that has the run."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

_NAME: Final = re.compile(r"[0-9a-f]{8}")
_OWNED: Final = re.compile(rb"(?:[/=])([0-9a-f]{8})-([0-9a-f]{32})(?![^/&?])")


class _Process:
    prefix = ""  # of the ids of all runs of this process


def new_run_id() -> str:
    """Return a new id: 32 hexadecimal digits, after the name of this process and a hyphen if it has a name."""
    return f"{_Process.prefix}{uuid4().hex}"


def name_process(name: str) -> None:
    """Give this process a name for the ids of its runs: 8 hexadecimal digits. An empty name takes it away."""
    assert not name or _NAME.fullmatch(name)
    _Process.prefix = f"{name}-" if name else ""


def run_in(target: bytes) -> tuple[str, str] | None:
    """Return the process and the id of the first run that the target of an HTTP request names, or None.

    A run is named by a complete segment of the path, or by the complete value of a parameter of the query.
    """
    match = _OWNED.search(target)
    return None if match is None else (match[1].decode(), f"{match[1].decode()}-{match[2].decode()}")
