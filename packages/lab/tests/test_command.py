"""`eagerstream bench` as its users meet it: a process, its output, its files, its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from packages.lab.tests.lab import made_results
from tests.commands import (
    COMMAND,
    ENVIRONMENT,
    InProcess,
    assert_one_line,
    shown_code,
    started as started_command,
)
from tests.streams import MADE_DIR as DATA
from tests.tables import rows

from eagerstream_lab._kinds import MEANINGS
from eagerstream_lab._metrics import METRICS
from eagerstream_lab._results import load_results, save_results
from eagerstream_lab._sources import poem_tools
from eagerstream_testing import ReplayServer, Scenario, Timing, buffered, reply, retime, text, tool_use

TOOLS = '''
"""Tools of somebody who wants to know when they begin."""
import asyncio

from eagerstream import ItemStream, tool

@tool
async def look(place: str) -> str:
    """Look at a place."""
    await asyncio.sleep(0.01)
    return "nothing there"

@tool
async def write(name: str, lines: ItemStream[str]) -> str:
    """Write lines, each as soon as it is there."""
    count = 0
    async for _ in lines:
        count += 1
    return f"{count} lines"

def tools():
    return [look, write]
'''


def bench(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "bench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,  # a guard against a hang
        check=False,
        env={**ENVIRONMENT, "COLUMNS": "120", **environment},
    )


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Return the command under way, in a session of its own, so that signals reach all of its processes."""
    return started_command("bench", *arguments, cwd=folder, start_new_session=True)


@pytest.mark.slow
def test_the_help_tells_what_the_figures_say(tmp_path: Path) -> None:
    """Each of them in a line: nobody knows "tool time behind the stream" by its name."""
    told = bench(tmp_path, "--help").stdout
    for label, meaning in MEANINGS.items():
        assert f"- {label}: {meaning}"[:60] in told
    assert {metric.label for metric in METRICS.values()} == set(MEANINGS)


@pytest.mark.slow
def test_own_tools_end_to_end(tmp_path: Path) -> None:
    """The whole story: a module of tools, a table with a verdict, results in a file, and nothing on the screen but text."""
    (tmp_path / "mine.py").write_text(TOOLS)
    done = bench(tmp_path, "--tools", "mine:tools", "--speed", "60", "-n", "7", "--seed", "5", "--no-html")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Start of the largest parameter: b is [0-9.]+ m?s earlier \[[0-9., ]+\]", done.stdout)
    assert "a: buffered, b: eager; simulated" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 16  # and no warning: seven repetitions can give two verdicts
    assert re.fullmatch(r"16/16 poem/mine:tools/\w+/simulated/anthropic: [0-9.]+ s, about 0\.0 s left", lines[-1])
    results = load_results(tmp_path / "bench-results" / "results.json")
    assert results["simulated"] is True
    assert results["settings"] == {
        "repetitions": 7,
        "warmup": 1,
        "seed": 5,
        "confidence": 0.95,
        "primary": ["duration_s", "large_parameter_s"],
        "min_effect": None,
        "until": None,
        "looks": [7],
        "profile": "documented",
        "speed": 60.0,
        "measured_at": "client",
    }
    assert {case["streaming"]: len(case["runs"]) for case in results["cases"]} == {"eager": 7, "buffered": 7}


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


