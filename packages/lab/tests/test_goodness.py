"""The goodness of a fit: right profiles pass, wrong ones are found, and what cannot be fitted is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from packages.lab.tests.paces import Server
from tests.tables import rows
from typer.testing import CliRunner

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_lab import _goodness
from eagerstream_lab._command import app
from eagerstream_lab._fitted import Fitted, Pace
from eagerstream_lab._goodness import Goodness, compare, fit, named_profile
from eagerstream_lab._profiles import DOCUMENTED
from eagerstream_testing import Timing, http_error, reply, retime, text, tool_use

SHORT = reply(text("I will write it down. " * 10), tool_use("write", {"content": "some words, and others. " * 30}))


def recordings(count: int, name: str = "fit", *, slower: float = 1.0, stalls: float = 0.02) -> list[Recording]:
    return [Server(f"{name} {number}", slower=slower, stalls=stalls).recording(SHORT) for number in range(count)]


def goodness(of: Sequence[Recording]) -> Goodness:
    return compare(Fitted(name="x", paces=tuple(Pace.of(one, name="x") for one in of)), of)


@pytest.fixture
def few_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about figures."""
    monkeypatch.setattr(_goodness, "REPLAYS", 9)


@pytest.mark.slow
def test_a_right_profile() -> None:
    """Every figure of the recordings lies among those of the replays, and the quantiles of the gaps agree."""
    found = goodness(recordings(4))
    assert found.held_out
    assert not list(found.faults())
    labels = [figure.label for figure in found.figures]
    assert labels == [
        *("first byte", "complete response", "characters in a second", "first half of the text", "p50 of gaps"),
        *("p90 of gaps", "longest gap", "distance of the gaps"),  # p99 would need more gaps
    ]
    for figure in found.figures:
        assert figure.low <= figure.replayed <= figure.high
        assert figure.n == 4
    for share, recorded_s, replayed_s in found.quantiles[:-1]:
        assert replayed_s == pytest.approx(recorded_s, rel=0.25), share
    assert found.quantiles[-1][0] == 1


@pytest.mark.slow
def test_a_pace_that_changes_is_found() -> None:
    """A profile does not reproduce a pace that falls within a response, and its goodness says so."""
    (fault,) = goodness(recordings(5, slower=8.0, stalls=0)).faults()
    assert "fitted badly: first half of the text: " in fault
    (one,) = goodness(recordings(1, slower=8.0, stalls=0)).faults()  # from one recording, it cannot be told
    assert one.startswith("fitted to one recording, and compared with the same")


@pytest.mark.slow
def test_other_gaps_are_found() -> None:
    """A profile of other recordings, with the same pace on average, has other gaps."""
    mine = recordings(5, stalls=0)
    even = [retime(SHORT, Timing(first_byte_s=0.5, tokens_per_second=80, jitter=0.1, seed=seed)) for seed in range(5)]
    other = Fitted(name="even", paces=tuple(Pace.of(one, name="even") for one in even))
    faults = " ".join(compare(other, mine).faults())
    for label in ("p50 of gaps", "p90 of gaps", "distance of the gaps"):
        assert f"fitted badly: {label}: 5 of 5 recordings outside" in faults


def test_too_few_to_judge(few_replays: None) -> None:
    """Two recordings are always the smallest and the largest."""
    (told,) = goodness(recordings(2)).faults()
    assert told == "fitted to 2 recordings: 3 are needed to find a bad fit in a figure"


