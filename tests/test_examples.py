"""The examples, run as programs of their own: only the address and the key tell them that it is not the live API."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    Platform,
    ReplayServer,
    Scenario,
    Timing,
    reply,
    text,
    tool_use,
)
from eagerstream_testing._eager_requests import eager_tools
from eagerstream_wire import SSEDecoder
from tests.node import run_client
from tests.sampling import drawn
from tests.tables import rows

EXAMPLES = Path(__file__).parent.parent / "examples"
POEM = ["The harbour keeps its hours,", 'a bell says "so",', "the water knows the way."]
MAKE_FILE = tool_use("make_file", {"filename": "poem.txt", "lines_of_text": POEM})


_UNWATCHED = """
import runpy, sys
from eagerstream.tools import _invoke
_invoke.BLOCKED_S = float("inf")
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs an example that does not warn of a tool that keeps the event loop: any tool does on a machine that is busy enough."""


def run_example(
    name: str, scenario: Scenario, folder: Path, *arguments: str, typed: str = "", warns: str = ""
) -> tuple[str, list[dict[str, object]]]:
    """What the program printed, and the bodies of its requests. `warns` is a pattern of all that it says on stderr."""
    with ReplayServer(scenario) as server:
        done = subprocess.run(
            [sys.executable, "-c", _UNWATCHED, EXAMPLES / name, *arguments],
            cwd=folder,
            env={**os.environ, **_environment(server)},
            input=typed,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        bodies = [request.body for request in server.requests]
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(warns, done.stderr), done.stderr
    return done.stdout, bodies


def _environment(server: ReplayServer) -> dict[str, str]:
    """What each platform's client reads: an address, and credentials of any value."""
    return {
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "simulated",
        "ANTHROPIC_BEDROCK_BASE_URL": server.url_of(Platform.BEDROCK),
        "ANTHROPIC_BEDROCK_MANTLE_BASE_URL": server.url_of(Platform.BEDROCK_MANTLE),
        "ANTHROPIC_AWS_BASE_URL": server.url_of(Platform.AWS),
        "ANTHROPIC_AWS_WORKSPACE_ID": "simulated",
        "AWS_ACCESS_KEY_ID": "simulated",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AWS_REGION": "us-east-1",
        "ANTHROPIC_VERTEX_BASE_URL": server.url_of(Platform.VERTEX),
        "ANTHROPIC_VERTEX_PROJECT_ID": "simulated",
        "CLOUD_ML_REGION": "global",
        "ANTHROPIC_FOUNDRY_BASE_URL": server.url_of(Platform.FOUNDRY),
        "ANTHROPIC_FOUNDRY_API_KEY": "simulated",
        "ANTHROPIC_GOOGLE_CLOUD_BASE_URL": server.url_of(Platform.GOOGLE_CLOUD),
        "ANTHROPIC_GOOGLE_CLOUD_PROJECT": "simulated",
        "ANTHROPIC_GOOGLE_CLOUD_WORKSPACE_ID": "simulated",
        "GOOGLE_ACCESS_TOKEN": "simulated",
    }


@rows("example", sorted(EXAMPLES.glob("*.py")))
def test_an_example_fits_on_a_page(example: Path) -> None:
    """Examples are read before anything else: they stay short."""
    most = 200 if example.name == "computer_in_chromium.py" else 74  # a driver of a browser, with all its actions
    assert len(example.read_text().splitlines()) <= most


def offline_command(example: Path) -> list[str]:
    """The last line of an example's docstring: the command that runs it without a key."""
    what, *_, needs, usage = (ast.get_docstring(ast.parse(example.read_text())) or "").split("\n\n")
    assert what.endswith(".")
    assert needs.startswith("Needs: ")
    assert usage.startswith("Usage:\n")
    return shlex.split(usage.splitlines()[-1])


