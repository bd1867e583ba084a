"""The pytest plugin: a fixture `claude`, a double of the Messages API for each test.

pytest finds it by its entry point and imports it in every run. So this module holds the hooks and imports nothing else:
the double and its packages are imported by the first test that uses the fixture.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._claude import Claude as Claude
    from ._conversation import Conversation
else:  # or type checkers would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name != "Claude":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._claude import Claude

        return Claude


__all__ = ["Claude"]

_CONVERSATION: pytest.StashKey[Conversation] = pytest.StashKey()
_MARKER = (
    "claude(faults=..., timing=..., speed=..., eager=..., recorded=..., check_histories=..., check_replies=..., "
    "check_calls=..., tool_errors=...): set how the fixture `claude` answers, and which of its checks apply"
)


@pytest.fixture
def claude(request: pytest.FixtureRequest) -> Iterator[Claude]:
    """A double of Claude's Messages API: give it replies, and point your agent at it."""
    from ._claude import Claude
    from ._opening import opened

    with opened(request.node) as conversation:
        request.node.stash[_CONVERSATION] = conversation
        yield Claude(conversation)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("claude", "tests of Claude agents")
    group.addoption(
        "--claude-record",
        action="store_true",
        help="send the requests of tests marked claude(recorded=True) to the API, and save its responses; needs a key",
    )
    parser.addini(
        "claude_upstream",
        "URL of the API to record from; default: ANTHROPIC_BASE_URL, or else https://api.anthropic.com",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker.

    Raises:
        pytest.UsageError: `--claude-record` is set without a key.
    """
    config.addinivalue_line("markers", _MARKER)
    has_key = os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")
    if config.getoption("--claude-record") and not has_key:
        raise pytest.UsageError("--claude-record needs a key of the API in ANTHROPIC_API_KEY")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the conversation of a test that has passed. A test that has failed keeps its own failure."""
    result = yield
    conversation = item.stash.get(_CONVERSATION, None)
    if conversation is not None:
        conversation.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the conversation with a failure."""
    report = yield
    conversation = item.stash.get(_CONVERSATION, None)
    if conversation is None:
        return report
    if report.when == "call":
        conversation.has_passed = report.passed
    if report.failed:
        report.sections.append(("Claude conversation", conversation.picture()))
        if conversation.tool_failures:
            report.sections.append(("errors in tools", "\n".join(map(str, conversation.tool_failures))))
    if report.when == "teardown":
        vars(report)["claude_notes"] = conversation.notes()  # pytest-xdist hands it on with the report
        del item.stash[_CONVERSATION]  # the test may run again
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the recordings that were written, and those that no longer fit their test."""
    reports = (report for of_outcome in terminalreporter.stats.values() for report in of_outcome)
    notes = [note for report in reports for note in getattr(report, "claude_notes", ())]
    if notes:
        terminalreporter.section("Claude recordings")
        for note in notes:
            terminalreporter.write_line(note)
