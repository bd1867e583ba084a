"""Warnings that are logged once for each subject: a program that runs for weeks would repeat them with each request."""

from __future__ import annotations

from logging import Logger
from typing import Final

_MAX_WARNED: Final = 200
_warned: set[tuple[str, str]] = set()


def warn_once(log: Logger, what: str, subject: str) -> None:
    """Log a warning about a subject, unless the process has logged it before, or has logged 200 of them.

    Args:
        log: The logger.
        what: The text, with one `%` form for the subject.
        subject: For example the name of a model.
    """
    if (what, subject) not in _warned and len(_warned) < _MAX_WARNED:
        _warned.add((what, subject))
        log.warning(what, subject)
