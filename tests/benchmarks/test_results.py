"""Files that a run of the benchmarks writes, and targets that it fails on. Most figures here are made up."""

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.conformance.peers import PEERS
from benchmarks.results import (
    BENCHMARKS,
    FOLDER,
    Recorder,
    Section,
    broken,
    changes,
    document,
    left_out,
    markdown,
    read,
    rows_of,
    write,
)
from benchmarks.targets import Row
from rich.table import Table

from tests.tables import rows


def _section(**verdict: Any) -> Section:
    row = Row(work="parse", against="a peer", pace="one write", target="twice as fast", measured="1.5 times", **verdict)
    return Section(name="some_work", method="How.", figures={"rows": [asdict(row)]})


@rows(
    "verdict, fails",
    [
        ({"met": False}, True),
        ({"met": False, "asserted": False}, False),
        ({"met": None}, False),
        ({"met": True}, False),
    ],
)
def test_a_run_fails_on_what_it_asserts_measured_and_missed(verdict: dict[str, Any], fails: bool) -> None:
    """Else a lost target stays unseen, or a machine without a compiler can never pass."""
    assert bool(broken([_section(**verdict)])) is fails


def test_a_benchmark_that_failed_fails_the_run() -> None:
    """Its targets were not tried, which must not look as if they were met."""
    assert broken([Section(name="some_work", method="", error="ValueError: x")]) == ["some_work failed: ValueError: x"]


def test_a_benchmark_without_its_package_says_so(tmp_path: Path) -> None:
    """A claim that was not tried must show, and must not fail a machine that only lacks a package."""
    section = Section(name="hand_off", method="How.", figures=left_out("hand_off", "httpx2"))
    assert broken([section]) == []
    write(tmp_path, [section])
    row = "| Hand off | - | - | - | httpx2 is not installed | not measured here |"
    assert row in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


def test_a_table_in_markdown() -> None:
    """The written results are the printed tables: same cells, same alignment, no markup."""
    table = Table(title="[b]Costs[/b]")
    table.add_column("side")
    table.add_column("µs", justify="right")
    table.add_row("a|b", "[red]1.5[/red]")
    table.add_section()
    table.add_row("c", "2")
    assert markdown(table).splitlines() == [
        "**Costs**",
        "",
        "| side | µs |",
        "| :-- | --: |",
        "| a\\|b | 1.5 |",
        "| c | 2 |",
    ]


def test_both_files(tmp_path: Path) -> None:
    """Targets come first, then each benchmark with its tables, or with why it failed."""
    console = Recorder(file=StringIO(), width=80)
    table = Table("size", title="Sizes")
    table.add_row("10")
    console.print(table)
    console.print("node: not installed")
    figures = _section(met=True).figures
    good = Section(name="guard", method="How.", conditions={"CPU": "one"}, printed=console.printed, figures=figures)
    write(tmp_path / "new", [good, Section(name="bad", method="", error="OSError: gone")])

    text = (tmp_path / "new" / "RESULTS.md").read_text(encoding="utf-8")
    row = "| parse | a peer | one write | twice as fast | 1.5 times | yes |"
    places = ["| CPU | one |", row, "## Guard", "| 10 |", "node: not"]
    assert sorted(places, key=text.index) == places
    assert "**It failed**: OSError: gone" in text
    written = json.loads((tmp_path / "new" / "results.json").read_text(encoding="utf-8"))
    assert written["benchmarks"] == {"guard": figures, "bad": {"error": "OSError: gone"}}


