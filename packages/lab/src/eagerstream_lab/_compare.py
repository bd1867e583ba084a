"""`eagerstream bench compare`: benchmarks beside each other, and limits for CI."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from eagerstream._support.wording import count_text
from eagerstream.errors import EagerStreamError, UsageError

from ._comparison import Compared, Side, compare
from ._exports import check_exports
from ._limits import Limit
from ._markdown import markdown
from ._results import load_results, save_whole
from ._setup import check_targets
from ._terminal import print_comparison

EXCEEDED: Final = 3
"""Exit code if a limit is exceeded."""

_FORMATS: Final[Mapping[str, Callable[[Compared], str]]] = {
    ".json": lambda compared: json.dumps(compared, indent=2) + "\n",
    ".md": markdown,
}


def compare_results(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Results (.json), from the oldest to the newest. The last is compared with the first. A single one is "
            "compared in itself, case by case.",
            dir_okay=False,
        ),
    ],
    *,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit for a figure, by its name in results.json: duration_s:+10%, first_field_s:+50ms, "
            "chars_per_s:-5%; repeatable.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="An undecided limit counts as exceeded.")] = False,
    min_effect: Annotated[
        str | None, typer.Option(help="Smallest difference that matters, such as 2% of a, or 20ms.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of all verdicts together.")] = 0.95,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Also write this file: .md for a pull request, or .json; repeatable.", dir_okay=False),
    ] = None,
) -> None:
    """Compare benchmarks case by case, and fail if a figure became worse than a limit.

    With more than two files, it also shows each primary figure in all of them, with their commits.

    A limit is exceeded if the interval of the difference is beyond it. Chance alone exceeds one in at most 5 % of all
    comparisons (--confidence). An interval around the limit leaves it undecided. That is a warning, or exit code 3 with
    --strict.

    Exit codes: 0, all limits are kept or undecided. 1, a limit could not be checked. 2, the command cannot run as
    given. 3, a limit is exceeded.
    """
    check_exports(export or (), _FORMATS)
    check_targets(export or (), sources=results)
    limits = [Limit.parse(text) for text in dict.fromkeys(fail_if or ())]
    if strict and not limits:
        raise UsageError("--strict needs a --fail-if")
    compared = compare([_side(path) for path in results], confidence=confidence, min_effect=min_effect, limits=limits)
    for path in export or ():
        save_whole(path, _FORMATS[path.suffix](compared).encode("utf-8", "replace"))
    console = Console()
    print_comparison(compared, console)
    if export:
        console.print(Text(f"written: {', '.join(map(str, export))}"), soft_wrap=True)
    states = [limit["state"] for limit in compared["limits"]]
    if "exceeded" in states or (strict and "undecided" in states):
        raise typer.Exit(EXCEEDED)
    if "unknown" in states:
        raise EagerStreamError(f"{count_text(states.count('unknown'), 'limit')} could not be checked")


def _side(path: Path) -> Side:
    """Load results without their arrivals, of which many files would fill the memory."""
    results = load_results(path)
    for case in results["cases"]:
        case["runs"] = []
    return Side(str(path), results)
