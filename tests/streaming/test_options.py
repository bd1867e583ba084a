"""The options of a request: those of the API are complete, and each group of ours has its defaults."""

from __future__ import annotations

import pytest
from anthropic.types.beta import message_create_params

from eagerstream.loop import CallOptions, ConversationOptions, LoopOptions, RunOptions
from eagerstream.loop._options import CALL_DEFAULTS, LOOP_DEFAULTS
from eagerstream.streaming import FeedOptions, InputOptions, RequestParameters, StreamOptions
from eagerstream.streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS

_IN_SIGNATURES = {"model", "max_tokens", "messages", "tools", "stream"}
_OF_OLDER_VERSIONS = {"output_format"}  # became `output_config.format`


def test_request_parameters_are_those_of_the_installed_package() -> None:
    """A parameter that it takes has a type here, so that a type checker finds a misspelt one."""
    known = message_create_params.MessageCreateParamsStreaming.__annotations__.keys()
    assert known - _IN_SIGNATURES - _OF_OLDER_VERSIONS <= RequestParameters.__annotations__.keys()


@pytest.mark.parametrize(
    ("options", "defaults"),
    [
        (InputOptions, INPUT_DEFAULTS),
        (FeedOptions, FEED_DEFAULTS),
        (LoopOptions, LOOP_DEFAULTS),
        (CallOptions, CALL_DEFAULTS),
    ],
)
def test_each_option_has_a_default_and_a_description(options: type, defaults: dict[str, object]) -> None:
    """One that had none would be sent to the API as a parameter."""
    assert defaults.keys() == options.__annotations__.keys()
    assert all(name in (options.__doc__ or "") for name in defaults)


def test_a_run_takes_the_options_of_a_stream() -> None:
    """And those of a conversation."""
    of_run = RunOptions.__annotations__.keys()
    assert of_run == StreamOptions.__annotations__.keys() | ConversationOptions.__annotations__.keys()
