"""What the tests of the older protocols share."""

from __future__ import annotations

import importlib
import warnings

with warnings.catch_warnings():  # told once, when it is first imported: here, and by a test in a process of its own
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("eagerstream.compat.anthropic_tools")
