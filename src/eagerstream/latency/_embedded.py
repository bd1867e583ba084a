"""Embedded server in its own process, so its work does not slow the measuring process."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf
from multiprocessing.connection import Connection
from typing import Any, Final

from ..errors import EagerStreamError, UsageError
from ..recordings import Recording
from ..testing import ReplayServer, Scenario, at_speed, buffered
from ..wire import check_positive
from ._kinds import Streaming
from ._matrix import Case
from ._profiles import Profile

_START_S: Final = 60.0
"""Maximum time to start."""
_ANSWER_S: Final = 60.0
"""Maximum time to get ready for other responses. Recordings of hundreds of megabytes take seconds."""
_END_S: Final = 5.0
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

    def replies(self, case: Case, repetition: int) -> list[Recording]:
        """Return the responses to a case, turn by turn."""
        turns = case.source.recordings if case.source.recordings is not None else case.tools.script()
        return [
            at_speed(self._timed(turn, case.streaming, f"{self.seed} {repetition} {number}"), self.speed)
            for number, turn in enumerate(turns)
        ]

    def _timed(self, turn: Recording, streaming: Streaming, seed: str) -> Recording:
        if not turn.duration_s:
            return self.profile.play(turn, eager=streaming == "eager", seed=seed)
        return turn if streaming == "eager" else buffered(turn)

    def times(self, case: Case) -> bool:
        """Return True if the profile gives times to at least one response of this case."""
        recordings = case.source.recordings
        return recordings is None or not all(recording.duration_s for recording in recordings)


class EmbeddedServer:
    """Replay server in another process. Its calls block for a moment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.base_url = str(self._receive(_START_S))

    def play(self, turns: Sequence[Recording]) -> None:
        """Answer with these responses from now on, turn by turn, as `Scenario` does.

        Raises:
            ServerLost: The other process has ended, or does not respond within 60 s.
        """
        try:
            self._connection.send(tuple(turns))
        except OSError as error:
            raise ServerLost("the embedded server has ended") from error
        self._receive(_ANSWER_S)

    def _receive(self, timeout_s: float) -> object:
        try:
            if self._connection.poll(timeout_s):
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ServerLost("the embedded server has ended") from error
        raise ServerLost(f"the embedded server does not respond within {timeout_s:g} s")


@contextmanager
def embedded_server() -> Iterator[EmbeddedServer]:
    """Start a server. It ignores Ctrl-C, and ends with the block or with this process.

    Raises:
        ServerLost: The server did not start.
    """
    context = multiprocessing.get_context("spawn")  # a fork would take the event loop's state along
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    with _interrupts_wait():
        process.start()
    theirs.close()
    try:
        yield EmbeddedServer(ours)
    finally:
        ours.close()  # this ends the server
        process.join(_END_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until after the block. A process started in the block never gets it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Run the server in the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: ignore it here
    scenario: Scenario | None = None

    def answer(request: Mapping[str, Any]) -> Recording:
        assert scenario is not None  # no client knows the address before the first `play`
        return scenario.answer(request)

    try:
        # The simulation has given each response the times of its case.
        with ReplayServer(Scenario.of(answer), buffer_inputs=False) as server:
            connection.send(server.base_url)
            while True:
                scenario = Scenario(*connection.recv())
                connection.send(None)
    except (EOFError, OSError):
        pass  # the measuring side has left
