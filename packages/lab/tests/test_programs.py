"""Programs with loops of their own, measured from the wire: real processes, real clients, real sockets."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest
from jsonschema_rs import Draft202012Validator
from packages.lab.tests.lab import made_results, poem_cases
from packages.lab.tests.test_ci import AGENT
from packages.lab.tests.test_command import bench, started
from tests.commands import shown_code
from tests.support import until

from eagerstream.errors import UsageError
from eagerstream_lab._answers import ProgramAnswers
from eagerstream_lab._matrix import Matrix
from eagerstream_lab._metrics import METRICS
from eagerstream_lab._profiles import DOCUMENTED
from eagerstream_lab._programs import Program, ProgramFailed, first_request, of_commands, run_program
from eagerstream_lab._results import load_results, results_schema
from eagerstream_testing import reply, text, tool_use

SCHEMA = resources.files("eagerstream_lab") / "results.schema.json"

TOOLS = '''
"""The tools of both sides: ours, and those of the loops of others."""
import asyncio

async def look(place: str) -> str:
    """Look at a place."""
    await asyncio.sleep(0.2)
    return "nothing there"

async def write(name: str, lines: list[str]) -> str:
    """Write lines."""
    return f"{len(lines)} lines"
'''
OURS = (
    "import eagerstream, functions\n\nTOOLS = [eagerstream.tool(functions.look), eagerstream.tool(functions.write)]\n"
)

RUNNER = '''
"""The tool runner of the anthropic package."""
import asyncio, os, sys
import anthropic, functions

async def main() -> None:
    async with anthropic.AsyncAnthropic() as client:
        runner = client.beta.messages.tool_runner(
            model=os.environ["EAGERSTREAM_BENCH_MODEL"], max_tokens=1024, stream=True,
            tools=[anthropic.beta_async_tool(functions.look), anthropic.beta_async_tool(functions.write)],
            messages=[{"role": "user", "content": os.environ["EAGERSTREAM_BENCH_PROMPT"]}],
        )
        async for stream in runner:
            async for _ in stream:
                pass

asyncio.run(main())
'''

LOOP = '''
"""A loop around `messages.stream`, which asks for eager inputs."""
import asyncio, sys
import anthropic, functions

TEXT = {"type": "string"}
PARAMETERS = {"look": {"place": TEXT}, "write": {"name": TEXT, "lines": {"type": "array", "items": TEXT}}}
TOOLS = [
    {"name": name, "description": name, "eager_input_streaming": True,
     "input_schema": {"type": "object", "properties": properties, "required": list(properties)}}
    for name, properties in PARAMETERS.items()
]

async def main() -> None:
    async with anthropic.AsyncAnthropic() as client:
        messages = [{"role": "user", "content": sys.argv[1]}]
        while True:
            async with client.messages.stream(
                model="m", max_tokens=1024, tools=TOOLS, messages=messages
            ) as stream:
                message = await stream.get_final_message()
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return
            results = [await getattr(functions, call.name)(**call.input) for call in calls]
            told = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result}
                for call, result in zip(calls, results)
            ]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": told}]

asyncio.run(main())
'''


def command(*arguments: str) -> str:
    return " ".join([sys.executable, *arguments])


# --- a command and its name -------------------------------------------------------------------------------------------


def test_names_without_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table goes to others: it shows the script or the module, and never an argument, which may be a secret."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "other.py").touch()
    lines = (
        f"{command('agents/other.py')} --key=s3cret",
        f"env KEY=s3cret {sys.executable} agents/other.py",
        f"{command('-m')} json.tool s3cret",
        f"{command('-c')} s3cret",
    )
    names = [program.name for program in of_commands(lines)]
    assert names == ["other.py", "other.py #2", "json.tool", Path(sys.executable).name]
    with pytest.raises(UsageError) as raised:
        of_commands(["no-such-program s3cret"])
    assert "s3cret" not in str(raised.value)


def test_names_that_the_user_gives() -> None:
    """In the order of the programs; one for each, and no two alike."""
    lines = [command("a.py", "--key=s3cret"), command("a.py")]
    assert [program.name for program in of_commands(lines, ["old", " new "])] == ["old", "new"]
    for names in (["old"], ["old", "old"], ["old", " "], ["a", "b", "c"]):
        with pytest.raises(UsageError, match="--name"):
            of_commands(lines, names)


def test_what_stands_for_the_prompt() -> None:
    """A prompt stays one argument, whatever is in it, also `{model}`."""
    (program,) = of_commands([command("x.py", "--prompt={prompt}", "{model}")])
    assert program.arguments(prompt='a "b" {model}', model="m")[2:] == ['--prompt=a "b" {model}', "m"]


def test_pairs_and_labels() -> None:
    """A program is compared with ours, eager and buffered; without ours, with the first program."""
    programs = [Program(name=name, command=("x",)) for name in ("a.py", "b.py")]
    cases = poem_cases(programs=programs)
    matrix = Matrix(cases=cases, repetitions=1, warmup=0, seed=0)
    assert list(matrix.labels().values()) == ["eager", "buffered", "a.py", "b.py"]
    pairs = [(matrix.labels()[base.id], matrix.labels()[other.id]) for base, other in matrix.pairs()]
    ours = ("eager", "buffered")
    assert pairs == [("buffered", "eager"), *((one, "a.py") for one in ours), *((one, "b.py") for one in ours)]
    alone = Matrix(cases=poem_cases(programs=programs, programs_only=True), repetitions=1, warmup=0, seed=0)
    assert [(base.parts[2], other.parts[2]) for base, other in alone.pairs()] == [("a.py", "b.py")]


# --- one run ----------------------------------------------------------------------------------------------------------


async def fails(code: str, **variables: str) -> str:
    program = Program(name="x", command=(sys.executable, "-c", dedent(code)))
    with pytest.raises(ProgramFailed) as raised:
        await run_program(program, prompt="p", model="m", variables=variables)
    return str(raised.value)


@pytest.mark.anyio
async def test_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its standard error, bounded, on one line, without the key in whatever form."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "plain-words-as-key")
    told = await fails("""
        import os, sys
        sys.stderr.write("x" * 100_000 + "\\nno way: " + os.environ["ANTHROPIC_API_KEY"] + "\\x1b[2J\\n")
        sys.exit(3)
    """)
    assert told.startswith("exit code 3; its last words: …x")
    assert told.endswith("xxx no way: [redacted]")
    assert len(told) < 600


@pytest.mark.anyio
async def test_it_cannot_be_run() -> None:
    """A prompt may be longer than the system allows: that is a failed run, not the end of the benchmark."""
    program = Program(name="x", command=(sys.executable, "-c", "pass"))
    with pytest.raises(ProgramFailed, match="cannot be run"):
        await run_program(program, prompt="x" * 2**21, model="m", variables={})


@pytest.mark.slow
@pytest.mark.anyio
async def test_it_ends_with_all_of_its_children(tmp_path: Path) -> None:
    """The time limit ends the process group: a child that outlives its parent would disturb the next runs."""
    code = f"""
        import pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"])
        path = pathlib.Path({str(tmp_path / "pid")!r})
        path.with_suffix(".part").write_text(str(child.pid))
        path.with_suffix(".part").rename(path)
        time.sleep(99)
    """
    program = Program(name="x", command=(sys.executable, "-c", dedent(code)))
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await run_program(program, prompt="p", model="m", variables={})

        tasks.start_soon(run)
        await until((tmp_path / "pid").exists)
        tasks.cancel_scope.cancel()
    child = int((tmp_path / "pid").read_text())
    await until(lambda: not _is_running(child))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.anyio
async def test_its_first_request(tmp_path: Path) -> None:
    """The one with tools; what a program does afterwards, and how it ends, does not matter."""
    (tmp_path / "functions.py").write_text(TOOLS)
    (tmp_path / "asks.py").write_text(ASKS_FOR_A_TITLE)

    async def asked(*arguments: str) -> Mapping[str, Any] | None:
        program = Program(name="x", command=(sys.executable, str(tmp_path / "asks.py"), *arguments))
        return await first_request(program, prompt="Go.", model="m", timeout_s=20)

    request = await asked("tools")
    assert request is not None
    assert [tool["name"] for tool in request["tools"]] == ["look"]
    request = await asked()
    assert request is not None
    assert "tools" not in request
    silent = Program(name="x", command=(sys.executable, "-c", "raise SystemExit(3)"))
    assert await first_request(silent, prompt="p", model="m", timeout_s=20) is None
    endless = Program(name="x", command=(sys.executable, "-c", "import time; time.sleep(99)"))
    assert await first_request(endless, prompt="p", model="m", timeout_s=0.3) is None


def test_requests_without_tools_do_not_count() -> None:
    """A program may ask for a title first. One that never has the tools got other responses than the others."""
    look = {"name": "look", "input_schema": {"type": "object"}}
    script = (reply(tool_use("look", {})), reply(text("Done.")))

    def fitted(*tools: list[dict[str, Any]]) -> bool:
        answers = ProgramAnswers(
            eager=script, buffered=script, is_recorded=False, profile=DOCUMENTED, speed=1e6, seed="1"
        )
        for listed in tools:
            request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "tools": listed}
            answers.answer(request, eager=True)
        return answers.all_fitted

    assert fitted([], [look])
    assert not fitted([])
    assert not fitted([look], [{**look, "name": "other"}])


# --- the schema -------------------------------------------------------------------------------------------------------


def test_the_schema_is_the_one_that_is_published() -> None:
    """Programs in other languages read the file; `make schema` writes it."""
    assert json.loads(SCHEMA.read_text()) == results_schema()


@pytest.mark.slow
def test_results_are_as_the_schema_says() -> None:
    """By a validator of another make; it notices a missing figure."""
    validator = Draft202012Validator(results_schema())
    results = json.loads(json.dumps(made_results(failed=[2])))
    validator.validate(results)
    del results["cases"][0]["runs"][0]["latency"]["requests"]
    assert not validator.is_valid(results)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {"functions": TOOLS, "ours": OURS, "runner": RUNNER, "loop": LOOP}.items():
        (tmp_path / f"{name}.py").write_text(content)
    return tmp_path


@pytest.mark.slow
def test_two_loops_beside_ours(folder: Path) -> None:
    """They face the same responses, each as it asked for them, and their figures are in the same files."""
    programs = ("--program", command("runner.py"), "--program", command("loop.py", "{prompt}"))
    arguments = (
        "--tools",
        "ours:TOOLS",
        *programs,
        "-n",
        "1",
        "--warmup",
        "0",
        "--speed",
        "20",
        "--export",
        "runs.csv",
    )
    done = bench(folder, *arguments, "--prompt", "Private words.")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("warning: 1 repetition cannot give 10 verdicts")
    results = load_results(folder / "bench-results" / "results.json")
    Draft202012Validator(results_schema()).validate(json.loads((folder / "bench-results" / "results.json").read_text()))
    ours, theirs = results["cases"][:2], results["cases"][2:]
    assert [case["label"] for case in theirs] == ["runner.py (buffered)", "loop.py (eager)"]
    assert results["settings"].get("measured_at") == "proxy"
    about_tools = {name for name, metric in METRICS.items() if not metric.on_wire}
    for case in theirs:
        (run,) = case["runs"]
        assert set(METRICS) - set(case["metrics"]) == {*about_tools, "p99_gap_s"}  # too few gaps
        assert (run["error"], run["status"], run.get("same_responses")) == (None, "completed", True)
        assert [run["latency"][name] for name in ("tool_s", "hidden_s", "won_s")] == [None] * 3
        assert len(run["latency"]["requests"]) == 2
        # The runner and the loop wait for the first tool after the response: our own loop does not.
        assert case["metrics"]["between_turns_s"]["median"] >= 0.2
    assert all(set(METRICS) - set(case["metrics"]) == {"p99_gap_s"} for case in ours)
    eager, buffered = (case["metrics"]["large_parameter_s"]["median"] for case in reversed(theirs))
    assert eager < buffered / 2
    with (folder / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * len(METRICS)
    values = {(row["program"] or row["streaming"], row["figure"]): row["value"] for row in rows}
    assert values["runner.py", "tool_start_s"] == ""
    assert float(values["eager", "duration_s"]) == ours[0]["metrics"]["duration_s"]["median"]
    assert "runner.py (buffered)" in (folder / "bench-results" / "report.html").read_text()
    assert "Private" not in done.stdout + done.stderr + json.dumps(results)


ASKS_FOR_A_TITLE = """
import sys
import anthropic

