"""Targets and measurements: one row for each claim of speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim.

    Attributes:
        work: Description of the measured work.
        against: The other side of the comparison, measured in the same run.
        target: Target, in words and figures.
        measured: Measured figures.
        met: Result. None if it could not be measured here, for example without a compiler or node.
        asserted: The figure is stable enough to fail a run.
    """

    work: str
    against: str
    target: str
    measured: str
    met: bool | None
    asserted: bool = True
