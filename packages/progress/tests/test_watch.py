"""`eagerstream watch`: saved runs and the demo on the web page."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from packages.progress.tests.made_log import add, made_log
from typer.testing import CliRunner

from eagerstream.errors import UsageError
from eagerstream_progress import save_records
from eagerstream_progress._commands.watch import app

COMMAND = [sys.executable, "-c", "from eagerstream._command import main; main()", "watch"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A run in a file."""
    log = made_log(name="Saved", texts=2)
    add(log, {"type": "run_stop", "status": "completed", "turns": 1, "usage": {}, "error": None})
    path = tmp_path / "saved.jsonl"
    save_records(path, log.records())
    return path


@pytest.mark.slow
def test_what_cannot_be_watched(saved: Path, tmp_path: Path) -> None:
    """Nothing to show, no run in a file, a speed that cannot be, no host: told before anything listens."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}")
    for arguments in (
        [],
        [str(broken)],
        [str(saved), "--speed", "0"],
        [str(saved), "--speed", "nan"],
        ["--demo", "--host", ""],
    ):
        result = CliRunner().invoke(app, arguments)
        assert isinstance(result.exception, UsageError), arguments


def test_a_page_in_a_file(saved: Path, tmp_path: Path) -> None:
    """It is written, and the command ends; without a saved run, nothing is."""
    path = tmp_path / "run.html"
    result = CliRunner().invoke(app, [str(saved), str(saved), "--export", str(path)])
    assert (result.exit_code, result.output) == (0, f"wrote {path}\n")
    assert path.read_text().count('"summary"') == 2
    assert path.stat().st_mode & 0o77 == 0
    for arguments in (["--demo"], [], [str(saved), "--speed", "1"]):
        result = CliRunner().invoke(app, [*arguments, "--export", str(tmp_path / "none.html")])
        assert isinstance(result.exception, UsageError), arguments
    assert not (tmp_path / "none.html").exists()


@contextmanager
def watching(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, which does not outlive a test that fails."""
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_url(process: subprocess.Popen[str]) -> tuple[str, dict[str, str]]:
    """Where the page is, and what a program sends to see it."""
    assert process.stdout is not None
    word, url = process.stdout.readline().split()
    assert word == "open"
    base, token = url.split("/?token=")
    return base, {"authorization": f"Bearer {token}"}


def first_message(base: str, headers: dict[str, str], query: str, event: str) -> Any:
    """The data of the first message of a type."""
    seen = ""
    with httpx.stream("GET", f"{base}/events{query}", headers=headers, timeout=30) as answer:
        for chunk in answer.iter_text():
            seen += chunk
            if (found := re.search(rf"event: {event}\n(?:id: \d+\n)?data: (.*)\n\n", seen)) is not None:
                return json.loads(found[1])
    raise AssertionError(seen)


@pytest.mark.slow
def test_saved_runs_are_shown_until_interrupted(saved: Path) -> None:
    """The URL is printed, the run is there, and Ctrl-C ends it cleanly."""
    with watching(str(saved)) as process:
        base, headers = read_url(process)
        (run,) = first_message(base, headers, "", "runs")
        assert (run["name"], run["status"]) == ("Saved", "completed")
        records = first_message(base, headers, f"?run={run['id']}", "records")["records"]
        assert [record["text"] for record in records if record["type"] == "text_delta"] == ["0 1 "]
        assert httpx.get(base, timeout=20).status_code == 401
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_the_demo_begins_by_itself() -> None:
    """Nothing has to be there to try the page."""
    with watching("--demo") as process:
        base, headers = read_url(process)
        run = None
        while run is None:
            run = next(iter(first_message(base, headers, "", "runs")), None)
        assert run["name"] == "A poem for the harbour"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_saved_run_is_replayed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a speed it comes in its own time; on the command's own event loop. A run that is given twice is there twice."""
    from eagerstream_progress import load_records
    from eagerstream_progress._commands.watch import _watch
    from eagerstream_progress.web import serve

    records = load_records(saved)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: _watch([records, records], serve, demo=False, speed=2.0))
        printed = ""
        with anyio.fail_after(10):
            while "token" not in printed:
                await anyio.sleep(0.01)
                printed += capsys.readouterr().out
        base, token = printed.split()[-1].split("/?token=")
        headers = {"authorization": f"Bearer {token}"}
        started = anyio.current_time()
        run, copy = await anyio.to_thread.run_sync(first_message, base, headers, "", "runs")
        assert (copy["name"], copy["id"]) == (run["name"], f"{run['id']}-2")
        await anyio.to_thread.run_sync(first_message, base, headers, f"?run={run['id']}", "end")
        assert anyio.current_time() - started > records[-1]["at_s"] / 2 * 0.5
        tasks.cancel_scope.cancel()
