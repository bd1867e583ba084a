"""The guard of the speed, on counts that are made up: no clock and no valgrind decides a test."""

from __future__ import annotations

import json

import pytest
from benchmarks.guard import BASELINE, CPU_TIME, INSTRUCTIONS, Method, find, with_baseline
from benchmarks.hot_path import REFERENCE, WORKLOADS
from benchmarks.work_counts import Count, Counts

from tests.tables import rows


def _counts(small: float, large: float) -> Counts:
    """Of one piece of work, by what an event costs in the small and in the large job; of the reference it costs 100."""
    return {
        REFERENCE: [Count(10, 1_000), Count(10, 1_000)],
        "work": [Count(500, 500 * small), Count(4_000, 4_000 * large)],
    }


def _faults(counts: Counts, baseline: float | None, method: Method) -> list[str]:
    (finding,) = find(counts, {} if baseline is None else {"work": baseline})
    return finding.faults(method)


@rows("method", [INSTRUCTIONS, CPU_TIME])
def test_a_loss_of_30_percent_fails(method: Method) -> None:
    """It is what the guard is for."""
    (fault,) = _faults(_counts(130, 130), 1.0, method)
    assert fault.startswith("work: 1.30 times the cost of the baseline")


@rows("method", [INSTRUCTIONS, CPU_TIME])
@rows("cost", [50, 100, 115])
def test_what_noise_does_passes(method: Method, cost: float) -> None:
    """Another build of Python moves a cost by 10%; and what is cheaper is no fault."""
    assert _faults(_counts(cost, cost), 1.0, method) == []


@rows("method", [INSTRUCTIONS, CPU_TIME])
def test_a_quadratic_step_fails(method: Method) -> None:
    """Also where it is a small part of the cost, and where there is no baseline."""
    (fault,) = _faults(_counts(105, 140), None, method)
    assert fault == "work: an event of a large job costs 1.33 times one of a small job"


def test_both_can_be_wrong() -> None:
    """A quadratic step is a loss, too."""
    assert len(_faults(_counts(200, 900), 1.0, INSTRUCTIONS)) == 2


def test_another_machine_changes_nothing() -> None:
    """A machine on which everything takes three times as long."""
    slow = {name: [Count(count.events, count.cost * 3) for count in of_one] for name, of_one in _counts(90, 80).items()}
    assert find(slow, {"work": 0.8}) == find(_counts(90, 80), {"work": 0.8})


def test_without_a_baseline_a_loss_is_not_known() -> None:
    """It is neither a fault nor none."""
    (finding,) = find(_counts(900, 900), {})
    assert finding.loss is None
    assert finding.faults(INSTRUCTIONS) == []


def test_a_new_baseline_leaves_the_others() -> None:
    """Those of other Pythons and of the other method; afterwards nothing is lost against it."""
    old = {"instructions": {"3.12": {"work": 0.5}, "3.11": {"gone": 1.0}}, "CPU time": {"3.11": {"work": 0.4}}}
    new = with_baseline(old, INSTRUCTIONS, "3.11", find(_counts(70, 70), {}))
    assert new == {"instructions": {"3.11": {"work": 0.7}, "3.12": {"work": 0.5}}, "CPU time": {"3.11": {"work": 0.4}}}
    assert old["instructions"]["3.11"] == {"gone": 1.0}
    (finding,) = find(_counts(70, 70), new["instructions"]["3.11"])
    assert finding.loss == pytest.approx(1)


@rows("name", WORKLOADS)
def test_every_piece_of_work_gives_what_it_must(name: str) -> None:
    """Also when it runs twice: what is counted is right, and about as much as was asked for."""
    job = WORKLOADS[name](480)
    assert job.run() == job.run() == job.expected
    assert 90 < job.events < 500


def test_the_baseline_is_of_the_work_that_is_counted() -> None:
    """A piece that was renamed would never be compared again."""
    for of_method in json.loads(BASELINE.read_text()).values():
        for costs in of_method.values():
            assert costs.keys() == WORKLOADS.keys() - {REFERENCE}
