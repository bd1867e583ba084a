"""`Timing`, `retime` and `at_speed`."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.sampling import drawn
from tests.streams import made_recordings, real_recordings, wire_events
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Timing, at_speed, reply, retime, text, thinking, tool_use

_BODY = reply(thinking("hm " * 9), text("Let me look. " * 5), tool_use("search", {"query": "x" * 70}))


@st.composite
def _timings(draw: st.DrawFn) -> Timing:
    offsets = st.lists(st.integers(1, len(_BODY.body) - 1), unique=True, max_size=9).map(sorted)
    return Timing(
        tokens_per_second=draw(st.floats(0.1, 1e6)),
        first_byte_s=draw(st.floats(0, 10)),
        jitter=draw(st.floats(0, 1)),
        seed=draw(st.integers()),
        cut=draw(st.one_of(st.sampled_from(["event", "random"]), st.integers(1, 500), offsets)),
        speed=draw(st.one_of(st.floats(0.1, 1e6), st.just(inf))),
    )


@pytest.mark.slow
@given(timing=_timings())
def test_retime_keeps_the_bytes_and_is_repeatable(timing: Timing) -> None:
    """Any timing gives the same body, no empty chunk, times that never decrease, and the same result again."""
    retimed = retime(_BODY, timing)
    assert retimed.body == _BODY.body
    assert all(chunk.data for chunk in retimed.chunks)
    assert all(earlier.at_s <= later.at_s for earlier, later in pairwise(retimed.chunks))
    assert retime(_BODY, timing) == retimed
    assert retime(retimed, timing) == retimed


@rows("recording", (*made_recordings(), *drawn(real_recordings(), 8)))
def test_one_chunk_per_event(recording: Path) -> None:
    """By default each chunk of each recorded body is one event, and nothing is lost behind the last."""
    body = recording.read_bytes()
    retimed = retime(Recording.from_body(body), Timing())
    assert retimed.body == body
    assert [len(wire_events(chunk.data)) for chunk in retimed.chunks[:-1]] == [1] * (len(retimed.chunks) - 1)


def test_time_is_proportional_to_the_model_s_text() -> None:
    """Four characters are a token, whatever kind of text they are; other events take no time."""
    retimed = retime(
        reply(thinking("1234"), text("12345678"), tool_use("f", '{"a":12}'), text("123", fragment_chars=1)),
        Timing(tokens_per_second=10, first_byte_s=1),
    )
    assert retimed.duration_s == pytest.approx(1 + (1 + 2 + 2 + 0.75) / 10)
    times = sorted({round(chunk.at_s, 6) for chunk in retimed.chunks})
    assert times == [1, 1.1, 1.275, 1.3, 1.475, 1.5, 1.525, 1.55, 1.575]


def test_a_chunk_arrives_with_its_last_byte() -> None:
    """A chunk that spans events, or ends inside one, comes when the last of its bytes has been written."""
    events = retime(_BODY, Timing())
    body = _BODY.body
    chunks = retime(_BODY, Timing(cut=1000)).chunks
    ends = [sum(len(chunk.data) for chunk in events.chunks[: number + 1]) for number in range(len(events.chunks))]
    for number, chunk in enumerate(chunks):
        last = min((number + 1) * 1000, len(body))
        assert chunk.at_s == next(at.at_s for at, end in zip(events.chunks, ends, strict=True) if end >= last)


def test_cuts() -> None:
    """A number gives chunks of that size, offsets the cuts themselves, a seed its own random cuts."""
    size = len(_BODY.body)
    sizes = [len(chunk.data) for chunk in retime(_BODY, Timing(cut=100)).chunks]
    assert sizes[:-1] == [100] * (len(sizes) - 1)
    assert [len(chunk.data) for chunk in retime(_BODY, Timing(cut=[3, 10])).chunks] == [3, 7, size - 10]
    assert [len(chunk.data) for chunk in retime(_BODY, Timing(cut=[])).chunks] == [size]
    random = {
        tuple(len(chunk.data) for chunk in retime(_BODY, Timing(cut="random", seed=seed)).chunks) for seed in (1, 2)
    }
    assert len(random) == 2


def test_jitter_is_bounded() -> None:
    """Jitter moves each event by no more than its part, and the seed decides how."""
    even = retime(_BODY, Timing()).duration_s
    uneven = {retime(_BODY, Timing(jitter=0.5, seed=seed)).duration_s for seed in range(20)}
    assert len(uneven) == 20
    assert all(even * 0.5 <= duration_s <= even * 1.5 for duration_s in uneven)


def test_speed() -> None:
    """Speed divides all times, infinity and `instant` put everything at 0, in a profile and on a recording."""
    timing = Timing(first_byte_s=1)
    assert retime(_BODY, Timing(first_byte_s=1, speed=2)) == at_speed(retime(_BODY, timing), 2)
    assert at_speed(retime(_BODY, timing), inf).duration_s == 0
    assert retime(_BODY, Timing.instant()).duration_s == 0
    with pytest.raises(UsageError, match="speed"):
        at_speed(_BODY, 0)


def test_bodies_that_are_no_event_streams() -> None:
    """What holds no events, a JSON error say, comes as one chunk; an empty body as none."""
    timing = Timing(first_byte_s=0.5)
    assert retime(Recording.from_body(b'{"type": "error"}'), timing).chunks == (Chunk(0.5, b'{"type": "error"}'),)
    assert retime(Recording.from_body(b"data: x\n\n"), timing).chunks == (Chunk(0.5, b"data: x\n\n"),)
    assert retime(Recording.from_body(b""), timing).chunks == ()


def test_simulated_times_say_so() -> None:
    """No simulated time can be taken for a measured one: the note says it, once."""
    assert retime(_BODY, Timing()).note == "simulated timing"
    again = retime(retime(Recording((), note="made by hand"), Timing()), Timing())
    assert again.note == "made by hand; simulated timing"


@rows(
    "options",
    [
        {"tokens_per_second": 0},
        {"tokens_per_second": nan},
        {"first_byte_s": -1},
        {"first_byte_s": inf},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": nan},
        {"speed": 0},
        {"speed": -1},
        {"speed": nan},
        {"cut": "events"},
        {"cut": 0},
        {"cut": True},
        {"cut": [0]},
        {"cut": [5, 5]},
        {"cut": [5, 4]},
    ],
)
def test_bad_timings(options: dict[str, Any]) -> None:
    """Values out of range are refused where they are given, not in the middle of a replay."""
    with pytest.raises(UsageError):
        Timing(**options)


def test_cut_outside_the_body() -> None:
    """An offset that the body does not have is an error, since the cut that was asked for cannot be made."""
    with pytest.raises(UsageError, match="cut at 3"):
        retime(Recording.from_body(b"abc"), Timing(cut=[3]))
