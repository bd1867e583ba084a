"""Load tests in the terminal: progress and results, in 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from eagerstream._support.wording import count_text, duration_text

from ._load_figures import PERCENTILES
from ._load_measure import Progress
from ._load_results import FigureData, KneeData, LevelData, LoadCaseData, LoadResults
from ._load_watch import BusyData
from ._terminal import SIMULATED, StderrConsole, as_text, new_table, say
from ._wording import Scale, listed, metric_name, seconds

_LINE_S: Final = 5.0
"""Time between two lines of progress, if nobody sees a terminal."""
PERCENTILE_NAMES: Final = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def print_load(results: LoadResults, console: Console) -> None:
    """Print, for each case, a table of its levels, one of their percentiles, and the knee."""
    simulated = ""
    settings = results["settings"]
    if results["simulated"]:
        say(console, SIMULATED, "bold")
        simulated = f"; profile {settings['profile']}, {settings['speed']:g} times as fast"
    for text in (f"{phases_words(results)}{simulated}, seed {settings['seed']}", *notes(results)):
        say(console, text)
    for case in results["cases"]:
        console.print()
        _print_levels(case, console)
        _print_percentiles(case, console)
        for level in case["levels"]:
            for words in level_notes(level):
                say(console, f"{level['name']}: {words}", "yellow")
        for knee in case["knees"]:
            say(console, knee_words(knee), "bold")
    for warning in results["warnings"]:
        say(console, f"warning: {warning}", "yellow")


def _print_levels(case: LoadCaseData, console: Console) -> None:
    has_limits = any(level["goodput_per_s"] is not None for level in case["levels"])
    has_proxy = any(level["proxy"] is not None for level in case["levels"])
    columns = ["level", "runs", "failed", "runs/s", *(["good/s", "good"] if has_limits else [])]
    table = new_table(case["label"] or case["id"], *columns, "clients", "server", *(["proxy"] if has_proxy else []))
    for level in case["levels"]:
        cells = [level["name"], f"{level['runs']:,}", f"{level['failed'] + level['unfinished']:,}"]
        cells.append(f"{level['throughput_per_s']:,.3g}")
        if has_limits:
            cells += [f"{level['goodput_per_s'] or 0:,.3g}", share_words(level["good_share"])]
        cells += [busy_words(level["clients"]), busy_words([level["server"]])]
        table.add_row(*map(as_text, [*cells, *([busy_words([level["proxy"]])] if has_proxy else [])]))
    console.print(table)


def _print_percentiles(case: LoadCaseData, console: Console) -> None:
    table = new_table("", "figure", "level", *PERCENTILE_NAMES.values(), "n")
    for figure in dict.fromkeys(name for level in case["levels"] for name in level["figures"]):
        name = metric_name(figure)
        for level in case["levels"]:
            data = level["figures"].get(figure)
            if data is not None:
                values = (percentile_words(data, key) for key, _ in PERCENTILES)
                table.add_row(*map(as_text, (name, level["name"], *values, f"{data['n']:,}")))
                name = ""
    console.print(table)


# --- words, which the report has, too ---------------------------------------------------------------------------------


def phases_words(results: LoadResults) -> str:
    """Return the phases of each level."""
    settings = results["settings"]
    parts = [f"{settings['ramp_s']:g} s ramp", f"{settings['warmup_s']:g} s warm-up", f"{settings['duration_s']:g} s"]
    opened = any(level["rate"] is not None for case in results["cases"] for level in case["levels"])
    arrivals = f", {settings['arrivals']} arrivals" if opened else ""
    return f"each level: {' + '.join(parts)}, {count_text(settings['clients'], 'client process')}{arrivals}".replace(
        "client processs", "client processes"
    )


def notes(results: LoadResults) -> list[str]:
    """Return notes on the figures of all levels."""
    settings = results["settings"]
    found: list[str] = []
    if settings["limits"]:
        limits = [f"{metric_name(one['figure'])} within {seconds(one['limit_s'])}" for one in settings["limits"]]
        found.append(f"good: {listed(limits)}")
    if settings["measured_at"] == "proxy":
        found.append("all figures are those at the proxy, except for tool starts, which only our own cases have")
    baseline = results["baseline"]
    if baseline is not None and baseline["proxy_added_s"] is not None:
        found.append(f"the proxy adds {baseline['proxy_added_s'] * 1000:.2f} ms to a request without load")
    return found


def level_notes(level: LevelData) -> Iterator[str]:
    """Yield notes on one level: its failures, its bottlenecks, and signs that it is no steady state."""
    if level["errors"]:
        yield "failed with " + listed([f"{name} ({count:,})" for name, count in level["errors"].items()])
    if level["unfinished"]:
        yield f"{count_text(level['unfinished'], 'run')} had not ended when the level did"
    for name, reason in level["bottlenecks"].items():
        be = "were" if name == "clients" else "was"
        yield f"the {name} {be} a bottleneck: {reason}"
    if level["queued"]:
        yield f"{count_text(level['queued'], 'run')} waited for --max-concurrency"
    if level["is_unsteady"]:
        yield "no steady state: the runs became longer or shorter during the window"
    if level["interrupted"]:
        yield f"interrupted after {level['duration_s']:.1f} s of the window"


def knee_words(knee: KneeData) -> str:
    """Return the knee in a sentence."""
    name = f"{knee['load']:,g} concurrent" if knee["kind"] == "concurrency" else f"{knee['load']:,g}/s"
    at = f"{name} with a {knee['by']} of {knee['per_s']:,.3g} runs/s"
    if not knee["is_reached"]:
        return f"Knee: not reached up to {at}"
    beyond = f"; beyond it, bottlenecks on this machine: {listed(knee['bottlenecks'])}" if knee["bottlenecks"] else ""
    return f"Knee: {at}{beyond}"


def busy_words(processes: Sequence[BusyData | None]) -> str:
    """Return the largest share of a processor that one of these processes used."""
    shares = [one["cpu_share"] for one in processes if one is not None]
    return f"{max(shares) * 100:.0f} %" if shares else "-"


def share_words(share: float | None) -> str:
    """Return a share in percent."""
    return "-" if share is None else f"{share * 100:.3g} %"


def percentile_words(data: FigureData, name: str) -> str:
    """Return a percentile with its unit; a hyphen if it is not known."""
    value = {"p50": data["p50"], "p90": data["p90"], "p99": data["p99"], "p999": data["p999"]}[name]
    return "-" if value is None else Scale.of("s", value).text(value)


# --- progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def load_progress(levels: int) -> Iterator[Callable[[Progress], None]]:
    """Yield a function to call often with the state of a level. It ignores a closed standard error.

    Args:
        levels: Number of levels of all cases.
    """
    console = StderrConsole()
    seen: list[tuple[str, str]] = []

    def line(progress: Progress) -> Text:
        place = (progress.case.id, progress.level.name)
        if place not in seen:
            seen.append(place)
        left_s = max(0.0, progress.total_s - progress.passed_s)
        state = f"{duration_text(left_s)} left" if left_s else "waiting for the last runs"
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        counts = f"{count_text(progress.ended, 'run')} ended{failed}"
        return as_text(f"{len(seen)}/{levels} {place[0]}, {place[1]}: {counts}, {state}")

    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            yield _unless_closed(lambda progress: live.update(line(progress), refresh=True))
        return
    told_s = -_LINE_S

    def tell(progress: Progress) -> None:
        nonlocal told_s
        is_new = (progress.case.id, progress.level.name) not in seen
        if is_new or monotonic() - told_s >= _LINE_S:
            told_s = monotonic()
            console.print(line(progress), soft_wrap=True)

    yield _unless_closed(tell)


def _unless_closed(tell: Callable[[Progress], object]) -> Callable[[Progress], None]:
    def told(progress: Progress) -> None:
        with suppress(OSError):
            tell(progress)

    return told
