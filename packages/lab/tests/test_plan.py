"""Plans: which figures get verdicts, how certain these are together, and when a benchmark may stop."""

from __future__ import annotations

import random
from typing import Any

import pytest
from packages.lab.tests.lab import SETTINGS, poem_cases
from packages.lab.tests.test_statistics import known
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_lab._matrix import Matrix
from eagerstream_lab._plan import Amount, Plan, default_primary, looks_between, verdict
from eagerstream_lab._programs import Program
from eagerstream_lab._results import Estimate
from eagerstream_lab._statistics import of_pairs


def plan(**changed: Any) -> Plan:
    known: dict[str, Any] = {"pairs": 1, "looks": (10,)}
    return Plan(**known | changed)


def test_the_error_is_that_of_the_benchmark() -> None:
    """Each pair, figure and look has its share: together they have the error, and not more."""
    assert plan(primary=("duration_s",)).verdict_confidence == pytest.approx(0.95)
    assert plan().verdict_confidence == pytest.approx(0.975)
    many = plan(pairs=3, looks=(10, 15, 23), primary=("duration_s", "first_byte_s"))
    assert (1 - many.verdict_confidence) * 3 * 3 * 2 == pytest.approx(0.05)
    assert [each.least_n for each in (plan(primary=("duration_s",)), plan(), many)] == [6, 7, 10]


def test_only_primary_figures_get_verdicts() -> None:
    """The others have an interval with the confidence, by itself."""
    base, other = [1.0] * 10, [2.0 + number / 100 for number in range(10)]
    first, second = (plan().judge(name, base, other) for name in ("duration_s", "first_byte_s"))
    assert first is not None
    assert second is not None
    assert (first["verdict"], second["verdict"]) == ("higher", None)
    assert first["difference"]["confidence"] == pytest.approx(0.975)
    assert second["difference"]["confidence"] == 0.95
    assert plan().judge("duration_s", [None], [1.0]) is None


@rows(
    "low, high, margin, expected",
    [
        (0.1, 0.3, 0.0, "higher"),
        (-0.3, -0.1, 0.0, "lower"),
        (0.0, 0.3, 0.0, "undecided"),
        (0.1, 0.3, 0.05, "higher"),
        (0.1, 0.3, 0.2, "undecided"),
        (0.1, 0.3, 0.4, "equivalent"),
        (-0.3, -0.1, 0.05, "lower"),
        (-0.1, 0.1, 0.1, "undecided"),
        (0.0, 0.0, 0.1, "equivalent"),
    ],
)
def test_verdicts_of_intervals(low: float, high: float, margin: float, expected: str) -> None:
    """Beyond the margin, within it, or neither."""
    found: Estimate = {"n": 6, "median": (low + high) / 2, "low": low, "high": high, "confidence": 0.95}
    assert verdict(found, margin=margin) == expected
    assert verdict({**found, "n": 5}, margin=margin) == "undecided"


@rows(
    "text, base, size",
    [("2%", [1.0, None, 3.0], 0.04), ("20ms", [5.0], 0.02), (" 1.5 s ", [], 1.5), ("2%", [-3.0], 0.06)],
)
def test_amounts(text: str, base: list[float | None], size: float) -> None:
    """A time, or a share of the median of the base."""
    assert Amount.parse(text, "--until").size(base) == pytest.approx(size)


@rows("text", ["", "2", "0%", "-2%", "2%%", "nan%", "1e3s", "two"])
def test_amounts_that_are_none(text: str) -> None:
    """They are refused with the name of the option."""
    with pytest.raises(UsageError, match="--min-effect"):
        Amount.parse(text, "--min-effect")


@rows(
    "changed, told",
    [
        ({"primary": ()}, "at least one"),
        ({"primary": ("duration_s", "duration_s")}, "once"),
        ({"primary": ("speed",)}, "'speed' is no figure: choose from"),
        ({"confidence": 1.0}, "confidence"),
        ({"primary": ("chars_per_s",), "until": Amount.parse("20ms", "")}, "20ms is a time, but chars_per_s is none"),
    ],
)
def test_plans_that_cannot_be(changed: dict[str, Any], told: str) -> None:
    """They are refused before anything is measured."""
    with pytest.raises(UsageError, match=told):
        plan(**changed)


def test_the_settings_have_the_plan() -> None:
    """Who reads the results can judge them again."""
    found = Plan.of({**SETTINGS, "min_effect": "2%", "until": "20ms", "looks": [10, 15]}, pairs=2)
    assert (found.pairs, found.looks, found.primary) == (2, (10, 15), tuple(SETTINGS["primary"]))
    assert (found.min_effect, found.until) == (Amount("2%", 0.02, True), Amount("20ms", 0.02, False))


def test_the_figures_fit_the_question() -> None:
    """Eager compared with buffered is about the largest parameter. Other comparisons are about the first field."""
    programs = [Program(name=name, command=("x",)) for name in ("a.py", "b.py")]

    def chosen(**axes: Any) -> tuple[str, ...]:
        return default_primary(Matrix(cases=poem_cases(**axes), repetitions=1, warmup=0, seed=0))

    assert chosen() == ("duration_s", "large_parameter_s")
    assert chosen(streamings=["eager"], models=["a", "b"]) == ("duration_s", "first_field_s")
    assert chosen(programs=programs, programs_only=True) == ("duration_s", "first_field_s")


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_looks() -> None:
    """Each is half as large again, and the last is the maximum."""
    assert looks_between(10, 100) == (10, 15, 23, 35, 53, 80, 100)
    assert looks_between(6, 6) == (6,)
    for least, most in ((1, 5), (7, 6)):
        with pytest.raises(UsageError, match="--min-runs"):
            looks_between(least, most)


def test_enough() -> None:
    """All intervals have to be narrow, and to be intervals; a figure that no case has is not waited for."""
    base = [1.0] * 10
    narrow, wide = ([1.0 + size * (number - 4.5) for number in range(10)] for size in (0.001, 0.02))
    until = plan(until=Amount.parse("2%", "--until"))
    assert until.is_enough([(base, narrow)])
    assert until.is_enough([(base, narrow), ([None] * 10, [None] * 10)])
    assert not until.is_enough([(base, narrow), (base, wide)])
    assert not until.is_enough([(base[:6], narrow[:6])])
    assert not until.is_enough([([None] * 10, [None] * 10)])
    assert not plan().is_enough([(base, narrow)])


@pytest.mark.slow
def test_stopping_at_the_first_verdict_changes_no_error() -> None:
    """The worst reason to stop: at the first look that shows a difference. `benchmarks/verdicts.py` has more of it."""
    random_ = random.Random(5)
    looks = looks_between(10, 53)
    until = plan(looks=looks, primary=("duration_s",))
    wrong = 0
    for _ in range(600):
        values = [random_.gauss(0, 1) for _ in range(looks[-1])]
        found = (known(of_pairs(values[:look], confidence=until.verdict_confidence)) for look in looks)
        wrong += any(verdict(each) != "undecided" for each in found)
    assert wrong / 600 <= 0.05
