"""Simulated queues beside what is known of them."""

import random

import pytest
from benchmarks.queueing import (
    Process,
    Simulation,
    Station,
    erlang_c,
    finite_wait,
    halfin_whitt,
    mean_wait_s,
    percentile,
    staffed,
)

from tests.tables import rows


def _simulated(servers: int, per_s: float, arrivals: int) -> tuple[Station, float]:
    """M/M/c with services of a second on average, once it has been at it for a while; and for how long it was seen."""
    draw = random.Random(3)
    simulation, station = Simulation(), Station(servers)

    def customer() -> Process:
        yield station.use(draw.expovariate(1.0))

    def arriving() -> Process:
        while True:
            yield draw.expovariate(per_s)
            simulation.start(customer())

    simulation.start(arriving())
    simulation.run(100.0)
    station.forget()
    seen_s = arrivals / per_s
    simulation.run(100.0 + seen_s)
    return station, seen_s


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "per_s"), [(1, 0.5), (4, 2.8), (30, 25.0)])
def test_a_simulated_queue_waits_as_the_formula_says(servers: int, per_s: float) -> None:
    """Erlang's formula is exact for random arrivals: what differs from it is chance (the same on every run) or wrong."""
    station, seen_s = _simulated(servers, per_s, 25_000)
    waits = station.waits_s
    assert sum(wait > 0 for wait in waits) / len(waits) == pytest.approx(erlang_c(servers, per_s), abs=0.03)
    assert sum(waits) / len(waits) == pytest.approx(mean_wait_s(servers, per_s, 1.0), rel=0.1, abs=0.02)
    assert station.busy_s / seen_s == pytest.approx(per_s, rel=0.03)  # Little's law, of the servers


def test_known_answers() -> None:
    """Values of the textbooks: one server waits as often as it is busy; two at load 1, a third; none is idle when full."""
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert erlang_c(3, 3.5) == 1.0
    assert mean_wait_s(1, 0.5, 2.0) == pytest.approx(2.0)
    assert mean_wait_s(1, 0.5, 2.0, service_cv2=0.0) == pytest.approx(1.0)  # equal services: half of it


@pytest.mark.slow
def test_the_same_customers_again_and_again() -> None:
    """One waits for nobody; of two with as much work as pause each meets the other half of the time; many are random."""
    assert finite_wait(1, 1, 1.0, 1.0) == 0.0
    assert finite_wait(2, 1, 1.0, 1.0) == pytest.approx(0.5)
    assert finite_wait(3, 1, 1.0, 1.0) == pytest.approx(4 / 5)  # weights of the other two: 1, 2, 2
    assert finite_wait(200_000, 10, 25_000.0, 1.0) == pytest.approx(erlang_c(10, 8.0), rel=0.01)


@rows("slack", [0.5, 1.0, 2.0])
def test_square_root_staffing(slack: float) -> None:
    """The rule's own limit: with so many servers beyond the load, the share that waits depends on the slack alone."""
    assert erlang_c(staffed(40_000.0, slack), 40_000.0) == pytest.approx(halfin_whitt(slack), rel=0.02)


def test_first_come_first_served() -> None:
    """Two servers, three customers at once: the third begins when the first ends, and the whole waits for its parts."""
    simulation, station = Simulation(), Station(2)
    ends: list[tuple[str, float]] = []

    def customer(name: str, service_s: float) -> Process:
        waited_s = yield station.use(service_s)
        ends.append((name, simulation.now_s - waited_s))

    def group() -> Process:
        yield 1.0
        yield [customer("a", 2.0), customer("b", 5.0), customer("c", 1.0)]
        ends.append(("all", simulation.now_s))
        yield []
        ends.append(("none", simulation.now_s))

    simulation.start(group())
    simulation.run(100.0)
    assert ends == [("a", 3.0), ("c", 2.0), ("b", 6.0), ("all", 6.0), ("none", 6.0)]
    assert (station.waits_s, station.busy_s, station.busy) == ([0.0, 0.0, 2.0], 8.0, 0)


def test_percentile() -> None:
    """Of few values, too."""
    assert [percentile([3.0, 1.0, 2.0], percent) for percent in (0, 50, 99, 100)] == [1.0, 2.0, 3.0, 3.0]
    assert percentile([], 99) == 0.0
