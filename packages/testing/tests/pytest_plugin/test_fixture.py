"""The fixture `claude`: replies, what clients are pointed at, and markers."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from packages.testing.tests.pytest_plugin.support import run_tests

pytest_plugins = "pytester"


def test_the_plugin_costs_nothing_if_no_test_uses_it(tmp_path: pytest.TempPathFactory) -> None:
    """Every run of pytest imports the hooks, in every project whose environment has the library."""
    (entry,) = entry_points(group="pytest11", name="eagerstream")
    script = f"""
import pytest, sys
before = set(sys.modules)
assert pytest.main(["-q", "-p", "eagerstream", "-p", "no:cacheprovider", {str(tmp_path)!r}]) == 5
new = {{name for name in set(sys.modules) - before if not name.startswith(("_pytest", "pytest"))}}
print(sorted(name for name in new if name.startswith("eagerstream")))
print(sorted(new & {{"anthropic", "anyio", "asyncio", "httpx", "pydantic", "starlette", "uvicorn"}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=50,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    *_, ours, heavy = done.stdout.splitlines()
    needed = ["eagerstream", "eagerstream._support", "eagerstream._support.lazy", "eagerstream_testing"]
    assert ours == str([*needed, "eagerstream_testing.pytest_plugin"])
    assert heavy == "[]"
    assert entry.value == "eagerstream_testing.pytest_plugin"


def test_replies_in_plain_tests(pytester: pytest.Pytester) -> None:
    """One reply for each request, in order, whatever it is made of. A client without arguments finds them."""
    run_tests(
        pytester,
        '''
def test_an_agent(claude):
    claude.replies(text("Let me look."), tool_use("get_weather", {"city": "Paris"}))
    claude.replies(text("Mild."), stop_reason="stop_sequence", usage={"output_tokens": 7})
    assert agent("Weather?") == "Mild."
    first, second = (request.body for request in claude.requests)
    assert first["messages"] == [{"role": "user", "content": "Weather?"}]
    assert second["messages"][-1]["content"][0]["content"] == "Paris: 15 degrees"

def test_the_same_call_again(claude):
    """Its id differs, or the history would be illegal."""
    for _ in range(3):
        claude.replies(tool_use("get_weather", {"city": "Paris"}))
    claude.replies(text("Enough."))
    assert agent("Weather?") == "Enough."

def test_other_replies(claude):
    claude.replies(http_error(529, "overloaded_error", "Overloaded"))
    claude.replies(lambda request: reply(text(request["messages"][0]["content"].upper())), reply(text("whole")))
    with pytest.raises(anthropic.APIStatusError):
        agent("a")
    assert [agent("a"), agent("b")] == ["A", "whole"]

def test_a_scenario(claude):
    """It answers all further requests, by its own turns."""
    claude.replies(text("first"))
    claude.replies(Scenario.of(reply(text("again"))))
    assert [agent("a") for _ in range(3)] == ["first", "again", "again"]

def test_an_address(claude):
    claude.replies(text("a"))
    assert agent("a", base_url=claude.base_url, api_key="other") == "a"
    assert claude.environment()["ANTHROPIC_BASE_URL"] == claude.base_url

@pytest.mark.parametrize("parts", [(), ("text",), (text("a"), reply(text("b")))])
def test_no_reply(claude, parts):
    with pytest.raises(Exception, match="reply"):
        claude.replies(*parts)
    with pytest.raises(Exception, match="made of blocks"):
        claude.replies(reply(text("a")), stop_reason="end_turn")
    assert repr(claude).endswith(", 0 requests>")
''',
    ).assert_outcomes(passed=8)


def test_async_tests(pytester: pytest.Pytester) -> None:
    """The double runs in its own thread, so the event loop of the test does not matter."""
    run_tests(
        pytester,
        """
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_async(claude, anyio_backend):
    claude.replies(text("Mild."))
    async with anthropic.AsyncAnthropic() as client:
        async with client.messages.stream(
            model="claude-opus-4-7", max_tokens=100, messages=[user("Weather?")]
        ) as stream:
            assert await stream.get_final_text() == "Mild."
""",
    ).assert_outcomes(passed=2)


def test_the_environment_is_only_for_the_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real key or token never reaches the test, and a proxy is not asked for this machine."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "real")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "other")
    run_tests(
        pytester,
        """
import os

def test_with(claude):
    claude.replies(text("Mild."))
    assert agent("Weather?") == "Mild."
    assert os.environ["ANTHROPIC_API_KEY"] == "simulated"
    assert "ANTHROPIC_AUTH_TOKEN" not in os.environ
    assert os.environ["OPENAI_BASE_URL"] == "other"

def test_without():
    assert os.environ["ANTHROPIC_API_KEY"] == os.environ["ANTHROPIC_AUTH_TOKEN"] == "real"
    assert "ANTHROPIC_BASE_URL" not in os.environ
""",
    ).assert_outcomes(passed=2)


def test_markers(pytester: pytest.Pytester) -> None:
    """Arguments of the nearest marker win one by one, and attempts of faults are counted anew in each test."""
    run_tests(
        pytester,
        """
FAULTS = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529)]})
pytestmark = pytest.mark.claude(faults=FAULTS, eager="none")

def fails(claude):
    claude.replies(text("a"))
    with pytest.raises(anthropic.APIStatusError):
        agent("a")
    return agent("a") == "a" and [request.fault is not None for request in claude.requests] == [True, False]

@pytest.mark.parametrize("number", [1, 2])
def test_faults_of_the_module(claude, number):
    assert fails(claude)

@pytest.mark.claude(faults=None, timing=Timing(tokens_per_second=1000))
class TestNearer:
    def test_no_faults(self, claude):
        claude.replies(text("a"))
        assert agent("a") == "a"

    @pytest.mark.claude(faults={0: [Fault(FaultKind.RESET, after_bytes=500)]}, speed=float("inf"))
    def test_a_mapping(self, claude):
        claude.replies(text("a" * 100))
        with pytest.raises(Exception):
            agent("a")
        assert agent("a") == "a" * 100

    def test_eager_of_the_module(self, claude):
        TOOL["eager_input_streaming"] = True
        with pytest.raises(anthropic.BadRequestError, match="eager_input_streaming"):
            agent("a")
""",
    ).assert_outcomes(passed=5)


_WRONG_MARKERS = {
    "1": "all arguments have names",
    "fault={}": "'fault' is no argument; there are faults, timing",
    "faults=[1]": "faults is a Faults or",
    "faults={0: [1]}": "turn 0: expected faults",
    "timing=80": "timing is a Timing, not 80",
    "speed=0": "speed",
    "eager='all'": "eager",
    "recorded='yes'": "recorded is True or False",
    "recorded=True": "there are no recordings in *test_it* run this test once with --claude-record",
}


def test_wrong_markers(pytester: pytest.Pytester) -> None:
    """They fail the setup of the test, in words of the marker."""
    tests = (f"@pytest.mark.claude({marker})\ndef test_{n}(claude): pass" for n, marker in enumerate(_WRONG_MARKERS))
    result = run_tests(pytester, "\n".join(tests))
    result.assert_outcomes(errors=len(_WRONG_MARKERS))
    result.stdout.fnmatch_lines([f"claude: *{message.replace('[', '[[]')}*" for message in _WRONG_MARKERS.values()])


@pytest.mark.slow
def test_on_workers(pytester: pytest.Pytester) -> None:
    """The picture of a failure reaches the process that prints it."""
    code = """
def test_passes(claude):
    claude.replies(text("a"))
    assert agent("a") == "a"

def test_fails(claude):
    claude.replies(text("Mild."))
    assert agent("Weather?") == "Cold."
"""
    run_tests(pytester, code)
    result = pytester.runpytest_subprocess("-p", "no:langsmith_plugin", "--numprocesses", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Claude conversation*", "  -> user         Weather?", "  <- text         Mild."])
