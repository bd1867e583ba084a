"""Parts of the commands that measure: their sources, their server, and their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from rich.console import Console
from rich.text import Text

from eagerstream.errors import MissingExtraError, UsageError

from ._kinds import Streaming, TransportName
from ._signals import ended_by_signals

if TYPE_CHECKING:
    from ._embedded import Simulation
    from ._matrix import Case
    from ._programs import Program
    from ._sources import Source, ToolSet

DEFAULT_SPEED: Final = 10.0
"""Default speed of the documented profile. A response takes 15 s in the profile, and 1.5 s at this speed."""

SIMULATED_MODEL: Final = "simulated"
LIVE_MODEL: Final = "claude-sonnet-4-6"


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The options that decide which cases of our own are measured, as they were given.

    Another process gets these, because functions of tools cannot be sent to it.

    Attributes:
        prompts, prompt_files, recordings: The sources. Without any, it is the demo's.
        tools: Names of tool sets. Without any, each source uses its own.
        streamings, models, transports: Values of these axes.
        tool_s: Duration of tools without a function, in seconds.
        live: True if the cases run on the API.
    """

    prompts: tuple[str, ...] = field(default=(), repr=False)
    prompt_files: tuple[Path, ...] = ()
    recordings: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    streamings: tuple[Streaming, ...]
    models: tuple[str, ...]
    transports: tuple[TransportName, ...]
    tool_s: float = 0.0
    live: bool

    def sources(self) -> list[Source]:
        """Return the sources; see `sources_of`."""
        return sources_of(self.prompts, self.prompt_files, self.recordings, tool_s=self.tool_s)

    def cases(
        self,
        sources: Sequence[Source] | None = None,
        tools: Sequence[ToolSet] = (),
        programs: Sequence[Program] = (),
        *,
        programs_only: bool = False,
    ) -> tuple[Case, ...]:
        """Return every combination; see `cross`. `sources` and `tools` replace those of the options.

        Raises:
            UsageError: As for `cross`, `sources_of` and `named_tools`.
        """
        from ._matrix import cross
        from ._sources import named_tools

        return cross(
            sources=self.sources() if sources is None else sources,
            tools=tools or [named_tools(name, tool_s=self.tool_s) for name in self.tools],
            streamings=self.streamings,
            models=self.models,
            transports=self.transports,
            live=self.live,
            programs=programs,
            programs_only=programs_only,
        )


def sources_of(
    prompts: Sequence[str], files: Sequence[Path], recordings: Sequence[str], *, tool_s: float
) -> list[Source]:
    """Return the sources of the options: the demo's if there are none.

    Raises:
        UsageError: A source cannot be used, or the duration of tools is out of range.
    """
    from ._sources import of_prompt, of_prompt_file, of_recordings, the_poem

    if not 0 <= tool_s <= 3_600:
        raise UsageError(f"--tool-seconds must be from 0 to 3600, not {tool_s!r}")
    found = [of_prompt(prompt) for prompt in prompts]
    found += [of_prompt_file(path) for path in files]
    found += [of_recordings(_turns(given), tool_s=tool_s) for given in recordings]
    return found or [the_poem()]


def requested_by(programs: Sequence[Program], *, prompt: str, model: str, timeout_s: float) -> list[ToolSet]:
    """Return the tools of the first program that sends a request; none if no program does."""
    from ._programs import first_request
    from ._sources import requested_tools

    for program in programs:
        with ended_by_signals():
            ask = partial(first_request, program, prompt=prompt, model=model, timeout_s=timeout_s)
            request = anyio.run(ask)
        if request is not None:
            return [requested_tools(request)]
    return []


def _turns(given: str) -> list[Path]:
    """Return the joined files. An existing path that contains a plus or a comma is one file."""
    if Path(given).exists():
        return [Path(given)]
    return [Path(part) for part in given.replace("+", ",").split(",")]


def simulation_of(cases: Iterable[Case], profile: str | None, speed: float | None, seed: int) -> Simulation:
    """Return the settings of the embedded server. The default speed lets a benchmark take less than a minute."""
    from ._embedded import Simulation
    from ._goodness import named_profile
    from ._profiles import DOCUMENTED

    chosen = DOCUMENTED if profile is None else named_profile(_turns(profile))
    simulation = Simulation(profile=chosen, speed=1.0 if speed is None else speed, seed=seed)
    if speed is None and chosen is DOCUMENTED and any(map(simulation.times, cases)):
        return replace(simulation, speed=DEFAULT_SPEED)
    return simulation


# --- checks and files -------------------------------------------------------------------------------------------------


def check_packages(*, html: bool) -> None:
    """Check that the packages of the report are installed.

    Raises:
        MissingExtraError: They are not.
    """
    if html and find_spec("matplotlib") is None:
        raise MissingExtraError("bench", "matplotlib", package="eagerstream-lab")


def check_live(profile: str | None, speed: float | None, *, live: bool) -> None:
    """Check the options of a measurement on the API.

    Raises:
        UsageError: There is no key, or an option is for the embedded server.
    """
    if live and not os.environ.get("ANTHROPIC_API_KEY"):
        raise UsageError("--live needs the environment variable ANTHROPIC_API_KEY")
    if live and (profile is not None or speed is not None):
        raise UsageError("--profile and --speed apply to the server on this machine: leave them out with --live")


def check_targets(targets: Sequence[Path], *, sources: Iterable[Path] = ()) -> None:
    """Check that no file is written twice, or over one that is read.

    Raises:
        UsageError: One is.
    """
    seen = {path.resolve(): "is read" for path in sources}
    for path in targets:
        if (why := seen.get(path.resolve())) is not None:
            raise UsageError(f"{path}: {why}, so nothing else is written to it")
        seen[path.resolve()] = "is a result"


def make_folder(out: Path, exports: Sequence[Path]) -> None:
    """Check that the exports can be written, in the folder of the results or elsewhere, and make that folder.

    Raises:
        UsageError: They cannot.
    """
    for path in exports:
        folder = path.absolute().parent
        if folder != out.absolute() and not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise UsageError(f"{path}: cannot be written")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be made: {error.strerror or error}") from error
    if not os.access(out, os.W_OK):
        raise UsageError(f"{out}: cannot be written to")


def keep_earlier(path: Path) -> None:
    """Rename an existing file, with the time of its last change in the name."""
    if path.exists():
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        name = f"{path.stem}-{written:%Y%m%d-%H%M%S}"
        number = 1
        while (kept := path.with_name(f"{name}{f'-{number}' if number > 1 else ''}{path.suffix}")).exists():
            number += 1
        path.replace(kept)


def report_and_print(
    out: Path, files: list[Path], *, report: Callable[[Path], object] | None, show: Callable[[Console], object]
) -> None:
    """Write the report first, then print the tables: a closed pipe loses nothing.

    Args:
        out: Folder for `report.html`.
        files: Files that were written.
        report: Writes the report to a path. `None` for no report.
        show: Prints the tables.
    """
    try:
        if report is not None:
            path = out / "report.html"
            keep_earlier(path)
            report(path)
            files = [*files, path]
    finally:
        console = Console()
        show(console)
        console.print(Text(f"written: {', '.join(map(str, files))}"), soft_wrap=True)
