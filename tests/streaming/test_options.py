"""The options of a request: those of the API are complete, and each group of ours has its defaults."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import message_create_params

from eagerstream import Conversation, UsageError
from eagerstream.streaming import stream
from eagerstream.streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS, FeedOptions, InputOptions, RequestParameters
from tests.streams import REQUEST
from tests.tables import rows

_IN_SIGNATURES = {"model", "max_tokens", "messages", "tools", "stream"}
_OF_OLDER_VERSIONS = {"output_format"}  # became `output_config.format`


def test_request_parameters_are_those_of_the_installed_package() -> None:
    """A parameter that it takes has a type here, so that a type checker finds a misspelt one."""
    known = message_create_params.MessageCreateParamsStreaming.__annotations__.keys()
    assert known - _IN_SIGNATURES - _OF_OLDER_VERSIONS <= RequestParameters.__annotations__.keys()


@rows(
    "options, defaults",
    [
        (InputOptions, INPUT_DEFAULTS),
        (FeedOptions, FEED_DEFAULTS),
    ],
)
def test_each_option_has_a_default_and_a_description(options: type, defaults: dict[str, object]) -> None:
    """One that had none would be sent to the API as a parameter."""
    assert defaults.keys() == options.__annotations__.keys()
    assert all(name in (options.__doc__ or "") for name in defaults)


@rows("misspelt, meant", [("sytem", "system"), ("stop_sequence", "stop_sequences"), ("tool_choise", "tool_choice")])
def test_a_misspelt_parameter(misspelt: str, meant: str) -> None:
    """Nothing is sent: the API would answer with an error that does not know what was meant, or ignore it."""
    parameters: dict[str, Any] = {**REQUEST, misspelt: "x"}
    nobody: Any = None
    with pytest.raises(UsageError, match=f"{misspelt} is unknown: did you mean {meant}"):
        stream(nobody, **parameters)
    with pytest.raises(UsageError, match=f"did you mean {meant}"):
        Conversation(**parameters)


def test_a_parameter_that_nobody_knows_is_sent() -> None:
    """The API may have got it since."""
    parameters: dict[str, Any] = {**REQUEST, "brand_new": 3}
    assert Conversation(**parameters).request()["brand_new"] == 3
