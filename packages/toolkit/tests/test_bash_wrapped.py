"""`Bash(argv=...)` in a container of bubblewrap, and as another user: what its docstring promises of both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.toolkit.tests.bash_support import LATE, answer, said, shell
from packages.toolkit.tests.test_bash_secrets import CAN_BE_NOBODY
from tests.killing import await_true, killed
from tests.support import until

from eagerstream_toolkit import Bash

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

_SHELL = ("bash", "--noprofile", "--norc")
_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
_BUBBLEWRAP = (
    *(_AS_NOBODY if os.geteuid() == 0 else ()),
    *("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/bash"),
    *("--noprofile", "--norc"),
)
_HAS_BUBBLEWRAP = (
    shutil.which("bwrap") and not subprocess.run([*_BUBBLEWRAP, "-c", ":"], check=False, capture_output=True).returncode
)
_WRAPPERS = {
    "another user": pytest.param(
        (*_AS_NOBODY, *_SHELL), marks=pytest.mark.skipif(not CAN_BE_NOBODY, reason="needs root and setpriv")
    ),
    "bubblewrap": pytest.param(
        _BUBBLEWRAP, marks=pytest.mark.skipif(not _HAS_BUBBLEWRAP, reason="bubblewrap cannot start here")
    ),
}
wrapped = pytest.mark.parametrize("argv", _WRAPPERS.values(), ids=_WRAPPERS)
in_bubblewrap = pytest.mark.parametrize("argv", [_WRAPPERS["bubblewrap"]])


def test_the_docstring() -> None:
    """It names the wrappers that are tested here."""
    words = re.sub(r"[\s\"`]+", " ", Bash.__doc__ or "").replace(" , ", ", ")
    for argv in ((*_AS_NOBODY, *_SHELL), _BUBBLEWRAP[_BUBBLEWRAP.index("bwrap") :]):
        assert ", ".join(argv) in words


def _with(mark: str) -> list[int]:
    """The processes whose arguments have this text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in file.read_text():
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


@wrapped
async def test_commands(argv: tuple[str, ...]) -> None:
    """Statuses, state, both streams, and text that is code elsewhere."""
    async with shell(argv=argv, cwd="/") as bash:
        assert await said(bash, "cd /usr; x='a b'; echo out; echo err >&2; (exit 3)") == "out\nerr\n(exit status 3)"
        assert await said(bash, 'echo "$x" $PWD') == "a b /usr"
        hostile = "'\"$(id)`id`\\n\\x1b\u2028\x01;&|--\n\t😀"
        assert await said(bash, "printf %s '" + hostile.replace("'", "'\\''") + "'") == hostile


@wrapped
@pytest.mark.parametrize("end", ["timeout", "cancel", "close"])
async def test_no_process_is_left(argv: tuple[str, ...], end: str) -> None:
    """Not of the command, and not of a job in the background, however the shell ends."""
    mark = f"{os.getpid()}.{end}.{len(argv)}"
    script = f"trap '' HUP INT TERM; nohup bash -c 'sleep 1000; : {mark}' & bash -c 'sleep 1000; : {mark}'; :"
    with anyio.fail_after(50):
        bash = Bash(argv=argv, cwd="/", timeout_s=1.5 if end == "timeout" else 40.0)
        async with bash, anyio.create_task_group() as tasks:
            await answer(bash, ":")
            told: list[str] = []

            async def run() -> None:
                told.append(await said(bash, script))

            tasks.start_soon(run)
            await until(lambda: len(_with(mark)) >= 2)
            match end:
                case "timeout":
                    await until(lambda: told)
                    assert told[0].startswith(LATE)
                case "cancel":
                    tasks.cancel_scope.cancel()
                case _:
                    await bash.aclose()
                    tasks.cancel_scope.cancel()
        await until(lambda: not _with(mark))


@wrapped
async def test_a_program_that_is_killed(argv: tuple[str, ...]) -> None:
    """SIGKILL runs no cleanup: the watchdog kills the wrapper, and with it what is inside."""
    mark = f"{os.getpid()}.killed.{len(argv)}"
    code = f"""
import anyio
from eagerstream_toolkit import Bash

async def main():
    async with Bash(argv={argv!r}, cwd="/") as bash:
        await bash.call({{"command": "nohup bash -c 'sleep 1000; : {mark}' & bash -c 'sleep 1000; : {mark}'"}})

anyio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as program:  # noqa: ASYNC220 - it is quick
        await until(lambda: len(_with(f": {mark}\0")) >= 2)
        killed(program)
    await_true(lambda: not _with(mark))


@wrapped
async def test_keys_and_settings(argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the API in any environment that can be read there, no file of root's, no setting of the kernel."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    monkeypatch.setenv("SOMETHING", "sk-ant-hunter2")
    can_write = "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /etc/passwd /usr/bin/env; do (exec 3<>$f) && echo $f; done 2>&-"
    async with shell(argv=argv, cwd="/") as bash:
        assert await said(bash, "cat /proc/[0-9]*/environ 2>&- | grep -ac hunter2; env | grep -c hunter2") == (
            "0\n0\n(exit status 1)"
        )
        assert await said(bash, f"{can_write}; :") == ""
        assert (await said(bash, ": </dev/tty")).endswith("(exit status 1)"), "no terminal to type into"


@in_bubblewrap
async def test_forging(argv: tuple[str, ...]) -> None:
    """Whatever is written into all descriptors of the container's processes is output, and no end of a command."""
    forged = "for fd in /proc/[0-9]*/fd/[0-9]*; do [ -p $fd ] && echo \"trap -- 'x 0 hB' EXIT\" >$fd; done; (exit 4)"
    async with shell(argv=argv, cwd="/") as bash:
        first: Any = await answer(bash, f"{{ {forged}; }} 2>&-; (exit 4)")
        assert first.data["exit_status"] == 4
        assert await said(bash, "echo fine") == "fine"


@in_bubblewrap
async def test_a_daemon_ends_with_its_container(argv: tuple[str, ...]) -> None:
    """Without a container, a session of its own outlives the shell."""
    mark = f"{os.getpid()}.daemon"
    async with shell(argv=argv, cwd="/") as bash:
        await answer(bash, f"setsid bash -c 'sleep 1000; : {mark}' >&- 2>&- & :")
        await until(lambda: _with(mark))
    await until(lambda: not _with(mark))
