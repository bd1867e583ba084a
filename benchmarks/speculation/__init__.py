"""Speculation across turns: calls of read-only tools that are made before the model asks for them, by a stated rule.

Both sides run the same sessions of 8 to 13 responses in virtual time. A response has 40 tokens of text and the input of
one call. The last one has 150 to 400 tokens. The hit rate is the probability that the model chooses one of the results
that the rule tries. Below 100%, a cell is the mean of 20 sessions with other random choices. For data analysis there
are also the choices of a recorded session.

The histories of both sides must be equal, and all additional calls must be wasted ones. A session pays if it becomes at
least 5% shorter, with at most two wasted calls for each used one. This rule was stated before the first measurement,
and the idea was to be built if it pays in two of three sessions with tools as fast as the evidence says, at 50% hits.
`docs/inside/left-out.md` has the evidence.

`python -m benchmarks.speculation.lab` measures the same sessions in real time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eagerstream_testing import Timing

from ..targets import Row
from .sessions import CODE, DATA, WEB, Session, both_sides

FAST: Final = Timing(tokens_per_second=80, first_byte_s=1.0)
SLOW: Final = Timing(tokens_per_second=60, first_byte_s=2.1)
CHANCES: Final = (0.25, 0.5, 0.75, 1.0)
LEAST_SAVED: Final = 0.05
MOST_WASTED: Final = 2.0
PACE: Final = "virtual time, 80 tokens per second after 1.0 s"
_RECORDED: Final = None
"""In place of a hit rate: the choices of the recorded session."""


@dataclass(frozen=True)
class Variant:
    """A session with the durations of its tools, and the reason for these durations."""

    session: Session
    known_from: str


VARIANTS: Final = (
    Variant(CODE, "recorded session"),
    Variant(CODE.taking(0.5, 0.3, 0.3), "if the tools took"),
    Variant(CODE.taking(1.0, 1.0, 1.0), "if the tools took"),
    Variant(WEB.taking(1.2, 0.5), "if the tools took"),
    Variant(WEB, "assumption"),
    Variant(replace(WEB, tried=3), "assumption, another rule"),
    Variant(DATA, "recorded session"),
    *(Variant(DATA.taking(seconds, seconds), "if the tools took") for seconds in (0.5, 1.0, 1.5, 2.0)),
)
"""For each kind of session, the variant that the evidence supports, and others. Only the former count."""
_COUNTED: Final = (CODE, WEB, DATA)


@dataclass(frozen=True)
class Cell:
    """Means over the pairs of a variant with one hit rate and one pace.

    Attributes:
        without_s, with_s: Durations of the sides.
        hits, wasted, wasted_s: As in `Report`.
        pairs: Number of pairs.
    """

    without_s: float
    with_s: float
    hits: float
    wasted: float
    wasted_s: float
    pairs: int

    @property
    def saved(self) -> float:
        """Saved share of the duration."""
        return 1 - self.with_s / self.without_s

    @property
    def pays(self) -> bool:
        """True by the rule that was stated before the measurement."""
        return self.saved >= LEAST_SAVED and self.wasted <= MOST_WASTED * self.hits


def measured(session: Session, chance: float | None, timing: Timing, count: int) -> Cell:
    """Return the means of this number of pairs, or of one pair if nothing is random."""
    seeds = 1 if chance in (1.0, _RECORDED) else count
    pairs = [both_sides(session, chance, seed, timing)[:2] for seed in range(seeds)]
    reports = [speculating.report for _, speculating in pairs]
    return Cell(
        without_s=_mean([without.seconds for without, _ in pairs]),
        with_s=_mean([speculating.seconds for _, speculating in pairs]),
        hits=_mean([report.hits for report in reports]),
        wasted=_mean([report.wasted for report in reports]),
        wasted_s=_mean([report.wasted_s for report in reports]),
        pairs=seeds,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Run both sides of all sessions, print a table, and return the figures."""
    count = 4 if quick else 20
    table = Table(title="saved share of a session, by the hit rate")
    heads = ("session", "known from", "tried", "each takes", *(f"{chance:.0%}" for chance in CHANCES))
    for name in (*heads, "recorded", "slow, 50%", "wasted for a hit, 50%", "pays at 50%"):
        table.add_column(name, justify="left" if name in ("session", "known from", "pays at 50%") else "right")
    variants: list[dict[str, Any]] = []
    pays: dict[str, bool] = {}
    pairs = 0
    for variant in VARIANTS:
        session, seconds = variant.session, variant.session.tools[1].seconds
        cells = {f"{chance:g}": measured(session, chance, FAST, count) for chance in CHANCES}
        cells["slow"] = measured(session, 0.5, SLOW, count)
        if session.recorded:
            cells["recorded"] = measured(session, _RECORDED, FAST, count)
        pairs += sum(cell.pairs for cell in cells.values())
        half = cells["0.5"]
        if session in _COUNTED:
            pays[session.name] = half.pays
        shown = [f"{cells[name].saved:.1%}" if name in cells else "" for name in _SHOWN]
        wasted = f"{half.wasted / half.hits:.1f}"
        row = (session.name, variant.known_from, f"{session.tried}", f"{seconds:g} s", *shown, wasted)
        table.add_row(*row, "yes" if half.pays else "no")
        variants.append(
            {
                "session": session.name,
                "known_from": variant.known_from,
                "counts": session in _COUNTED,
                "tried": session.tried,
                "seconds": seconds,
                "cells": {name: {**asdict(cell), "saved": cell.saved} for name, cell in cells.items()},
                "pays": half.pays,
            }
        )
    console.print(table)
    paying = [name for name, is_paid in pays.items() if is_paid]
    console.print(f"{len(paying)} of {len(pays)} sessions pay: {', '.join(paying) or 'none'}. {pairs:,} pairs.")
    rows = [
        Row(
            work="sessions whose history differs, or whose additional calls are not the wasted ones",
            against="the same sessions without speculation",
            pace=PACE,
            target="0",
            measured=f"0 of {pairs:,}",  # `both_sides` raises otherwise
            met=True,
        ),
        Row(
            work="kinds of sessions that speculation across turns makes 5% shorter, with at most two wasted calls for"
            " each used one",
            against="the same sessions without speculation",
            pace=PACE,
            target="at most one of three, or it must be built",
            measured=f"{len(paying)}: {', '.join(paying) or 'none'}",
            met=len(paying) <= 1,
        ),
    ]
    return {"pairs": pairs, "variants": variants, "rows": [asdict(row) for row in rows]}


_SHOWN: Final = (*(f"{chance:g}" for chance in CHANCES), "recorded", "slow")
