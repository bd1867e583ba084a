"""A Redis server of a test: it can be killed and started again. It comes from the system: in CI it has to be there."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest


class RedisServer:
    """A server on a free port, without files; a start after `kill` has lost everything, unless it keeps them.

    Args:
        folder: Its folder.
        keeps: True: each command is on the disk before it is answered.
    """

    def __init__(self, folder: Path, *, keeps: bool = False) -> None:
        found = shutil.which("redis-server")
        if found is None:
            if os.environ.get("CI"):
                pytest.fail("needs redis-server")
            pytest.skip("needs redis-server")
        self._program = found
        self._folder = folder
        self._keeps = keeps
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def client(self) -> Any:
        """A plain client: what anybody can do who reaches the server."""
        import redis

        return redis.Redis(port=self.port)

    def start(self) -> None:
        keeping = ("--appendonly", "yes", "--appendfsync", "always") if self._keeps else ("--appendonly", "no")
        listening = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "")
        self._process = subprocess.Popen([self._program, *listening, *keeping], stdout=subprocess.DEVNULL)
        end_s = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < end_s, "redis-server does not start"
                time.sleep(0.01)

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It takes connections, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
