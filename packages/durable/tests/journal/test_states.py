"""Any order of calls to two journals on one file: a model says what each call must return."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from eagerstream.errors import JournalError, RunExistsError, RunNotFoundError, RunOwnedError
from eagerstream.loop import RunLog
from eagerstream_durable.journal import Journal

RUNS = st.sampled_from(["a", "b", "c"])
SIDES = st.sampled_from([0, 1])
TURNS = st.integers(1, 3)


class Model:
    """A run as it has to be."""

    def __init__(self, fence: int, log: RunLog) -> None:
        self.entries: list[dict[str, Any]] = [{"kind": "begin", "turn": 0}]
        self.messages: list[tuple[int, dict[str, Any]]] = []
        self.settled = 1
        self.left = 0
        self.status = "running"
        self.fence = fence
        self.log: RunLog | None = log


class Journals(RuleBasedStateMachine):
    """Two journals, as two processes would have them. All owners live."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._portal_context = anyio.from_thread.start_blocking_portal()
        self._portal = self._portal_context.__enter__()
        path = Path(self._folder.name) / "runs.db"
        # The lease is short, so that a beat is seen soon; a lease of a living owner never ends.
        self._journals = [Journal(path, lease_s=0.4) for _ in range(2)]
        self._models: dict[str, Model] = {}
        self._number = 0

    def teardown(self) -> None:
        for journal in self._journals:
            self._do(journal.aclose)
        self._portal_context.__exit__(None, None, None)
        self._folder.cleanup()

    def _do(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return self._portal.call(function, *arguments)

    def _entry(self, turn: int) -> dict[str, Any]:
        self._number += 1
        return {"kind": "result", "turn": turn, "n": self._number}

    @rule(run=RUNS, side=SIDES)
    def create(self, run: str, side: int) -> None:
        try:
            log = self._do(self._journals[side].create, run, {"kind": "begin", "turn": 0})
        except RunExistsError:
            assert run in self._models
        else:
            assert run not in self._models
            self._models[run] = Model(log.fence, log)

    @rule(run=RUNS, side=SIDES)
    def open(self, run: str, side: int) -> None:
        model = self._models.get(run)
        try:
            log = self._do(self._journals[side].open, run)
        except RunNotFoundError:
            assert model is None
        except RunOwnedError:
            assert model is not None
            assert model.log is not None
        else:
            assert model is not None
            assert model.log is None
            assert log.fence > model.fence
            assert list(log.entries) == model.entries
            model.fence, model.log = log.fence, log

    @rule(run=RUNS, turns=st.lists(TURNS, min_size=1, max_size=3), reads=st.booleans(), awaits=st.booleans())
    def append(self, run: str, turns: list[int], reads: bool, awaits: bool) -> None:
        model = self._models.get(run)
        if model is None or model.log is None:
            return
        entries = [self._entry(turn) for turn in turns]
        if reads:
            entries[0]["inbox"] = model.left
            model.messages = []
        log = model.log

        async def add() -> None:
            receipt = log.append(*entries)
            if awaits:
                await receipt

        self._do(add)
        model.entries += entries
        model.status = "running"

    @rule(run=RUNS, turn=TURNS)
    def settle(self, run: str, turn: int) -> None:
        model = self._models.get(run)
        if model is None or model.log is None:
            return
        entry, log = self._entry(turn), model.log

        async def settle() -> None:
            await log.settle(entry)

        self._do(settle)
        model.entries = [*model.entries[: model.settled], entry]
        model.settled = len(model.entries)
        model.status = "running"

    @rule(run=RUNS, side=SIDES)
    def leave(self, run: str, side: int) -> None:
        model = self._models.get(run)
        message = self._entry(0)
        try:
            number = self._do(self._journals[side].leave, run, message)
        except RunNotFoundError:
            assert model is None
        else:
            assert model is not None
            model.left += 1
            assert number == model.left
            model.messages.append((number, message))

    @rule(run=RUNS, status=st.sampled_from(["running", "waiting", "completed"]))
    def release(self, run: str, status: str) -> None:
        model = self._models.get(run)
        if model is None or model.log is None:
            return
        self._do(model.log.release, status, {"n": 1})
        try:
            model.log.append(self._entry(1))
        except JournalError:
            pass
        else:
            raise AssertionError("it was released")
        model.log, model.status = None, status

    @rule(run=RUNS, side=SIDES)
    def look(self, run: str, side: int) -> None:
        model, journal = self._models.get(run), self._journals[side]
        if model is None:
            return
        if model.log is not None:
            model.log.check()
            self._do(self._synced, model.log)
        assert self._do(journal.read, run) == model.entries
        assert self._do(journal.messages, run) == model.messages
        summary = self._do(journal.summary, run)
        assert (summary.status, summary.fence, summary.messages) == (model.status, model.fence, len(model.messages))
        assert (summary.owner != "none") is (model.log is not None)

    @staticmethod
    async def _synced(log: RunLog) -> None:
        """Wait for the entries that nobody awaited."""
        await log.append()

    @rule(run=RUNS, side=SIDES)
    def delete(self, run: str, side: int) -> None:
        model = self._models.get(run)
        try:
            self._do(self._journals[side].delete, run)
        except RunNotFoundError:
            assert model is None
        except RunOwnedError:
            assert model is not None
            assert model.log is not None
        else:
            assert self._models.pop(run).log is None

    @rule(side=SIDES)
    def prune(self, side: int) -> None:
        async def prune() -> int:
            return await self._journals[side].prune(ended_for_s=0)

        ended = [run for run, model in self._models.items() if model.status == "completed" and model.log is None]
        assert self._do(prune) == len(ended)
        for run in ended:
            del self._models[run]


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=4, stateful_step_count=25, deadline=None)
