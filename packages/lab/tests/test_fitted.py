"""Fitted profiles: their responses arrive as the recordings did, and their files are checked."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from packages.lab.tests.paces import BLOCK_S, LARGE, LARGE_S, SAID, Server
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_lab._fitted import Fitted, Pace, large_values, readable
from eagerstream_lab._profiles import Fragment, fragments
from eagerstream_testing import Timing, buffered, http_error, reply, retime, text, tool_use


@cache
def recorded() -> list[Recording]:
    return [Server(f"recorded {number}").recording() for number in range(4)]


def fitted_to_all() -> Fitted:
    return Fitted(name="four", paces=tuple(Pace.of(recording, name="made") for recording in recorded()))


def fitted(recording: Recording) -> Fitted:
    return Fitted(name="one", paces=(Pace.of(recording, name="one"),))


def gaps_s(received: Sequence[Fragment]) -> list[float]:
    return [two.at_s - one.at_s for one, two in pairwise(received) if one.index == two.index]


def bursts(received: Sequence[Fragment]) -> list[int]:
    """The numbers of fragments that arrive within 5 ms of the one before."""
    lengths = [1]
    for one, two in pairwise(received):
        if two.at_s - one.at_s > 0.005:
            lengths.append(0)
        lengths[-1] += 1
    return lengths


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest distance between the two distributions (Kolmogorov and Smirnov)."""
    one, other = sorted(one), sorted(other)
    return max(abs(bisect_right(one, at) / len(one) - bisect_right(other, at) / len(other)) for at in (*one, *other))


@pytest.mark.slow
def test_replays_have_the_statistics_of_the_recordings() -> None:
    """First byte, lengths and gaps of fragments, bursts, stalls, and the pauses before blocks and a large parameter."""
    profile = fitted_to_all()
    received = [list(fragments(recording)) for recording in recorded()]
    played = [profile.play(SAID, eager=True, seed=str(seed)) for seed in range(20)]
    replayed = [list(fragments(one)) for one in played]

    def both(of: Callable[[Sequence[Fragment]], Sequence[float]]) -> tuple[list[float], list[float]]:
        first, second = ([value for one in many for value in of(one)] for many in (received, replayed))
        return first, second

    assert {one.chunks[0].at_s for one in played} == {one.chunks[0].at_s for one in recorded()}
    lengths = both(lambda of: [len(one.text) for one in of])
    assert distance(*lengths) < 0.02
    assert distance(*both(gaps_s)) < 0.03
    measured, drawn = both(bursts)
    assert fmean(drawn) == pytest.approx(fmean(measured), rel=0.03)
    assert distance(measured, drawn) < 0.06  # independent fragments are at 0.36
    measured, drawn = both(gaps_s)
    assert max(drawn) <= max(measured) + 1e-5
    stalls = [sum(gap > 0.5 for gap in of) / len(of) for of in (measured, drawn)]
    assert stalls[1] == pytest.approx(stalls[0], rel=0.35)
    durations = [[one[-1].at_s for one in of] for of in (received, replayed)]
    assert fmean(durations[1]) == pytest.approx(fmean(durations[0]), rel=0.1)


def test_pauses_have_their_places() -> None:
    """A block waits as recorded blocks did. A large parameter waits too, wherever it is in another input."""
    steady = fitted(Server("steady", stalls=0).recording())
    said = reply(text("At once. " * 30), tool_use("other", {"body": LARGE[:900], "first": 1, "more": LARGE[:700]}))
    received = list(fragments(steady.play(said, eager=True, seed="1")))
    raw = "".join(one.text for one in received if one.kind == "input")
    waits: dict[str, float] = {}
    written = 0
    for before, one in pairwise(received):
        wait_s = one.at_s - before.at_s
        if one.index != before.index:
            waits["block"] = wait_s
        if one.kind == "input":
            written += len(one.text)
            if written - len(one.text) <= raw.index('"more"') + 8 < written:
                waits["large"] = wait_s
    pace = waits["block"] / BLOCK_S
    assert 0.7 < pace < 1.4
    assert waits["large"] == pytest.approx(LARGE_S * pace, rel=0.01)
    assert sum(gap > 0.3 * pace for gap in gaps_s(received)) == 1


def test_each_response_has_the_pace_of_one_recording() -> None:
    """Recordings differ, and so do replays: a pace between all of them would hide how much responses vary."""
    slow, fast = (retime(SAID, Timing(tokens_per_second=pace)) for pace in (20, 200))
    both = Fitted(name="two", paces=(Pace.of(slow, name="slow"), Pace.of(fast, name="fast")))
    durations = [both.play(SAID, eager=True, seed=str(seed)).duration_s for seed in range(12)]
    for duration_s in durations:
        assert any(duration_s == pytest.approx(one.duration_s, rel=0.1) for one in (slow, fast))
    assert max(durations) > 5 * min(durations)


