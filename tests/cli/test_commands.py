"""The `eagerstream` command as its users meet it: a process, its output, its exit code."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagerstream import __version__
from eagerstream.cli import main
from eagerstream.cli._commands import _log_request
from eagerstream.errors import APIError
from eagerstream.recordings import Recording
from eagerstream.testing import FaultKind, Faults, Platform, ReceivedRequest, buffered, reply, text
from eagerstream_wire import is_compiled
from tests.tables import rows

DATA = Path(__file__).parent.parent / "data"
COMMAND = [sys.executable, "-m", "eagerstream"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}


def eagerstream(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Return the command under way."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.Popen([*COMMAND, *arguments], text=True, **given)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def broken_recording(tmp_path: Path) -> Path:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"eagerstream_recording": 1}\n{"at_s": 1, "data": ')
    return path


def shown_code(code: int) -> int:
    """Return the exit code of a process as a shell shows it: 130 for one that ended by Ctrl-C, however it ended.

    CPython remembers that Ctrl-C came while `exec()` ran a text, as the definition of a dataclass does. If that was the
    last text, the process ends by the signal, although the program has handled Ctrl-C and ends with an exit code
    (`unhandled_keyboard_interrupt` in its `pythonrun.c`).
    """
    return 128 - code if code < 0 else code


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("eagerstream: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@dataclass(frozen=True)
class InProcess:
    """Runs the command in this process, which saves the start of another one."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
            self.monkeypatch.delenv(name)
        self.monkeypatch.setattr(sys, "argv", ["eagerstream", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess([*arguments], ended.value.code, *self.capsys.readouterr())


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


def test_the_version(in_process: InProcess) -> None:
    """The command tells which version runs, and in which flavor; the changelog and the package's metadata agree."""
    done = in_process("--version")
    flavor = "compiled" if is_compiled() else "pure Python"
    assert (done.returncode, done.stdout) == (0, f"eagerstream {__version__} ({flavor})\n")
    assert importlib.metadata.version("eagerstream") == __version__
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+)\]", changelog, re.MULTILINE)[0] == __version__


