"""The conversation of one test: what the fixture, the hooks and the report need of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, Final

import pytest

from eagerstream import count_breakpoints, validate_history
from eagerstream._support.redaction import printable, redact_excerpt
from eagerstream.errors import UsageError
from eagerstream.tools import ToolFailure

from .. import ReceivedRequest, ReplayServer, Scenario
from ._picture import message_of, picture
from ._script import Exchange, Script
from ._settings import Settings

_MAX_PROBLEM_CHARS: Final = 4_000


class Conversation(ABC):
    """The conversation of one test.

    Attributes:
        settings: The arguments of the marker.
        has_passed: The test has passed, its checks among it.
        tool_failures: The exceptions of tools that they did not mean for the model.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.has_passed = False
        self.tool_failures: list[ToolFailure] = []
        self._checked = 0

    @property
    @abstractmethod
    def base_url(self) -> str:
        """The address for clients."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Return the environment variables that point clients here."""

    @abstractmethod
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests so far."""

    @abstractmethod
    def exchanges(self) -> list[Exchange]:
        """Return the requests with their responses."""

    @abstractmethod
    def script(self) -> Script:
        """Return the script, to add replies.

        Raises:
            UsageError: The test plays or records responses of the API.
        """

    @abstractmethod
    def reply_problems(self) -> list[str]:
        """Return everything wrong with the use of replies."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Return lines for the summary of the run."""

    @abstractmethod
    def close(self) -> None:
        """Stop the server."""

    def problems(self) -> list[str]:
        """Return everything for which the test fails."""
        problems: list[str] = []
        if self.settings.check_histories:
            problems += [
                f"request {number} sent a history that the API refuses: {fault}"
                for number, exchange in enumerate(self.exchanges(), 1)
                for fault in history_faults(exchange.request)
            ]
        problems += self._reply_problems()
        if self.settings.check_calls and not self.settings.recorded:
            # In a dict, because a request may be sent again.
            problems += dict.fromkeys(
                f"{exchange.reply_name} calls {name!r}, which request {number} does not have: it has {offered}"
                for number, exchange in enumerate(self.exchanges(), 1)
                for name, offered in unknown_calls(exchange)
            )
        if self.settings.tool_errors == "forbidden":
            problems += map(str, self.tool_failures)
        return problems

    def check(self) -> None:
        """Fail the test if there are problems."""
        self._checked = len(self.exchanges())
        if problems := self.problems():
            # A fault quotes an id of the model, and an error a text of anybody.
            shown = (printable(redact_excerpt(problem, _MAX_PROBLEM_CHARS)) for problem in problems)
            pytest.fail("\n".join(shown), pytrace=False)

    def check_late(self) -> None:
        """Check again if requests came after `check`, for example from the teardown of a fixture."""
        if self.has_passed and len(self.exchanges()) > self._checked:
            self.check()

    def picture(self) -> str:
        """Return the conversation as text."""
        return picture(self.exchanges(), self._reply_problems(), history_faults)

    def _reply_problems(self) -> list[str]:
        return self.reply_problems() if self.settings.check_replies else []


def history_faults(request: ReceivedRequest) -> list[str]:
    """Return the faults of the history that a request sent, in the API's words."""
    body = request.complete
    if not isinstance(body, Mapping) or not isinstance(messages := body.get("messages"), list):
        return ["the request has no list of messages"]
    if "thread" in body:
        return []  # it was refused, and its history is not known
    tools = body.get("tools")
    return [
        fault.message
        for fault in validate_history(
            messages,
            tools if isinstance(tools, list) else (),
            system_breakpoints=count_breakpoints(body.get("system")),
            first_party=True,
        )
    ]


def unknown_calls(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Yield the name of each call in a response whose tool the request does not have, and the tools that it has."""
    body = exchange.request.complete
    content = message_of(exchange.response).get("content")
    if not isinstance(body, Mapping) or not isinstance(content, list):
        return
    names = [str(tool.get("name")) for tool in _tools_of(body)]
    for block in content:
        # The members of a toolset have names of their own.
        if block.get("type") == "tool_use" and "toolset_name" not in block and block.get("name") not in names:
            yield str(block.get("name")), ", ".join(names) or "no tools"


def _tools_of(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the definitions of a request, and those that a block of its messages adds."""
    for tool in body.get("tools") or ():
        if isinstance(tool, Mapping):
            yield tool
    for message in body.get("messages") or ():
        blocks = message.get("content") if isinstance(message, Mapping) else None
        for block in blocks if isinstance(blocks, list) else ():
            added = block.get("tool") if isinstance(block, Mapping) and block.get("type") == "tool_addition" else None
            if isinstance(added, Mapping):
                yield added.get("definition") or added


class Double(Conversation):
    """A conversation with the double of the API.

    Raises:
        UsageError: A setting has a value that the server refuses.
    """

    def __init__(self, settings: Settings, script: Script, notes: Callable[[], list[str]] = list) -> None:
        super().__init__(settings)
        self._script = script
        self._notes = notes
        self._server = ReplayServer(
            Scenario.of(script.answer),
            speed=settings.speed if settings.speed is not None else inf if script.is_recorded else 1.0,
            faults=settings.fresh_faults(),
            eager=settings.eager,
            on_answer=script.note,
        )
        self._server.start()

    @property
    def base_url(self) -> str:
        return self._server.base_url

    def environment(self) -> dict[str, str]:
        return self._server.environment()

    def requests(self) -> list[ReceivedRequest]:
        return self._server.requests

    def exchanges(self) -> list[Exchange]:
        return self._script.exchanges()

    def script(self) -> Script:
        if self._script.is_recorded:
            raise UsageError("a test marked claude(recorded=True) has the recorded responses as its replies")
        return self._script

    def reply_problems(self) -> list[str]:
        unused = self._script.unused()
        problems = [*self._script.errors]
        if unused and not self.exchanges():
            problems.append(f"no request came to {self.base_url}: does the agent use ANTHROPIC_BASE_URL?")
        elif unused and self._script.is_recorded:
            problems.append(f"no request got {', '.join(unused)}: record again with --claude-record")
        elif unused:
            problems.append(f"no request got {', '.join(unused)}")
        return problems

    def notes(self) -> list[str]:
        return self._notes()

    def close(self) -> None:
        self._server.close()
