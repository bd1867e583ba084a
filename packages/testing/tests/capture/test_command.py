"""`eagerstream record` as its users meet it: a process, its output, its exit code, and the files that it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.commands import ENVIRONMENT, InProcess, assert_one_line
from tests.streams import REQUEST
from tests.tables import rows

from eagerstream import Recording
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, retime, text, tool_use
from eagerstream_testing.capture._command import default_upstream

KEY = "sk-ant-api03-Zx9_abc-DEF"
COMMAND = [sys.executable, "-c", "from eagerstream._command import main; main()"]
SAID = reply(text(f"Hello, {KEY}."), tool_use("f", {"city": "Oslo"}))
BODY = {**REQUEST, "stream": True}
ASK = (
    "import json, os, sys, urllib.request as r\n"
    f"asked = r.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', json.dumps({BODY!r}).encode(),"
    f" {{'x-api-key': {KEY!r}, 'content-type': 'application/json'}})\n"
    "sys.stdout.buffer.write(r.urlopen(asked).read())\n"
)
WAIT = "import sys, time\nprint('waiting', flush=True)\ntime.sleep(50)\n"


def record(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "record", *arguments],
        capture_output=True,
        timeout=50,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


@contextmanager
def recording(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "record", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **environment},
        start_new_session=True,  # without a terminal, whoever runs the tests
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_command(tmp_path: Path) -> None:
    """It goes through the proxy, its output and its exit code are its own, and each reply is a line and a file."""
    out = tmp_path / "out"
    script = ASK + "sys.exit(7)"
    with ReplayServer(SAID) as server:
        proxies = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1", "NO_PROXY": "a.test"}
        done = record(
            "--out", str(out), "--", sys.executable, "-c", script, ANTHROPIC_BASE_URL=server.base_url, **proxies
        )
        assert server.requests[0].headers["x-api-key"] == "[redacted]"
        host = f"127.0.0.1:{server.port}"
    assert done.returncode == 7
    assert done.stdout == SAID.body
    line, summary = done.stderr.decode().splitlines()
    path = out / "0001.jsonl"
    made = Recording.load(path)
    assert line == f"{path}: HTTP 200, {made.duration_s:.2f} s, 1 chunk, {len(SAID.body)} bytes"
    assert summary == f"1 response recorded in {out}"
    assert made == Recording(made.chunks, 200, made.headers, f"recorded from {host}, claude-made-1, HTTP 200")
    assert len(made.body) == len(SAID.body)
    assert KEY not in path.read_text() + done.stderr.decode()


@pytest.mark.slow
def test_an_upstream_with_a_password(tmp_path: Path) -> None:
    """The command is told an address with the proxy's token, and nothing shows the password."""
    script = ASK + "sys.stderr.write(os.environ['ANTHROPIC_BASE_URL'])"
    with ReplayServer(SAID) as server:
        url = f"http://me:hunter2@127.0.0.1:{server.port}"
        done = record("--out", str(tmp_path), "--", sys.executable, "-c", script, ANTHROPIC_BASE_URL=url)
        assert server.requests[0].headers["authorization"] == "[redacted]"
        assert server.requests[0].path == "/v1/messages"
    assert (done.returncode, done.stdout) == (0, SAID.body)
    said = done.stderr.decode()
    assert re.search(r"http://127\.0\.0\.1:[0-9]+/[A-Za-z0-9_-]{43}", said)
    assert "hunter2" not in said + (tmp_path / "0001.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM cannot be handled there")
