"""Successful tries of hostile requests, peers and tools: the number that get through, of all tries.

Each kind runs in its own process. "Before" is the same program with the code before these defences existed, on this
machine. It cannot be tried again, so its figures are stored. The tests also try each of these alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.progress import track
from rich.table import Table

import eagerstream
from eagerstream.recordings import Chunk, Recording

from .attack_cases import REQUEST, call, events_of, peer
from .attacks import BEFORE
from .targets import Row

PACE: Final = "not timed: successful tries are counted"
_KEY: Final = "Hunter2Secret"
_TIMEOUT_S: Final = 100


def redirects() -> tuple[int, int]:
    """Redirects to another host, with the key."""
    import httpx

    seen: list[bytes] = []

    async def ask(client: httpx.AsyncClient, base_url: str) -> None:
        transport = eagerstream.HTTPTransport(base_url=base_url, api_key=_KEY, http_client=client)
        try:
            async with eagerstream.stream(transport, **REQUEST) as stream:
                await stream.finish()
        except eagerstream.EagerStreamError:
            pass

    def thief(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        connection.sendall(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n")

    with peer(thief) as elsewhere:
        location = elsewhere.replace("127.0.0.1", "localhost").encode()
        answer = b"HTTP/1.1 307 There\r\nlocation: %b/v1/messages\r\ncontent-length: 0\r\n\r\n" % location
        with peer(lambda connection, _: connection.sendall(answer)) as base_url:
            for follows in (False, True):
                anyio.run(ask, httpx.AsyncClient(follow_redirects=follows), base_url)
    return sum(_KEY.encode() in head for head in seen), 2


_INPUTS: Final[tuple[dict[str, Any], ...]] = (
    {"env": [{"name": "API_KEY", "value": _KEY}]},
    {"credentials": {"user": "me", "pw": _KEY}},
    {"api_keys": [_KEY, _KEY]},
    {"headers": [["x-api-key", _KEY]]},
    {"secret": {"a": {"b": _KEY}}},
    {"password": f"line 1\n{_KEY}"},
    {"body": json.dumps({"credentials": {"pw": _KEY}})},
    {"body": json.dumps({"env": [{"name": "API_KEY", "value": _KEY}]})},
    {"url": f"https://maps.example/x?key={_KEY}"},
    {"text": f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{_KEY}\n-----END RSA PRIVATE KEY-----"},
    {"text": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{_KEY}\n-----END PGP PRIVATE KEY BLOCK-----"},
    {"text": f"# -----BEGIN PRIVATE KEY-----\n# {_KEY}\n# -----END PRIVATE KEY-----"},
)


def secrets() -> tuple[int, int]:
    """Secrets in inputs of tools that are in a saved recording."""
    through = 0
    with tempfile.TemporaryDirectory() as folder:
        for input in _INPUTS:
            path = Path(folder) / "reply.jsonl"
            call(json.dumps(input)).save(path)
            body = Recording.load(path).body
            fragments = [event["delta"] for event in events_of(body) if event["type"] == "content_block_delta"]
            through += _KEY in "".join(delta["partial_json"] for delta in fragments)
    return through, len(_INPUTS)


def files() -> tuple[int, int]:
    """Saved files that others may read, or that were written through a link."""
    os.umask(0o022)
    through = 0
    with tempfile.TemporaryDirectory() as folder:
        path, victim = Path(folder) / "reply.jsonl", Path(folder) / "victim"
        Recording((Chunk(0.0, b""),)).save(path)
        through += path.stat().st_mode & 0o077 != 0
        victim.write_text("precious", encoding="utf-8")
        (Path(folder) / "other.jsonl.part").symlink_to(victim)
        Recording((Chunk(0.0, b""),)).save(Path(folder) / "other.jsonl")
        through += not victim.exists() or victim.read_text(encoding="utf-8") != "precious"
    return through, 2


_REQUESTS: Final = (
    b"POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n",
    b"POST /../../admin HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n",
    b"POST /%2e%2e/%2e%2e/admin HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n",
    b"POST //evil.example/x HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/json\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n",  # without the token
)


def strangers() -> tuple[int, int]:
    """Requests of pages and of other programs to the recording proxy, sent on with the upstream's password."""
    from eagerstream_testing.capture import RecordingProxy

    seen: list[bytes] = []

    def upstream(connection: socket.socket, head: bytes) -> None:
        seen.append(head)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    with (
        peer(upstream) as url,
        tempfile.TemporaryDirectory() as folder,
        RecordingProxy(url.replace("//", "//user:password@") + "/base", Path(folder)) as proxy,
    ):
        for request in _REQUESTS:
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as connection:
                head = request.replace(b"{host}", b"127.0.0.1:%d" % proxy.port)
                connection.sendall(head + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
                while connection.recv(65_536):
                    pass
    return len(seen), len(_REQUESTS)


_KILLED: Final = """
import sys, time, anyio, eagerstream
from benchmarks.attack_cases import REQUEST, call
from eagerstream import tool
from eagerstream_durable.workers import ProcessExecutor, ProcessPool
from eagerstream_toolkit import Bash

@tool
def t(x: str) -> str:
    "Start a program, and wait for it."
    import subprocess
    subprocess.run(["sleep", "3123"])
    return x

async def worker():
    async with ProcessPool(workers=1) as pool:
        executor = ProcessExecutor([t], pool=pool)
        reply = call('{"x": "a"}')
        async with eagerstream.run(reply, **REQUEST, max_turns=1, tools=[t], executor=executor) as run:
            await run.finish()

async def main():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker)
        async with Bash() as bash:
            await bash._call({"command": "sleep 3124"}, None)

if __name__ == "__main__":
    anyio.run(main)
"""


def survivors() -> tuple[int, int]:
    """Programs of a worker and of a shell that outlive a program that was killed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(_KILLED, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        program = subprocess.Popen([sys.executable, str(path)], env=environment)
        _until(lambda: len(_sleeping()) == 2)
        program.kill()
        program.wait()
        try:
            _until(lambda: not _sleeping(), 8)
        except TimeoutError:
            pass
        left = _sleeping()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    return len(left), 2


def _sleeping() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
        except OSError:
            continue
        if re.fullmatch(rb"sleep\x00312[34]\x00", command):
            found.append(int(folder.name))
    return found


def _until(holds: Callable[[], bool], seconds: float = 30) -> None:
    end_s = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError
        time.sleep(0.05)


KINDS: Final[dict[str, Callable[[], tuple[int, int]]]] = {
    kind.__name__: kind for kind in (redirects, secrets, files, strangers, survivors)
}
"""Kinds of tries, by name."""


def counted(name: str) -> tuple[int, int]:
    """Try a kind in a new process. Return the number of tries that get through, and the number of all tries.

    Raises:
        RuntimeError: The process failed.
    """
    command = [sys.executable, "-m", f"{__package__}.let_through", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    through, tried = json.loads(done.stdout.splitlines()[-1])
    return through, tried


def main(console: Console, *, quick: bool) -> dict[str, Any]:  # noqa: ARG001
    """Try all kinds, print a table, and return the figures."""
    befores: dict[str, Any] = json.loads(BEFORE.read_text(encoding="utf-8"))["let_through"]
    found = {name: counted(name) for name in track(KINDS, "let through", console=console, transient=True)}
    table = Table(title="successful tries")
    for name in ("kind", "before", "now", "of"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    rows = []
    for name, (through, tried) in found.items():
        what = str(KINDS[name].__doc__).rstrip(".")
        before = befores[name][0]
        table.add_row(what, str(before), str(through), str(tried))
        row = Row(
            work=what,
            against="the same without the defence",
            pace=PACE,
            target="none",
            measured=f"{through} of {tried}; {before} before",
            met=through == 0,
        )
        rows.append(asdict(row))
    console.print(table)
    return {"found": found, "rows": rows}


if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]]()))