OFFLINE = {
    "accumulate_yourself.py": "make_file: valid",
    "claude_agent_sdk_progress.py": "The harbour keeps",
    "code_tool.py": r"▸ line 4 running · get_weather(.|\n)*mean: 12\.8 degrees Lima(.|\n)*completed",
    "coding_agent.py": "completed, 10 turns",
    "computer_in_chromium.py": r"Scrolled down\.(.|\n)*completed",
    "durable.py": r"paid invoice (.|\n)*this process dies\n(.|\n)*was it paid\? yes\n(.|\n)*completed",
    "every_platform.py": "completed",
    "gateway.py": "watch at http",
    "get_weather.py": r"Tool input: \{'city': 'Oslo'\}",
    "growing_table.py": "running on http",
    "langgraph_agent.py": "show_poem(.|\n)*The harbour keeps",
    "make_file.py": "make_file: wrote 12 lines to poem.txt",
    "mcp_tools.py": "Vienna: 15 degrees",
    "pydantic_ai_agent.py": "signed: (.|\n)*The harbour keeps",
    "remote_tools.py": r"\[line 12\](.|\n)*completed",
    "resume.py": "completed",
    "serve_acp.py": "Error parsing JSON-RPC",  # the line that the test sends is no message of an editor
    "serve_agui.py": "running on http",
    "serve_mcp_apps.py": "running on http",
    "serve_vercel.py": "running on http",
    "side_by_side.py": r"anthropic +line 1 after .*, line 12 .*\neagerstream +line 1 after .*, line 12 ",
    "step_by_step.py": "completed",
    "trace_runs.py": "LookupError",
    "watch_in_browser.py": "open http",
    "watch_in_terminal.py": "done: Vienna: 15 degrees",
}
"""What each example prints offline. Servers run until they are told to end."""

SERVERS = {
    *("gateway.py", "growing_table.py", "serve_agui.py", "serve_mcp_apps.py", "serve_vercel.py", "watch_in_browser.py")
}


def test_every_example_is_tried() -> None:
    """A new example needs a line above. That of OpenAI's client is in `packages/adapters/tests/test_examples.py`."""
    assert TRIED_BELOW < OFFLINE.keys() == {path.name for path in EXAMPLES.glob("*.py")} - {"openai_deltas.py"}


