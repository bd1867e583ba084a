"""`eagerstream bench show`, with the records of two processes that drove one run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from packages.progress.tests.test_resumed import parts
from typer.testing import CliRunner

from eagerstream._support.markup import Markup, element
from eagerstream_lab import _saved_runs, _tables
from eagerstream_lab._command import app
from eagerstream_lab._selection import run_end_s
from eagerstream_lab._waterfall import Panel
from eagerstream_progress import save_records


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The records of two processes, in the wrong order."""
    for name, records in zip(("b", "a"), parts(), strict=True):
        save_records(tmp_path / f"{name}.jsonl", records)
    return [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]


def test_two_processes_are_one_run(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their gap is named, and is in the run that the page draws."""
    drawn: list[Panel] = []

    def picture(panels: Sequence[Panel], *, end_s: float, prefix: str) -> Markup:
        drawn.extend(panels)
        assert end_s == run_end_s(panels[0].latency)
        return element("svg", prefix)

    monkeypatch.setattr(_tables, "waterfall", picture)
    monkeypatch.setattr(_saved_runs, "matplotlib_settings", nullcontext)
    page = tmp_path / "page.html"
    shown = CliRunner().invoke(app, ["show", *files, "--out", str(page)], catch_exceptions=False)
    assert shown.exit_code == 0
    (head,) = [line for line in shown.output.splitlines() if "requests" in line]
    assert "continued from its journal after 3 min 20 s" in head
    assert "First tool start" in shown.output
    assert "\u2500" not in shown.output  # the figures have no heads above them
    html = page.read_text(encoding="utf-8")
    assert html.count("<h2>") == html.count("<svg>f0-</svg>") == 1
    assert "continued from its journal after 3 min 20 s" in html
    assert len(drawn[0].latency["resumed_s"]) == len(drawn) == 1
    alone = CliRunner().invoke(app, ["show", files[1]], catch_exceptions=False)
    assert "continued" not in alone.output


@pytest.mark.slow
def test_the_picture_of_two_processes(files: list[str], tmp_path: Path) -> None:
    """Matplotlib draws it, with the line."""
    page = tmp_path / "page.html"
    CliRunner().invoke(app, ["show", *files, "--out", str(page)], catch_exceptions=False)
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 1
    assert ">resumed</text>" in html


def test_files_that_are_no_runs(tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "no.jsonl").write_text("{}\n", encoding="utf-8")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "no.jsonl"), "--out", str(tmp_path / "page")])
    assert "no record of version" in str(shown.exception)
    assert not (tmp_path / "page").exists()
