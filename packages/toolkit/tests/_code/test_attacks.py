"""Attacks on each sandbox: the table in the docs says what they come to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from packages.toolkit.tests._code.attacks import ATTACKS, Attack, Verdict, verdict
from packages.toolkit.tests._code.sandboxes import SANDBOXES, expected, why_not

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # the attacks are on the sandbox
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

_OF_OTHERS = {"300 forks": Verdict.BOUNDED, "setting of the kernel": Verdict.STOPPED}
"""The table is root's, whose processes the system does not limit, and who owns the settings."""


async def test_the_table_is_complete() -> None:
    """`python -m packages.toolkit.tests._code` writes it."""
    assert [attack.name for attack in ATTACKS] == list(expected())
    assert all(list(row) == list(SANDBOXES) for row in expected().values())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize(
    "sandbox",
    [pytest.param(name, marks=pytest.mark.nightly if " " in name else pytest.mark.slow) for name in SANDBOXES],
)
async def test_attack(attack: Attack, sandbox: str, tmp_path: Path) -> None:
    """Each attack ends as the docs say. Whatever it did, the next session works."""
    if reason := why_not(sandbox):
        pytest.skip(reason)
    wanted = expected()[attack.name][sandbox]
    if os.geteuid() != 0 and wanted is Verdict.NOT_STOPPED:
        wanted = _OF_OTHERS.get(attack.name, wanted)
    assert await verdict(attack, SANDBOXES[sandbox](), tmp_path) is wanted
