"""The matrix: every combination that is measured, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from ..errors import UsageError
from ..testing._buffering import BUFFERED_NOTE
from ..tools import as_tool
from ._kinds import Streaming, TransportName
from ._sources import Source, ToolSet, called_tools

MAX_CASES: Final = 1_000
MAX_REPETITIONS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """One combination."""

    source: Source
    tools: ToolSet
    streaming: Streaming
    model: str
    transport: TransportName

    @property
    def parts(self) -> tuple[str, ...]:
        """What tells it from others: its place on each axis."""
        return self.source.name, self.tools.name, self.streaming, self.model, self.transport

    @property
    def id(self) -> str:
        """Its parts, joined by slashes; where a part has one itself, it is a hyphen there."""
        return "/".join(part.replace("/", "-") for part in self.parts)


class Step(NamedTuple):
    """A run that is to be measured.

    Attributes:
        repetition: From 0; negative in a warm-up round.
        order: Among the runs that count, from 0; negative in a warm-up round.
        case: What to measure.
    """

    repetition: int
    order: int
    case: Case


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The cases of a benchmark, and how often each is measured.

    Attributes:
        cases: In the order in which they are shown.
        repetitions: Runs of each case that count.
        warmup: Runs of each case before them, which do not.
        seed: Decides the order.

    Raises:
        UsageError: There is no case, two have the same id, there are too many, or a count is out of its range.
    """

    cases: tuple[Case, ...]
    repetitions: int
    warmup: int
    seed: int

    def __post_init__(self) -> None:
        if not self.cases:
            raise UsageError("there is nothing to measure")
        if len(self.cases) > MAX_CASES:
            raise UsageError(f"{len(self.cases):,} cases are more than {MAX_CASES:,}")
        ids = [case.id for case in self.cases]
        for id in ids:
            if ids.count(id) > 1:
                raise UsageError(f"two cases have the id {id}: give each prompt, recording and model once")
        if not 1 <= self.repetitions <= MAX_REPETITIONS:
            raise UsageError(f"repetitions must be from 1 to {MAX_REPETITIONS:,}, not {self.repetitions!r}")
        if not 0 <= self.warmup <= MAX_REPETITIONS:
            raise UsageError(f"warm-up rounds must be from 0 to {MAX_REPETITIONS:,}, not {self.warmup!r}")

    @property
    def steps(self) -> int:
        """Runs in all, warm-up included."""
        return len(self.cases) * (self.repetitions + self.warmup)

    def schedule(self) -> Iterator[Step]:
        """Every run, in order: each round has every case once, shuffled, so that what drifts hits all alike.

        Every second round of those that count goes backwards through the one before it: of two cases, each is the
        first one equally often, where chance alone would have one of them first in all of five rounds at every 16th
        seed.
        """
        order = -len(self.cases) * self.warmup
        for repetition in range(-self.warmup, self.repetitions):
            cases = list(self.cases)
            is_backwards = repetition > 0 and repetition % 2 == 1
            Random(f"order {self.seed} {repetition - is_backwards}").shuffle(cases)
            if is_backwards:
                cases.reverse()
            for case in cases:
                yield Step(repetition, order, case)
                order += 1

    def pairs(self) -> list[tuple[Case, Case]]:
        """Cases that are compared, (base, other): those that differ on one axis, where the base has its first value.

        Of eager and buffered, buffered is the base.
        """
        axes = [list(dict.fromkeys(values)) for values in zip(*(case.parts for case in self.cases), strict=True)]
        axes[_STREAMING].sort(key=_BASES.index)
        bases = [axis[0] for axis in axes]
        by_parts = {case.parts: case for case in self.cases}
        found: list[tuple[Case, Case]] = []
        for case in self.cases:
            for axis, value in enumerate(case.parts):
                base = by_parts.get((*case.parts[:axis], bases[axis], *case.parts[axis + 1 :]))
                if value != bases[axis] and base is not None:
                    found.append((base, case))
        return found

    def labels(self) -> dict[str, str]:
        """By id, the parts of a case that not all share; of a single case, how it streams."""
        shared = [len(set(values)) == 1 for values in zip(*(case.parts for case in self.cases), strict=True)]
        if all(shared):
            shared[_STREAMING] = False
        return {
            case.id: ", ".join(part for part, is_shared in zip(case.parts, shared, strict=True) if not is_shared)
            for case in self.cases
        }


_STREAMING: Final = 2
_BASES: Final = ("buffered", "eager")


def cross(
    *,
    sources: Sequence[Source],
    tools: Sequence[ToolSet] = (),
    streamings: Sequence[Streaming],
    models: Sequence[str],
    transports: Sequence[TransportName],
    live: bool,
) -> tuple[Case, ...]:
    """Every combination.

    Args:
        sources, streamings, models, transports: The axes.
        tools: Where it is empty, each source has its own.
        live: They are to be measured on the API.

    Raises:
        UsageError: An axis is empty, or has what it cannot have; a recording is to be played on the API; recorded calls
            do not fit the tools; a recording that was buffered is to be played eagerly.
    """
    axes: dict[str, Sequence[object]] = {
        "source": sources,
        "way to stream": streamings,
        "model": models,
        "transport": transports,
    }
    for name, axis in axes.items():
        if not axis:
            raise UsageError(f"a benchmark needs at least one {name}")
    if not all(model.strip() for model in models):
        raise UsageError("the name of a model must not be empty")
    for source in sources:
        _check_source(source, tools, streamings, live=live)
    cases = [
        Case(source=source, tools=own, streaming=streaming, model=model, transport=transport)
        for source in sources
        for own, model, transport, streaming in product(tools or [source.tools], models, transports, streamings)
    ]
    with TemporaryDirectory() as folder:
        for case in cases:
            case.tools.made(Path(folder), eager=case.streaming == "eager")  # what is wrong with tools is told at once
            if not live and case.source.recordings is None:
                case.tools.script()
    return tuple(cases)


def _check_source(source: Source, tools: Sequence[ToolSet], streamings: Sequence[Streaming], *, live: bool) -> None:
    if source.recordings is None:
        return
    if live:
        raise UsageError(
            f"the recording {source.name} cannot be played on the live API: give prompts, or leave out --live"
        )
    if "eager" in streamings and any(BUFFERED_NOTE in recording.note for recording in source.recordings):
        raise UsageError(f"the inputs of the recording {source.name} are held back: it cannot be played eagerly")
    called = {name for recording in source.recordings for name in called_tools(recording)}
    for own in tools:
        missing = called - _names(own)
        if missing:
            raise UsageError(
                f"the recording {source.name} calls {', '.join(sorted(missing))}, not among the tools {own.name}"
            )


def _names(tools: ToolSet) -> set[str]:
    with TemporaryDirectory() as folder:
        made = [as_tool(tool) for tool in tools.make(Path(folder))]
    return {tool.name for tool in made if tool is not None}
