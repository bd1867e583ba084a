"""The two flavors of the wire core, compiled and pure, on the same inputs: whatever a program can see is the same.

One flavor runs in this process, the other in a second one, because a process can import only one of them. If this one is
compiled, the other runs the sources of the same installation. Otherwise the compiled one is built from this checkout, or is
that of another Python: `EAGERSTREAM_OTHER_PYTHON=build/wheel-compiled/bin/python`.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.flavors import Flavor, path_of

from eagerstream_wire import is_compiled

from .misuse import MISUSES
from .transcripts import transcript

_ROOT: Final = Path(__file__).parents[2]
_MAX_ATTEMPTS: Final = 2_000  # to make an input smaller


def check(data: bytes) -> None:
    """Both flavors write the same transcript."""
    if not _difference(data):
        return
    small = smaller(data, lambda candidate: bool(_difference(candidate)))
    raise AssertionError(f"{_difference(small)}\n\nThe smallest input found, in hex: {small.hex()}")


def smaller(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """A part of `data` that still fails: pieces are left out, then bytes become zero, as long as that helps."""
    attempts = 0
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data) and attempts < _MAX_ATTEMPTS:
            attempts += 1
            candidate = data[:at] + data[at + size :]
            if fails(candidate):
                data = candidate
            else:
                at += size
        size //= 2
    for at in range(len(data)):
        candidate = data[:at] + b"\0" + data[at + 1 :]
        if data[at] and fails(candidate):
            data = candidate
    return data


def _difference(data: bytes) -> str:
    """The first line that differs; empty if there is none."""
    here, there = transcript(data), _other().transcript(data)
    for number, (mine, other) in enumerate(zip([*here, ""], [*there, ""], strict=False)):
        if mine != other:
            if _is_checked_earlier(mine if is_compiled() else other):
                return ""  # the objects are different from here on
            names = ("compiled", "pure") if is_compiled() else ("pure", "compiled")
            before = "".join(f"  {line}\n" for line in here[max(0, number - 3) : number])
            return f"line {number} differs; after\n{before}{names[0]}: {mine}\n{names[1]}: {other}"
    return "" if len(here) == len(there) else f"{len(here)} lines and {len(there)}"


def other_python() -> tuple[str, dict[str, str]]:
    """The program and the environment that run the other flavor."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if is_compiled():
        environment["EAGERSTREAM_PURE"] = "1"
    elif given := os.environ.get("EAGERSTREAM_OTHER_PYTHON"):
        return given, environment
    else:
        environment["PYTHONPATH"] = str(path_of(Flavor.COMPILED))
    return sys.executable, environment


def _is_checked_earlier(compiled: str) -> bool:
    """Compiled code checks the types of all arguments first, and pure code when it uses them, or never."""
    return compiled.startswith(MISUSES) and "raises TypeError" in compiled


class _Other:
    """The other flavor, in a process of its own."""

    def __init__(self) -> None:
        python, environment = other_python()
        self._process = subprocess.Popen(
            [python, "-m", __name__, "pure" if is_compiled() else "compiled"],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.kill)

    def transcript(self, data: bytes) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(data.hex() + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            _other.cache_clear()  # the next input gets another process
            raise AssertionError(f"the other flavor has died, with exit code {self._process.wait()}, of {data.hex()}")
        lines: list[str] = json.loads(answer)
        return lines


@functools.cache
def _other() -> _Other:
    return _Other()


def _serve(flavor: str) -> None:
    assert is_compiled() is (flavor == "compiled"), "the other process has the wrong flavor"
    for line in sys.stdin:
        sys.stdout.write(json.dumps(transcript(bytes.fromhex(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
