"""`Bash` in the ways that keep the environment of the program from commands, as its docstring names them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CAN_BE_NOBODY = os.geteuid() == 0 and shutil.which("setpriv") is not None

_PROGRAM = """
import ctypes, json, os, sys
import anyio
from eagerstream_toolkit import Bash

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
SHELL = ("bash", "--noprofile", "--norc")

async def seen(where, *argv):
    async with Bash(cwd="/", argv=argv) as bash:
        command = f"cat {where} 2>/dev/null | grep -ac hunter2; env | grep -c hunter2"
        return (await bash.call({"command": command})).text.splitlines()[:2]

async def main():
    found = {"same user": await seen("/proc/$PPID/environ", *SHELL)}
    if "can be nobody" in sys.argv:
        found["another user"] = await seen("/proc/[0-9]*/environ", *AS_NOBODY, *SHELL)
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    found["unreadable program"] = await seen("/proc/$PPID/environ", *SHELL)
    print(json.dumps(found))

anyio.run(main)
"""


def test_the_ways() -> None:
    """How often commands find the secret in `/proc`, and in their own environment: as the docstring says of each way."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ANTHROPIC_API_KEY": "hunter2"}
    argv = [sys.executable, "-c", _PROGRAM, *(["can be nobody"] if CAN_BE_NOBODY else [])]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=50, check=True)
    assert json.loads(done.stdout) == {
        "same user": ["1", "0"],
        **({"another user": ["0", "0"]} if CAN_BE_NOBODY else {}),
        "unreadable program": ["0", "0"],
    }
