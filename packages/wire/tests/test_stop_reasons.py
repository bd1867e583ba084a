"""`_stop_reasons`: the words of other APIs. The vectors have what each proves."""

from __future__ import annotations

from typing import get_args

from eagerstream_wire import StopReason
from eagerstream_wire._stop_reasons import standard_stop_reason


def test_each_word_has_one_meaning() -> None:
    """Those of this API stay, those of others become one of them, and the rest is left alone."""
    assert all(standard_stop_reason(reason) == reason for reason in get_args(StopReason))
    for reason in ("tool_calls", "function_call", "stop", "eos", "length", "content_filter", "STOP", "MAX_TOKENS"):
        assert standard_stop_reason(reason) in get_args(StopReason)
    assert standard_stop_reason("later") == "later"
