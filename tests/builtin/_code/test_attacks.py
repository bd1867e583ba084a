"""Attacks on `ProcessSandbox`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eagerstream.builtin._code.process import ProcessSandbox
from tests.builtin._code.attacks import ATTACKS, Attack, sandbox_mark, verdict

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    print("VERDICT", attack.name, "|", await verdict(attack, ProcessSandbox(env=sandbox_mark(), grace_s=0.5), tmp_path))
