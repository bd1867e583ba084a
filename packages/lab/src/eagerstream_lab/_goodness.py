"""Fits of profiles to recordings, and their goodness: each recording is compared with replays of it.

If there are several recordings, the replays of each come from a profile that is fitted to the others, so they are held
out. The replays have the text of the recording. They are compared in figures of the response, and in all gaps between
fragments: the largest distance between the distribution of the gaps and that of all replays together (Kolmogorov and
Smirnov). Gaps of one response depend on each other, so the usual table of this statistic does not hold. The distances
of the single replays take its place.

Two signs of a bad fit are looked for, each with an error of about 1 % for each figure:

- Recordings that are outside: their figure is below or above those of all 199 replays. By chance, this happens to 1 %
  of the recordings of a right profile (a Monte Carlo test: Besag and Clifford, Generalized Monte Carlo significance
  tests, 1989). The recordings with the smallest and the largest figure may also be outside although the profile is
  right, because they are held out. So a fit is bad if more than two and 3 % of all are outside.
- Recordings on one side of their replays. The share of the replays with a lower figure is uniform from 0 to 1 for a
  right profile, and its mean over the recordings nearly normal. A distance can only be too large, and has no such test.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, groupby, pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Final, NamedTuple

from eagerstream._support.bodies import BUFFERED_NOTE, TIMED_NOTE
from eagerstream._support.wording import count_text
from eagerstream.errors import UsageError
from eagerstream.loop import Gaps
from eagerstream.recordings import Recording

from ._fitted import Fitted, Pace, large_values, readable
from ._kinds import is_shown
from ._metrics import Unit
from ._profiles import DOCUMENTED, Fragment, Profile, fragments

REPLAYS: Final = 199
"""Number of replays of each recording."""

LEAST_HELD_OUT: Final = 3
"""Number of recordings from which on a figure can show a bad fit: two are always the smallest and the largest."""

MAX_RECORDINGS: Final = 1_000
MAX_FRAGMENTS: Final = 50_000
"""Maximum number of fragments of all recordings: with so many, the replays take half a minute."""

_ASIDE: Final = 2.58
"""Distance of a mean from its expectation, in standard deviations, that has a probability of 1 %."""
_SAME: Final = 0.001
"""Difference of two equal figures, as a share: a profile has rounded times."""
_LEFT_OUT: Final = 5
"""Maximum number of recordings that were left out to name."""
_NOTE_CHARS: Final = 2_000
_KEPT: Final = 10
"""Number of replays of each recording whose gaps are kept, for the quantiles and the picture."""
_GRID: Final = 200
"""Number of gaps at which distributions are compared."""
_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Arrivals:
    """Arrivals of one response: its first byte, and the block, characters and time of each fragment."""

    first_byte_s: float
    fragments: Sequence[tuple[int, int, float]]

    @cached_property
    def gaps_s(self) -> list[float]:
        """The gaps between fragments of the same block, sorted, in microseconds as those of a profile."""
        return sorted(round(two[2] - one[2], 6) for one, two in pairwise(self.fragments) if one[0] == two[0])

    @cached_property
    def gaps(self) -> Gaps | None:
        """Their figures."""
        return Gaps.of(self.gaps_s)

    def middle_s(self) -> float:
        """Return the time at which half of the characters have arrived."""
        written = list(accumulate(chars for _, chars, _ in self.fragments))
        return self.fragments[bisect_left(written, written[-1] / 2)][2]


def _pace(arrivals: Arrivals) -> float | None:
    took_s = arrivals.fragments[-1][2] - arrivals.first_byte_s
    return sum(chars for _, chars, _ in arrivals.fragments) / took_s if took_s else None


def _steadiness(arrivals: Arrivals) -> float | None:
    took_s = arrivals.fragments[-1][2] - arrivals.first_byte_s
    return (arrivals.middle_s() - arrivals.first_byte_s) / took_s if took_s else None


def _gap(share: float, of: Callable[[Gaps], float]) -> Callable[[Arrivals], float | None]:
    def figure(arrivals: Arrivals) -> float | None:
        gaps = arrivals.gaps
        return of(gaps) if gaps is not None and is_shown(share, gaps.count) else None

    return figure


_FIGURES: Final[Mapping[str, tuple[Unit, Callable[[Arrivals], float | None]]]] = {
    "first byte": ("s", lambda arrivals: arrivals.first_byte_s),
    "complete response": ("s", lambda arrivals: arrivals.fragments[-1][2]),
    "characters in a second": ("/s", _pace),
    "first half of the text": ("share", _steadiness),
    "p50 of gaps": ("s", _gap(0.5, lambda gaps: gaps.p50_s)),
    "p90 of gaps": ("s", _gap(0.9, lambda gaps: gaps.p90_s)),
    "p99 of gaps": ("s", _gap(0.99, lambda gaps: gaps.p99_s)),
    "longest gap": ("s", _gap(0, lambda gaps: gaps.max_s)),
}
"""Figures to compare, by label. A profile does not reproduce changes of pace within a response: the share of its time
that the first half of the text takes shows them."""
_DISTANCE: Final = "distance of the gaps"


@dataclass(frozen=True, kw_only=True)
class FigureFit:
    """One figure of all recordings and of their replays.

    Attributes:
        label, unit: Name for people, and the unit of the values.
        recorded, replayed: Medians.
        low, high: Middle 95 % of the replays.
        below: Share of the replays with a lower figure than their recording: about 0.5 if the fit is good.
        outside, n: Number of recordings outside of all their replays, and of all recordings that have the figure.
        is_bad: More are outside, or `below` is further from 0.5, than by chance.
    """

    label: str
    unit: Unit
    recorded: float
    replayed: float
    low: float
    high: float
    below: float
    outside: int
    n: int
    is_bad: bool


@dataclass(frozen=True, kw_only=True)
class Goodness:
    """Comparison of recordings with their replays.

    Attributes:
        recordings, fragments: Numbers of what was compared.
        held_out: The replays come from a profile that is fitted to the other recordings.
        figures: Comparisons of figures.
        quantiles: Shares, and the gaps in seconds that this share of the recorded and of the replayed ones does not
            exceed. The last one is the longest gap.
        recorded_s, replayed_s: Sorted gaps in seconds.
    """

    recordings: int
    fragments: int
    held_out: bool
    figures: tuple[FigureFit, ...]
    quantiles: tuple[tuple[float, float, float], ...]
    recorded_s: Sequence[float]
    replayed_s: Sequence[float]

    def faults(self) -> Iterator[str]:
        """Yield a warning for each sign of a bad fit, and for too few recordings to find one."""
        if not self.held_out:
            yield "fitted to one recording, and compared with the same: differences between responses are not known"
        elif self.recordings < LEAST_HELD_OUT:
            yield f"fitted to {self.recordings} recordings: {LEAST_HELD_OUT} are needed to find a bad fit in a figure"
        for figure in self.figures:
            if figure.is_bad:
                outside = f"{figure.outside} of {count_text(figure.n, 'recording')} outside of all replays"
                yield f"fitted badly: {figure.label}: {outside}, and {figure.below:.0%} of the replays lower"


class Fit(NamedTuple):
    """A fitted profile, and the comparison of its replays with the recordings."""

    profile: Fitted
    goodness: Goodness


def fit(paths: Sequence[Path]) -> Fit:
    """Fit a profile to recordings, and compare its replays with them.

    Args:
        paths: Recordings (.jsonl), or folders of them. Recordings of a folder that cannot be fitted are left out, with
            a note in the profile.

    Raises:
        UsageError: A recording cannot be read or fitted, none is left, or there are too many.
    """
    recordings: list[Recording] = []
    paces: list[Pace] = []
    left_out: list[str] = []
    for path, is_named in _files(paths):
        try:
            recording = readable(Recording.load(path), str(path))
            if any(recording.chunks == other.chunks for other in recordings):
                raise UsageError(f"{path}: the same recording is given twice")
            paces.append(Pace.of(recording, name=str(path)))
        except UsageError as error:
            if is_named:
                raise
            left_out.append(f"left out: {error}"[:_NOTE_CHARS])
            continue
        recordings.append(recording)
    if not paces:
        raise UsageError("; ".join((f"{paths[0]}: no recording that can be fitted", *left_out[:1])))
    notes = left_out[:_LEFT_OUT]
    if len(left_out) > _LEFT_OUT:
        notes.append(f"left out: {len(left_out) - _LEFT_OUT} more")
    for note, told in ((TIMED_NOTE, "the times are simulated"), (BUFFERED_NOTE, "inputs are held back already")):
        count = sum(note in recording.note for recording in recordings)
        if count:
            notes.append(f"{told} in {count} of {count_text(len(recordings), 'recording')}")
    path = paths[0]
    profile = Fitted(name=(path.name if path.is_dir() else path.stem)[:200], paces=tuple(paces))
    goodness = compare(profile, recordings)
    return Fit(replace(profile, notes=(*goodness.faults(), *notes)), goodness)


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the recordings, and whether each was named: others are those of a folder."""
    found: list[tuple[Path, bool]] = []
    for path in paths:
        found += [(file, False) for file in sorted(path.rglob("*.jsonl"))] if path.is_dir() else [(path, True)]
    if len(found) > MAX_RECORDINGS:
        raise UsageError(f"a profile is fitted to at most {MAX_RECORDINGS:,} recordings, not {len(found):,}")
    for file, is_named in found:
        if file.suffix.lower() != ".jsonl":
            raise UsageError(f"{file}: nothing can be fitted to it: only a .jsonl file has arrival times")
        yield file, is_named


