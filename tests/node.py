"""Clients of other people's protocols, from npm: a Node script in `_CLIENTS` reads a stream of ours and writes what it made of it."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import uvicorn

_CLIENTS = Path(__file__).parents[1] / "packages/progress/tests/clients"


@cache
def _missing(folder: Path) -> str | None:
    """Why the packages of a folder cannot be used; None once they are installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "needs Node.js and npm"
    lock = folder / "package-lock.json"
    installed = folder / "node_modules" / ".package-lock.json"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run in several processes
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(
                [npm, "ci", "--no-progress"], check=False, cwd=folder, capture_output=True, text=True, timeout=300
            )
            if done.returncode:
                return f"npm ci failed: {done.stderr.strip()[-500:]}"
            installed.touch()
    return None


def need_packages(folder: Path = _CLIENTS) -> None:
    """Install what the lock file of a folder names, once.

    Skips the test where there is no Node.js; in CI that is a failure.
    """
    if (missing := _missing(folder)) is not None:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def installed_file(path: str) -> Path:
    """A file of one of the packages; skips the test as `run_client` does."""
    need_packages()
    return _CLIENTS / "node_modules" / path


def run_client(script: str, *arguments: str, given: Any = None) -> Any:
    """What a script of that folder prints, as JSON; `given` goes to its standard input as JSON.

    Skips the test as `need_packages` does.
    """
    need_packages()
    command: Sequence[str] = ["node", str(_CLIENTS / script), *arguments]
    text = None if given is None else json.dumps(given)
    done = subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise AssertionError(f"{script} failed: {done.stderr.strip()[-4000:]}")
    return json.loads(done.stdout)


def ask_client(script: str, given: Any) -> Any:
    """The line with which a script of this folder answers one, both as JSON. It is started once, and stays.

    Skips the test as `need_packages` does.
    """
    process = _lasting(script)
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(given), file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise AssertionError(f"{script} ended with {process.wait()}")
    return json.loads(answer)


@cache
def _lasting(script: str) -> subprocess.Popen[str]:
    need_packages()
    command = ["node", str(_CLIENTS / script)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def end() -> None:
        with process:  # closes its input, which ends it
            pass

    atexit.register(end)
    return process


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of an application on a server as others run it, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