client = anthropic.Anthropic()
asked = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
client.messages.create(**asked)
if sys.argv[1:]:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    client.messages.create(**asked, tools=[{"name": "look", "description": "", "input_schema": schema}])
sys.exit(3)
"""
OTHER_TOOLS = """
import anthropic
from functions import look

client = anthropic.Anthropic()
tools = [{"name": "greet", "description": "", "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}}}]
with client.messages.stream(
    model="m", max_tokens=99, tools=tools, messages=[{"role": "user", "content": "Hi"}]
) as stream:
    assert stream.get_final_message().content[-1].name == "greet"
"""
OTHER_PATH = """
import anthropic
try:
    anthropic.Anthropic().post("/v1/complete", body={"prompt": "Hi"}, cast_to=object)
except anthropic.NotFoundError:
    pass
"""


@pytest.mark.slow
def test_programs_that_cannot_be_compared(folder: Path) -> None:
    """Another script is measured with calls of its own tools; others fail, each with its reason, and the rest goes on."""
    (folder / "others.py").write_text(OTHER_TOOLS)
    (folder / "complete.py").write_text(OTHER_PATH)
    (folder / "deaf.py").write_text("pass")
    scripts = ("others.py", "complete.py", "deaf.py", "runner.py")
    programs = [argument for name in scripts for argument in ("--program", command(name))]
    options = ("--programs-only", "--speed", "100", "-n", "1", "--warmup", "0", "--no-html")
    done = bench(folder, *programs, *options)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "eagerstream: every run of complete.py, deaf.py failed"
    assert "complete.py/simulated/program: WireError: no request to POST .../messages" in done.stderr
    assert "only to /v1/complete" in done.stderr
    assert "deaf.py/simulated/program: WireError: no request came to the address in ANTHROPIC_BASE_URL" in done.stderr
    cases = {case.get("program"): case for case in load_results(folder / "bench-results" / "results.json")["cases"]}
    errors = {name: case["runs"][0]["error"] for name, case in cases.items()}
    assert errors == {"others.py": None, "complete.py": "WireError", "deaf.py": "WireError", "runner.py": None}
    assert cases["others.py"]["runs"][0].get("same_responses") is True  # the script is made of its tools
    assert cases["runner.py"]["runs"][0].get("same_responses") is False
    assert "measure the same tools with --tools" in " ".join(done.stdout.split())


PLAIN = """
import json, os, sys, urllib.request

schema = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string"}}}, "required": ["lines"]}
tool = {"name": "write", "description": "Write.", "input_schema": schema, "eager_input_streaming": "--eager" in sys.argv}
body = {"model": "m", "max_tokens": 99, "stream": True, "tools": [tool], "messages": [{"role": "user", "content": "Hi"}]}
headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as response:
    response.read()
"""


@pytest.mark.slow
def test_two_programs_alone(folder: Path) -> None:
    """An old and a new version get calls of the tools that they ask for, and the same ones; there is a verdict."""
    (folder / "plain.py").write_text(PLAIN)
    programs = ("--program", command("plain.py"), "--program", command("plain.py", "--eager"))
    options = ("--programs-only", "--speed", "100", "-n", "6", "--warmup", "0", "--primary", "large_parameter_s")
    done = bench(folder, *programs, "--name", "old", "--name", "new", *options, "--no-html")
    assert done.returncode == 0, done.stderr
    results = load_results(folder / "bench-results" / "results.json")
    same = {case.get("program"): {run.get("same_responses") for run in case["runs"]} for case in results["cases"]}
    assert same == {"old": {True}, "new": {True}}
    assert [case["tools"] for case in results["cases"]] == ["requested"] * 2
    verdicts = {one["metric"]: one["verdict"] for one in results["comparisons"] if one["verdict"]}
    assert verdicts == {"large_parameter_s": "lower"}
    assert "a: old (buffered), b: new (eager); simulated" in done.stdout


FLAKY = """
import pathlib, sys

starts = pathlib.Path("starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
if len(starts.read_text()) == 4:
    sys.exit("no luck")
"""


@pytest.mark.slow
def test_a_program_that_fails_once(folder: Path) -> None:
    """Its other runs are compared. A run that ended before its first request says nothing about its tools."""
    (folder / "steady.py").write_text(AGENT.replace("TOOL_S", "0"))
    (folder / "flaky.py").write_text(FLAKY + AGENT.replace("TOOL_S", "0"))
    programs = ("--program", command("steady.py"), "--program", command("flaky.py"), "--programs-only")
    done = bench(folder, *programs, "--speed", "100", "-n", "4", "--no-html", "--primary", "duration_s")
    assert done.returncode == 0, done.stderr
    assert "flaky.py (buffered): 1 of 4 failed with ProgramFailed" in done.stdout
    assert "compared with none" not in done.stdout
    (one,) = (one for one in load_results(folder / "bench-results/results.json")["comparisons"] if one["verdict"])
    assert one["difference"]["n"] == 3


@pytest.mark.slow
def test_a_program_that_always_fails(folder: Path) -> None:
    """The benchmark fails, although the runs of the other one are kept."""
    (folder / "steady.py").write_text(AGENT.replace("TOOL_S", "0"))
    (folder / "never.py").write_text("import sys; sys.exit('no luck')")
    programs = ("--program", command("steady.py"), "--program", command("never.py"), "--programs-only")
    done = bench(folder, *programs, "--speed", "100", "-n", "1", "--warmup", "0", "--no-html")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "eagerstream: every run of never.py failed"


@pytest.mark.slow
def test_a_program_that_does_not_end(folder: Path) -> None:
    """It is ended after its time, and every run failed."""
    (folder / "sleeps.py").write_text("import time; time.sleep(99)")
    program = ("--program", command("sleeps.py"), "--programs-only", "--timeout-s", "1")
    done = bench(folder, *program, "--speed", "100", "-n", "1", "--warmup", "0", "--no-html")
    assert done.returncode == 1
    assert "sleeps.py/simulated/program: TimeoutError: not at its end within 1 s" in done.stderr
    assert done.stderr.splitlines()[-1] == "eagerstream: every run failed"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("earlier", [0, 2])
def test_interrupted(folder: Path, number: signal.Signals, earlier: int) -> None:
    """The program ends with the benchmark, and what was measured is kept. Its first run is asked for its tools."""
    code = """
        import os, pathlib, sys, time
        runs = len(list(pathlib.Path().glob("run-*")))
        pathlib.Path(f"run-{runs}").touch()
        if runs == int(sys.argv[1]):
            pathlib.Path("last").write_text(str(os.getpid()))
            time.sleep(99)
        import anthropic
        anthropic.Anthropic().messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ).__enter__().get_final_message()
    """
    (folder / "slow.py").write_text(dedent(code))
    options = ("--programs-only", "-n", "5", "--warmup", "0", "--no-html")
    with started(folder, "--program", command("slow.py", str(earlier)), *options) as process:
        while not (folder / "last").exists() or not (folder / "last").read_text():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=30)
    assert shown_code(process.returncode) == 130, errors
    assert "Traceback" not in errors
    assert not _is_running(int((folder / "last").read_text()))
    if earlier == 0:
        assert not (folder / "bench-results").exists()
        return
    (case,) = load_results(folder / "bench-results" / "results.json")["cases"]
    assert [run["error"] for run in case["runs"]] == [None]
