"""Profiles: the text stays, and its times and fragments are those that were documented."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import pytest
from tests.streams import each_recording, made_recordings
from tests.tables import rows

from eagerstream.recordings import Recording
from eagerstream_lab._fitted import Fitted, Pace
from eagerstream_lab._profiles import (
    DOCUMENTED,
    Fragment,
    Profile,
    _largest_input,
    fragments,
)
from eagerstream_testing import Timing, reply, retime, text, thinking, tool_use
from eagerstream_testing.demos.poem import POEM
from eagerstream_wire import SSEDecoder

LARGE = reply(
    thinking("First this, then that."),
    text("I will write it down."),
    tool_use("quick", {"city": "Lisbon"}),
    tool_use("write", {"name": "poem.txt", "lines": POEM}),
)
TIMED = retime(LARGE, Timing(first_byte_s=0.4, tokens_per_second=50, jitter=0.8, seed=3))
FITTED = Fitted(name="timed", paces=(Pace.of(TIMED, name="timed"),))


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
