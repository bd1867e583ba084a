"""Tests marked `recorded=True`: `--claude-record` records the responses of the API, and other runs play them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages.testing.tests.pytest_plugin.support import run_tests

from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_testing.pytest_plugin import _recorder

pytest_plugins = "pytester"

_KEY = "sk-ant-api03-" + "k" * 60
_SECRET = "sk-ant-api03-" + "s" * 60
_TEST = """
from pathlib import Path

pytestmark = pytest.mark.claude(recorded=True)

def test_weather(claude):
    answer = agent(Path("question.txt").read_text())
    assert answer == Path("answer.txt").read_text()
    assert len(claude.requests) == 2
"""
_FOLDER = Path("claude_recordings/test_it/test_weather")


@pytest.fixture
def upstream(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplayServer]:
    """Plays the API. The folder of the inner run is the working directory."""
    Path("question.txt").write_text("Weather?")
    Path("answer.txt").write_text("Mild.")
    monkeypatch.setenv("ANTHROPIC_API_KEY", _KEY)
    call = tool_use("get_weather", {"city": "Paris"})
    with ReplayServer(Scenario(reply(text(f"The key is {_SECRET}."), call), reply(text("Mild.")))) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        yield server


def _files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("claude_recordings").rglob("*") if path.is_file()}


def test_record_and_play(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """Without the option, the same test needs neither the API nor a key, and sends the same requests."""
    result = run_tests(pytester, _TEST, "--claude-record")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"recorded: {_FOLDER}: 2 responses"])
    assert [request.status for request in upstream.requests] == [200, 200]
    assert sorted(path.name for path in _FOLDER.iterdir()) == ["0001.jsonl", "0002.jsonl", "requests.json"]
    assert [path.name for path in _FOLDER.parent.iterdir()] == ["test_weather"]
    kept = b"".join(_files().values()).decode()
    assert "kkkk" not in kept
    assert "ssss" not in kept
    upstream.close()
    result = run_tests(pytester, _TEST)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("stale*")


@pytest.mark.slow
def test_what_is_recorded_stays_unless_the_test_passes(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """A failed attempt to record loses nothing, and a run that was killed while it replaced files does not either."""
    run_tests(pytester, _TEST, "--claude-record").assert_outcomes(passed=1)
    before = _files()
    Path("answer.txt").write_text("Cold.")
    result = run_tests(pytester, _TEST, "--claude-record")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  <- HTTP 200, 0001.jsonl, *",
            "  <- text         The key is *.",
            f"not recorded: {_FOLDER}: the test has not passed",
        ]
    )
    assert "ssss" not in result.stdout.str()
    assert _files() == before
    Path("answer.txt").write_text("Mild.")
    _FOLDER.rename(_FOLDER.with_name(".test_weather.old"))
    run_tests(pytester, _TEST).assert_outcomes(passed=1)
    assert _files() == before
    result = run_tests(pytester, _TEST, "--claude-record", "-o", "claude_upstream=http://127.0.0.1:9")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  <- *no response*", f"not recorded: {_FOLDER}: the test has not passed"])
    assert _files() == before
    swallowed = _TEST.replace(
        "    answer", "    try: agent('a')\n    except anthropic.APIStatusError: return\n    answer"
    )
    result = run_tests(pytester, swallowed, "--claude-record", "-o", "claude_upstream=http://127.0.0.1:9")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"not recorded: {_FOLDER}: the response to request 1 is missing"])
    assert _files() == before


@pytest.mark.slow
def test_requests_that_have_changed(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """A response plays for the same messages, else for the same turn, and the summary says so. No other request is
    answered, and a response that nobody requests fails the test."""
    run_tests(pytester, _TEST, "--claude-record").assert_outcomes(passed=1)
    Path("question.txt").write_text("How is the weather?")
    result = run_tests(pytester, _TEST)
    result.assert_outcomes(passed=1)
    changed = "0001.jsonl, 0002.jsonl played for messages that have changed"
    result.stdout.fnmatch_lines([f"stale: {_FOLDER}: {changed}; record again with --claude-record"])
    Path("question.txt").write_text("Weather?")
    result = run_tests(pytester, _TEST + "    agent('more')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no recording is left for request 3: record again with --claude-record*"])
    result = run_tests(pytester, _TEST.replace("agent(", "'Mild.' or agent(").replace("== 2", "== 0"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no request came to *"])
    ask = "ask([user('Weather?')]) and 'Mild.' or agent("
    result = run_tests(pytester, _TEST.replace("agent(", ask).replace("== 2", "== 1"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["no request got 0002.jsonl: record again with --claude-record", "stale: *: 0002.jsonl not requested; *"]
    )


@pytest.mark.slow
def test_the_same_messages_come_first(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """Conversations may come in another order than they were recorded in: the turn decides only without a match."""
    upstream.close()
    code = """
