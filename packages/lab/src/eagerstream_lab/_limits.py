"""Limits of a comparison: `bench compare --fail-if duration_s:+10%`.

A limit is exceeded if the differences prove it, and kept if they prove the opposite. In between it is undecided. The
values of the base are moved to the limit, and compared with the other values by the exact test of `_statistics`. The
interval of that excess has the confidence of a verdict, so an excess by chance is as rare as a false verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from eagerstream.errors import UsageError

from ._metrics import METRICS
from ._plan import Amount
from ._results import Estimate
from ._statistics import has_interval, least_n

Values: TypeAlias = Sequence[float | None]
Shift: TypeAlias = Callable[[Values, Values, float], Estimate | None]
"""Function from the values of a base, those of another case and a confidence to the difference, other minus base."""

LimitState: TypeAlias = Literal["exceeded", "kept", "undecided", "unknown"]

_LIMIT: Final = re.compile(r"(\w+):([+-])(.+)")


class Checked(TypedDict):
    """Result of comparing values with a limit.

    Attributes:
        excess: Distance beyond the limit, in the unit of the figure: negative within it. `None` without values.
        state: "exceeded" if the interval of the excess is above 0, "kept" if it is below, "undecided" if it contains 0,
            and "unknown" if the limit cannot be checked.
        reason: Reason of "unknown"; otherwise `None`.
    """

    excess: Estimate | None
    state: LimitState
    reason: str | None


class LimitData(Checked):
    """A limit on a figure of one case.

    Attributes:
        limit: The limit as it was given, such as "duration_s:+10%".
        metric: Name of the figure.
        case, label: Id and name of the case.
    """

    limit: str
    metric: str
    case: str
    label: str


class Limit(NamedTuple):
    """Largest acceptable change of a figure.

    Attributes:
        text: The limit as it was given.
        metric: Name of the figure.
        sign: 1 if the figure must not become higher, -1 if it must not become lower.
        amount: Size of the change.
    """

    text: str
    metric: str
    sign: int
    amount: Amount

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read "duration_s:+10%", "first_field_s:+50ms" or "chars_per_s:-5%".

        Raises:
            UsageError: It is something else, the figure is unknown, or a time is given for a figure that is none.
        """
        found = _LIMIT.fullmatch(text.strip())
        if found is None:
            raise UsageError(f"--fail-if takes FIGURE:+AMOUNT or FIGURE:-AMOUNT, as duration_s:+10%, not {text!r:.60}")
        metric = found[1]
        if metric not in METRICS:
            raise UsageError(f"--fail-if: {metric!r:.40} is no figure: choose from {', '.join(METRICS)}")
        amount = Amount.parse(found[3], "--fail-if", may_be_zero=True)
        if not amount.is_share and METRICS[metric].unit != "s":
            raise UsageError(f"--fail-if: {amount.text} is a time, but {metric} is none: give a share, such as 2%")
        return cls(text.strip(), metric, 1 if found[2] == "+" else -1, amount)

    def check(self, base: Values, other: Values, *, shift: Shift, confidence: float) -> Checked:
        """Compare the values of a figure with the limit that its base sets.

        Args:
            base, other: Values of the figure, `None` for a run without one.
            shift: Function that estimates the difference.
            confidence: Confidence of the interval.
        """
        bound = [None if value is None else self._bound(value) for value in base]
        excess = shift(bound, other, confidence) if self.sign > 0 else shift(other, bound, confidence)
        state: LimitState = "unknown"
        reason: str | None = None
        if excess is None:
            reason = f"{'b' if any(value is not None for value in base) else 'a'} has no value"
        elif not has_interval(excess):
            reason = f"{excess['n']} of {least_n(confidence)} values that it takes"
        elif excess["low"] > 0:
            state = "exceeded"
        else:
            state = "kept" if excess["high"] < 0 else "undecided"
        return {"excess": excess, "state": state, "reason": reason}

    def _bound(self, value: float) -> float:
        change = abs(value) * self.amount.value if self.amount.is_share else self.amount.value
        return value + self.sign * change
