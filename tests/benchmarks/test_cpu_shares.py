"""The sampling profiler of the benchmarks: its parts are those of the code that ran."""

from __future__ import annotations

import json
import time

import pytest
from benchmarks.cpu_shares import CPUShares

from eagerstream_wire import PartialJSON


def test_the_parts_of_a_program() -> None:
    """What ran is named by its room, and the shares make up the whole."""
    text = json.dumps(list(range(2_000)))
    shares = CPUShares()
    with shares:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            PartialJSON().feed(text)
    found = shares.shares()
    assert next(iter(found)) == "eagerstream_wire"
    assert sum(found.values()) == pytest.approx(1)