TRIED_BELOW = {
    *("accumulate_yourself.py", "coding_agent.py", "every_platform.py", "get_weather.py", "growing_table.py"),
    *("make_file.py", "resume.py", "serve_acp.py", "serve_agui.py", "side_by_side.py", "step_by_step.py"),
    *("watch_in_browser.py", "watch_in_terminal.py"),
}
"""Examples with a test of their own, which says more. Their offline commands are tried at night."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly if name in TRIED_BELOW else pytest.mark.slow) for name in OFFLINE],
)
def test_offline(name: str, tmp_path: Path) -> None:
    """The command of the docstring runs the example without a key, and it prints what it promises."""
    command = offline_command(EXAMPLES / name)
    if "uvicorn" in command:
        program = command.index("uvicorn")
        command[program : program + 1] = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES)]
    else:
        program = command.index("python")
        command[program : program + 2] = [sys.executable, str(EXAMPLES / name)]
    if command[0] == "eagerstream":
        command[:1] = [sys.executable, "-m", "eagerstream"]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment |= {"HOME": str(tmp_path), "ENABLE_TOOL_SEARCH": "false", "PYTHONUNBUFFERED": "1"}
    if name in SERVERS - {"watch_in_browser.py"}:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        command += [*{"gateway.py": ["--port"], "serve_vercel.py": ["claude-made-1"]}.get(name, []), port]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # no terminal: signals are passed on
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("y\n")
        process.stdin.close()
        output = ""
        for line in process.stdout:
            output += line
            if name in SERVERS and re.search(OFFLINE[name], output):
                process.terminate()
                break
        process.stdout.read()
    assert re.search(OFFLINE[name], output), output
    assert name in SERVERS or process.returncode == 0, output


@pytest.mark.slow
def test_the_two_sides_differ(tmp_path: Path) -> None:
    """The same tool and question: one side gets fields that are complete, the other one lines as they are written."""
    output, bodies = run_example("side_by_side.py", Scenario.scripted(timing=Timing(tokens_per_second=800)), tmp_path)
    assert len(output.splitlines()) == 2
    assert [eager_tools(body, ()) for body in bodies] == [frozenset(), None]
    official, ours = ({**body["tools"][0]} for body in bodies)  # type: ignore[index]
    assert ours.pop("eager_input_streaming") is True
    assert official == ours


MISSING = {
    "claude_agent_sdk_progress.py": {"claude_agent_sdk": "eagerstream-adapters[claude-agent-sdk]"},
    "every_platform.py": {"boto3": "eagerstream[bedrock]", "google.auth": "eagerstream[vertex]"},
    "gateway.py": {"ray": "eagerstream-durable[ray]"},
    "langgraph_agent.py": {"langgraph": "eagerstream-adapters[langgraph]"},
    "mcp_tools.py": {"mcp": "eagerstream-adapters[mcp]"},
    "serve_mcp_apps.py": {"mcp": "eagerstream-adapters[mcp]"},
    "pydantic_ai_agent.py": {"pydantic_ai": "eagerstream-adapters[pydantic-ai]"},
    "remote_tools.py": {"ray": "eagerstream-durable[ray]"},
    "serve_acp.py": {"acp": "eagerstream-progress[acp]"},
    "serve_agui.py": {"ag_ui": "eagerstream-progress[agui]"},
    "trace_runs.py": {"opentelemetry": "eagerstream-adapters[otel]"},
}
"""Examples that need an extra of a package: what it brings, and what the error says how to install."""

ARGUMENTS = {"boto3": ["bedrock", "m"], "google.auth": ["vertex", "m"]}
"""Arguments without which an example does not need the package."""

_PLATFORMS = drawn(Platform, 3)
"""Platforms of a run of the slow tests. `tests/transports/test_platforms.py` has the clients of all of them."""


def test_the_examples_that_need_an_extra() -> None:
    """A docstring that names an extra needs a line above."""
    named = {
        path.name: set(re.findall(r"`(eagerstream(?:-\w+\[|\[(?:bedrock|vertex)).*?)`", path.read_text()))
        for path in EXAMPLES.glob("*.py")
    }
    assert {name: extras for name, extras in named.items() if extras} == {
        name: set(extras.values()) for name, extras in MISSING.items()
    }


_EXTRAS = [
    (name, package, extra)
    for name, extras in MISSING.items()
    for package, extra in extras.items()
    if name != "gateway.py"  # which needs it only if a variable says so
]


def _mostly_at_night(case: tuple[str, str, str]) -> Any:
    """A case of a slow test, of which each run has four, and all of them at night."""
    return pytest.param(*case, marks=pytest.mark.slow if case in drawn(_EXTRAS, 4) else pytest.mark.nightly)


@pytest.mark.parametrize(("name", "package", "extra"), [*map(_mostly_at_night, _EXTRAS)])
def test_a_missing_extra_is_named(name: str, package: str, extra: str, tmp_path: Path) -> None:
    """Without the extra, the error says how to install it, and not only which module is missing."""
    start = (
        "import runpy, sys; sys.modules[sys.argv.pop(1)] = None;"
        "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    with ReplayServer(Scenario(reply(text("Done.")))) as server:
        environment = {**os.environ, **_environment(server)}
        del environment["GOOGLE_ACCESS_TOKEN"]  # with a token, google-auth is not needed
        done = subprocess.run(
            [sys.executable, "-c", start, package, str(EXAMPLES / name), *ARGUMENTS.get(package, [])],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    assert f"pip install '{extra}'" in done.stderr, done.stderr


@pytest.mark.slow
def test_make_file(tmp_path: Path) -> None:
    """The main job: the lines are printed, the file is written, its result is sent, the usage is told."""
    output, bodies = run_example("make_file.py", Scenario(reply(MAKE_FILE), reply(text("Done."))), tmp_path)
    assert [line for line in output.splitlines() if line in POEM] == POEM
    assert "--- make_file: wrote 3 lines to poem.txt" in output
    assert "output_tokens" in output
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM
    first, second = bodies
    assert first["max_tokens"] == 65_536
    assert first["tools"][0]["eager_input_streaming"] is True  # type: ignore[index]
    assert second["messages"][-1]["content"][0]["content"] == "wrote 3 lines to poem.txt"  # type: ignore[index]


@pytest.mark.slow
def test_make_file_begins_inside_its_input(tmp_path: Path) -> None:
    """With the timing of a real reply, the tool begins long before its input is whole."""
    scenario = Scenario(reply(MAKE_FILE), reply(text("Done.")), timing=Timing(tokens_per_second=50))
    output, _ = run_example("make_file.py", scenario, tmp_path)
    assert "--- make_file begins, its input is still being written" in output
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM


@pytest.mark.slow
def test_make_file_removes_what_was_cut(tmp_path: Path) -> None:
    """A reply that is cut inside a line leaves no half poem behind, and the model is told."""
    whole = '{"filename": "poem.txt", "lines_of_text": ["The harbour keeps its hours,", "a bell s'
    cut = reply(tool_use("make_file", whole), stop_reason="max_tokens")
    scenario = Scenario(cut, timing=Timing(tokens_per_second=50))
    warns = r"the run \w+ ended with the status truncated after 1 turns \(last request req_\w+\)\n"
    output, _ = run_example("make_file.py", scenario, tmp_path, warns=warns)
    assert "removed poem.txt again after 1 lines" in output
    assert not (tmp_path / "poem.txt").exists()


@pytest.mark.slow
def test_make_file_stays_in_its_folder(tmp_path: Path) -> None:
    """The file name is written by a model: one that leads elsewhere is refused, and the model is told."""
    outside = tool_use("make_file", {"filename": "../poem.txt", "lines_of_text": POEM})
    folder = tmp_path / "inside"
    folder.mkdir()
    _, bodies = run_example("make_file.py", Scenario(reply(outside), reply(text("Sorry."))), folder)
    assert not (tmp_path / "poem.txt").exists()
    result = bodies[1]["messages"][-1]["content"][0]  # type: ignore[index]
    assert result["is_error"] is True


@pytest.mark.slow
def test_get_weather(tmp_path: Path) -> None:
    """A single request: the input is shown while it grows, and printed when it is whole."""
    scenario = Scenario(reply(text("I'll look."), tool_use("get_weather", {"city": "Paris"})))
    output, bodies = run_example("get_weather.py", scenario, tmp_path)
    assert "Tool input: {'city': 'Paris'}" in output
    assert bodies[0]["max_tokens"] == 1024


@pytest.mark.slow
def test_get_weather_says_what_is_wrong_with_an_input(tmp_path: Path) -> None:
    """An input that is not JSON is an outcome: the program goes on and shows it."""
    output, _ = run_example("get_weather.py", Scenario(reply(tool_use("get_weather", '{"city": Paris}'))), tmp_path)
    assert "Not usable" in output
    assert "INVALID_JSON" in output


@pytest.mark.slow
def test_accumulate_yourself(tmp_path: Path) -> None:
    """The accumulator alone, fed with the event objects of the synchronous client."""
    output, _ = run_example("accumulate_yourself.py", Scenario(reply(MAKE_FILE)), tmp_path)
    assert output.index("will write poem.txt") < output.index("valid")
    assert str(POEM) in output


@pytest.mark.slow
def test_watch_in_terminal(tmp_path: Path) -> None:
    """In a pipe each thing that happens is a line."""
    calls = reply(*(tool_use("get_weather", {"city": city}) for city in ("Oslo", "Vienna", "Lima")))
    output, _ = run_example("watch_in_terminal.py", Scenario(calls, reply(text("15 degrees."))), tmp_path)
    for city in ("Oslo", "Vienna", "Lima"):
        assert f"done: {city}: 15 degrees" in output
    assert "completed · 2 turns" in output.splitlines()[-1]


@pytest.mark.slow
def test_step_by_step(tmp_path: Path) -> None:
    """What the user allows is run, what not is answered as refused, and the conversation goes on to its end."""
    (tmp_path / "poem.txt").touch()
    calls = reply(tool_use("list_files", {"pattern": "*.txt"}), tool_use("list_files", {}))
    output, bodies = run_example("step_by_step.py", Scenario(calls, reply(text("One."))), tmp_path, typed="y\nn\n")
    assert "completed" in output
    allowed, refused = bodies[1]["messages"][-1]["content"]  # type: ignore[index]
    assert allowed["content"] == '["poem.txt"]'
    assert refused["is_error"] is True


@pytest.mark.slow
def test_coding_agent(tmp_path: Path) -> None:
    """Ten turns on its own server, without a key: the files are there before their inputs end, and the tests pass."""
    output, bodies = run_example("coding_agent.py", Scenario(reply(text("Not asked."))), tmp_path)
    assert bodies == []
    growing = re.findall(r"words\.py: ([0-9]+) lines on disk, still being written", output)
    assert len(set(growing)) > 2
    assert output.index("FAILED (failures=1)") < output.index("OK") < output.index("completed, 10 turns")


@pytest.mark.slow
def test_coding_agent_with_a_task(tmp_path: Path) -> None:
    """The task is sent to the API, with the three tools."""
    scenario = Scenario(reply(tool_use("bash", {"command": "echo $((6 * 7))"})), reply(text("42.")))
    output, bodies = run_example("coding_agent.py", scenario, tmp_path, "What is 6 * 7?", "claude-made-1")
    assert "bash: 42" in output
    assert [tool["name"] for tool in bodies[0]["tools"]] == ["bash", "text_editor", "memory"]  # type: ignore[attr-defined]
    assert bodies[0]["messages"] == [{"role": "user", "content": "What is 6 * 7?"}]


@pytest.mark.slow
def test_resume(tmp_path: Path) -> None:
    """Killed in its third turn and started again it goes on there; cut off, it sends again; nothing is noted twice."""
    rivers = ["Glomma", "Danube", "Po"]
    calls = [reply(tool_use("add_note", {"text": river}, id=f"toolu_{river}")) for river in rivers]
    scenario = Scenario(*calls, reply(text("All noted.")))
    notes, saved = tmp_path / "notes.txt", tmp_path / "run.json"
    faults = Faults({1: [Fault(FaultKind.RESET, after_bytes=500)], 2: [Fault(FaultKind.STALL, after_events=2)]})
    with ReplayServer(scenario, faults=faults) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        command = [sys.executable, str(EXAMPLES / "resume.py")]
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            printed = [program.stdout.readline()]
            # Until the request of the third turn meets silence.
            while len(server.requests) < 4 or server.requests[3].fault is None:
                assert program.poll() is None
                time.sleep(0.01)
            program.kill()
            printed += program.stdout.readlines()
        assert any("once more:" in line for line in printed)
        assert notes.read_text().split() == rivers[:2]
        assert len(json.loads(saved.read_text())["messages"]) == 5
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "All noted." in done.stdout
    assert notes.read_text().split() == rivers
    assert not saved.exists()


@pytest.mark.slow
def test_resume_after_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C in the middle of an input: the call is answered as cut off, and the next start goes on after it."""
    scenario = Scenario(reply(tool_use("add_note", {"text": "Glomma"}, id="toolu_1")), reply(text("All noted.")))
    faults = Faults({0: [Fault(FaultKind.STALL, after_events=5)]})
    with ReplayServer(scenario, faults=faults) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        command = [sys.executable, str(EXAMPLES / "resume.py")]
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as program:
            while not server.requests or server.requests[0].fault is None:  # until the silence
                assert program.poll() is None
                time.sleep(0.01)
            program.send_signal(signal.SIGINT)
            output, _ = program.communicate(timeout=50)
        assert "cancelled" in output
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=50, check=False)
        bodies = [request.body for request in server.requests]
    assert (done.returncode, done.stderr) == (0, "")
    # Without the response if the program had read nothing of it: nobody can tell from outside what it has read. Then the
    # first request is sent again, and the call is the first response.
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    assert roles in ([["user"], ["user", "assistant", "user"]], [["user"], ["user"], ["user", "assistant", "user"]])


