"""Targets and measurements: one row for each claim of speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim.

    Attributes:
        work: Description of the measured work.
        against: The other side of the comparison, measured in the same run.
        pace: How the bytes arrive, for example "one event per write, 2 ms apart".
        target: Target, in words and figures.
        measured: Measured figures: a ratio, and the figures of both sides that it is made of.
        met: Result. None if it could not be measured here, for example without a compiler or node.
        asserted: The figure is stable enough to fail a run.
    """

    work: str
    against: str
    pace: str
    target: str
    measured: str
    met: bool | None
    asserted: bool = True
