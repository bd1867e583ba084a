"""The exceptions: their texts tell what happened, and never what a model wrote."""

from __future__ import annotations

import json

from eagerstream.errors import (
    APIError,
    EagerStreamError,
    HistoryError,
    InputInterrupted,
    JournalError,
    LimitError,
    MissingExtraError,
    OwnershipLostError,
    ProtocolError,
    RunExistsError,
    RunNotFoundError,
    RunOwnedError,
    StreamInterrupted,
    ToolError,
    UsageError,
    WorkerLost,
)
from tests.tables import rows

_TEXTS: dict[EagerStreamError, str] = {
    ProtocolError("not an event", excerpt="secret"): "not an event",
    LimitError("max_blocks", 3, "the message"): "the message is over the limit max_blocks=3",
    APIError("Overloaded", status_code=529, request_id="req_1"): "Overloaded (HTTP 529, request req_1)",
    APIError("Too long", error_type="invalid_request_error", hint="Cut it."): (
        "Too long (invalid_request_error). Cut it."
    ),
    StreamInterrupted("no byte came for 5 s", request_id="req_1"): "no byte came for 5 s (request req_1)",
    UsageError("run() needs a client"): "run() needs a client",
    HistoryError(["messages.0: empty", "messages.1: empty"]): "messages.0: empty; messages.1: empty",
    MissingExtraError("bedrock", "boto3"): "boto3 is not installed; it comes with: pip install 'eagerstream[bedrock]'",
    WorkerLost("the process was killed"): "the process was killed",
    JournalError("the disk is full"): "the disk is full",
    OwnershipLostError("another process owns it", run_id="r1"): "run 'r1': another process owns it",
    RunOwnedError("its owner lives", run_id="r1"): "run 'r1': its owner lives",
    RunExistsError("it exists already", run_id="r1"): "run 'r1': it exists already",
    RunNotFoundError("there is none", run_id="r\n"): r"run 'r\n': there is none",
    InputInterrupted(("lines", 3), "cut off"): "['lines'][3] never finished: cut off",
    InputInterrupted((), "cut off"): "the input never finished: cut off",
    ToolError("Rate limit exceeded."): "Rate limit exceeded.",
}


@rows("error, text", _TEXTS.items())
def test_texts(error: EagerStreamError, text: str) -> None:
    """Golden; as plain data the text is the same, with the name of the class."""
    assert str(error) == text
    plain = json.loads(json.dumps(error.to_dict()))
    assert (plain["type"], plain["text"]) == (type(error).__name__, text)


_HOMES = {APIError.__module__, EagerStreamError.__module__}


def test_every_class_has_a_row() -> None:
    """A class that is added is looked at here."""
    classes = {EagerStreamError}
    while more := {sub for known in classes for sub in known.__subclasses__() if sub.__module__ in _HOMES} - classes:
        classes |= more
    assert {type(error) for error in _TEXTS} == classes - {EagerStreamError}


def test_an_excerpt_is_short() -> None:
    """It shows where to look, and is not the input itself."""
    assert ProtocolError("not an event", excerpt="x" * 1_000).excerpt == "x" * 80


@rows("details", [None, {}, {"error_code": 5}, {"error_code": "too_large", "key": 1}])
def test_the_code_of_an_error(details: dict[str, object] | None) -> None:
    """It is a text or nothing, whatever a peer puts there."""
    error = APIError("No", details=details)
    assert error.error_code == ("too_large" if details and "key" in details else None)
    assert error.to_dict()["details"] == details