@pytest.mark.slow
def test_serve_acp(tmp_path: Path) -> None:
    """An editor starts it: a file is written, with its path and its diff, and the person is asked about a command."""
    write = tool_use("Write", {"path": "poem.txt", "content": "\n".join(POEM)})
    scenario = Scenario(reply(write), reply(tool_use("run_command", {"command": "cat poem.txt"})), reply(text("Done.")))
    with ReplayServer(scenario) as server:
        steps = [
            {"do": "new", "as": "a", "cwd": str(tmp_path)},
            {"do": "prompt", "in": "a", "as": "1", "prompt": [{"type": "text", "text": "Write a poem."}]},
            {"do": "answered", "as": "1"},
        ]
        command = [sys.executable, str(EXAMPLES / "serve_acp.py")]
        given = {"command": command, "cwd": str(tmp_path), "env": _environment(server), "answers": ["allow"]}
        got = run_client("acp.mjs", given={**given, "steps": steps})
    assert (got["faults"], got["exit"], got["stderr"]) == ([], 0, "")
    assert got["prompts"]["1"]["stopReason"] == "end_turn"
    diffs = [item for update in got["updates"]["a"] for item in update.get("content", ()) if isinstance(item, dict)]
    path = str(tmp_path / "poem.txt")
    assert {"type": "diff", "path": path, "newText": "\n".join(POEM)} in diffs
    assert any(POEM[0] in json.dumps(item) for item in diffs if item["type"] == "content")
    assert [question["toolCall"]["rawInput"] for question in got["asked"]] == [{"command": "cat poem.txt"}]