def test_a_later_run_replaces_its_own_sections(tmp_path: Path) -> None:
    """The others keep their figures and conditions. Each section says when it was measured, and what was different."""
    older = {"date": "2026-01-01", "load": "not recorded", "CPU": "one", "anthropic": "1"}
    newer = {"date": "2026-01-02", "load": "0.10 to 0.20", "CPU": "one", "anthropic": "2", "node": "v20"}
    kept, old = (
        Section(name=name, method="How.", conditions=older, figures={"n": 1}) for name in ("guard", "hand_off")
    )
    write(tmp_path, [kept, old])
    new = Section(name="hand_off", method="How.", conditions=newer, figures={"n": 2}, took_s=7.2)
    write(tmp_path, [new], keep=True)
    results = read(tmp_path)
    assert results["conditions"] == {"hand_off": newer, "guard": older}
    assert results["benchmarks"] == {"hand_off": {"n": 2}, "guard": {"n": 1}}
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "| date | 2026-01-02 |\n| load | 0.10 to 0.20 |\n| CPU | one |\n| anthropic | 2 |" in text
    assert "## Hand off\n\nMeasured on 2026-01-02, load 0.10 to 0.20.\n\nHow.\n\nIt took 7 s.\n" in text
    guard = "Measured on 2026-01-01, load not recorded. Different from the table at the head: anthropic 1."
    assert f"## Guard\n\n{guard} Not recorded: node.\n" in text


def test_the_conditions_of_a_benchmark() -> None:
    """They have the load, and the version of each peer. Those of npm or of other environments are with the figures."""
    described = machine.describe()
    assert float(described["load"]) >= 0
    elsewhere = {
        "aiperf",
        "hyperfine",
        "jsonriver",
        "pydantic-ai-harness",
        "pydantic-monty",
        *(peer.package for peer in PEERS),
    }
    assert {peer for peers in BENCHMARKS.values() for peer in peers} <= described.keys() | elsewhere


def _measured(anthropic: str, *rows: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a `results.json` of one benchmark."""
    same = {"against": "the runner of anthropic", "pace": "one write", "target": "less"}
    return {
        "conditions": {"threads": {"anthropic": anthropic}},
        "benchmarks": {"threads": {"rows": [same | row for row in rows]}},
    }


def test_a_target_names_the_version_of_its_peer() -> None:
    """A figure of another library means nothing without the version."""
    (row,) = rows_of(_measured("1.2", {"work": "send", "measured": "1 s", "met": True}))
    assert row.against == "the runner of anthropic (anthropic 1.2)"
    results = _measured("1.2", {"work": "send", "measured": "1 s", "met": True})
    del results["conditions"]["threads"]["anthropic"]
    assert rows_of(results)[0].against.endswith(" (anthropic (version not recorded))")


def test_changes_between_two_runs() -> None:
    """The weekly run shows them: each verdict and each version of a peer that changed, and nothing else."""
    same = {"work": "same", "measured": "1 s", "met": True}
    old = _measured("1.2", same, {"work": "worse", "measured": "1 s", "met": True}, {**same, "work": "gone"})
    new = _measured("1.3", {**same, "measured": "2 s"}, {"work": "worse", "measured": "2 s", "met": False})
    lines = changes(old, new).splitlines()
    assert [line for line in lines if line.startswith("| threads")] == [
        "| threads | worse | the runner of anthropic | yes | 1 s | **no** | 2 s |",
        "| threads | gone | the runner of anthropic | yes | 1 s | not measured here | no such target |",
        "| threads | anthropic | 1.2 | 1.3 |",
    ]
    assert changes(new, new).count("None.") == 2


def test_the_written_results_are_those_that_were_measured() -> None:
    """A figure that is edited by hand is a false claim. To write RESULTS.md again: `python -m benchmarks --render`."""
    results = read()
    assert document(results) == (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    assert list(results["conditions"]) == list(results["texts"]) == list(results["benchmarks"])


def test_missing_benchmarks() -> None:
    """A benchmark that did not run must not look as if it had no targets."""
    results = {
        "conditions": {"guard": {}},
        "benchmarks": {"guard": {"rows": []}},
        "texts": {"guard": {"method": "How.", "printed": ["| 1 |"]}},
    }
    text = document(results)
    assert text.endswith("## Guard\n\nMeasured on not recorded, load not recorded.\n\nHow.\n\n| 1 |\n")
    assert "Not measured: early_start, frameworks," in text
