"""Guard of the speed: it fails if the hot path costs more than before, or if its cost per event grows with size.

The cost of an event is reported in events of a reference that is counted in the same run. Each piece of the hot path
has two checks:

*   *Loss*: compared with `baseline.json`, which `--update` writes.
*   *Growth*: an event of a large job, compared with one of a small job. It finds a quadratic step without a baseline.

Instruction counts vary by a few parts per thousand between runs. Other builds of the same minor version of Python
changed them by 2 to 10% in our tries. So one baseline serves a minor version. If valgrind is missing, CPU time replaces
instructions. It varies by some per cent from run to run, and by up to 29% between builds. So its baseline is for one
build, and its margins are wider. Neither method sees the effects of caches.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from .hot_path import GROWTH, REFERENCE
from .targets import Row
from .work_counts import Counts, can_count_instructions, count_instructions, measure_cpu_time

PACE: Final = "all bytes at hand"
BASELINE: Final = Path(__file__).with_name("baseline.json")

_Baselines = dict[str, dict[str, dict[str, float]]]
"""Cost of an event, in events of the reference, by method, Python, and piece of the hot path."""


@dataclass(frozen=True)
class Method:
    """Method of counting, and the factors above which a run fails."""

    name: str
    loss: float
    growth: float


INSTRUCTIONS: Final = Method("instructions", loss=1.2, growth=1.15)
CPU_TIME: Final = Method("CPU time", loss=1.25, growth=1.3)


@dataclass(frozen=True)
class Finding:
    """One piece of the hot path.

    Attributes:
        name: Name of the piece.
        cost: Cost of an event in the large job, in events of the reference.
        growth: Cost of an event in the large job, divided by that in the small job. 1 is linear.
        baseline: `cost` in the baseline, or None without one.
    """

    name: str
    cost: float
    growth: float
    baseline: float | None

    @property
    def loss(self) -> float | None:
        """`cost` divided by the baseline, or None without one."""
        return None if self.baseline is None else self.cost / self.baseline

    def faults(self, method: Method) -> list[str]:
        """Return a description of each fault."""
        faults = []
        if self.loss is not None and self.loss > method.loss:
            faults.append(f"{self.name}: {self.loss:.2f} times the cost of the baseline, at most {method.loss:g}")
        if self.growth > GROWTH.get(self.name, method.growth):
            faults.append(f"{self.name}: an event of a large job costs {self.growth:.2f} times one of a small job")
        return faults


def find(counts: Counts, baseline: Mapping[str, float]) -> list[Finding]:
    """Return the finding for each piece of the hot path."""
    each = {name: [count.cost / count.events for count in of_one] for name, of_one in counts.items()}
    reference = each.pop(REFERENCE)[-1]
    return [
        Finding(name, costs[-1] / reference, costs[-1] / costs[0], baseline.get(name)) for name, costs in each.items()
    ]


def with_baseline(baselines: _Baselines, method: Method, python: str, findings: Sequence[Finding]) -> _Baselines:
    """Return the baselines, with these findings for this Python and this method instead of the old ones."""
    costs = {finding.name: round(finding.cost, 4) for finding in findings}
    pythons = {**baselines.get(method.name, {}), python: costs}
    return {**baselines, method.name: dict(sorted(pythons.items()))}


def _python(method: Method) -> str:
    """Return the name of the Pythons for which a baseline holds."""
    if method is INSTRUCTIONS:
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{platform.python_version()}, {platform.python_compiler()}, {platform.machine()}"


def _count(method: Method) -> Counts:
    return count_instructions() if method is INSTRUCTIONS else measure_cpu_time()


def _look(method: Method) -> list[Finding]:
    baselines: _Baselines = json.loads(BASELINE.read_text())
    return find(_count(method), baselines.get(method.name, {}).get(_python(method), {}))


def _show(console: Console, method: Method, findings: Sequence[Finding]) -> None:
    table = Table(title=f"the guard: {method.name} of an event ({REFERENCE}: 1)")
    table.add_column("hot path")
    for column in ("cost", "baseline", "loss", "growth"):
        table.add_column(column, justify="right")
    for finding in findings:
        baseline = "none" if finding.baseline is None else f"{finding.baseline:.4f}"
        loss = "not checked" if finding.loss is None else f"{finding.loss - 1:+.1%}"
        table.add_row(finding.name, f"{finding.cost:.4f}", baseline, loss, f"{finding.growth - 1:+.1%}")
    console.print(table)
    if method is CPU_TIME:
        console.print(
            "CPU time instead of instructions, which need valgrind: it finds a loss of 30% on a quiet machine."
        )
    if any(finding.baseline is None for finding in findings):
        console.print(f"Losses are not checked: no baseline for Python {_python(method)}. --update writes one.")
    if any(finding.loss is not None and finding.loss * method.loss < 1 for finding in findings):
        console.print("Much cheaper than the baseline: --update it, or the next loss goes unseen.")


def _row(method: Method, finding: Finding) -> Row:
    loss = "not checked"
    if finding.loss is not None:
        loss = f"{finding.loss - 1:+.1%} ({finding.cost:.4f} and {finding.baseline:.4f})"
    return Row(
        work=finding.name,
        against=f"its own baseline, {method.name}",
        pace=PACE,
        target=f"loss at most {method.loss - 1:.0%}, growth at most {GROWTH.get(finding.name, method.growth) - 1:.0%}",
        measured=f"loss {loss}, growth {finding.growth - 1:+.1%}",
        met=not finding.faults(method) if finding.loss is not None else None,
    )


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Count, print a table, and return the figures. `faults` describes the faults."""
    del quick  # a quick run is not shorter
    method = INSTRUCTIONS if can_count_instructions() else CPU_TIME
    findings = _look(method)
    _show(console, method, findings)
    return {
        "method": method.name,
        "findings": [asdict(finding) for finding in findings],
        "faults": [fault for finding in findings for fault in finding.faults(method)],
        "rows": [asdict(_row(method, finding)) for finding in findings],
    }


def _update(console: Console) -> None:
    baselines: _Baselines = json.loads(BASELINE.read_text())
    for method in (INSTRUCTIONS, CPU_TIME) if can_count_instructions() else (CPU_TIME,):
        findings = _look(method)
        _show(console, method, findings)
        baselines = with_baseline(baselines, method, _python(method), findings)
    BASELINE.write_text(json.dumps(baselines, indent=1) + "\n")


def _is_pure() -> bool:
    spec = find_spec("eagerstream_wire._partial_json")
    return spec is not None and isinstance(spec.loader, SourceFileLoader)


def command(
    *,
    update: Annotated[bool, typer.Option("--update", help="Write the measured figures as the baseline.")] = False,
) -> None:
    """Fail if the hot path costs more than before, or if its cost per event grows with size."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    if not _is_pure():
        console.print("The baselines are of the pure flavor, and the installed one is compiled.")
        raise typer.Exit(2)
    if update:
        _update(console)
        return
    faults = main(console, quick=False)["faults"]
    for fault in faults:
        console.print(fault, style="red")
    raise typer.Exit(1 if faults else 0)


if __name__ == "__main__":
    typer.run(command)