@pytest.mark.slow
def test_serve_agui(tmp_path: Path) -> None:
    """A frontend asks for a run, and sees the poem grow."""
    scenario = Scenario(reply(MAKE_FILE), reply(text("Done.")), timing=Timing(tokens_per_second=100))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    message = {"id": "1", "role": "user", "content": "Write a poem."}
    asked = {"threadId": "thread", "runId": "run", "messages": [message]}
    with ReplayServer(scenario) as server:
        env = {**os.environ, **_environment(server)}
        command = [sys.executable, str(EXAMPLES / "serve_agui.py"), str(port)]
        with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as program:
            assert program.stderr is not None
            while "running on" not in program.stderr.readline():
                assert program.poll() is None
            url = f"http://127.0.0.1:{port}/agent"
            assert httpx.post(url, json=asked, headers={"host": "elsewhere.example"}).status_code == 421
            answer = httpx.post(url, json=asked, timeout=30)
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=30)
    events = [json.loads(event.data) for event in SSEDecoder().feed(answer.content)]
    assert events[-1]["type"] == "RUN_FINISHED"
    assert "".join(event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS") == json.dumps(
        {"filename": "poem.txt", "lines_of_text": POEM}, ensure_ascii=False
    )
    assert sum(event["type"] == "STATE_DELTA" for event in events) > 3


