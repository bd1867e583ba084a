"""`logger_of`: the loggers of all packages are below `eagerstream`, so that one name configures them."""

from __future__ import annotations

import logging


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module, by its `__name__`: `eagerstream.progress.terminal` for that of another package."""
    return logging.getLogger(module.replace("eagerstream_", "eagerstream.", 1))
