"""`ReplayServer`: the Messages API double on a real socket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Final, get_args

from eagerstream import EagerSupport
from eagerstream._support.checks import check_choice, check_positive
from eagerstream._support.serving.access import Access, token_for
from eagerstream._support.serving.asgi_server import IDLE_S, ThreadedServer
from eagerstream._support.serving.cross_origin import CrossOrigin
from eagerstream._support.serving.guard import Guard, as_api_error
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from ._application import make_application
from ._eager_requests import InputBuffering
from ._endpoints import Behaviour
from ._platforms import DIALECTS, Platform
from ._received import ReceivedRequest, RequestLog
from ._scenario import Scenario
from ._schedule import Faults
from ._threads import MessageThreads

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_FOUNDRY_API_KEY", "AWS_ACCESS_KEY_ID")
_PLATFORM_NAMES: Final = {
    "BEDROCK": Platform.BEDROCK,
    "BEDROCK_MANTLE": Platform.BEDROCK_MANTLE,
    "AWS": Platform.AWS,
    "VERTEX": Platform.VERTEX,
    "FOUNDRY": Platform.FOUNDRY,
    "GOOGLE_CLOUD": Platform.GOOGLE_CLOUD,
}
_PLATFORM_SETTINGS: Final = {
    "ANTHROPIC_AWS_WORKSPACE_ID": "simulated",
    "ANTHROPIC_GOOGLE_CLOUD_PROJECT": "simulated",
    "ANTHROPIC_GOOGLE_CLOUD_WORKSPACE_ID": "simulated",
    "ANTHROPIC_VERTEX_PROJECT_ID": "simulated",
    "AWS_REGION": "us-east-1",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "CLOUD_ML_REGION": "global",
}
"""Settings that the platforms' clients require, of any value."""


class ReplayServer(ThreadedServer):
    """Plays recordings to clients of the Messages API, over HTTP on this machine.

    ::

        with ReplayServer(recording) as server:
            client = AsyncAnthropic(base_url=server.base_url, api_key="any")

    It answers in the dialect of every platform that offers the API, each at its own address (`url_of`). It runs in its
    own thread and blocks no event loop. Use `with` in plain code, and `async with` on asyncio and trio. A closed server
    may be started again, with `port=0` at another port.

    It fails on request, to test a program against the faults of real networks::

        faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529), Fault(FaultKind.RESET, after_bytes=700)]})
        with ReplayServer(recording, faults=faults) as server:
            ...  # the first turn is refused, then breaks off after 700 bytes, and is complete at the third attempt

    Args:
        replies: A scenario, or one recording that answers every request.
        host: The address to listen on. Traffic is not encrypted: keep it on loopback unless you want others to read it.
        port: 0 takes a free port.
        speed: Factor by which to play faster than recorded. `inf` plays without any waiting.
        faults: A schedule by turn, or `Faults.random`. Requests that are refused anyway get no fault.
        eager: The accepted ways to ask for eager input streaming: `"any"`, the `"field"` on a tool, the `"header"` with
            the legacy beta, or `"none"`. Give one for all models, or a mapping by model. Other ways get HTTP 400.
        on_answer: Called with each request when its response starts, in the server's thread. It should return quickly.
            Requests to paths and with methods that are not served are among them. `requests` does not have those.
        threads: Keeps the conversations of message threads. `None` (default) keeps them as the API does, for five
            minutes. `MessageThreads("ignores")` ignores the field `thread`.
        read_bytes_per_s: Bytes of a request's body that are read per second, to model an upload, or the time that the
            API needs for the text. The response starts `body_bytes / read_bytes_per_s` seconds later; `speed` applies
            to that, too. `inf` (default) adds no time.
        hosts: Further names of the server for clients, with or without a port, such as this machine's name. `host` and
            the names of loopback are always allowed, at any port.
        origins: Origins of pages that may use the server, such as `"http://localhost:5173"`. None by default.
        token: Text that clients must send as their key, in the header of any platform's client. Default: a new one if
            `host` is not loopback, otherwise none, and any key is accepted. `environment` has it.
        idle_s: A connection without a complete request for this many seconds is cut. They count from its last response,
            if it had one. Under load, a client may need longer to send its request.
        buffer_inputs: Hold the inputs of each tool back, member by member, unless the request wants them as they are
            written: by `eager_input_streaming` on the tool, or by the legacy beta. False plays each response as it is.

    Raises:
        UsageError: `host` is empty, `port` does not exist, `speed`, `read_bytes_per_s` or `idle_s` is not a positive
            number, `eager` is unknown, or a host, an origin or the token is malformed.
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
        on_answer: Callable[[ReceivedRequest], object] | None = None,
        threads: MessageThreads | None = None,
        read_bytes_per_s: float = inf,
        idle_s: float = IDLE_S,
        buffer_inputs: bool = True,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str | None = None,
    ) -> None:
        check_positive("speed", speed)
        check_positive("read_bytes_per_s", read_bytes_per_s)
        check_positive("idle_s", idle_s)
        for support in eager.values() if isinstance(eager, Mapping) else (eager,):
            check_choice("eager", support, get_args(EagerSupport))
        scenario = Scenario.of(replies) if isinstance(replies, Recording) else replies
        self._log = RequestLog()
        threads = MessageThreads() if threads is None else threads
        buffering = InputBuffering() if buffer_inputs else None
        behaviour = Behaviour(scenario, speed, faults, eager, on_answer, threads, read_bytes_per_s, buffering)
        access = Access(hosts=hosts, origins=origins, token=token_for(host, token), host=host)
        self._token = access.token
        super().__init__(
            lambda: CrossOrigin(Guard(make_application(behaviour, self._log), access, as_api_error), access),
            name="replay server",
            host=host,
            port=port,
            idle_s=idle_s,
        )

    @property
    def token(self) -> str | None:
        """Text that clients must send as their key; `None` if any key is accepted."""
        return self._token

    def url_of(self, platform: Platform) -> str:
        """Return the base URL for the client of a platform. Requests there are answered in the platform's dialect.

        ::

            AsyncAnthropicBedrock(base_url=server.url_of(Platform.BEDROCK), api_key="any", aws_region="us-east-1")

        Credentials must be present, but any are accepted. `base_url` itself requires none, as a gateway or a local
        server.

        Raises:
            UsageError: The server is not running, or there is no such platform.
        """
        try:
            return self.base_url + DIALECTS[Platform(platform)].root
        except ValueError as error:
            raise UsageError(f"{platform!r} is no platform; there are {', '.join(Platform)}") from error

    def environment(self) -> dict[str, str]:
        """Return environment variables that point the clients of the API and of its platforms here.

        ::

            subprocess.run(["python", "agent.py"], env={**os.environ, **server.environment()})

        The keys are the token, or of no value if there is none. Variables of platforms with credentials (AWS) are
        included, because a client requires some.

        Raises:
            UsageError: The server is not running.
        """
        urls = {f"ANTHROPIC_{name}_BASE_URL": self.url_of(platform) for name, platform in _PLATFORM_NAMES.items()}
        keys = dict.fromkeys(_KEYS, self._token or "simulated")
        return {"ANTHROPIC_BASE_URL": self.base_url, **urls, **_PLATFORM_SETTINGS, **keys}

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The latest requests for messages and counts of tokens, at most 1,000, in order of arrival, in a new list."""
        return self._log.entries()
