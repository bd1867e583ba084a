"""Files that a run of the benchmarks writes, and targets that it fails on. Most figures here are made up."""

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.results import FOLDER, Recorder, Section, broken, document, left_out, markdown, read, update, write
from benchmarks.targets import Row
from tests.tables import rows


def _section(**verdict: Any) -> Section:
    row = Row(work="parse", against="a peer", target="twice as fast", measured="1.5 times", **verdict)
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
    write(tmp_path, {}, [section])
    row = "| Hand off | - | - | httpx2 is not installed | not measured here |"
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
    good = Section(name="good", method="How.", printed=console.printed, figures=_section(met=True).figures)
    write(tmp_path / "new", {"CPU": "one"}, [good, Section(name="bad", method="", error="OSError: gone")])

    text = (tmp_path / "new" / "RESULTS.md").read_text(encoding="utf-8")
    places = ["| CPU | one |", "| parse | a peer | twice as fast | 1.5 times | yes |", "## Good", "| 10 |", "node: not"]
    assert sorted(places, key=text.index) == places
    assert "**It failed**: OSError: gone" in text
    figures = json.loads((tmp_path / "new" / "results.json").read_text(encoding="utf-8"))
    assert figures["benchmarks"] == {"good": good.figures, "bad": {"error": "OSError: gone"}}


def test_a_later_run_replaces_its_own_sections(tmp_path: Path) -> None:
    """The others keep their figures, and the new ones say that they are newer."""
    machine = {"date": "2026-01-02", "anthropic": "1", "aiohttp": "2", "httpx2": "3"}
    kept, old = (Section(name=name, method="How.", figures={"n": 1}) for name in ("guard", "hand_off"))
    write(tmp_path, {"date": "2026-01-01"}, [kept, old])
    update(tmp_path, machine, [Section(name="hand_off", method="How.", figures={"n": 2}, took_s=7.2)])
    results = read(tmp_path)
    assert results["machine"] == {"date": "2026-01-01"}
    assert results["benchmarks"] == {"hand_off": {"n": 2}, "guard": {"n": 1}}
    assert "note" not in results["texts"]["guard"]
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "Measured on 2026-01-02, after the sections that have no such note, with anthropic 1," in text
    assert "It took 7 s." in text


def test_the_written_results_are_those_that_were_measured() -> None:
    """A figure that is edited by hand is a false claim. To write RESULTS.md again: `python -m benchmarks --render`."""
    results = read()
    assert document(results) == (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    assert list(results["texts"]) == list(results["benchmarks"])


def test_notes_and_missing_benchmarks() -> None:
    """A benchmark that ran later, or not at all, must not look like a part of the run."""
    results = {
        "machine": {},
        "benchmarks": {"guard": {"rows": []}},
        "texts": {"guard": {"note": "Measured later.", "method": "How.", "printed": ["| 1 |"]}},
    }
    text = document(results)
    assert text.endswith("## Guard\n\nMeasured later.\n\nHow.\n\n| 1 |\n")
    assert "Not measured in this run: early_start, frameworks," in text