def named_profile(paths: Sequence[Path]) -> Profile:
    """Return the profile with this name, in this file, or fitted to these recordings.

    Args:
        paths: `documented`, a saved profile (.json), or recordings with times (.jsonl) and folders of them.

    Raises:
        UsageError: There is no such profile, a file cannot be read, or a recording cannot be fitted.
    """
    first = paths[0]
    if [str(path) for path in paths] == [DOCUMENTED.name]:
        return DOCUMENTED
    if len(paths) == 1 and first.suffix.lower() == ".json":
        return Fitted.load(first)
    if not first.is_dir() and first.suffix.lower() != ".jsonl":
        known = f"{DOCUMENTED.name!r}, recordings with times (.jsonl), a folder of them, or a saved profile (.json)"
        raise UsageError(f"{str(first)!r} is no profile: give {known}")
    return fit(paths).profile


def compare(profile: Fitted, recordings: Sequence[Recording]) -> Goodness:
    """Compare recordings with replays of each, held out if there are several.

    Args:
        profile: Profile with one pace for each of the recordings, in their order.
        recordings: The recordings to which it was fitted.

    Raises:
        UsageError: There are too many fragments.
    """
    received = [list(fragments(recording)) for recording in recordings]
    total = sum(map(len, received))
    if total > MAX_FRAGMENTS:
        raise UsageError(f"a profile is fitted to at most {MAX_FRAGMENTS:,} fragments, not {total:,}: leave some out")
    recorded = [
        Arrivals(recording.chunks[0].at_s, [(one.index, len(one.text), one.at_s) for one in of])
        for recording, of in zip(recordings, received, strict=True)
    ]
    values: dict[str, list[tuple[float, list[float]]]] = {label: [] for label in (*_FIGURES, _DISTANCE)}
    replayed_s: list[float] = []
    for number, (own, of) in enumerate(zip(recorded, received, strict=True)):
        others = profile.paces[:number] + profile.paces[number + 1 :]
        replays = list(_replays(replace(profile, paces=others or profile.paces), of))
        for label, (_, figure) in _FIGURES.items():
            drawn = sorted(value for arrivals in replays if (value := figure(arrivals)) is not None)
            if (value := figure(own)) is not None and len(drawn) > REPLAYS / 2:
                values[label].append((value, drawn))
        distance, *distances = _distances(own, replays)
        values[_DISTANCE].append((distance, sorted(distances)))
        replayed_s += chain.from_iterable(arrivals.gaps_s for arrivals in replays[:_KEPT])
    recorded_s = sorted(chain.from_iterable(arrivals.gaps_s for arrivals in recorded))
    replayed_s.sort()
    return Goodness(
        recordings=len(recordings),
        fragments=total,
        held_out=len(recordings) > 1,
        figures=tuple(_figure_fit(label, of, len(recordings)) for label, of in values.items() if of),
        quantiles=tuple(_quantiles(recorded_s, replayed_s)),
        recorded_s=recorded_s,
        replayed_s=replayed_s,
    )


