"""Runs on a simulated cluster beside the formulas; the costs are made up, and round."""

from functools import cache

import pytest
from benchmarks.growth_model import Cluster, Costs, Kind, Paper, Work, simulate

COSTS = Costs(event_s=1e-4, turn_s=5e-3, call_s=2e-3, worker_call_s=1e-3, run_bytes=1, gateway_bytes=1)
KIND = Kind(name="tool", share=1.0, mean_s=1.0, sigma=0.5, per_worker=4)
WORK = Work(events=(25, 50, 75), kinds=(KIND,), calls=(0.5, 0.5))


@cache
def _paper() -> Paper:
    plenty = Cluster(gateways=100, workers={"tool": 100})
    return Paper.of(WORK, COSTS, alone_s=simulate(100, WORK, COSTS, plenty, span_s=100.0).alone_s)


@pytest.mark.slow
def test_what_a_turn_takes_alone() -> None:
    """A second to the first byte, two for the reply, half a call of a second: the sum that can be done by head."""
    paper = _paper()
    assert paper.cycle_s == pytest.approx(1.0 + 2.0 + 0.5 * 1.0 + COSTS.turn_s, rel=0.02)
    assert paper.loop_s == pytest.approx(5e-3 + 50 * 1e-4 + 0.5 * 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "gateways", "workers"),
    [(50, 1, 20), (400, 1, 100), (400, 8, 10)],
    ids=["nothing is full", "the loop is full", "the workers are full"],
)
def test_turns_per_second(runs: int, gateways: int, workers: int) -> None:
    """Little's law where nothing is full, the utilisation law where a station is; the knee is where they meet."""
    paper = _paper()
    cluster = Cluster(gateways=gateways, workers={"tool": workers})
    bound = paper.turns_per_s(runs, cluster, WORK.kinds)
    seen = simulate(runs, WORK, COSTS, cluster, span_s=30.0)
    assert seen.turns_per_s == pytest.approx(bound, rel=0.05)
    assert seen.turns_per_s * seen.turn_s == pytest.approx(runs, rel=0.05)  # Little's law, of what was seen
    slow = seen.slowdown(90) > 1.2  # half of the turns have no call
    assert slow == (runs > 50)
    assert (seen.loop_use > 0.95) == (gateways == 1 and runs == 400)
    assert (seen.worker_use["tool"] > 0.95) == (workers == 10)


@pytest.mark.slow
def test_few_wait_for_a_worker_where_it_is_staffed_by_the_rule() -> None:
    """The square-root rule keeps waiting rare; Erlang's formula tells how rare, within some percent of all calls."""
    paper = _paper()
    cluster = Cluster(gateways=3, workers={"tool": paper.workers(200, KIND, slack=1.0)})
    seen = simulate(200, WORK, COSTS, cluster, span_s=150.0)
    formula = paper.waited(200, seen.turns_per_s, KIND, cluster.workers["tool"])
    assert 0.02 < formula < 0.4
    assert seen.waited("tool") == pytest.approx(formula, abs=0.03)
    assert seen.slowdown(99) < 1.2


def test_it_is_the_same_on_every_run() -> None:
    """Nothing but the seed decides: a difference between two results is one of the model."""
    cluster = Cluster(gateways=1, workers={"tool": 2})
    first, second = (simulate(20, WORK, COSTS, cluster, span_s=20.0) for _ in range(2))
    assert first == second