@pytest.mark.slow
def test_live_with_an_api_that_cannot_be_reached() -> None:
    """A run that fails is no traceback either, and is told from a wrong command by its exit code."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    unreachable = f"http://127.0.0.1:{port}"
    done = eagerstream("demo", "--live", ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=unreachable)
    assert_one_line(done, 1, "could not be reached")


@pytest.mark.slow
def test_a_port_in_use(taken_port: int, in_process: InProcess) -> None:
    """The server says which port it could not have."""
    assert_one_line(in_process("serve", str(DATA / "text.sse"), "--port", str(taken_port)), 2, str(taken_port))


def test_a_recording_that_does_not_parse(broken_recording: Path, in_process: InProcess) -> None:
    """A recording is refused with the place where it is wrong."""
    assert_one_line(in_process("serve", str(broken_recording), "--port", "0"), 2, "broken.jsonl, line 2")


@pytest.mark.slow
@rows(
    "arguments, word",
    [
        (["serve", "no-such-file.sse"], ""),
        (["serve", str(DATA / "README.md")], ""),
        *(
            (["serve", str(DATA / "text.sse"), *option.split()], "")
            for option in ("--cut sometimes", "--cut 0", "--cut 20,10", "--speed 0", "--fault-rate 1.5")
        ),
        (["serve", str(DATA / "text.sse"), "--tokens-per-second", "-1"], ""),
        (["demo", "--svg", "no/such/folder/demo.svg"], ""),
        (["demo", "--live"], "ANTHROPIC_API_KEY"),
        # Recordings or the script, not both, and no `--` without a command.
        (["serve"], "serve"),
        (["serve", "--script", "a.jsonl"], "serve"),
        (["serve", "--script", "--"], "serve"),
    ],
)
def test_what_cannot_be_carried_out(arguments: list[str], word: str, in_process: InProcess) -> None:
    """Every wrong setting is one clear line and exit code 2."""
    assert_one_line(in_process(*arguments), 2, word)


@pytest.mark.slow
@rows("arguments", [["demo", "--nonsense"], ["dance"], ["serve", "x.sse", "--port", "y"]])
def test_a_wrong_command_line(arguments: list[str], in_process: InProcess) -> None:
    """The command line itself is checked by typer: usage, no traceback, the same exit code."""
    done = in_process(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


_SERVE_LINES = 1 + 2 + 1 + len(Platform)
"""Lines that `serve` prints: its address, two exports, and as comments those of OpenAI and of the platforms."""


@pytest.mark.slow
def test_serve_plays_until_interrupted() -> None:
    """The server prints where it is, for each platform, answers any client, and ends cleanly with Ctrl-C."""
    with started("serve", str(DATA / "text.sse"), "--port", "0", "--speed", "inf", "--cut", "10,200") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split()[-1]
        request = {"stream": True, "model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]}
        body = httpx.post(f"{url}/v1/messages", json=request).content
        lines = [process.stdout.readline() for _ in range(_SERVE_LINES - 1)]
        platforms = dict(line.removeprefix("#").split() for line in lines[-len(Platform) :])
        assert list(platforms) == list(Platform)
        for platform in ("aws", "foundry", "google-cloud"):
            assert httpx.post(f"{platforms[platform]}/v1/messages", json=request).status_code in (400, 401)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
    assert body == (DATA / "text.sse").read_bytes()


@pytest.mark.slow
def test_serve_fails_on_request() -> None:
    """With a rate of faults the server gives what the seed has for a request."""
    request = {"stream": True, "model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]}
    recording = Recording.load(DATA / "text.sse")
    kinds = ((seed, Faults.random(seed, 1).draw(request, recording)) for seed in range(1000))
    seed = next(seed for seed, fault in kinds if fault and fault.kind is FaultKind.HTML_PAGE)
    options = ("--port", "0", "--fault-rate", "1", "--fault-seed", str(seed))
    with started("serve", str(DATA / "text.sse"), *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split()[-1]
        response = httpx.post(f"{url}/v1/messages", json=request)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
    assert response.status_code in (502, 503, 504)
    assert response.headers["content-type"] == "text/html"


@pytest.mark.slow
def test_the_demo_in_a_pipe(tmp_path: Path) -> None:
    """Without a terminal the main job is told in plain lines, in the order in which it happens, and a table."""
    svg = tmp_path / "demo.svg"
    done = eagerstream("demo", "--svg", str(svg), COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()

    def line_of(*words: str) -> int:
        return next(number for number, line in enumerate(lines) if all(word in line for word in words))

    written = line_of("make_file", "✓ lines_of_text")
    for quick in ("get_weather", "get_tide"):
        assert line_of(quick, "running") < line_of(quick, "done") < written
    assert line_of("make_file", "✓ filename") < line_of("make_file", "running") < written < line_of("2 turns")
    assert "simulated" in done.stdout

    table = [line.split("│")[1:-1] for line in lines if "│ eager" in line or "│ buffered" in line]
    rows = {(name.strip(), side.strip()): [cell.strip() for cell in cells] for name, side, *cells in table}
    assert len(rows) == 6
    first_item = 1
    assert float(rows["make_file", "eager"][first_item]) < float(rows["make_file", "buffered"][first_item])

    picture = svg.read_text()
    assert picture.startswith("<svg")
    assert "lines_of_text" in picture
    assert "make_file" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.slow
def test_the_demo_into_a_pipe_that_closes() -> None:
    """`eagerstream demo | head -1` ends without a word."""
    with started("demo") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 1
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_the_demo_interrupted() -> None:
    """Ctrl-C in the middle closes servers and connections, and is no traceback.

    Its output knows ASCII only: there are question marks instead of ticks, and no traceback either.
    """
    with started("demo", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "? filename" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert shown_code(process.wait(timeout=60)) == 130
        assert process.stderr.read() == ""


def test_what_a_server_says_of_its_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, without secrets, and does nothing to the terminal."""

    def fail() -> None:
        raise APIError("\x1b[2Jno\nway: sk-ant-abc\x07", request_id="\x1b]0;t\x07req_1")

    monkeypatch.setattr("eagerstream.cli._main._run", fail)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == "eagerstream: no way: [redacted] (request req_1)\n"


@pytest.mark.parametrize(
    "imported",
    [
        pytest.param("eagerstream.errors", marks=pytest.mark.slow),
        pytest.param("eagerstream.cli._commands", marks=pytest.mark.slow),
        "typer",
    ],
)
def test_interrupted_while_it_imports(imported: str) -> None:
    """Ctrl-C in the first half second, which Python spends on imports, ends as at any other time: without a word."""
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {imported!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from eagerstream.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing: str) -> None:
    """Where the extra is not installed, the command names it."""
    code = f"import sys; sys.modules[{missing!r}] = None; from eagerstream.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "demo"], capture_output=True, text=True, check=False, timeout=50)
    assert_one_line(done, 2, "eagerstream[cli]")