def test_who_else_may_use_it(tmp_path: Path) -> None:
    """Names and origins are options; others are refused."""
    with ReplayServer(SAID, origins=["https://app.example"]) as server:
        options = ("--allow-host", "recorder.test:80", "--allow-origin", "https://app.example")
        with recording("--proxy", "--out", str(tmp_path), "--upstream", server.base_url, *options) as process:
            assert process.stdout is not None
            process.stdout.readline()
            url = process.stdout.readline().strip().partition("=")[2]
            asked = {"host": "recorder.test", "origin": "https://app.example"}
            for headers, status in ((asked, 200), ({**asked, "host": "a.test"}, 421), ({"origin": "null"}, 403)):
                answer = httpx.post(f"{url}/v1/messages", json=BODY, headers=headers, timeout=20)
                assert answer.status_code == status
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.jsonl", "0001.request.json"]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--redact-contents", "--keep-secrets"])
def test_what_is_masked(option: str, tmp_path: Path) -> None:
    """Contents on request, secrets unless told otherwise; options of the command are its own, also without `--`."""
    with ReplayServer(SAID) as server:
        done = record(option, "--out", str(tmp_path), "--upstream", server.base_url, sys.executable, "-c", ASK)
    assert done.returncode == 0, done.stderr
    body = Recording.load(tmp_path / "0001.jsonl").body
    assert (body == SAID.body) is (option == "--keep-secrets")
    assert (b"Hello" in body) is (option == "--keep-secrets")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_nobody_reads_what_is_told(tmp_path: Path) -> None:
    """The command ends as it would without the recording, and the files are there."""
    with ReplayServer(SAID) as server, Path("/dev/full").open("wb") as full:
        program = [sys.executable, "-c", ASK + "sys.exit(7)"]
        done = subprocess.run(
            [*COMMAND, "record", "--out", str(tmp_path), "--upstream", server.base_url, "--", *program],
            stdout=subprocess.DEVNULL,
            stderr=full,
            timeout=50,
            check=False,
            env=ENVIRONMENT,
        )
    assert done.returncode == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.jsonl", "0001.request.json"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM cannot be handled there")
def test_until_it_is_terminated(tmp_path: Path) -> None:
    """A service manager ends it so: a reply under way is kept as far as it came."""
    slow = retime(reply(text("Hello there, how are you?")), Timing(tokens_per_second=1, first_byte_s=0))
    with ReplayServer(slow) as server:
        with recording("--proxy", "--out", str(tmp_path), "--upstream", server.base_url) as process:
            assert process.stdout is not None
            process.stdout.readline()
            url = process.stdout.readline().strip().partition("=")[2]
            with httpx.stream("POST", f"{url}/v1/messages", json=BODY, timeout=20) as response:
                chunks = response.iter_raw()  # kept: without it the response is closed
                next(chunks)
                process.send_signal(signal.SIGTERM)
                _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "the proxy was closed before its end" in told
    assert told.endswith(f"1 response recorded in {tmp_path}\n")
    assert Recording.load(tmp_path / "0001.jsonl").body in slow.body


