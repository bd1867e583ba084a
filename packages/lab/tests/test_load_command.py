"""`eagerstream bench load` as its users meet it: a process, its output, its files, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from jsonschema_rs import Draft202012Validator
from packages.lab.tests.test_command import bench, started
from packages.lab.tests.test_programs import LOOP, OURS, TOOLS, command
from tests.commands import InProcess, assert_one_line, shown_code
from tests.tables import rows

from eagerstream_lab._load_results import LevelData, LoadCaseData, LoadResults, load_load, load_schema
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, retime, text, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SHORT = ("--duration", "2s", "--ramp-duration", "300ms", "--warmup-duration", "500ms", "--no-html", "--seed", "3")

MANY = '''
"""A program that makes many runs at once, by itself."""
import asyncio, sys
import anthropic
from loop import run_once

async def user(client, number):
    while True:
        await run_once(client, f"Question {number % 2}")

async def main() -> None:
    async with anthropic.AsyncAnthropic() as client:
        await asyncio.gather(*(user(client, number) for number in range(int(sys.argv[1]))))

asyncio.run(main())
'''


def load(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return bench(folder, "load", *arguments, **environment)


def results_of(folder: Path) -> LoadResults:
    """The results in the folder, which fit the schema."""
    path = folder / "load-results" / "load.json"
    Draft202012Validator(load_schema()).validate(json.loads(path.read_text()))
    return load_load(path)


def levels_of(folder: Path, case: int = 0) -> list[LevelData]:
    return results_of(folder)["cases"][case]["levels"]


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """A short conversation of 0.2 s, as an option."""
    turns = (reply(text("I will."), tool_use("look", {"place": "harbour"})), reply(text("Nothing there.")))
    for number, turn in enumerate(turns):
        retime(turn, Timing(first_byte_s=0.1)).save(tmp_path / f"{number}.jsonl")
    return "0.jsonl+1.jsonl"


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


@rows(
    "arguments, told",
    [
        (["-c", "0"], "--concurrency must be"),
        (["--rate", "0"], "--rate must be"),
        (["--duration", "soon"], "--duration must be a time"),
        (["--slo", "speed:1s"], "--slo takes"),
        (["--rate", "9999"], "shorten it"),
        (["--programs-only"], "--programs-only needs a --program"),
        (["--rate", "1", "--program", "cat {concurrency}"], "leave out --rate"),
        (["--export", "x.xlsx"], "must end in .csv, .json, .prom"),
        (["--live"], "ANTHROPIC_API_KEY"),
    ],
)
def test_what_cannot_be_measured(
    arguments: list[str], told: str, tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wrong setting is one clear line and exit code 2, before anything is measured or written."""
    monkeypatch.chdir(tmp_path)
    assert_one_line(in_process("bench", "load", *arguments), 2, told)
    assert [*tmp_path.iterdir()] == []
    assert_one_line(in_process("bench", "--no-html", "load"), 2, "--no-html is for measuring")


def test_levels_of_both_kinds(tmp_path: Path, recording: str) -> None:
    """Closed and open loops, one after the other, in two client processes; files, tables and exit code."""
    options = ("--recording", recording, "-c", "1", "-c", "4", "-r", "6", "--clients", "2", "--slo", "duration:10s")
    done = load(tmp_path, *options, *SHORT, "--arrival-pattern", "constant", "--export", "runs.csv")
    assert done.returncode == 0, done.stderr
    one, four, rate = levels_of(tmp_path)
    assert [level["name"] for level in (one, four, rate)] == ["1 concurrent", "4 concurrent", "6/s"]
    assert one["completed"] < four["completed"]
    assert rate["runs"] == 12
    for level in (one, four, rate):
        assert level["failed"] == level["unfinished"] == 0
        assert level["goodput_per_s"] == level["throughput_per_s"] > 0
        assert len(level["clients"]) == 2
        assert level["server"] is not None
        for name in ("first_byte_s", "first_field_s", "tool_start_s", "duration_s"):
            assert level["figures"][name]["n"] == level["runs"]
        shares = level["each"]["figures"]
        assert all((value or 0) >= 0.19 for value in shares["duration_s"])
        assert all((value or 0) >= 0.09 for value in shares["first_byte_s"])
    assert 0.5 < one["mean_concurrency"] <= 1.01
    assert 3 < four["mean_concurrency"] <= 4.01
    assert "4 concurrent" in done.stdout
    assert (tmp_path / "runs.csv").read_text().count("\n") > 20


