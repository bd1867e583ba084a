"""Profiles: the text stays, and its times and fragments are those that were documented, or fitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import pytest
from tests.streams import each_recording, made_recordings
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_lab._fitted import Fitted, named_profile
from eagerstream_lab._profiles import (
    DOCUMENTED,
    Fragment,
    Profile,
    _largest_input,
    fragments,
)
from eagerstream_testing import Timing, buffered, http_error, reply, retime, text, thinking, tool_use
from eagerstream_testing.demos.poem import POEM
from eagerstream_wire import SSEDecoder

LARGE = reply(
    thinking("First this, then that."),
    text("I will write it down."),
    tool_use("quick", {"city": "Lisbon"}),
    tool_use("write", {"name": "poem.txt", "lines": POEM}),
)
TIMED = retime(LARGE, Timing(first_byte_s=0.4, tokens_per_second=50, jitter=0.8, seed=3))
FITTED = Fitted.of(TIMED, name="timed")


def said(recording: Recording) -> dict[int, str]:
    """What each block says, by its index."""
    found: dict[int, str] = {}
    for fragment in fragments(recording):
        found[fragment.index] = found.get(fragment.index, "") + fragment.text
    return found


def of_largest(recording: Recording) -> list[Fragment]:
    return [fragment for fragment in fragments(recording) if fragment.index == 3]


def others_of(recording: Recording) -> list[str]:
    """The events that are no fragments."""
    return [event.data for event in SSEDecoder().feed(recording.body) if "content_block_delta" not in event.data]


def cut_inside_words(pieces: list[Fragment]) -> float:
    """The share of cuts that fall between two letters or digits."""
    return fmean(first.text[-1].isalnum() and second.text[0].isalnum() for first, second in pairwise(pieces))


def value_at(recording: Recording, what: str) -> float:
    """When the fragment came with which this was there."""
    raw = ""
    for fragment in of_largest(recording):
        raw += fragment.text
        if what in raw:
            return fragment.at_s
    raise AssertionError(what)


@pytest.mark.slow
@each_recording
def test_the_text_of_recordings_stays(recording: Path) -> None:
    """As below, of real replies, too."""
    check_text_stays(recording)


@rows("recording", made_recordings())
def test_the_text_stays(recording: Path) -> None:
    """Whatever the profile does, each block says what it said, and no event is lost."""
    check_text_stays(recording)


def check_text_stays(recording: Path) -> None:
    loaded = Recording.load(recording)
    before, others = said(loaded), others_of(loaded)
    for profile in (DOCUMENTED, FITTED):
        for eager in (True, False):
            played = profile.play(loaded, eager=eager, seed="1")
            assert said(played) == before
            assert others_of(played) == others
            assert "simulated timing" in played.note


@rows("profile", [DOCUMENTED, FITTED])
def test_the_seed_decides(profile: Profile) -> None:
    """The same seed gives the same bytes at the same times on every machine, another one others."""
    first, again, other = (profile.play(LARGE, eager=True, seed=seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


def test_documented_times() -> None:
    """A large parameter begins after 3 s with eager input streaming, and after 15 s without."""
    starts: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(3):
        for eager, found in starts.items():
            played = DOCUMENTED.play(LARGE, eager=eager, seed=str(seed))
            found.append(value_at(played, POEM[0][:10]))
    assert median(starts[True]) == pytest.approx(3.0, abs=0.7)  # its first fragments hold the file name
    assert median(starts[False]) == pytest.approx(15.0, abs=0.5)
    assert max(starts[True]) < min(starts[False]) - 10


def test_documented_fragments() -> None:
    """Eager fragments are longer, and cut less often inside words."""
    eager, held = ([*of_largest(DOCUMENTED.play(LARGE, eager=eager, seed="4"))] for eager in (True, False))
    assert 24 <= fmean(len(piece.text) for piece in eager) <= 37
    assert 5 <= fmean(len(piece.text) for piece in held) <= 9
    assert cut_inside_words(eager) < 0.2 < cut_inside_words(held) < 0.6


def test_documented_bursts() -> None:
    """Without eager input streaming a member comes all at once, as soon as it is whole."""
    held = DOCUMENTED.play(LARGE, eager=False, seed="4")
    times = {fragment.at_s for fragment in of_largest(held)}
    assert len(times) == 2  # one of each member


def test_documented_text_before_a_large_input() -> None:
    """Where much is written before it, a large input begins later than after 3 s."""
    late = reply(text("word " * 500), tool_use("write", {"lines": POEM}))
    first = next(
        fragment for fragment in fragments(DOCUMENTED.play(late, eager=True, seed="1")) if fragment.kind == "input"
    )
    assert first.at_s == pytest.approx(0.5 + 2500 / 320, rel=0.1)


def test_a_reply_without_an_input() -> None:
    """It is written at the pace of everything else."""
    played = DOCUMENTED.play(reply(text("x" * 3200)), eager=True, seed="1")
    assert played.duration_s == pytest.approx(10.5, rel=0.1)


def test_the_largest_input() -> None:
    """Its index and size, and what was written before it, which delays it."""
    sizes = {index: len(words) for index, words in said(LARGE).items()}
    assert _largest_input(LARGE) == (3, sizes[3], sum(size for index, size in sizes.items() if index < 3))
    assert _largest_input(reply(text("words"))) == (None, 0, 0)


def test_what_is_fitted() -> None:
    """Lengths and gaps of what is played are those of the recording; its first byte comes when it did there."""
    seen = [len(piece.text) for piece in fragments(TIMED) if piece.kind == "input"]
    played = FITTED.play(LARGE, eager=True, seed="1")
    assert {len(piece.text) for piece in of_largest(played)[:-1]} <= set(seen)
    assert played.chunks[0].at_s == TIMED.chunks[0].at_s == 0.4
    assert played.duration_s == pytest.approx(TIMED.duration_s, rel=0.15)

    def gaps(recording: Recording) -> list[float]:
        times = [piece.at_s for piece in of_largest(recording)]
        return sorted(later - earlier for earlier, later in pairwise(times))

    measured, drawn = gaps(TIMED), gaps(played)
    for share in (0.1, 0.5, 0.9):
        quantiles = (of[int(share * len(of))] for of in (measured, drawn))
        assert next(quantiles) == pytest.approx(next(quantiles), rel=0.2)
    assert max(drawn) <= max(measured) + 1e-6


def test_what_belongs_together_stays_together() -> None:
    """Gaps are drawn with the lengths that they had: bursts stay bursts."""
    played = FITTED.play(DOCUMENTED.play(LARGE, eager=True, seed="1"), eager=True, seed="5")
    bursts = Fitted.of(buffered(TIMED), name="bursts").play(LARGE, eager=True, seed="1")
    assert len({piece.at_s for piece in of_largest(bursts)}) < len({piece.at_s for piece in of_largest(played)}) / 3


def test_a_fitted_profile_without_inputs() -> None:
    """What was not seen is drawn from what was."""
    only_text = Fitted.of(retime(reply(text("some words, " * 20)), Timing(first_byte_s=0.1)), name="text")
    assert said(only_text.play(LARGE, eager=False, seed="1")) == said(LARGE)


def test_a_profile_in_a_file(tmp_path: Path) -> None:
    """Saved and loaded it plays the same; a recording named instead is fitted."""
    FITTED.save(tmp_path / "profile.json")
    loaded = named_profile(str(tmp_path / "profile.json"))
    assert loaded.play(LARGE, eager=True, seed="9") == FITTED.play(LARGE, eager=True, seed="9")
    TIMED.save(tmp_path / "timed.jsonl")
    assert named_profile(str(tmp_path / "timed.jsonl")).play(LARGE, eager=True, seed="9").chunks
    assert named_profile("documented") is DOCUMENTED


def _set(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    FITTED.save(path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@rows(
    "change, told",
    [
        (lambda data: data.update(eagerstream_profile=2), "version 2"),
        (lambda data: data.pop("eagerstream_profile"), "no profile"),
        (lambda data: data.update(first_byte_s=-1), "first_byte_s: .* greater"),
        (lambda data: data.update(first_byte_s="1"), "first_byte_s: .* number"),
        (lambda data: data["inputs"].update(later=[[0, 1.0]]), r"inputs\.later\.0"),
        (lambda data: data["texts"].pop("first"), r"texts\.first"),
        (lambda data: data.update(inputs={"first": [], "later": []}, texts={"first": [], "later": []}), "without frag"),
    ],
)
def test_a_profile_that_is_none(tmp_path: Path, change: Callable[[dict[str, object]], object], told: str) -> None:
    """A file that was changed by hand is refused with the place where it is wrong."""
    path = tmp_path / "profile.json"
    _set(path, change)
    with pytest.raises(UsageError, match=told):
        Fitted.load(path)


@rows("name", ["nothing", "no-such.json", "no-such.jsonl", ""])
def test_no_such_profile(name: str) -> None:
    """A name that is none is told of."""
    with pytest.raises(UsageError):
        named_profile(name)


@rows(
    "recording, told",
    [
        (LARGE, "arrival times"),
        (Recording.from_body(b""), "writes nothing"),
        (http_error(529, "overloaded_error", "no"), "529"),
        (Recording((), headers={"content-type": "application/vnd.amazon.eventstream"}), "server-sent"),
    ],
)
def test_what_cannot_be_fitted(recording: Recording, told: str) -> None:
    """There must be something to draw from."""
    with pytest.raises(UsageError, match=told):
        Fitted.of(recording, name="x")
