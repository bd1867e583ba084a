"""The vectors alone notice slips in the parsers."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.sampling import SEED

from eagerstream_wire import PartialJSON

_COUNT = 200
_FLOOR = 0.6
"""Share of all mutants (0.73 of 600), also of those that no vector can notice.

A reason that fits too many mutants would hide a loss.
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="mutants run in forks")
@pytest.mark.skipif("mypyc" in type(PartialJSON.feed).__name__, reason="compiled modules have no mutants")
def test_vectors_notice_mutants() -> None:
    """Vectors that most slips pass would say little about an implementation in another language."""
    command = [sys.executable, "-m", "packages.wire.tests.conformance.mutants", "--count", str(_COUNT), "--seed", SEED]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+) noticed, (\d+) survive with a reason, (\d+) survive without", printed)
    assert found is not None, printed
    noticed, equal, survivors = map(int, found.groups())
    assert noticed + equal + survivors == _COUNT
    assert noticed >= 0.95 * (noticed + survivors), printed
    assert noticed >= _FLOOR * _COUNT, printed
