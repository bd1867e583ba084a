"""What the wire core loads."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("anthropic", "httpx", "httpx2", "anyio", "pydantic", "partial_json_parser", "asyncio")


def test_the_wire_core_loads_nothing_heavy() -> None:
    """A gateway or a test that only wants the core must not pay a second of imports, nor need the packages."""
    script = f"import sys, eagerstream.wire; print(*[name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
