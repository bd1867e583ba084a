"""What a client that is not to be trusted is told of an error."""

from __future__ import annotations

from .. import errors
from .._support.redaction import redact_excerpt
from ._record import Fault


def public_error(error: Fault) -> Fault:
    """An error for the client: our own in their words, without secrets; of any other only what it is."""
    known = getattr(errors, error["type"], None)
    if isinstance(known, type) and issubclass(known, errors.EagerStreamError):
        return {"type": error["type"], "text": redact_excerpt(error["text"], 2_000)}
    return {"type": error["type"], "text": "The run failed."}