@pytest.mark.parametrize(
    "platform",
    [pytest.param(each, marks=pytest.mark.slow if each in _PLATFORMS else pytest.mark.nightly) for each in Platform],
)
def test_every_platform(platform: Platform, tmp_path: Path) -> None:
    """Each client finds in the environment what it needs, and the same agent runs."""
    cities = reply(*(tool_use("get_weather", {"city": city}) for city in ("Oslo", "Vienna", "Lima")))
    scenario = Scenario(cities, reply(text("15 degrees everywhere.")))
    output, bodies = run_example("every_platform.py", scenario, tmp_path, platform, "claude-made-1")
    assert "get_weather {'city': 'Vie" in output
    assert "get_weather {'city': 'Lima'}" in output
    assert "completed" in output
    assert len(bodies) == 2


@pytest.mark.slow
def test_watch_in_browser(tmp_path: Path) -> None:
    """The page is there while the run goes on; what is approved there runs, and Ctrl-C ends the program."""
    with ReplayServer(Scenario(reply(MAKE_FILE), reply(text("Done.")))) as server:
        with subprocess.Popen(
            [sys.executable, EXAMPLES / "watch_in_browser.py"],
            cwd=tmp_path,
            env={**os.environ, **_environment(server)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            word, url = process.stdout.readline().split()
            assert word == "open"
            base, token = url.split("?token=")
            headers = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=base, headers=headers, timeout=30) as client:
                assert client.get("/").status_code == 200
                run = _until(client, "/events", r'"id":"([0-9a-f]+)"')
                block = _until(client, f"/events?run={run}", r'"type": ?"approval_start", ?"block": ?(\d+)')
                decision = {"block": int(block), "approved": True}
                assert client.post(f"/runs/{run}/decide", json=decision).status_code == 204
                _until(client, f"/events?run={run}", r'"status": ?"(completed)"')
            assert process.stdout.readline() == "Ctrl-C ends it.\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM


CITIES = {
    "title": "Cities",
    "rows": [
        {"name": "Oslo", "country": "Norway", "people": 700_000},
        {"name": "<b>Lima</b>", "country": "Peru", "people": -1},
        {"name": "Vienna", "country": "Austria", "people": 2_000_000},
    ],
}


@pytest.mark.slow
def test_growing_table(tmp_path: Path) -> None:
    """In a browser: rows appear while they are written, complete ones are checked, and text is never markup."""
    from tests.browser import chromium

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    timing = Timing(tokens_per_second=20)
    with (
        ReplayServer(Scenario(reply(text(json.dumps(CITIES))), timing=timing)) as server,
        subprocess.Popen(
            [sys.executable, EXAMPLES / "growing_table.py", str(port)], env={**os.environ, **_environment(server)}
        ) as process,
        chromium(tmp_path) as browser,
    ):
        try:
            _until_it_listens(port)
            browser.get(f"http://127.0.0.1:{port}/")
            seen: list[list[list[str]]] = []
            while not seen or "invalid" not in browser.find_element("id", "state").text:
                table = browser.execute_script(_TABLE)
                if table not in seen:
                    seen.append(table)
                if ["open", "Vienna"] in [row[:2] for row in table] and not (tmp_path / "table.png").exists():
                    browser.save_screenshot(str(tmp_path / "table.png"))
            last = browser.execute_script(_TABLE)
            assert [row[1] for row in last] == ["Oslo", "<b>Lima</b>", "Vienna"]
            assert [row[0] for row in last] == ["done", "wrong", "done"]
            assert "rows[1].people" in browser.find_element("id", "state").text
            # The rows came one after the other, each at first open and without its number.
            assert ["open", "Oslo", "", ""] in [row for table in seen for row in table]
            assert [["done", "Oslo", "Norway", "700000"]] in [table[:-1] for table in seen]
            assert ["wrong", "<b>Lima</b>", "Peru", "-1"] in [row for table in seen for row in table[:-1]]
            assert not browser.find_elements("css selector", "td b")
        finally:
            process.terminate()
            process.wait(60)


_TABLE = "return [...document.querySelectorAll('#rows tr')].map((row) => [row.className, ...[...row.cells].map((cell) => cell.textContent)])"


def _until_it_listens(port: int) -> None:
    for _ in range(300):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise AssertionError("nothing listens")


def _until(client: httpx.Client, path: str, pattern: str) -> str:
    """What a stream of events says first that fits."""
    seen = ""
    with client.stream("GET", path) as answer:
        for chunk in answer.iter_text():
            seen += chunk
            if (found := re.search(pattern, seen)) is not None:
                return found[1]
    raise AssertionError(seen)