@pytest.mark.slow
def test_false_alarms_are_rare() -> None:
    """Of 20 right profiles with eight figures each, at most three have a figure that is called bad."""
    alarms = [list(goodness(recordings(3, f"alarm {number}")).faults()) for number in range(20)]
    assert sum(map(bool, alarms)) <= 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three recordings that can be fitted, and others that cannot."""
    (tmp_path / "turns").mkdir()
    for number, recording in enumerate(recordings(3)):
        recording.save(tmp_path / "turns" / f"{number}.jsonl")
    SHORT.save(tmp_path / "timeless.jsonl")
    http_error(529, "overloaded_error", "no").save(tmp_path / "error.jsonl")
    (tmp_path / "other.jsonl").write_text('{"type": "run_start"}\n')
    return tmp_path


def test_a_folder(folder: Path, few_replays: None) -> None:
    """Recordings that cannot be fitted are left out. The profile names them, also when it is loaded again."""
    fitted = fit([folder])
    assert len(fitted.profile.paces) == 3
    assert fitted.profile.name == folder.name
    reasons = ("529", "eagerstream_recording", "arrival times")
    for note, reason in zip(fitted.profile.notes, reasons, strict=True):
        assert note.startswith("left out: ")
        assert reason in note
    for number in range(5):
        SHORT.save(folder / f"timeless-{number}.jsonl")
    assert fit([folder]).profile.notes[-1] == "left out: 3 more"
    fitted.profile.save(folder / "profile.json")
    loaded = named_profile([folder / "profile.json"])
    assert loaded == fitted.profile
    with pytest.raises(UsageError, match="arrival times"):
        fit([folder / "turns", folder / "timeless.jsonl"])  # it was named


def test_a_recording_given_twice(folder: Path, few_replays: None) -> None:
    """It would be held out from itself."""
    path = min((folder / "turns").iterdir())
    with pytest.raises(UsageError, match="given twice"):
        fit([path, path])


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_a_steady_recording_is_not_fitted_badly(jitter: float, tmp_path: Path) -> None:
    """The times of a profile are rounded, and a replay has the longest gap as often as it was recorded."""
    bad = 0
    for seed in range(6):
        timing = Timing(tokens_per_second=80, first_byte_s=0.6, jitter=jitter, seed=seed)
        retime(reply(text("The harbour lies still. " * 30)), timing).save(tmp_path / f"{seed}.jsonl")
        bad += any("badly" in note for note in fit([tmp_path / f"{seed}.jsonl"]).profile.notes)
    assert bad <= 1  # each figure has an error of 1 %


def test_simulated_times_are_noted(tmp_path: Path, few_replays: None) -> None:
    """Nobody should take a profile of simulated times for one of the API."""
    retime(SHORT, Timing()).save(tmp_path / "made.jsonl")
    _, note = fit([tmp_path / "made.jsonl"]).profile.notes
    assert note == "the times are simulated in 1 of 1 recording"


def test_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit of too much would take minutes: it is refused."""
    monkeypatch.setattr(_goodness, "MAX_FRAGMENTS", 100)
    with pytest.raises(UsageError, match="at most 100 fragments"):
        fit([folder])
    monkeypatch.setattr(_goodness, "MAX_RECORDINGS", 5)
    with pytest.raises(UsageError, match="at most 5 recordings, not 6"):
        fit([folder])


@rows(
    "names, told",
    [
        (["nothing"], "is no profile"),
        ([""], "no recording that can be fitted"),  # the working folder
        (["no-such.json"], "cannot be read"),
        (["no-such.jsonl"], "cannot be read"),
        (["a.jsonl", "b.sse"], "cannot be read"),
        (["b.sse"], "is no profile"),
        (["empty"], "no recording"),
    ],
)
def test_no_such_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], told: str) -> None:
    """A name that is none is told of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir(exist_ok=True)
    with pytest.raises(UsageError, match=told):
        named_profile([Path(name) for name in names])
    assert named_profile([Path("documented")]) is DOCUMENTED


@pytest.mark.slow
def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints the comparison in 80 columns, and the warnings, and writes the profile."""
    monkeypatch.setenv("COLUMNS", "80")
    out = folder / "p.json"
    shown = CliRunner().invoke(app, ["fit", str(folder), "--out", str(out)], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "3 recordings, " in shown.output
    assert "each compared with 199 replays of a profile fitted to the others" in shown.output
    (line,) = [line for line in shown.output.splitlines() if line.startswith("P90 of gaps")]
    assert line.rstrip().endswith(" of 3")
    assert shown.output.count("warning: left out: ") == 3
    assert Fitted.load(out) == fit([folder]).profile


@pytest.mark.slow
def test_the_page(folder: Path) -> None:
    """The chart has both curves, and the tables all figures. A warning cannot bring markup."""
    hostile = folder / "<b>.jsonl"
    (folder / "timeless.jsonl").rename(hostile)
    page = folder / "fit.html"
    arguments = ["fit", str(folder), "--out", str(folder / "p.json"), "--report", str(page)]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 1
    assert ">recorded</text>" in html
    assert ">replayed</text>" in html
    assert "Distance of the gaps" in html
    assert "&lt;b&gt;.jsonl" in html
    assert "<b>" not in html
    assert "<script" not in html