_ASK = (
    "import json, os, sys, urllib.request as r\n"
    "url, key = (os.environ['ANTHROPIC_' + name] for name in ('BASE_URL', 'API_KEY'))\n"
    "body = {'model': 'm', 'max_tokens': 9, 'stream': True, 'messages': [{'role': 'user', 'content': 'secret'}],\n"
    "  'tools': [{'name': 'f', 'input_schema': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}]}\n"
    "asked = r.Request(url + '/v1/messages', json.dumps(body).encode(), {'x-api-key': key})\n"
    "print(r.urlopen(asked).read().decode())\n"
)


@pytest.mark.slow
def test_serve_holds_inputs_back() -> None:
    """Two fields in one fragment become two events, unless the option says that nothing is held back."""
    recording = str(DATA / "three_tools_interleaved.sse")
    request = {"stream": True, "model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]}
    program = f"import httpx, os; r = httpx.post(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', json={request!r})"
    bodies = []
    for options in ((), ("--no-buffer-inputs",)):
        command = [*COMMAND, "serve", recording, "--tokens-per-second", "100000", *options, "--", sys.executable, "-c"]
        done = subprocess.run(
            [*command, f"{program}; print(r.text)"], capture_output=True, text=True, env=ENVIRONMENT, check=True
        )
        bodies.append(done.stdout.removesuffix("\n"))
    assert bodies[1].encode() == Recording.load(recording).body
    assert bodies[0].encode() == buffered(Recording.load(recording)).body != bodies[1].encode()


@pytest.mark.slow
def test_serve_a_command() -> None:
    """The command gets the double's address and a key of no value; its exit code is the program's."""
    ask = [sys.executable, "-c", f"{_ASK}sys.exit(7)"]
    done = eagerstream("serve", "--script", "--speed", "100", "--log", "--", *ask)
    assert done.returncode == 7
    assert "I will " in done.stdout
    assert done.stderr == "POST /v1/messages, streamed, turn 0, tools: f, HTTP 200\n"


def test_the_log_of_a_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """A request that continues a thread is logged as its complete conversation: it has no tools of its own."""
    body = {"messages": [{"role": "user", "content": "Again."}], "thread": {"type": "continue"}}
    complete = {"messages": [{"role": "assistant", "content": "Hello."}], "tools": [{"name": "f"}]}
    _log_request(ReceivedRequest("req_1", {}, path="/v1/messages", body=body, complete=complete, status=200))
    assert capsys.readouterr().err == "POST /v1/messages, in one piece, turn 1, tools: f, HTTP 200\n"


def test_the_log_of_other_requests(capsys: pytest.CaptureFixture[str]) -> None:
    """The log says which requests ask for eager inputs, and which went to a wrong address."""
    eager = {"messages": [], "tools": [{"name": "f", "eager_input_streaming": True}], "stream": True}
    _log_request(ReceivedRequest("req_1", {}, path="/v1/messages", complete=eager, status=200))
    _log_request(ReceivedRequest("req_2", {}, method="GET", path="/v1/models", status=404))
    assert capsys.readouterr().err.splitlines() == [
        "POST /v1/messages, streamed, turn 0, tools: f, eager, HTTP 200",
        "GET /v1/models, HTTP 404",
    ]


@pytest.mark.slow
def test_serve_a_folder(tmp_path: Path) -> None:
    """The recordings of a folder answer in the order of their names; an empty folder is refused."""
    for name, said in (("b.sse", "second"), ("a.sse", "first")):
        (tmp_path / name).write_bytes(reply(text(said, fragment_chars=99)).body)
    done = eagerstream("serve", str(tmp_path), "--speed", "100", "--", sys.executable, "-c", _ASK)
    assert "first" in done.stdout
    assert "second" not in done.stdout
    (tmp_path / "empty").mkdir()
    assert_one_line(eagerstream("serve", str(tmp_path / "empty")), 2, "no recordings")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent there")
def test_serve_a_script() -> None:
    """The output is for a shell: two exports that point any client at the double, and comments."""
    with started("serve", "--script", "--port", "0", stderr=None) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(_SERVE_LINES)]
        assert lines[0].startswith("# serving scripted responses at http://127.0.0.1:")
        assert [line.split("=")[0] for line in lines if not line.startswith("#")] == [
            "export ANTHROPIC_BASE_URL",
            "export ANTHROPIC_API_KEY",
        ]
        ask = f'eval "$PRINTED"; exec {shlex.quote(sys.executable)} -c {shlex.quote(_ASK)}'
        done = subprocess.run(
            ["sh", "-c", ask], env=ENVIRONMENT | {"PRINTED": "".join(lines)}, check=True, capture_output=True
        )
        assert b"tool_use" in done.stdout
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