def test_a_stalled_server_in_an_open_loop(tmp_path: Path) -> None:
    """The end of coordinated omission, from end to end: runs that had to wait for a place count from their schedule."""
    slow = retime(reply(text("Done.")), Timing(first_byte_s=1.0))
    slow.save(tmp_path / "slow.jsonl")
    options = ("--recording", "slow.jsonl", "-r", "4", "--max-concurrency", "1", "--arrival-pattern", "constant")
    done = load(tmp_path, *options, *SHORT, "--grace-period", "3s")
    assert done.returncode in (0, 1), done.stderr
    (level,) = levels_of(tmp_path)
    assert level["runs"] == 8
    ended = [value for value in level["each"]["figures"]["duration_s"] if value is not None]
    assert level["unfinished"] == 8 - len(ended) > 0
    assert all(value > 1.5 for value in ended)  # one run takes 1 s
    assert level["queued"] > 0
    assert "waited for --max-concurrency" in done.stdout


def test_a_server_that_fails(tmp_path: Path) -> None:
    """A tenth of the responses fail, in many ways: failed runs are counted by their class, and in the percentiles."""
    turns = (reply(text("I will."), tool_use("look", {"place": "harbour"})), reply(text("Done.")))
    timed = [retime(turn, Timing(first_byte_s=0.02)) for turn in turns]
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "look", "input_schema": {"type": "object"}}]))
    faults = Faults.random(1, rate=0.1, kinds=[FaultKind.HTTP_ERROR, FaultKind.RESET, FaultKind.END])
    with ReplayServer(Scenario(*timed), faults=faults) as server:
        environment = {"ANTHROPIC_API_KEY": "s3cret", "ANTHROPIC_BASE_URL": server.base_url}
        options = ("--live", "--yes", "--tools", "tools.json", "--prompt", "Private words.")
        done = load(tmp_path, *options, "-c", "6", *SHORT, **environment)
    assert done.returncode == 0, done.stderr
    (level,) = levels_of(tmp_path)
    assert level["failed"] == sum(level["errors"].values()) > 0
    assert level["completed"] > level["failed"]
    assert level["runs"] == level["completed"] + level["failed"] + level["unfinished"]
    assert level["figures"]["duration_s"]["n"] == level["runs"]
    assert level["server"] is None
    assert "failed with" in done.stdout
    assert "which cost money" in done.stderr
    written = (tmp_path / "load-results" / "load.json").read_text()
    assert "s3cret" not in done.stdout + done.stderr + written
    assert "Private" not in done.stdout + done.stderr + written


def test_every_run_fails(tmp_path: Path) -> None:
    """That is a failure of the command; results are written all the same."""
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "look", "input_schema": {"type": "object"}}]))
    refused = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529)] * 10_000})
    with ReplayServer(reply(text("Done.")), faults=refused) as server:
        environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url}
        options = ("--live", "--yes", "--tools", "tools.json", "--prompt", "Go.", "-c", "2")
        done = load(tmp_path, *options, *SHORT, **environment)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "eagerstream: every run failed"
    (level,) = levels_of(tmp_path)
    assert [*level["errors"]] == ["APIError 529"]
    assert level["figures"] == {}


def test_interrupted(tmp_path: Path, recording: str) -> None:
    """Ctrl-C, which reaches all processes of a terminal, keeps the level as far as it came."""
    options = ("--recording", recording, "-c", "2", "-c", "3", *SHORT, "--duration", "60s")
    with started(tmp_path, "load", *options) as process:
        assert process.stderr is not None
        while ": 0 runs" in (line := process.stderr.readline()):
            assert line.startswith("1/2 ")
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert shown_code(process.returncode) == 130
    assert "Traceback" not in errors
    (level,) = levels_of(tmp_path)
    assert level["interrupted"]
    assert level["completed"] > 3
    assert 1 < level["duration_s"] < 60
    assert level["throughput_per_s"] == pytest.approx(level["completed"] / level["duration_s"], rel=0.5)
    assert level["clients"][0]["cpu_share"] > 0
    assert level["server"] is not None
    assert "2 concurrent: interrupted after" in output