def test_bursts_stay_together() -> None:
    """Gaps are drawn with the lengths that they had, and in their order."""
    held = buffered(retime(reply(*(tool_use("t", {"a": "x" * 40, "b": "y" * 40}) for _ in range(8))), Timing()))
    assert len({one.at_s for one in fragments(held)}) >= 10
    played = list(fragments(fitted(held).play(held, eager=True, seed="1")))
    assert len({one.at_s for one in played}) < len(played) / 3


def test_what_was_not_seen_is_drawn_from_what_was() -> None:
    """A profile of texts plays inputs, and says all of them."""
    only_text = fitted(retime(reply(text("some words, " * 20)), Timing(first_byte_s=0.1)))
    played = only_text.play(SAID, eager=False, seed="1")
    said = ["".join(one.text for one in fragments(recording) if one.kind == "input") for recording in (SAID, played)]
    assert said[0] == said[1]


@rows("raw", ['{"a": "' + "x" * 300, "[" * 2000, '["' + "x" * 300 + '"]', ""])
def test_inputs_without_large_parameters(raw: str) -> None:
    """An input that is cut off, no object, or too deep has none."""
    assert large_values([Fragment("input", 0, raw, 0.0)] if raw else []) == ({0: []} if raw else {})


def test_frames_of_bedrock_are_fitted() -> None:
    """A recording of Bedrock's binary frames has the pace of the same response in server-sent events."""
    from eagerstream_testing._framing import in_aws_frames

    framed = in_aws_frames(recorded()[0])
    assert Pace.of(readable(framed, "framed"), name="framed") == Pace.of(recorded()[0], name="plain")
    broken = Recording(tuple(Chunk(at_s, data[:-1] + b"?") for at_s, data in framed.chunks), headers=framed.headers)
    with pytest.raises(UsageError, match="damaged"):
        readable(broken, "broken")


def test_a_profile_in_a_file(tmp_path: Path) -> None:
    """Saved and loaded it plays the same."""
    profile = fitted(recorded()[0])
    profile.save(tmp_path / "profile.json")
    loaded = Fitted.load(tmp_path / "profile.json")
    assert loaded == profile
    assert loaded.play(SAID, eager=True, seed="9") == profile.play(SAID, eager=True, seed="9")


def test_a_profile_written_by_hand(tmp_path: Path) -> None:
    """The example of the guide is a valid profile, and plays as it says."""
    page = (Path(__file__).parents[3] / "docs/guides/pacing.md").read_text(encoding="utf-8")
    (tmp_path / "steady.json").write_text(page.partition("```json\n")[2].partition("```")[0], encoding="utf-8")
    played = Fitted.load(tmp_path / "steady.json").play(SAID, eager=True, seed="1")
    assert played.chunks[0].at_s == 0.6
    received = list(fragments(played))
    assert {len(one.text) for one in received if one.kind == "text"} <= {12, 4}  # the last one has the rest
    pauses = [round(two.at_s - one.at_s, 6) for one, two in pairwise(received) if two.kind == "input"]
    assert set(pauses) == {0.3, 0.9, 0.15, 0.0}
    assert pauses.count(0.9) == 1


@rows(
    "change, told",
    [
        (lambda data: data.update(eagerstream_profile=2), "version 2"),
        (lambda data: data.pop("eagerstream_profile"), "no profile"),
        (lambda data: data["paces"][0].update(first_byte_s=-1), "first_byte_s: .* greater"),
        (lambda data: data["paces"][0].update(first_byte_s="1"), "first_byte_s: .* number"),
        (lambda data: data["paces"][0]["inputs"].update(later=[[[0, 1.0]]]), r"inputs\.later\.0"),
        (lambda data: data["paces"][0]["inputs"].update(later=[[]]), r"inputs\.later\.0"),
        (lambda data: data["paces"][0]["texts"].pop("block"), r"texts\.block"),
        (lambda data: data.update(paces=[]), "paces"),
        (
            lambda data: [data["paces"][1][kind].update(block=[], large=[], later=[]) for kind in ("inputs", "texts")],
            "without",
        ),
    ],
)
def test_a_profile_that_is_none(tmp_path: Path, change: Callable[[dict[str, object]], object], told: str) -> None:
    """A file that was changed by hand is refused with the place where it is wrong."""
    path = tmp_path / "profile.json"
    pace = Pace.of(retime(reply(text("some words, " * 20)), Timing()), name="made")
    Fitted(name="two", paces=(pace, pace)).save(path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=told):
        Fitted.load(path)


@rows(
    "recording, told",
    [
        (SAID, "arrival times"),
        (retime(SAID, Timing(cut=10**6)), "1 moments"),
        (retime(reply(text("Yes.")), Timing()), "too short"),
        (Recording.from_body(b""), "writes nothing"),
        (http_error(529, "overloaded_error", "no"), "529"),
        (Recording((), headers={"content-type": "application/json"}), "server-sent"),
    ],
)
def test_what_cannot_be_fitted(recording: Recording, told: str) -> None:
    """There must be something to draw from."""
    with pytest.raises(UsageError, match=told):
        Pace.of(readable(recording, "x"), name="x")
