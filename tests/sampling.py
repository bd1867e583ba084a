"""A part of a large set of cases for each run, drawn by a seed or by the number of the part.

- A test that asks the same of very many cases is marked `@pytest.mark.sample(8)`. A run of the quick tests takes eight
  of its cases, and the slow tests have the others. EAGERSTREAM_SEED repeats the choice; it is in the head of each run.
- A test that takes minutes, or is one of hundreds like it, is marked `@pytest.mark.nightly`. With EAGERSTREAM_PART=2/5, a
  run has the second fifth of them only.

CI derives both from the commit: each run repeats what it did before, and together they cover everything.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeVar

import pytest
from hypothesis import settings

SEED: Final = os.environ.setdefault("EAGERSTREAM_SEED", str(secrets.randbelow(1_000_000)))
"""Of this run, for the processes of pytest-xdist as well, which get the environment."""

PART: Final = os.environ.get("EAGERSTREAM_PART", "")
"""Of the nightly tests, such as "2/5"; empty for all of them."""

PARTS: Final = int(PART.partition("/")[2] or 1)
"""Number of parts that the nightly tests are divided into."""

T = TypeVar("T")


def drawn(cases: Iterable[T], count: int, *, seed: str = SEED) -> list[T]:
    """Return `count` of the cases, or all if there are fewer; the same ones for the same seed, in any order of cases."""
    return sorted(cases, key=lambda case: zlib.crc32(f"{seed} {case}".encode()))[:count]


def at_length(examples: int) -> settings:
    """Return settings for a property test with very many examples, or with the share of this part of them."""
    return settings(max_examples=examples // PARTS)


def is_in_part(nodeid: str, part: str = PART) -> bool:
    """Whether a nightly test belongs to a part; all do if none is named."""
    number, _, count = part.partition("/")
    return not part or zlib.crc32(nodeid.encode()) % int(count) == int(number) - 1


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the nightly tests of other parts, and mark the cases as slow that were not drawn."""
    sampled: defaultdict[tuple[str, int], dict[str, pytest.Item]] = defaultdict(dict)
    others = []
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            if not is_in_part(item.nodeid):
                others.append(item)
        elif item.get_closest_marker("slow") is None and (sample := item.get_closest_marker("sample")) is not None:
            sampled[item.nodeid.partition("[")[0], sample.args[0]][item.nodeid] = item
    for (_, count), cases in sampled.items():
        for nodeid in cases.keys() - set(drawn(cases, count)):
            cases[nodeid].add_marker(pytest.mark.slow)
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