def test_interrupted_before_anything_was_measured(tmp_path: Path, recording: str) -> None:
    """There is nothing to keep then."""
    with started(tmp_path, "load", "--recording", recording, "-c", "2", "--no-html") as process:
        while not (tmp_path / "load-results").exists():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert shown_code(process.returncode) == 130
    assert "Traceback" not in errors
    assert [*(tmp_path / "load-results").iterdir()] == []


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A loop around `messages.stream` as a program that makes one run, and as one that makes many."""
    (tmp_path / "functions.py").write_text(TOOLS.replace("0.2", "0.01"))
    (tmp_path / "ours.py").write_text(OURS)
    body = LOOP.replace("sys.argv[1]", "prompt")
    once = body.replace(
        "async def main() -> None:\n    async with anthropic.AsyncAnthropic() as client:\n",
        "async def run_once(client, prompt):\n    if True:\n",
    )
    (tmp_path / "loop.py").write_text(once.replace("asyncio.run(main())\n", ""))
    (tmp_path / "many.py").write_text(MANY)
    (tmp_path / "one.py").write_text(
        "import asyncio, anthropic\nfrom loop import run_once\n\nasync def main():\n"
        "    async with anthropic.AsyncAnthropic() as client:\n        await run_once(client, 'Go.')\n\nasyncio.run(main())\n"
    )
    (tmp_path / "broken.py").write_text("import sys\nsys.exit('no')\n")
    return tmp_path


def level_at_the_proxy(case: LoadCaseData) -> LevelData:
    """The only level of a case without failures, whose figures come in their order."""
    (level,) = case["levels"]
    assert level["failed"] == 0, level["errors"]
    assert level["completed"] > 0
    assert level["proxy"] is not None
    assert level["figures"]["first_field_s"]["n"] == level["runs"]
    values = level["each"]["figures"]
    names = ("first_byte_s", "first_field_s", "duration_s")
    runs = [run for run in zip(*(values[name] for name in names), strict=True) if run != (None, None, None)]
    assert all(None not in run and sorted(run, key=lambda value: value or 0) == [*run] for run in runs)
    return level


def test_a_program_of_one_run(programs: Path) -> None:
    """So many processes, beside as many runs of our own loop, all measured at the same proxy."""
    options = ("--program", command("one.py"), "--tools", "ours:TOOLS", "-c", "3", "--speed", "100", *SHORT)
    at_once = ("--ramp-duration", "0s", "--warmup-duration", "0s", "--grace-period", "60s")
    done = load(programs, *options, *at_once)
    assert done.returncode == 0, done.stderr
    results = results_of(programs)
    assert results["settings"]["measured_at"] == "proxy"
    assert results["baseline"] is not None
    assert results["baseline"]["proxy_added_s"] is not None
    assert results["baseline"]["server"] is not None
    assert results["baseline"]["server"]["lag_max_s"] > 0
    assert [case.get("program") for case in results["cases"]] == [None, "one.py"]
    ours, one = map(level_at_the_proxy, results["cases"])
    assert "tool_start_s" in ours["figures"]
    assert "tool_start_s" not in one["figures"]
    ends = zip(one["each"]["figures"]["duration_s"], one["each"]["end_s"], strict=True)
    assert all((end_s or 0) - (took_s or 0) > 0.1 for took_s, end_s in ends)  # its own start does not count


def test_a_program_of_many_runs(programs: Path) -> None:
    """One process makes so many runs at once; the proxy finds them by their messages."""
    options = ("--program", command("many.py", "{concurrency}"), "--programs-only", "--tools", "ours:TOOLS", "-c", "3")
    done = load(programs, *options, "--speed", "100", *SHORT, "--duration", "12s", "--grace-period", "4s")
    assert done.returncode == 0, done.stderr
    level = level_at_the_proxy(results_of(programs)["cases"][0])
    assert level["completed"] > 3
    assert 0.1 < level["mean_concurrency"] <= 3.5


def test_a_program_that_fails(programs: Path) -> None:
    """Each failed process is a failed run."""
    done = load(
        programs, "--program", command("broken.py"), "--programs-only", "--tools", "ours:TOOLS", "-c", "2", *SHORT
    )
    assert done.returncode == 1
    (level,) = levels_of(programs)
    assert level["runs"] == level["failed"] + level["unfinished"]
    assert [*level["errors"]] == ["ProgramFailed: exit code 1; its last words: no"]