@pytest.mark.slow
def test_until_ctrl_c(tmp_path: Path) -> None:
    """Any client that is pointed to the address is recorded; a summary comes at the end."""
    with ReplayServer(SAID) as server:
        with recording("--proxy", "--out", str(tmp_path), "--upstream", server.base_url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == (
                f"recording requests to 127.0.0.1:{server.port} in {tmp_path}; point clients here:\n"
            )
            name, _, url = process.stdout.readline().strip().partition("=")
            assert name == "ANTHROPIC_BASE_URL"
            for _ in range(2):
                assert httpx.post(f"{url}/v1/messages", json=BODY, timeout=20).content == SAID.body
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0
    assert [line.partition(": ")[0] for line in err.splitlines()[:2]] == [
        str(tmp_path / name) for name in ("0001.jsonl", "0002.jsonl")
    ]
    assert err.splitlines()[2:] == [f"2 responses recorded in {tmp_path}"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT for one process on Windows")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_the_commands(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """It gets them, and how it ends is how the recording ends, with its summary and without a traceback of ours."""
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + WAIT
    with recording(
        "--out", str(tmp_path), "--upstream", "http://127.0.0.1:1", "--", sys.executable, "-c", script
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == f"0 responses recorded in {tmp_path}\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there are no terminals of this kind on Windows")
def test_ctrl_c_at_a_terminal_comes_once(tmp_path: Path) -> None:
    """The terminal sends it to the command itself; it is not sent a second time."""
    import pty

    script = (
        "import signal, time\ncount = 0\n"
        "def take(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, take)\nprint('waiting', flush=True)\n"
        "while not count:\n    time.sleep(0.01)\ntime.sleep(0.3)\nprint('taken', count, flush=True)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        arguments = [*COMMAND, "record", "--out", str(tmp_path), "--", sys.executable, "-c", script]
        os.execve(arguments[0], arguments, ENVIRONMENT)
    shown = b""
    while b"waiting" not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while b"recorded in" not in shown:
        shown += os.read(terminal, 1000)
    status = os.waitpid(child, 0)[1]  # before the terminal is closed, which is a signal, too
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"taken 1" in shown


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


@pytest.mark.slow
@rows(
    "arguments, words",
    [
        ([], "--proxy"),
        (["--proxy", "--", "true"], "--proxy"),
        (["--upstream", "nonsense", "--proxy"], "http://"),
        (["--keep-secrets", "--redact-contents", "--proxy"], "secrets"),
        (["--", "no-such-program-anywhere"], "no-such-program-anywhere: cannot be run"),
    ],
)
def test_what_cannot_be_carried_out(arguments: list[str], words: str, tmp_path: Path, in_process: InProcess) -> None:
    """One line that says what to do, and exit code 2."""
    assert_one_line(in_process("record", "--out", str(tmp_path), *arguments), 2, words)


def test_where_clients_would_go() -> None:
    """As the anthropic package reads the environment."""
    assert default_upstream({}) == default_upstream({"ANTHROPIC_BASE_URL": ""}) == "https://api.anthropic.com"
    assert default_upstream({"ANTHROPIC_BASE_URL": "http://gateway"}) == "http://gateway"


@pytest.mark.slow
def test_a_program_with_the_official_client(tmp_path: Path) -> None:
    """A run of several turns in a program that knows nothing of it, recorded, and played again from its files."""
    script = (
        "import anthropic, anyio, eagerstream\n"
        "@eagerstream.tool\n"
        "async def f(city: str) -> str:\n    '''F.'''\n    return city\n"
        "async def main():\n"
        "    async with anthropic.AsyncAnthropic() as client, eagerstream.run(client, model='m', max_tokens=9,"
        " max_turns=3, tools=[f], messages=[{'role': 'user', 'content': 'Go.'}]) as run:\n"
        "        await run.finish()\n"
        "    print(run.result.status.value, run.result.messages[-1]['content'][0]['text'])\n"
        "anyio.run(main)\n"
    )

    def second(_: Mapping[str, Any]) -> Recording:
        return reply(text("Done."))

    program = [sys.executable, "-c", script]
    environment = {**ENVIRONMENT, "ANTHROPIC_API_KEY": KEY}
    with ReplayServer(Scenario(SAID, second)) as server:
        done = record("--out", str(tmp_path), "--", *program, ANTHROPIC_BASE_URL=server.base_url, ANTHROPIC_API_KEY=KEY)
    assert (done.returncode, done.stdout) == (0, b"completed Done.\n")
    files = sorted(tmp_path.glob("*.jsonl"))
    assert [path.name for path in files] == ["0001.jsonl", "0002.jsonl"]
    requests = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.request.json"))]
    assert [len(request["body"]["messages"]) for request in requests] == [1, 3]
    assert all(KEY not in path.read_text() for path in tmp_path.iterdir())
    with ReplayServer(Scenario(*map(Recording.load, files))) as server:
        again = subprocess.run(
            program,
            capture_output=True,
            check=True,
            timeout=50,
            env={**environment, "ANTHROPIC_BASE_URL": server.base_url},
        )
        assert json.dumps(server.requests[1].body["messages"]).count("Oslo") == 2
    assert again.stdout == done.stdout
