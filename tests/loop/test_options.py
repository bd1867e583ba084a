"""The options of a run and of a conversation: each has its default, and none is sent to the API."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream import Conversation, UsageError
from eagerstream.loop import ConversationOptions, RunOptions
from eagerstream.loop._options import CALL_DEFAULTS, LOOP_DEFAULTS, CallOptions, LoopOptions
from eagerstream.streaming import StreamOptions
from tests.streams import REQUEST


@pytest.mark.parametrize(("options", "defaults"), [(LoopOptions, LOOP_DEFAULTS), (CallOptions, CALL_DEFAULTS)])
def test_each_option_has_a_default_and_a_description(options: type, defaults: dict[str, object]) -> None:
    """One that had none would be sent to the API as a parameter."""
    assert defaults.keys() == options.__annotations__.keys()
    assert all(name in (options.__doc__ or "") for name in defaults)


def test_a_run_takes_the_options_of_a_stream() -> None:
    """And those of a conversation, and two for its journal."""
    of_run = RunOptions.__annotations__.keys()
    others = StreamOptions.__annotations__.keys() | ConversationOptions.__annotations__.keys()
    assert of_run - others == {"journal", "run_id"}
    assert others - of_run == set()


def test_a_misspelt_option_of_a_run() -> None:
    """It would otherwise be sent as a parameter of the API."""
    parameters: dict[str, Any] = {**REQUEST, "max_turn": 3}
    with pytest.raises(UsageError, match="did you mean max_turns"):
        Conversation(**parameters)