def _replays(profile: Fitted, received: Sequence[Fragment]) -> Iterator[Arrivals]:
    """Yield replays of a response, without their bytes."""
    large = large_values(received)
    blocks = [(key, [one.text for one in of]) for key, of in groupby(received, key=lambda one: (one.kind, one.index))]
    for number in range(REPLAYS):
        at_s, cut = profile.draw(large, f"goodness {number}")
        first_byte_s = at_s
        arrived: list[tuple[int, int, float]] = []
        for (kind, index), texts in blocks:
            for text, after_s in cut(kind, index, texts):
                at_s += after_s
                arrived.append((index, len(text), at_s))
        yield Arrivals(first_byte_s, arrived)


def _figure_fit(label: str, values: Sequence[tuple[float, list[float]]], recordings: int) -> FigureFit:
    drawn = sorted(value for _, of in values for value in of)
    n = len(values)
    outside = sum(
        value * (1 - _SAME) > of[-1] or (value * (1 + _SAME) < of[0] and label != _DISTANCE) for value, of in values
    )
    # Equal figures, such as the first byte of the only recording, count half.
    below = fmean(
        (bisect_left(of, value * (1 - _SAME)) + bisect_right(of, value * (1 + _SAME))) / 2 / len(of)
        for value, of in values
    )
    is_aside = n >= LEAST_HELD_OUT and label != _DISTANCE and abs(below - 0.5) * sqrt(12 * n) > _ASIDE
    cuts = quantiles(drawn, n=40, method="inclusive")
    return FigureFit(
        label=label,
        unit=_FIGURES[label][0] if label in _FIGURES else "share",
        recorded=median(value for value, _ in values),
        replayed=median(drawn),
        low=cuts[0],
        high=cuts[-1],
        below=below,
        outside=outside,
        n=n,
        is_bad=is_aside or outside > 0.03 * n + (2 if recordings > 1 else 0),
    )


def _distances(own: Arrivals, replays: Sequence[Arrivals]) -> Iterator[float]:
    """Yield the distance of the gaps of the recording from those of all replays, and then that of each replay."""
    pooled = sorted(chain.from_iterable(arrivals.gaps_s for arrivals in replays))
    grid = sorted({pooled[step * (len(pooled) - 1) // (_GRID - 1)] for step in range(_GRID)})
    shares = [bisect_right(pooled, gap_s) / len(pooled) for gap_s in grid]
    for arrivals in (own, *replays):
        gaps_s, count = arrivals.gaps_s, len(arrivals.gaps_s)
        yield max(abs(bisect_right(gaps_s, gap_s) / count - share) for gap_s, share in zip(grid, shares, strict=True))


def _quantiles(recorded: Sequence[float], replayed: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    shown = [share for share in _SHARES if is_shown(share, len(recorded))]
    for share in (*shown, 1.0):
        first, second = (values[round(share * (len(values) - 1))] for values in (recorded, replayed))
        yield share, first, second
