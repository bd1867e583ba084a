"""The targets by name, with their shares of the cases: by their speeds, so that each takes about the same time."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

SHARES: Final = {
    "sse_decoder": 0.17,
    "aws_event_stream": 0.10,
    "partial_json": 0.19,
    "patch": 0.08,
    "input_accumulator": 0.33,
    "stream": 0.04,  # an event loop under each case: a fifth of the others' speed
    "recording_reader": 0.05,  # and files here
    "request_bodies": 0.02,
    "json_schema": 0.02,
    "bash_frame": 0.05,
    "jail_paths": 0.02,  # a folder for each case
    "worker_frames": 0.05,
    "redaction": 0.01,  # hundreds of expressions, and windows of a few characters
    "flavors": 0.02,  # two processes, and many lines
}
"""Target to its part of all cases."""


def check_of(target: str) -> Callable[[bytes], None]:
    """The function of a target; imports what it tests."""
    check: Callable[[bytes], None] = importlib.import_module(f"{__package__}.{target}").check
    return check
