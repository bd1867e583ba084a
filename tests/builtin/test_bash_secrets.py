"""`Bash` in the ways that keep the environment of the program from commands, as its docstring names them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_PROGRAM = """
    import ctypes, os
    import anyio
    from eagerstream.builtin import Bash

    AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
    SHELL = ("bash", "--noprofile", "--norc")

    async def main(argv):
        async with Bash(cwd="/") as bash:
            await bash.call({{"command": ":"}})  # imports what is needed: another user may not be able to
        {setup}
        async with Bash(cwd="/", argv=argv) as bash:
            command = "cat {where} 2>/dev/null | grep -ac hunter2; env | grep -c hunter2"
            print((await bash.call({{"command": command}})).text.splitlines()[:2])

    anyio.run(main, {argv})
"""


def _seen(tmp_path: Path, *, where: str, setup: str = "pass", argv: str = "SHELL") -> str:
    """How often a command finds the secret in `/proc`, and in its own environment."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(_PROGRAM).format(where=where, setup=setup, argv=argv))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ANTHROPIC_API_KEY": "hunter2"}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout.strip()


def test_the_same_user(tmp_path: Path) -> None:
    """The environment that commands get has no key; the file of the program has it, as the docstring says."""
    assert _seen(tmp_path, where="/proc/$PPID/environ") == "['1', '0']"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="becomes another user")
def test_another_user(tmp_path: Path) -> None:
    """Nobody's file can be read, neither the program's nor that of what started it."""
    seen = _seen(tmp_path, where="/proc/[0-9]*/environ", argv="(*AS_NOBODY, *SHELL)")
    assert seen == "['0', '0']"


def test_a_program_that_cannot_be_read(tmp_path: Path) -> None:
    """Not even by its own user, unless that is root."""
    setup = "os.geteuid() == 0 and (os.setgid(65534), os.setuid(65534)); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
    assert _seen(tmp_path, where="/proc/$PPID/environ", setup=setup) == "['0', '0']"
