"""`RunFold`: the rules of turns and calls that every view and every protocol shares."""

from __future__ import annotations

from packages.progress.tests.stories import Story

from eagerstream_progress._fold import CallFold, CallPhase, Result, RunFold
from eagerstream_progress._record import InputStartRecord


def fold_of(story: Story) -> tuple[RunFold[CallFold], list[CallFold | None]]:
    """The fold over a run, and the call that each record changed."""

    def begin(record: InputStartRecord) -> CallFold:
        return CallFold(record["block"], record["id"], record["name"], record["kind"], fold.turn, record["at_s"])

    fold: RunFold[CallFold] = RunFold(begin)
    return fold, [fold.feed(record) for record in story.records]


def test_an_input_ends_once() -> None:
    """What comes after its end changes nothing: an encoder would send it to a client that has the complete input."""
    story = Story().turn()
    block = story.call()
    fold, changed = fold_of(story.fragments(block, "}").stop(block, "invalid", "bad"))
    call = fold.current[block]
    assert changed[-3:] == [call, None, None]
    assert (call.outcome, call.error, call.phase) == ("valid", None, CallPhase.WAITING)


def test_a_call_has_one_result() -> None:
    """The first one counts, also where it comes before the input has ended; then only the input goes on."""
    story = Story().turn()
    block = story.input()
    story.result(block, "early").add("tool_progress", block=block, value=1).add("approval_start", block=block)
    fold, changed = fold_of(story.stop(block).result(block, "late", is_error=True))
    call = fold.current[block]
    assert changed[-5:] == [call, None, None, call, None]
    assert call.result is not None
    assert (call.result.content, call.outcome, call.phase) == ("early", "valid", CallPhase.DONE)


def test_a_result_of_the_api_in_a_void_reply_comes_again() -> None:
    """After a pause the result of the API's call is in the next reply; if that begins anew, its second result counts."""
    story = Story().turn()
    block = story.search()
    story.turn_stop().turn()
    own = story.call()
    story.found().restart().message(restarted=True).found("more")
    fold, changed = fold_of(story)
    assert changed[-1] is fold.current[block]
    assert own not in fold.current
    assert fold.current[block].result == Result(story.blocks, story.records[-1]["content"], False)


def test_calls_with_a_result_are_forgotten_with_their_turn() -> None:
    """A long run holds no more than its current calls: every client of an endpoint has a fold of its own."""
    story = Story().turn()
    done, open_ = story.call(), story.call()
    fold, _ = fold_of(story.result(done).turn_stop().turn())
    assert list(fold.current) == [open_]
