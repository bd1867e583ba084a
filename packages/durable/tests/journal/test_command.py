"""`eagerstream runs` on a journal."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows
from typer.testing import CliRunner

import eagerstream
from eagerstream.errors import EagerStreamError, JournalError, UsageError
from eagerstream.tools import ask_elsewhere
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._command import app as runs_app
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

PROGRAM = """
from contextlib import asynccontextmanager
import anthropic, anyio, eagerstream
from eagerstream.tools import ask_elsewhere

@eagerstream.tool(approve=ask_elsewhere)
async def launch(password: str) -> str:
    "Launch."
    return "launched"

def leaky(begin):
    raise ValueError("the key sk-secret")

async def hangs(begin):
    print("begun", flush=True)
    await anyio.sleep_forever()

@asynccontextmanager
async def app(begin):
    async with anthropic.AsyncAnthropic() as client:
        yield {"client": client, "tools": [launch]}

broken = 1
"""


@eagerstream.tool(approve=ask_elsewhere)
async def launch(password: str) -> str:
    """Launch."""
    return "launched"


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    answers = (reply(tool_use("launch", {"password": "hunter2-hunter2"})), reply(text("Done.")), reply(text("More.")))
    with ReplayServer(Scenario(*answers)) as server:
        yield server


@pytest.fixture
def journal(tmp_path: Path, server: ReplayServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal with the run `r`, which waits for approval, in the current folder, with the program."""
    path = tmp_path / "runs.db"
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "program.py").write_text(PROGRAM)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EAGERSTREAM_JOURNAL", str(path))

    async def begin() -> None:
        async with Journal(path) as opened, anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=[launch], journal=opened, run_id="r") as run:
                await run.finish()

    anyio.run(begin)
    return path


def said(*arguments: str) -> str:
    """The output of a command that succeeds."""
    return CliRunner().invoke(runs_app, arguments, catch_exceptions=False).output


@pytest.mark.usefixtures("journal")
def test_a_run_from_the_list_to_its_end() -> None:
    """It is listed, shown without the secret, approved, continued, and woken by a message."""
    assert said("list").split("\t")[:4] == ["r", "waiting", "none", "1"]
    assert said("list", "--status", "completed") == ""
    [listed] = map(json.loads, said("list", "--json").splitlines())
    assert listed["facts"]["approvals"][0]["name"] == "launch"
    shown = said("show", "r")
    assert "launch" in shown
    assert "asked" in shown
    assert "hunter2" not in shown
    assert "approved launch" in said("approve", "r")
    assert "decided" in said("show", "r")
    assert said("work", "program:app", "--once", "--poll-s", "0.01") == "r: completed\n"
    assert "result: launched" in said("show", "r")
    assert "hunter2" not in said("show", "r")
    said("say", "r", "Go on.")
    assert "Go on." in said("show", "r")
    assert said("resume", "r", "program:app") == "r: completed\n"
    assert json.loads(said("show", "r", "--json"))[-1]["content"] == [{"type": "text", "text": "More."}]


@pytest.mark.usefixtures("journal")
def test_a_run_is_denied_and_cancelled() -> None:
    """The model gets the reason, if the run continues; a cancelled run ends."""
    call = said("show", "r").partition("  toolu")[2].split()[0]
    assert "denied" in said("deny", "r", f"toolu{call}", "--reason", "No rockets.")
    said("cancel", "r", "--call", "toolu_other", "--reason", "Not that one.")  # there is no such call
    said("cancel", "r")
    assert "cancelled" in said("show", "r")
    assert said("work", "program:app", "--once", "--poll-s", "0.01") == "r: cancelled\n"


@pytest.mark.usefixtures("journal")
def test_a_denial_takes_its_reason_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reads it. There may be none."""
    told: list[tuple[str, object]] = []

    async def decide(_: Journal, run: str, call: str, decision: object) -> None:
        told.append((run, decision))

    monkeypatch.setattr(Journal, "decide", decide)
    said("deny", "r")
    said("deny", "r", "--reason", "No rockets.")
    assert told == [("r", False), ("r", "No rockets.")]


def test_an_encrypted_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key comes from the environment; without it, nothing is shown."""
    key = base64.urlsafe_b64encode(bytes(32)).decode()
    begin: dict[str, Any] = {"kind": "begin", "turn": 0, "options": {}, **REQUEST}

    async def fill() -> None:
        async with Journal(tmp_path / "runs.db", key=key) as opened:
            await (await opened.create("r", begin)).release("waiting", {})

    anyio.run(fill)
    monkeypatch.setenv("EAGERSTREAM_JOURNAL", str(tmp_path / "runs.db"))
    with pytest.raises(JournalError, match="needs its key"):
        said("list")
    monkeypatch.setenv("EAGERSTREAM_JOURNAL_KEY", key)
    assert said("list").startswith("r\twaiting\t")


@rows(
    "arguments, words",
    [
        (["show", "x"], "no such run"),
        (["cancel", "x"], "no such run"),
        (["approve", "r", "x"], "does not wait"),
        (["say", "r", ""], "refuse"),
        (["work", "program"], "module:name"),
        (["work", "program:missing"], "missing"),
        (["work", "program:broken"], "not a function"),
        (["resume", "r", "nowhere:app"], "nowhere"),
        (["list", "--status", "nonsense"], "running, completed"),
        (["list", "--journal", "missing.db"], "missing.db"),
    ],
)
@pytest.mark.usefixtures("journal")
def test_unusable_arguments(arguments: list[str], words: str) -> None:
    """Each has an error of the library, which the command prints as one line."""
    with pytest.raises(EagerStreamError, match=words) as caught:
        said(*arguments)
    assert isinstance(caught.value, UsageError) or arguments[0] in ("show", "cancel", "list")


@pytest.mark.usefixtures("journal")
def test_an_application_that_raises() -> None:
    """The command prints the type of the error, and nothing of its text."""
    done = CliRunner().invoke(runs_app, ["resume", "r", "program:leaky"])
    assert (done.exit_code, done.output) == (1, "eagerstream: run r cannot be continued: ValueError\n")


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_worker_at_once(number: signal.Signals) -> None:
    """Without a traceback, and the run is still due."""
    said("approve", "r")
    command = [sys.executable, "-m", "eagerstream", "runs", "work", "program:hangs", "--poll-s", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stderr is not None
        assert worker.stdout.readline() == "begun\n"
        worker.send_signal(number)
        assert "handing over" in worker.stderr.readline()
        worker.send_signal(number)
        assert worker.wait(30) == 128 + number
        assert worker.stderr.read() == "eagerstream: giving up the active runs at once\n"
    [listed] = map(json.loads, said("list", "--json").splitlines())
    assert listed["is_due"]


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
def test_a_worker_ends_at_a_signal() -> None:
    """It ends without an error, and its output is a line for each run."""
    said("approve", "r")
    command = [sys.executable, "-m", "eagerstream", "runs", "work", "program:app", "--poll-s", "0.05"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "r: completed\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
