"""What the tests of this folder share with those of the loop."""

from __future__ import annotations

from tests.loop.conftest import serial, short_grace

__all__ = ["serial", "short_grace"]
