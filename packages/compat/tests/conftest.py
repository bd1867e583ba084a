"""What the tests of the older protocols share."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator

import pytest
from tests.loop.serial import Serial

with warnings.catch_warnings():  # told once, when it is first imported: here, and by a test in a process of its own
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("eagerstream_compat.anthropic_tools")


@pytest.fixture(scope="package")
def serial() -> Iterator[Serial]:
    """A server that answers one conversation after the other; starting one takes longer than a test."""
    server = Serial()
    with server.server:
        yield server
