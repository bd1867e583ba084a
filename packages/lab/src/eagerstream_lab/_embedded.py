"""Embedded server and proxy in their own process, so their work does not slow the measuring process."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import isinf
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final, TypeAlias, cast

from eagerstream._support.checks import check_positive
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream.recordings import Recording
from eagerstream_testing import ReplayServer, Scenario, at_speed, buffered

from ._answers import ProgramAnswers, ScriptAnswers, VariedAnswers
from ._kinds import Streaming
from ._load_watch import BusyData, LoopWatch, allow_files
from ._matrix import Case
from ._profiles import Profile
from ._wire import MAX_REQUESTS, Seen, WireProxy, eager_form

_START_S: Final = 60.0
"""Maximum time to start."""
_ANSWER_S: Final = 60.0
"""Maximum time to get ready for other responses. Recordings of hundreds of megabytes take seconds."""
_END_S: Final = 5.0
_IDLE_S: Final = 3_600.0
"""Time for a client to send its request. With a thousand runs, its event loop may be late by many seconds."""
_SLOWEST: Final = 0.001
_FASTEST: Final = 1e6


class ServerLost(EagerStreamError):
    """Error for an embedded server whose process has ended, or does not respond in time."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Settings of the embedded server.

    Attributes:
        profile: Profile for responses without their own times.
        speed: Factor by which responses are played faster.
        seed: Seed of the drawn times, together with the number of the repetition. In one repetition, all cases get the
            same times.

    Raises:
        UsageError: `speed` is not from 0.001 to 1,000,000.
    """

    profile: Profile
    speed: float
    seed: int

    def __post_init__(self) -> None:
        check_positive("speed", self.speed)
        if isinf(self.speed):
            raise UsageError("without any waiting there is nothing to measure: speed must be finite")
        if not _SLOWEST <= self.speed <= _FASTEST:
            raise UsageError(f"speed must be from {_SLOWEST:g} to {_FASTEST:,.0f}, not {self.speed!r}")

    def answers(self, case: Case, repetition: int) -> Answers:
        """Return the responses to a case. A program gets them as it asks for them: eager or buffered."""
        if case.program is None:
            return ScriptAnswers(self.replies(case, repetition))
        return ProgramAnswers(
            eager=self.replies(replace(case, streaming="eager"), repetition),
            buffered=self.replies(replace(case, streaming="buffered"), repetition),
            is_recorded=case.source.recordings is not None,
            profile=self.profile,
            speed=self.speed,
            seed=f"{self.seed} {repetition}",
        )

    def replies(self, case: Case, repetition: int) -> tuple[Recording, ...]:
        """Return the responses to a case, turn by turn."""
        turns = case.source.recordings if case.source.recordings is not None else case.tools.script()
        return tuple(
            at_speed(self._timed(turn, case.streaming, f"{self.seed} {repetition} {number}"), self.speed)
            for number, turn in enumerate(turns)
        )

    def _timed(self, turn: Recording, streaming: Streaming, seed: str) -> Recording:
        if not turn.duration_s:
            return self.profile.play(turn, eager=streaming == "eager", seed=seed)
        return turn if streaming == "eager" else buffered(turn)

    def varied(self, case: Case, variants: int) -> VariedAnswers:
        """Return responses for many runs at once, with this many variants of their times."""
        answers = [self.answers(case, number) for number in range(variants)]
        return VariedAnswers(answers, Random(f"{self.seed} {case.id}"))

    def times(self, case: Case) -> bool:
        """Return True if the profile gives times to at least one response of this case."""
        recordings = case.source.recordings
        return recordings is None or not all(recording.duration_s for recording in recordings)


Answers: TypeAlias = ScriptAnswers | ProgramAnswers

_BUSY: Final = "busy"
"""Question for the load of the process."""


class EmbeddedServer:
    """Replay server in another process, or a proxy to another server, or a proxy to the replay server.

    Its calls block for a moment.

    Attributes:
        base_url: Address for clients: the proxy's if there is one.
        variables: Environment variables that point a program at it.
    """

    def __init__(self, connection: Connection, *, proxied: bool) -> None:
        self._connection = connection
        self._proxied = proxied
        started: Any = self._receive(_START_S)
        if isinstance(started, EagerStreamError):
            raise started
        self.base_url, self.variables = started

    def play(self, answers: Answers | VariedAnswers) -> None:
        """Answer with these responses from now on.

        Raises:
            ServerLost: The other process has ended, or does not respond within 60 s.
        """
        self._ask(answers)

    def collect(self) -> Seen | None:
        """Return all that the proxy saw since the last call, and forget it; `None` without a proxy.

        Raises:
            ServerLost: As for `play`.
        """
        seen = self._ask(None) if self._proxied else None
        assert isinstance(seen, Seen | None)
        return seen

    def busy(self) -> BusyData:
        """Return the load of the process since the last call.

        Raises:
            ServerLost: As for `play`.
        """
        return cast("BusyData", self._ask(_BUSY))

    def _ask(self, what: Answers | VariedAnswers | str | None) -> object:
        try:
            self._connection.send(what)
        except OSError as error:
            raise ServerLost("the embedded server has ended") from error
        return self._receive(_ANSWER_S)

    def _receive(self, timeout_s: float) -> object:
        try:
            if self._connection.poll(timeout_s):
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ServerLost("the embedded server has ended") from error
        raise ServerLost(f"the embedded server does not respond within {timeout_s:g} s")


@contextmanager
def embedded_server(
    *, proxied: bool = False, upstream: str | None = None, max_requests: int = MAX_REQUESTS, max_connections: int = 0
) -> Iterator[EmbeddedServer]:
    """Start a server. It ignores Ctrl-C, and ends with the block or with this process.

    Args:
        proxied: Put a proxy between the clients and the server, which notes what passes.
        upstream: URL of another server behind the proxy, instead of the replay server.
        max_requests: Maximum number of requests that the proxy notes between two calls of `collect`.
        max_connections: Number of connections that must be possible. 0 needs no more than the system allows by itself.

    Raises:
        ServerLost: The server did not start.
        UsageError: The upstream's URL is malformed, or so many connections are not possible.
    """
    context = multiprocessing.get_context("spawn")  # a fork would take the event loop's state along
    ours, theirs = context.Pipe()
    process = context.Process(
        target=partial(_serve, proxied=proxied), args=(theirs, upstream, max_requests, max_connections), daemon=True
    )
    with interrupts_blocked():
        process.start()
    theirs.close()
    try:
        yield EmbeddedServer(ours, proxied=proxied)
    finally:
        ours.close()  # this ends the server
        process.join(_END_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Delay Ctrl-C until after the block. A process started in the block never gets it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # Started first: its start unblocks SIGINT. The new process would get Ctrl-C while it imports, and the benchmark
    # would end with a traceback (test_the_server_starts_without_interrupts).
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: Connection,
    upstream: str | None,
    max_requests: int,
    max_connections: int,
    *,
    proxied: bool,
) -> None:
    """Run the server in the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: ignore it here
    answers: Answers | VariedAnswers | None = None
    watch = LoopWatch()  # of the event loop that serves the first request

    def answer(request: Mapping[str, Any]) -> Recording:
        assert answers is not None  # no client knows the address before the first `play`
        # The body is the very object of the log, which knows the headers, too.
        received = next((entry for entry in reversed(server.requests) if entry.complete is request), None)
        betas = received.headers.get("anthropic-beta", "") if received is not None else ""
        return answers.answer(request, eager=eager_form(request, betas) is not None)

    # The simulation has given each response the times of its case.
    server = ReplayServer(Scenario.of(answer), buffer_inputs=False, idle_s=_IDLE_S, on_answer=lambda _: watch.start())
    try:
        with ExitStack() as stack:
            try:
                allow_files(max_connections)
                proxy = None
                variables = {} if upstream else stack.enter_context(server).environment()
                if proxied:
                    own_url = upstream or server.base_url
                    proxy = stack.enter_context(
                        WireProxy(own_url, max_requests=max_requests, idle_s=_IDLE_S, on_request=watch.start)
                    )
                    pointed = {name: value.replace(own_url, proxy.base_url) for name, value in variables.items()}
                    variables = pointed or {"ANTHROPIC_BASE_URL": proxy.base_url}
            except EagerStreamError as error:
                connection.send(error)
                return
            connection.send((proxy.base_url if proxy else server.base_url, variables))
            while True:
                asked = connection.recv()
                if asked is None:
                    scripted = answers is None or answers.all_fitted
                    connection.send(proxy.log.collect(scripted=scripted) if proxy else None)
                elif asked == _BUSY:
                    connection.send(watch.take())
                else:
                    answers = asked
                    connection.send(None)
    except (EOFError, OSError):
        pass  # the measuring side has left
