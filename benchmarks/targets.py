"""What is aimed at, and what was measured: one row for each claim of speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim.

    Attributes:
        work: What is done.
        against: Beside what it is measured, in the same run.
        target: What is aimed at, in words and figures.
        measured: What came out.
        met: None where it could not be measured here: no compiler, no node.
        asserted: The figure is stable enough for a run to fail on it.
    """

    work: str
    against: str
    target: str
    measured: str
    met: bool | None
    asserted: bool = True
