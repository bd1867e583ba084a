"""`Claude`: the value of the fixture `claude`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from .. import ReceivedRequest, Scenario, Scripted, Turn, reply

if TYPE_CHECKING:
    from ._conversation import Conversation


class Claude:
    """A double of Claude's Messages API for one test: the value of the fixture `claude`.

    ::

        def test_weather(claude):
            claude.replies(text("Let me look."), tool_use("get_weather", {"city": "Paris"}))
            claude.replies(text("It has 15 degrees."))
            assert my_agent("Weather in Paris?") == "It has 15 degrees."
            assert len(claude.requests) == 2

    For the time of the test, `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` point at the double, and so do the variables
    of the platforms' clients that begin with `ANTHROPIC_`. A client that is made in the test without arguments connects
    to it. The double runs in a thread of its own, so it serves plain code, asyncio and trio.

    When the test has passed, its conversation is checked. The test fails if a request sent a history that the API
    refuses, if a request found no reply, if a reply was not requested, or if a tool that eagerstream ran has raised an
    exception other than a `ToolError`. See the marker `claude` to change that.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"<Claude {self.base_url}, {len(self.requests)} requests>"

    def replies(
        self,
        *parts: Scripted | Turn | Scenario,
        stop_reason: str | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a reply: the response to one request. Replies are given in order.

        A request that is sent again because its response broke off gets the same reply again.

        Args:
            parts: Either the blocks of one reply: `text("...")`, `tool_use("get_weather", {"city": "Paris"})`. Or whole
                replies, each for one request: an `http_error(...)`, a `reply(...)` or another `Recording`, or a
                function of the request's body that returns one. A `Scenario` answers all further requests, by its own
                turns.
            stop_reason, usage: For a reply made of blocks, as for `eagerstream_testing.reply`.

        Raises:
            UsageError: There is no part, a part is something else, blocks and whole replies are mixed, or the test is
                marked `recorded=True`.
        """
        script = self._conversation.script()
        blocks: list[Scripted] = []
        replies: list[Turn | Scenario] = []
        for part in parts:
            if isinstance(part, Scripted):
                blocks.append(part)
            elif isinstance(part, Recording | Scenario) or callable(part):
                replies.append(part)
            else:
                what = 'a reply consists of blocks such as text("...") and tool_use("name", {...})'
                raise UsageError(f"{what}, not {part!r:.100}")
        if not parts:
            raise UsageError('a reply needs a block, such as text("...")')
        if blocks and replies:
            raise UsageError("blocks and whole replies do not go together: call claude.replies(...) for each reply")
        if not blocks and (stop_reason is not None or usage is not None):
            raise UsageError("stop_reason and usage belong to a reply made of blocks")
        if blocks:
            # An id of its own: the same call may come twice in a conversation, and the API refuses ids that do.
            id = f"msg_{len(script.replies) + 1:024}"
            replies = [reply(*blocks, stop_reason=stop_reason, usage=usage, message_id=id)]
        timing = self._conversation.settings.timing
        scenarios = [part if isinstance(part, Scenario) else Scenario.of(part, timing=timing) for part in replies]
        for part, scenario in zip(replies, scenarios, strict=True):
            script.add(scenario, answers_all=part is scenario)

    @property
    def base_url(self) -> str:
        """The address for clients: `Anthropic(base_url=claude.base_url)`."""
        return self._conversation.base_url

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The latest requests, at most 1,000, in order of arrival, in a new list. Their `body` is the parsed JSON.

        While a test records, they have no headers.
        """
        return self._conversation.requests()

    def environment(self) -> dict[str, str]:
        """Return environment variables that point clients here, also those of AWS and Google.

        Child processes of the test inherit those that begin with `ANTHROPIC_` anyway.
        """
        return self._conversation.environment()
