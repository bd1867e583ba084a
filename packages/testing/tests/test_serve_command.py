"""`eagerstream serve`: the double of the API as a process."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.commands import COMMAND, ENVIRONMENT, InProcess, assert_one_line, eagerstream, started
from tests.streams import MADE_DIR as DATA
from tests.tables import rows

from eagerstream.recordings import Recording
from eagerstream_testing import FaultKind, Faults, Platform, ReceivedRequest, buffered, reply, text
from eagerstream_testing._commands.serve import _log_request

_SERVE_LINES = 1 + 2 + 1 + len(Platform)
"""Lines that `serve` prints: its address, two exports, and as comments those of OpenAI and of the platforms."""

_ASK = (
    "import json, os, sys, urllib.request as r\n"
    "url, key = (os.environ['ANTHROPIC_' + name] for name in ('BASE_URL', 'API_KEY'))\n"
    "body = {'model': 'm', 'max_tokens': 9, 'stream': True, 'messages': [{'role': 'user', 'content': 'secret'}],\n"
    "  'tools': [{'name': 'f', 'input_schema': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}]}\n"
    "asked = r.Request(url + '/v1/messages', json.dumps(body).encode(), {'x-api-key': key})\n"
    "print(r.urlopen(asked).read().decode())\n"
)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def broken_recording(tmp_path: Path) -> Path:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"eagerstream_recording": 1}\n{"at_s": 1, "data": ')
    return path


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
