"""The `computer` tool and its toolset: what the model does to a screen, and a page in Chromium as one."""

from __future__ import annotations

from .handler import ComputerHandler
from .page import ChromiumPage
from .tool import Computer

__all__ = ["ChromiumPage", "Computer", "ComputerHandler"]