pytestmark = pytest.mark.claude(recorded=True)

def test_weather(claude):
    assert [agent(question) for question in QUESTIONS] == QUESTIONS
    with pytest.raises(Exception, match="has the recorded responses as its replies"):
        claude.replies(text("a"))
"""
    with ReplayServer(Scenario.of(lambda request: reply(text(request["messages"][0]["content"])))) as echo:
        options = ("--claude-record", "-o", f"claude_upstream={echo.base_url}")
        run_tests(pytester, f"QUESTIONS = ['a', 'b', 'c']\n{code}", *options).assert_outcomes(passed=1)
    run_tests(pytester, f"QUESTIONS = ['c', 'a', 'b']\n{code}").assert_outcomes(passed=1)
    index = json.loads((_FOLDER / "requests.json").read_text())
    assert [(entry["file"], entry["turn"]) for entry in index["requests"]] == [(f"000{n}.jsonl", 0) for n in (1, 2, 3)]
    for damaged in ("{", "[]", '{"eagerstream_test_recordings": 1, "requests": [{"file": "../../a.jsonl"}]}'):
        (_FOLDER / "requests.json").write_text(damaged)
        result = run_tests(pytester, f"QUESTIONS = []\n{code}")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["claude: *requests.json: *"])


@pytest.mark.slow
def test_requests_that_are_not_streamed(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """Their recordings play for such requests only. Recorded streams play for both."""
    code = """
pytestmark = pytest.mark.claude(recorded=True)

def test_weather(claude):
    with anthropic.Anthropic() as client:
        options = {"stream": True} if STREAM else {}
        answer = client.messages.create(model="m", max_tokens=9, messages=[user("Weather?")], **options)
        assert list(answer) if STREAM else answer.content[1].input == {"city": "Paris"}
"""
    run_tests(pytester, f"STREAM = True\n{code}", "--claude-record").assert_outcomes(passed=1)
    run_tests(pytester, f"STREAM = False\n{code}").assert_outcomes(passed=1)
    run_tests(pytester, f"STREAM = False\n{code}", "--claude-record").assert_outcomes(passed=1)
    run_tests(pytester, f"STREAM = False\n{code}").assert_outcomes(passed=1)
    result = run_tests(pytester, f"STREAM = True\n{code}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*request 1 is streamed, and its recording is not: record again*"])


def test_recording_needs_a_key(pytester: pytest.Pytester) -> None:
    """Without one, each test would fail with an error of the API."""
    result = run_tests(pytester, _TEST, "--claude-record")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--claude-record needs a key of the API in ANTHROPIC_API_KEY*"])


def test_requests_are_shown_with_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts from the start of the test."""
    times = iter([1000.0, 1002.5])
    monkeypatch.setattr(_recorder, "monotonic", lambda: next(times))
    folder = _recorder._NotedFolder(tmp_path)
    folder.begin({"model": "m", "messages": []})
    [(number, exchange)] = folder.exchanges
    assert (number, exchange.at_s) == (1, 2.5)
