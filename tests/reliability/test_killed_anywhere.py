"""Processes that are killed at any moment: no work is lost, nothing runs twice, and each run ends.

Each process has two runs at once, with six tools: one plain, one with a streaming parameter, one that is idempotent, one
with `recover`, and two that need approval, here and from another process. Their effects are in a database of their own.
Other processes leave messages and decisions. The laws are in `killed_world.broken_laws` and in `Killing`.
"""

from __future__ import annotations

import re
import sys
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import pytest
from packages.durable.tests.journal.conftest import postgres_server

from tests.reliability.killing_runs import WAYS, Tally, killed
from tests.sampling import PARTS, SEED

__all__ = ["postgres_server"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="it forks processes, and kills them by their descriptors"
)

_PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "durable.md"
_KILLS: Final = 2_000
_PARTS: Final = 10
_SEED: Final = int(SEED) % 10_000


def check(tally: Tally, least: int) -> None:
    """Nothing was broken, and the processes were killed in fact."""
    assert tally.violations == []
    assert tally.kills >= least, tally


def test_some_instants(tmp_path: Path) -> None:
    """A few processes are killed."""
    check(anyio.run(lambda: killed(tmp_path, "instants", count(_SEED), kills=5)), 5)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS.values())
def test_each_way(tmp_path: Path, way: str, request: pytest.FixtureRequest) -> None:
    """Some processes are killed in each way."""
    server = request.getfixturevalue("postgres_server") if way == "postgres" else ""
    tally = anyio.run(lambda: killed(tmp_path, way, count(_SEED), kills=30, server=server))
    check(tally, 30)
    assert tally.changes > 10 or way != "changes"


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_two_thousand_instants(tmp_path: Path, part: int) -> None:
    """The parts together kill 2,000 processes. CI kills half as many of its parts, at instants of the commit."""
    least, first = (_KILLS // _PARTS, 0) if PARTS == 1 else (_KILLS // _PARTS // 2, _SEED)
    check(anyio.run(lambda: killed(tmp_path, "instants", count(part * 10_000 + first), kills=least)), least)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", ["before", "after"])
def test_each_write(tmp_path: Path, way: str) -> None:
    """Killed at each write of the first process, and at earlier and earlier ones of those that continue."""
    check(anyio.run(lambda: killed(tmp_path, way, range(60), commits=60)), 60)


def test_the_table() -> None:
    """The page tells of as many kills as the issue of this test, in each way, and of no violation."""
    rows = dict(
        re.findall(r"^\| (.+?) \| [\d,]+ \| ([\d,]+) \| .* \| 0 \|$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert int(rows["SIGKILL at seeded instants"].replace(",", "")) >= _KILLS
    assert rows.keys() >= {*WAYS, "all"}
