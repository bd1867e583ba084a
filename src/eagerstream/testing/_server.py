"""`ReplayServer`: the Messages API double behind a real socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from .._serving.asgi_server import ThreadedServer
from ..errors import UsageError
from ..recordings import Recording
from ..wire import EagerSupport, check_choice, check_positive
from ._application import Behaviour, make_application
from ._chat import CHAT_DIALECTS, ChatDialect
from ._platforms import DIALECTS, Platform
from ._received import ReceivedRequest, RequestLog
from ._scenario import Scenario
from ._schedule import Faults


class ReplayServer(ThreadedServer):
    """Plays recordings to clients of the Messages API, over HTTP on this machine.

    ::

        with ReplayServer(recording) as server:
            client = AsyncAnthropic(base_url=server.base_url, api_key="any")

    It speaks the dialect of every platform that offers the API, each at an address of its own, see `url_of`, and
    OpenAI's protocol for chat completions, see `chat_url`. It runs
    in a thread of its own, so it serves whatever the caller runs: `with` in plain code, `async with` on asyncio
    and on trio. Once closed it may be started again; with `port=0` at another port.

    On request it fails, so that a program can be tried against what happens on real networks::

        faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529), Fault(FaultKind.RESET, after_bytes=700)]})
        with ReplayServer(recording, faults=faults) as server:
            ...  # the first turn is refused, then breaks off after 700 bytes, and comes whole at the third attempt

    Args:
        replies: A scenario, or one recording that answers every request.
        host: Where to listen. Anybody who reaches the host can connect: leave it on loopback unless that is the aim.
        port: 0 takes a free one.
        speed: Plays so many times as fast as recorded; `inf` without any waiting.
        faults: What goes wrong with which reply: a schedule by turn, or `Faults.random`. Requests that are refused
            anyway meet none.
        eager: Which ways to ask for eager input streaming are taken: `"any"`, the `"field"` on a tool, the `"header"`
            with the legacy beta, or `"none"`; for all models, or by model. The others are refused with HTTP 400.

    Raises:
        UsageError: A port, a speed or a way to ask that does not exist.
    """

    def __init__(
        self,
        replies: Scenario | Recording,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        speed: float = 1.0,
        faults: Faults | None = None,
        eager: EagerSupport | Mapping[str, EagerSupport] = "any",
    ) -> None:
        check_positive("speed", speed)
        for support in eager.values() if isinstance(eager, Mapping) else (eager,):
            check_choice("eager", support, get_args(EagerSupport))
        scenario = Scenario.of(replies) if isinstance(replies, Recording) else replies
        self._log = RequestLog()
        behaviour = Behaviour(scenario, speed, faults, eager)
        super().__init__(lambda: make_application(behaviour, self._log), name="replay server", host=host, port=port)

    def url_of(self, platform: Platform) -> str:
        """What to give to the client of a platform, which is answered in its own dialect.

        ::

            AsyncAnthropicBedrock(base_url=server.url_of(Platform.BEDROCK), api_key="any", aws_region="us-east-1")

        Credentials have to be there, and may be any. At `base_url` itself none are asked for, as by a gateway or a
        local server.

        Raises:
            UsageError: The server is not running, or there is no such platform.
        """
        try:
            return self.base_url + DIALECTS[Platform(platform)].root
        except ValueError as error:
            raise UsageError(f"{platform!r} is no platform; there are {', '.join(Platform)}") from error

    def chat_url(self, dialect: ChatDialect = ChatDialect.OPENAI) -> str:
        """What to give to a client of OpenAI's protocol: the same replies, as chat completions.

        ::

            AsyncOpenAI(base_url=server.chat_url(), api_key="any")

        The scenario is asked with the body that was sent, in OpenAI's form.

        Args:
            dialect: Whose server it is like.

        Raises:
            UsageError: The server is not running, or there is no such dialect.
        """
        try:
            return f"{self.base_url}{CHAT_DIALECTS[ChatDialect(dialect)].root}/v1"
        except ValueError as error:
            raise UsageError(f"{dialect!r} is no dialect of chats; there are {', '.join(ChatDialect)}") from error

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The latest requests for replies, at most 1,000, in order of arrival; a new list each time."""
        return self._log.entries()
