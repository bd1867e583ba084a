"""Windows, imitated on this platform: the package imports without what Unix alone has, and its tools say what they lack.

The imitation removes names and modules. It shows no more than that: the tests do not run on Windows.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT_UNIX = """
import asyncio, builtins, importlib, os, signal, socket, sys
import eagerstream
from tests.source_tree import modules, sources

def import_all():
    for name in (name for package in sources() for name in modules(package)):
        if not name.endswith("__main__"):
            try:
                importlib.import_module(name)
            except (eagerstream.EagerStreamError, ImportError):
                pass  # an optional package is missing

import_all()  # loads the other packages, which must not meet the imitation
for name in [name for name in sys.modules if name.startswith("eagerstream")]:
    del sys.modules[name]

real_import = builtins.__import__

def import_on_windows(name, space=None, *rest):
    if name in {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}:
        if str((space or {}).get("__name__")).startswith("eagerstream"):
            raise ModuleNotFoundError(f"No module named {name!r}")
    return real_import(name, space, *rest)

builtins.__import__ = import_on_windows
for module, names in (
    (os, "O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK P_PID WEXITED fork getpgrp getuid killpg register_at_fork setsid waitid"),
    (signal, "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 pthread_sigmask"),
    (socket, "AF_UNIX MSG_NOSIGNAL"),
):
    for name in names.split():
        vars(module).pop(name, None)
os.supports_dir_fd = set()
asyncio.ProactorEventLoop = asyncio.SelectorEventLoop
sys.platform = "win32"

import eagerstream
import_all()
"""


def _on_windows(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_UNIX + script], check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_module_imports_and_tools_say_what_they_lack() -> None:
    """A program that uses neither jails nor bash must run on Windows, and the others must get a clear error."""
    script = """
import eagerstream_toolkit
from eagerstream import UsageError
for make in (eagerstream_toolkit.Bash, lambda: eagerstream_toolkit.Jail(".")):
    try:
        make()
    except UsageError as error:
        print(error)
"""
    assert _on_windows(script).splitlines() == [
        "this platform has no process groups, which a shell needs",
        "this platform cannot open files relative to a handle, which a jail needs",
    ]