@pytest.mark.slow
@rows(
    "arguments, told",
    [
        (["-n", "0"], "repetitions"),
        (["--speed", "0"], "speed must"),
        (["--speed", "inf"], "finite"),
        (["--timeout-s", "nan"], "timeout"),
        (["--confidence", "1"], "confidence"),
        (["--recording", "none.jsonl"], "none.jsonl"),
        (["--live"], "ANTHROPIC_API_KEY"),
        (["--until", "2%", "-n", "5"], "not --repetitions"),
        (["--max-runs", "5"], "need --until"),
        (["--until", "2%", "--eager"], "--until needs two cases"),
        (["--until", "soon"], "--until must be a share or a time"),
        (["--min-effect", "2"], "--min-effect must be a share or a time"),
        (["--primary", "speed"], "'speed' is no figure"),
        (["--program", ""], "--program must not be empty"),
        (["--program", "python 'x"], "a quote is not closed"),
        (["--program", "no-such-program --key=s3cret"], "no such program"),
        (["--programs-only"], "--programs-only needs a --program"),
        (["--export", "none/x.csv"], "none/x.csv: cannot be written"),
        (["--export", "x.xlsx"], "must end in .csv, .json, .prom"),
        (["--export", "bench-results/results.json"], "is a result"),
        (["--export", "x.csv", "--export", "./x.csv"], "is a result"),
        (["--min-effect", "0%"], "greater than 0"),
        (["--export", "x.csv", "compare", "a.json", "b.json"], "--export is for measuring"),
        (["--speed", "1e-320"], "speed must"),
        (["--tools", "leaves:tools"], "SystemExit"),
        (["--tools", "leaves_at_once:tools"], "SystemExit"),
        (["compare", "a.json", "b.json"], "a.json"),
        (["-n", "3", "compare", "a.json", "b.json"], "--repetitions is for measuring"),
        (["--no-html", "compare", "a.json", "b.json"], "--no-html is for measuring"),
    ],
)
def test_what_cannot_be_measured(
    arguments: list[str], told: str, tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wrong setting is one clear line and exit code 2, before anything is measured or written."""
    (tmp_path / "leaves.py").write_text("import sys\n\ndef tools():\n    sys.exit(7)\n")
    (tmp_path / "leaves_at_once.py").write_text("import sys\n\nsys.exit(7)\n")
    monkeypatch.chdir(tmp_path)
    assert_one_line(in_process("bench", *arguments), 2, told)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".py", ""}  # "" is of Python's cache
    assert not (tmp_path / "bench-results").exists()


@pytest.mark.nightly  # half a minute of waiting
def test_without_options(tmp_path: Path) -> None:
    """The poem, ten times each way, in a minute."""
    done = bench(tmp_path, "--no-html")
    assert done.returncode == 0, done.stderr
    assert "10 times as fast" in done.stdout
    assert re.search(r"Start of the largest parameter: b is 1\.[12]\d* s earlier \[", done.stdout)


@pytest.mark.slow
def test_until(tmp_path: Path) -> None:
    """It stops by itself when the intervals are narrow, and says after how many of how many."""
    options = ("--speed", "200", "--until", "500%", "--min-runs", "8", "--max-runs", "12", "--min-effect", "1s")
    done = bench(tmp_path, *options, "--no-html")
    assert done.returncode == 0, done.stderr
    assert "8 of up to 12 repetitions (until 500%)" in done.stdout
    assert "Complete run: less than 1.00 s apart" in done.stdout
    settings = load_results(tmp_path / "bench-results" / "results.json")["settings"]
    assert (settings["repetitions"], settings["until"], settings["looks"]) == (12, "500%", [8, 12])


@pytest.mark.slow
def test_recordings(tmp_path: Path) -> None:
    """A conversation of two turns beside a single reply; times of their own are kept, a fitted profile is saved."""
    call = reply(tool_use("write", {"lines": ["one", "two", "three"] * 20}))
    timed = retime(call, Timing(first_byte_s=0.05, tokens_per_second=2000, jitter=0.5))
    timed.save(tmp_path / "call.jsonl")
    reply(text("Done.")).save(tmp_path / "end.jsonl")
    recordings = ["--recording", "call.jsonl+end.jsonl", "--recording", str(DATA / "three_tools_interleaved.sse")]
    done = bench(
        tmp_path, *recordings, "--profile", "call.jsonl", "-n", "2", "--tool-seconds", "0.01", "--out", "o", "--no-html"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o" / "profile.json").exists()
    results = load_results(tmp_path / "o" / "results.json")
    assert [case["source"] for case in results["cases"]] == ["call+end"] * 2 + ["three_tools_interleaved"] * 2
    assert (results["settings"]["profile"], results["settings"]["speed"]) == ("call", 1.0)
    first = results["cases"][0]["runs"][0]
    assert (first["status"], len(first["latency"]["requests"])) == ("completed", 2)
    again = bench(tmp_path, *recordings[2:], "--profile", "o/profile.json", "-n", "1", "--out", "o", "--no-html")
    assert again.returncode == 0, again.stderr
    kept = [path.name for path in (tmp_path / "o").glob("results-*.json")]
    assert len(kept) == 1  # of the first time
    assert load_results(tmp_path / "o" / kept[0]) == results


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_interrupted(tmp_path: Path, again: bool) -> None:
    """Ctrl-C, which reaches all processes of a terminal, keeps the measured runs. The server leaves without a word.

    So does Ctrl-C that comes once more, while medians are computed.
    """
    with started(tmp_path, "--speed", "60", "-n", "100", "--out", "o", *([] if again else ["--no-html"])) as process:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("7/202 "):
            assert line
        os.killpg(process.pid, signal.SIGINT)
        while again and process.poll() is None and not (tmp_path / "o" / "results.json").exists():
            time.sleep(0.15)
            os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert shown_code(process.returncode) == 130
    assert "Traceback" not in errors
    if not again:
        assert all(re.match(r"\d+/202 ", line) for line in errors.splitlines())
        assert "a: buffered, b: eager" in output
    results = load_results(tmp_path / "o" / "results.json")
    assert 5 <= sum(len(case["runs"]) for case in results["cases"]) < 20


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_nobody_reads_any_longer(tmp_path: Path, closed: str) -> None:
    """`bench 2>&1 | head -1`: all is measured, and kept."""
    with started(tmp_path, "--speed", "100", "-n", "1", "--warmup", "0", "--no-html", "--out", "o") as process:
        pipe, other = (process.stdout, process.stderr)[:: 1 if closed == "stdout" else -1]
        assert pipe is not None
        assert other is not None
        pipe.close()
        told = other.read()
        process.wait(30)
    results = load_results(tmp_path / "o" / "results.json")
    assert [len(case["runs"]) for case in results["cases"]] == [1, 1]
    assert "Traceback" not in told
    assert ("2/2" if closed == "stdout" else "written: ") in told


@pytest.mark.slow
def test_interrupted_before_anything_was_measured(tmp_path: Path) -> None:
    """There is nothing to keep then."""
    with started(tmp_path, "--speed", "0.01", "--no-html", "--out", "o") as process:
        while not (tmp_path / "o").exists():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert shown_code(process.returncode) == 130
    assert errors == ""
    assert [*(tmp_path / "o").iterdir()] == []


@pytest.mark.slow
def test_every_run_fails(tmp_path: Path) -> None:
    """That is a failure of the command; results are written all the same."""
    done = bench(tmp_path, "--recording", str(DATA / "error_mid_stream.sse"), "-n", "1", "--speed", "1000", "--no-html")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "eagerstream: every run failed"
    assert "APIError" in done.stderr
    assert "1 of 1 failed with APIError" in done.stdout
    assert load_results(tmp_path / "bench-results" / "results.json")["comparisons"] == []


@pytest.mark.slow
def test_live_where_nobody_answers(tmp_path: Path) -> None:
    """It says what it is about to do, asks nobody in a pipe, and the key is in nothing that it writes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {"ANTHROPIC_API_KEY": "k-very-secret", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}
    done = bench(tmp_path, "--live", "-n", "2", "--prompt", "Private words.", "--no-html", **environment)
    assert done.returncode == 1
    warning, cost, *_ = done.stderr.splitlines()
    assert warning == (
        "warning: 2 repetitions cannot give 2 verdicts with a confidence of 95 %, whatever they measure. "
        "That takes at least 7: -n 7"
    )
    assert cost == "on the live API: 6 runs, of up to 10 requests each, which cost money"
    written = (tmp_path / "bench-results" / "results.json").read_text()
    for secret in ("secret", "Private"):
        assert secret not in done.stdout + done.stderr + written
    results = json.loads(written)
    assert (results["simulated"], results["settings"]["speed"]) == (False, None)
    assert "simulated" not in done.stdout


@pytest.mark.slow
def test_live(tmp_path: Path) -> None:
    """What would go to the API, answered here: each case asks as it says, and the figures are not called simulated."""
    (tmp_path / "question.txt").write_text("Write a poem.")
    scenario = Scenario(*poem_tools().script())
    with ReplayServer(scenario) as server:
        environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url}
        transports = ("--transport", "anthropic", "--transport", "httpx", "--transport", "httpx2")
        asked = ("--prompt-file", "question.txt", "--model", "claude-a", *transports)
        done = bench(tmp_path, "--live", *asked, "-n", "1", "--warmup", "0", "--no-html", **environment)
        bodies = [request.body for request in server.requests]
    assert done.returncode == 0, done.stderr
    assert "simulated" not in done.stdout
    results = load_results(tmp_path / "bench-results" / "results.json")
    assert len(results["cases"]) == 6
    assert {run["status"] for case in results["cases"] for run in case["runs"]} == {"completed"}
    ways = [{tool["eager_input_streaming"] for tool in body["tools"]} for body in bodies]
    assert (ways.count({True}), ways.count({False})) == (6, 6)  # two turns of three transports
    assert {body["model"] for body in bodies} == {"claude-a"}
    assert {body["messages"][0]["content"] for body in bodies} == {"Write a poem."}


