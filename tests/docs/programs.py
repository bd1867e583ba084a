"""The programs of the README and the docs: where they are, and how they are run against the double of the API."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packages.adapters.tests.chat.server import ChatServer

from eagerstream_testing import ReceivedRequest, ReplayServer, Scenario

ROOT = Path(__file__).parents[2]
# `.ci/installed` gives the one of an environment with the installed package.
PYTHON = os.environ.get("EAGERSTREAM_PROGRAMS_PYTHON", sys.executable)
PAGES = [
    *sorted(page for folder in ("start", "guides") for page in (ROOT / "docs" / folder).glob("*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
]

_FENCE = re.compile(
    r"^(?:<!-- program: (?P<name>[a-z0-9-]+) -->\n)?(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_MARKER = re.compile(r"^<!-- program: ", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program of a page; `name` is empty if it has no marker."""

    page: str
    name: str
    code: str


@dataclass(frozen=True)
class Done:
    """A program that has ended: its output, the requests that it sent, and its folder."""

    output: str
    requests: Sequence[ReceivedRequest]
    folder: Path


def programs(page: Path) -> Iterator[Program]:
    """The ```python blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = [block for block in _FENCE.finditer(text) if block["language"] == "python"]
    assert len(_MARKER.findall(text)) == sum(block["name"] is not None for block in found), f"a loose marker in {page}"
    for block in found:
        yield Program(str(page.relative_to(ROOT)), block["name"] or "", block["code"])


def environment(server: ReplayServer | ChatServer) -> Mapping[str, str]:
    """What tells clients to ask the double: only an address, and a key of any value."""
    return {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "simulated",
        "OPENAI_BASE_URL": f"{server.base_url}/v1",
        "OPENAI_API_KEY": "simulated",
    }


def run_program(
    code: str,
    scenario: Scenario,
    folder: Path,
    *,
    options: Sequence[str] = (),
    arguments: Sequence[str] = (),
    warns: str = "",
    server: type[ReplayServer | ChatServer] = ReplayServer,
) -> Done:
    """Run a program to its end. It must end with 0, and say nothing on stderr but what it warns of.

    Args:
        code: The program. It becomes a file: worker processes import it.
        scenario: What the API answers.
        folder: Of the program, and its working directory.
        options: Of Python, before the file.
        arguments: Of the program.
        warns: Pattern of all that it says on stderr.
        server: Plays the scenario.
    """
    file = folder / "program.py"
    file.write_text(code, encoding="utf-8")
    with server(scenario) as playing:
        done = subprocess.run(
            [PYTHON, *options, file, *arguments],
            env=environment(playing),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            cwd=folder,
        )
        requests = playing.requests
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(warns, done.stderr), done.stderr
    return Done(done.stdout, requests, folder)


@contextmanager
def serving(code: str, scenario: Scenario, folder: Path) -> Iterator[str]:
    """Run a program that serves at `PORT` until Ctrl-C, or whose `app` uvicorn serves. Yields its address."""
    file = folder / "program.py"
    file.write_text(code, encoding="utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    options = ["--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "1"]
    command = [file] if "uvicorn.run(" in code else ["-m", "uvicorn", "program:app", *options]
    with (
        ReplayServer(scenario) as server,
        subprocess.Popen(
            [PYTHON, *command], env={**environment(server), "PORT": str(port)}, cwd=folder, stderr=subprocess.PIPE
        ) as process,
    ):
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert errors == b"", errors.decode()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert process.poll() is None, "it has ended"
            time.sleep(0.1)
        else:
            return
    raise AssertionError("nothing listens")
