"""Matrix of a benchmark: every combination to measure, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from eagerstream._support.bodies import BUFFERED_NOTE
from eagerstream.errors import UsageError
from eagerstream.tools import as_tool

from ._kinds import Streaming, TransportName
from ._programs import Program
from ._sources import Source, ToolSet, called_tools

MAX_CASES: Final = 1_000
MAX_REPETITIONS: Final = 1_000
"""Maximum number of runs of each case: half a million pairs of differences take 0.3 s to sort, for each figure."""
PROGRAM: Final = "program"
"""Name in place of a transport for programs of others."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One combination. A program, with a loop of its own, chooses streaming, model and transport itself."""

    source: Source
    tools: ToolSet
    streaming: Streaming
    model: str
    transport: TransportName
    program: Program | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Values of the case on each axis, which identify it."""
        if self.program is not None:
            return self.source.name, self.tools.name, self.program.name, self.model, PROGRAM
        return self.source.name, self.tools.name, self.streaming, self.model, self.transport

    @property
    def id(self) -> str:
        """Parts of the case, joined by slashes. A slash within a part becomes a hyphen."""
        return "/".join(part.replace("/", "-") for part in self.parts)


class Step(NamedTuple):
    """Run to measure.

    Attributes:
        repetition: Number of the repetition, from 0; negative in a warm-up round.
        order: Position among the runs that count, from 0; negative in a warm-up round.
        case: Case to measure.
    """

    repetition: int
    order: int
    case: Case


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Cases of a benchmark, and the number of runs of each.

    Attributes:
        cases: Cases in the order of display.
        repetitions: Number of runs of each case that count.
        warmup: Number of earlier runs of each case, which do not count.
        seed: Seed of the order.

    Raises:
        UsageError: There is no case, two cases have the same id, there are too many cases, or a count is out of range.
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
        """Total number of runs, warm-up included."""
        return len(self.cases) * (self.repetitions + self.warmup)

    def schedule(self) -> Iterator[Step]:
        """Yield every run in order: each round has every case once, shuffled, so drift affects all cases alike.

        The order of a round does not depend on that of other rounds. The statistics rely on this: it makes every
        difference between two equal cases as likely positive as negative, whatever the noise. If every second round
        reversed the one before it, each case would be first equally often. But noise that is correlated from run to run
        would then give two differences in a row the same sign. Simulated, 7 % instead of 5 % of the tests were wrong.
        """
        order = -len(self.cases) * self.warmup
        for repetition in range(-self.warmup, self.repetitions):
            cases = list(self.cases)
            Random(f"order {self.seed} {repetition}").shuffle(cases)
            for case in cases:
                yield Step(repetition, order, case)
                order += 1

    @property
    def has_programs(self) -> bool:
        """True if programs of others are measured."""
        return any(case.program is not None for case in self.cases)

    def pairs(self) -> list[tuple[Case, Case]]:
        """Return the pairs of cases to compare, as (base, other).

        They differ on one axis, on which the base has the first value. On the axis of eager and buffered, buffered is
        the base. A program is compared with each of our cases of the same source, tools and model. If there is none, it
        is compared with the first program.
        """
        ours = [case for case in self.cases if case.program is None]
        found: list[tuple[Case, Case]] = []
        if ours:
            axes = [list(dict.fromkeys(values)) for values in zip(*(case.parts for case in ours), strict=True)]
            axes[_STREAMING].sort(key=_BASES.index)
            bases = [axis[0] for axis in axes]
            by_parts = {case.parts: case for case in ours}
            for case in ours:
                for axis, value in enumerate(case.parts):
                    base = by_parts.get((*case.parts[:axis], bases[axis], *case.parts[axis + 1 :]))
                    if value != bases[axis] and base is not None:
                        found.append((base, case))
        for case in self.cases:
            if case.program is not None:
                shared = (case.source, case.tools.name, case.model)
                alike = [other for other in self.cases if (other.source, other.tools.name, other.model) == shared]
                first = next(other for other in alike if other.program is not None)
                bases_of = [other for other in alike if other.program is None] or [first][: case is not first]
                found += [(base, case) for base in bases_of]
        return found

    def labels(self) -> dict[str, str]:
        """Return, by id, the parts that not all cases share. A single case gets its way to stream, or its program."""
        ours = [case.parts for case in self.cases if case.program is None]
        shared = [len(set(values)) == 1 for values in zip(*(case.parts for case in self.cases), strict=True)]
        shared[_STREAMING] = shared[_STREAMING] and not all(shared)
        # A program has no transport to tell apart, and its name tells it from ours.
        shared[_TRANSPORT] = len({parts[_TRANSPORT] for parts in ours}) <= 1
        return {
            case.id: ", ".join(
                part
                for axis, (part, is_shared) in enumerate(zip(case.parts, shared, strict=True))
                if not is_shared and not (axis == _TRANSPORT and case.program is not None)
            )
            for case in self.cases
        }


_TRANSPORT: Final = 4
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
    programs: Sequence[Program] = (),
    programs_only: bool = False,
) -> tuple[Case, ...]:
    """Return every combination.

    Args:
        sources, streamings, models, transports: Values of the axes.
        tools: Tool sets. If it is empty, each source uses its own.
        live: True if the cases run on the API.
        programs: Programs of others. Each is measured with each source, tool set and model.
        programs_only: Measure no case of our own.

    Raises:
        UsageError: An axis is empty or has an invalid value, recorded calls do not fit the tools, or a recording cannot
            be played: on the API none can, and a buffered one not eagerly.
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
    cases: list[Case] = []
    for source in sources:
        _check_source(source, tools, streamings, live=live)
        for own, model in product(tools or [source.tools], models):
            case_of = partial(Case, source=source, tools=own, model=model)
            if not programs_only:
                ways = product(transports, streamings)
                cases += [case_of(streaming=streaming, transport=transport) for transport, streaming in ways]
            cases += [case_of(streaming="buffered", transport=transports[0], program=program) for program in programs]
    with TemporaryDirectory() as folder:
        for case in cases:
            case.tools.made(Path(folder), eager=case.streaming == "eager")  # report faulty tools at once
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
        with TemporaryDirectory() as folder:
            made = [as_tool(tool) for tool in own.make(Path(folder))]
        missing = called - {tool.name for tool in made if tool is not None}
        if missing:
            raise UsageError(
                f"the recording {source.name} calls {', '.join(sorted(missing))}, not among the tools {own.name}"
            )
