"""The server of a soak, in a process of its own: `with FaultyServer(seed=1, rate=0.05, speed=1) as server: ...`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from eagerstream.recordings import Recording
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario
from tests.reliability.soak_plans import Model, number_of

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE_S: Final = 30


class FaultyServer:
    """The process, seen from its parent. It ends when its standard input does, so it does not outlive its parent."""

    def __init__(self, *, seed: int, rate: float, speed: float) -> None:
        self._arguments = [str(seed), str(rate), str(speed)]
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, *self._arguments]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.base_url = self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        with self._process as process:  # closes both pipes
            _pipe(process.stdin).close()
            process.wait(_PATIENCE_S)

    def met_by(self, number: int) -> list[str]:
        """The faults that a conversation met, in order."""
        return list(self._ask(number))

    def totals(self) -> tuple[int, Counter[str]]:
        """Requests that would have been answered whole, and the faults given out, by kind."""
        requests, injected = self._ask(None)
        return requests, Counter(injected)

    def _ask(self, what: int | None) -> Any:
        assert self._process is not None
        _pipe(self._process.stdin).write(f"{json.dumps(what)}\n")
        return self._answer()

    def _answer(self) -> Any:
        assert self._process is not None
        return json.loads(_pipe(self._process.stdout).readline())


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


# --- in the process itself --------------------------------------------------------------------------------------------


class _Told(Faults):
    """Faults that tell which conversation they were given to."""

    def __init__(self, *, max_histories: int) -> None:
        super().__init__(max_histories=max_histories)
        self.requests = 0
        self.met: dict[int, list[str]] = {}

    def draw(self, request: Mapping[str, Any], recording: Recording) -> Fault | None:
        """See `Faults.draw`."""
        fault = super().draw(request, recording)
        self.requests += 1
        if fault is not None:
            self.met.setdefault(number_of(request), []).append(f"request {self.requests}: {fault!r}")
        return fault


def _serve(seed: int, rate: float, speed: float) -> None:
    faults = _Told.random(seed, rate, list(FaultKind))
    assert isinstance(faults, _Told)
    with ReplayServer(Scenario.of(Model(seed).answer), speed=speed, faults=faults) as server:
        _say(server.base_url)
        for line in sys.stdin:
            number = json.loads(line)
            _say((faults.requests, faults.injected) if number is None else faults.met.get(number, []))


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
