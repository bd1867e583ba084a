"""`RestAnswer`: what of a response continues a cut input, without a connection."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream.errors import StreamInterrupted
from eagerstream.loop._rest_answer import RestAnswer
from eagerstream.loop._seam import Seam, SeamError
from eagerstream_wire import MessageAssembler
from tests.continuing import cut_input
from tests.streams import MESSAGE_STOP, block_stop, input_delta, message_delta, message_start, tool_start

BEGIN: list[Any] = [message_start(), tool_start(0, "continue_input")]
REST = input_delta(0, '{"text": "xyz", "rest": [{}]}')
END: list[Any] = [block_stop(0), message_delta("tool_use"), MESSAGE_STOP]


def answer() -> RestAnswer:
    """The answer about an input that was cut in a text."""
    cut = cut_input('{"a": "x')
    assert cut is not None
    return RestAnswer(Seam(cut), MessageAssembler())


def test_the_rest() -> None:
    """It comes as it is written. Another call behind it is not wanted."""
    ours = answer()
    assert ours.take([*BEGIN, REST]) == 'yz"'
    assert (ours.is_complete, ours.has_ended) == (False, False)
    assert ours.take([block_stop(0)]) == "}"
    assert (ours.is_complete, ours.has_ended) == (True, False)
    assert ours.take([tool_start(1, "write")]) == ""
    assert ours.has_ended


def test_usage() -> None:
    """Until the counts of the end come, it is an estimate from all that was written."""
    ours = answer()
    assert ours.usage == {"uncounted_output_tokens": 0}
    ours.take([*BEGIN, input_delta(0, '{"text": "x' + "y" * 400)])
    assert ours.usage["uncounted_output_tokens"] > 90
    ours.take([input_delta(0, '", "rest": [{}]}'), block_stop(0), message_delta("tool_use", output_tokens=7)])
    assert ours.usage["output_tokens"] == 7
    assert "uncounted_output_tokens" not in ours.usage


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([message_start(), tool_start(0, "write")], SeamError),
        ([*BEGIN, input_delta(0, '{"text": 1'), *END], SeamError),
        ([message_start(), message_delta("end_turn"), MESSAGE_STOP], SeamError),
        ([*BEGIN, message_start(id="msg_again")], StreamInterrupted),
        ([*BEGIN, None], StreamInterrupted),
    ],
)
def test_no_rest(events: list[Any], error: type[Exception]) -> None:
    """Another call or none is no continuation; a response that starts again or has no end is a loss."""
    ours = answer()
    with pytest.raises(error):
        for event in events:
            ours.take(None if event is None else [event])


def test_cut_again() -> None:
    """It has ended, is no loss, and has not the end of the input."""
    ours = answer()
    text = ours.take([*BEGIN, input_delta(0, '{"text": "xy'), block_stop(0), message_delta("max_tokens"), MESSAGE_STOP])
    assert (text, ours.has_ended, ours.is_complete) == ("y", True, False)
