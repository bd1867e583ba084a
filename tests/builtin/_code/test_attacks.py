"""Attacks on `ProcessSandbox`, and its bounds as facts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from eagerstream.builtin._code.process import ProcessSandbox
from tests.builtin._code.attacks import ATTACKS, Attack, Verdict, sandbox_mark, verdict

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # the attacks are on the process
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

NOT_STOPPED: Final = {
    "signal to the program",
    "write a file",
    "write a file by pathlib",
    "write a file by exec",
    "write a file by eval",
    "write a file by subclasses",
    "read a file",
    "remove a file",
    "environment of the program",
    "network",
    # The system does not limit the number of root's processes.
    *(["300 forks"] if os.geteuid() == 0 else []),
}
"""A process has the rights of its user: it is no security boundary."""

STOPPED: Final = {
    "deep value",
    "deep argument",
    "deep brackets",
    "deep operators",
    "deep attributes",
    "deep source in eval",
    "signal to its group",
    "environment",
    "modules of the program",
    "huge argument",
    "huge error",
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    """Each attack ends as the docs say. Whatever it did, the next session works, and no process is left."""
    expected = (
        Verdict.NOT_STOPPED
        if attack.name in NOT_STOPPED
        else Verdict.STOPPED
        if attack.name in STOPPED
        else Verdict.BOUNDED
    )
    assert await verdict(attack, ProcessSandbox(env=sandbox_mark(), grace_s=0.5), tmp_path) is expected