@pytest.mark.slow
def test_a_progress_bar_in_a_terminal(tmp_path: Path) -> None:
    """In a terminal there is a bar with the time left, and it is gone when the table comes."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "bench", "--speed", "100", "-n", "3", "--no-html"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65_536)
        except OSError:
            break
    os.close(ours)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"round 2" in shown
    assert re.search(rb"\d/8.*0:00:0\d.*left", shown)
    assert "no verdict; 3 of 7 values that it takes" in output


@pytest.mark.slow
def test_compare(tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files, as a table, as JSON and as Markdown; limits have exit codes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    save_results(made_results(), tmp_path / "a.json")
    save_results(made_results(eager_s=5.0, seed=2), tmp_path / "b.json")
    done = in_process("bench", "compare", "a.json", "b.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        r"Complete run +[23]\.[09]\d* s +[45]\.[09]\d* s +\+(1\.9|2\.0)\d* s +\[[0-9., ]+\] +\+", done.stdout
    )
    files = ("--export", "c.json", "--export", "c.md")
    done = in_process("bench", "compare", "a.json", "b.json", *files, "--confidence", "0.9")
    assert "written: c.json, c.md" in done.stdout
    compared = json.loads((tmp_path / "c.json").read_text())
    assert compared["confidence"] == 0.9
    assert "| Complete run | 3.0" in (tmp_path / "c.md").read_text()
    assert {one["verdict"] for one in compared["cases"][0]["metrics"]} == {"higher", None}
    done = in_process("bench", "compare", "a.json", "b.json", "--min-effect", "5s")
    assert re.search(r"Complete run: less than 5\.00 s apart \[[12]\.\d", done.stdout)
    for limits, code in (
        (["duration_s:+200%"], 0),
        (["duration_s:+10%"], 3),
        (["duration_s:+66%"], 0),
        (["duration_s:+66%", "--strict"], 3),
        (["duration_s:+10%", "--fail-if", "duration_s:+200%"], 3),
    ):
        done = in_process("bench", "compare", "a.json", "b.json", "--fail-if", *limits)
        assert (done.returncode, done.stderr) == (code, "")
    save_results(made_results(eager_s=3.0, seed=2, failed=[1]), tmp_path / "c.json")
    done = in_process("bench", "compare", "a.json", "c.json", "--fail-if", "duration_s:+10%")
    assert "not checked: eager: 1 of 8 runs failed" in done.stdout
    assert_one_line(done, 1, "1 limit could not be checked")
    assert_one_line(in_process("bench", "compare", "a.json", "b.json", "--strict"), 2, "--fail-if")
    assert_one_line(in_process("bench", "compare", "a.json", "b.json", "--export", "c.txt"), 2, ".md")
    before = (tmp_path / "b.json").read_bytes()
    assert_one_line(in_process("bench", "compare", "a.json", "b.json", "--export", "./b.json"), 2, "is read")
    assert (tmp_path / "b.json").read_bytes() == before
    (tmp_path / "c.json").write_text('{"eagerstream_load": 1}')
    assert_one_line(in_process("bench", "compare", "a.json", "c.json"), 2, "it is a load test")
    (tmp_path / "b.json").write_text("{}")
    assert_one_line(in_process("bench", "compare", "a.json", "b.json"), 2, "b.json")


@pytest.mark.slow
def test_a_recording_that_cannot_be_eager(tmp_path: Path) -> None:
    """What was held back when it was saved is measured as it is, where one asks for that."""
    held = buffered(retime(reply(tool_use("f", {"x": "y" * 99})), Timing(tokens_per_second=1000)))
    held.save(tmp_path / "held.jsonl")
    assert_one_line(bench(tmp_path, "--recording", "held.jsonl"), 2, "eagerly")
    done = bench(tmp_path, "--recording", "held.jsonl", "--buffered", "-n", "1", "--warmup", "0", "--no-html")
    assert done.returncode == 0, done.stderr


def test_options_beside_those_of_other_tools() -> None:
    """The page for users of other tools names only options that exist."""
    from typer.main import get_command

    from eagerstream_lab._command import app

    command: Any = get_command(app)
    known = {option for one in (command, *command.commands.values()) for each in one.params for option in each.opts}
    page = (Path(__file__).parents[3] / "docs/guides/other-tools.md").read_text(encoding="utf-8")
    ours = [line.split("|")[2] for line in page.splitlines() if line.startswith("|")]
    named = {option for cell in ours for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell)}
    assert len(named) > 30
    assert named <= known
