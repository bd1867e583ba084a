"""Programs that tests kill with SIGKILL, and the processes that they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_SLOWLY_S = 30


@contextmanager
def program(folder: Path, source: str, *, awaits: int) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Run a program until it has noted so many process ids in the file `pids`; it is killed at the end, with these."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    noted = folder / "pids"
    with subprocess.Popen([sys.executable, str(script)], cwd=folder, env=env) as started:
        pids: list[int] = []
        try:
            await_true(
                lambda: (noted.exists() and noted.read_text().count("\n") >= awaits) or started.poll() is not None
            )
            assert started.returncode is None
            pids = [int(line) for line in noted.read_text().split()]
            yield started, pids
        finally:
            started.kill()
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)


def killed(started: subprocess.Popen[bytes]) -> None:
    """Kill a program as nothing can be prevented from, and let it be gone: a zombie would pass for a living one."""
    started.kill()
    started.wait()


def await_true(holds: Callable[[], object], *, at_most_s: float = _SLOWLY_S) -> None:
    """Wait for what other processes do."""
    deadline_s = time.monotonic() + at_most_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.01)


def watchdog_of(pid: int) -> int:
    """The watchdog of a program, by its arguments, once it ignores what it has to ignore."""
    found: list[int] = []

    def is_found() -> bool:
        found[:] = [other for other in _commands_with(b"watchdog import main", str(pid).encode()) if _is_ready(other)]
        return bool(found)

    await_true(is_found)
    return found[0]


def _commands_with(part: bytes, last: bytes) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[-2:-1] == [last] and any(part in word for word in words):
                yield int(folder.name)


def _is_ready(pid: int) -> bool:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
        return bool(ignored >> (signal.SIGTERM - 1) & 1)
    return False
