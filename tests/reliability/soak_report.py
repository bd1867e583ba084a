"""What was seen in a soak, and what must not have been."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from eagerstream import RunResult, RunStatus
from tests.reliability.measures import WATCHED, Sample, growth_mb
from tests.reliability.soak_conversation import Heard

_SHOWN: Final = 5
_GROWTH_MB: Final = 8  # jiter and pydantic fill their caches of strings, of 16,384 each, in the first thousands of runs
_GROWTH: Final = 0.05
_AT_ONCE: Final = {"ToolCall": 4, "GrowingInput": 4, "PartialJSON": 4}
"""Objects of a class that a conversation under way has on average, at most; one of all others."""
_WAITING: Final = 2  # times as many, with those that wait for the garbage collector


@dataclass
class Report:
    """What was seen in a soak; `str` of it is the summary."""

    backend: str
    seed: int
    at_once: int
    seconds: float
    ran_s: float = 0.0
    runs: int = 0
    turns: int = 0
    events: int = 0
    restarts: int = 0
    broken_turns: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    late: int = 0
    blocked: int = 0
    longest_blocked_s: float = 0.0
    left: dict[str, int] = field(default_factory=dict)
    """What is there afterwards and was not before, by what it is."""

    def note(self, result: RunResult, heard: Heard) -> None:
        """A conversation has ended."""
        self.runs += 1
        self.turns += result.turns
        self.events += heard.events
        self.restarts += heard.restarts
        self.broken_turns += heard.broken_turns
        for call in result.calls:
            self.calls["ran" if call.ran else "did not run"] += 1
            if call.ran and call.is_error:
                self.calls["ran and failed"] += 1
        status = result.status.value
        if result.status is RunStatus.COMPLETED and result.stop_reason == "tool_use":
            status = "completed without the call that was asked for"
        failure = heard.failure
        self.ended[f"{status} ({type(failure).__name__})" if failure else status] += 1

    @property
    def growth_mb(self) -> float:
        """By how much the memory grew after the warm-up."""
        return growth_mb(self.samples, self.seconds)

    @property
    def most(self) -> Counter[str]:
        """The most that there was of each class at a time."""
        return Counter({kind.__name__: max(self.counts(kind.__name__)) for kind in WATCHED})

    def counts(self, kind: str) -> list[int]:
        """How many there were of a class, over time."""
        return [each.objects[kind] for each in self.samples if each.objects is not None]

    def __str__(self) -> str:
        """The summary."""
        samples = self.samples
        tenths = [samples[(len(samples) - 1) * tenth // 9].rss_mb for tenth in range(10)]
        tasks, threads, files = (max(getattr(each, what) for each in samples) for what in ("tasks", "threads", "files"))
        rate = self.faults.total() / max(self.requests, 1)
        lines = [
            f"{self.backend}, seed {self.seed}: {self.at_once} at once for {self.seconds:g} s, over in {self.ran_s:.1f}",
            f"{self.runs:,} runs ({self.runs / self.ran_s:.1f}/s), {self.turns:,} turns, {self.requests:,} replies",
            f"{self.events:,} events heard, {self.restarts:,} restarts, {self.broken_turns:,} turns gone on from",
            f"calls: {_counts(self.calls)}; {self.late} began when their run was over",
            f"faults: {self.faults.total():,} ({rate:.1%}): {_counts(self.faults)}",
            f"ended: {_counts(self.ended)}",
            f"RSS in MB: {' '.join(f'{mb:.1f}' for mb in tenths)}; growth {self.growth_mb:+.1f}",
            f"objects at most: {_counts(self.most)}",
            f"calls over time: {' '.join(map(str, self.counts('ToolCall')))}",
            f"at most {tasks:,} tasks, {threads:,} threads, {files:,} files",
            f"the event loop came back late {self.blocked:,} times, at most by {self.longest_blocked_s:.2f} s",
            f"left behind: {self.left or 'nothing'}",
            f"{len(self.complaints)} complaints: {self.complaints[:_SHOWN]}",
            f"{len(self.failures)} failures",
            *self.failures[:_SHOWN],
        ]
        return "\n".join(lines)

    def check(self) -> None:
        """Nothing failed, nothing is left, and nothing added up while it ran."""
        assert not self.failures, str(self)
        assert not self.complaints, str(self)
        assert not self.left, str(self)
        for kind, most in self.most.items():
            assert most <= _WAITING * self.at_once * _AT_ONCE.get(kind, 1), f"{most} of {kind}\n{self}"

    def check_memory(self) -> None:
        """Memory is flat after the warm-up."""
        half_mb = self.samples[len(self.samples) // 2].rss_mb
        assert self.growth_mb <= max(_GROWTH_MB, _GROWTH * half_mb), str(self)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in sorted(counter.items(), key=lambda each: -each[1]))
