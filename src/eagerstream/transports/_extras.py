"""What the anthropic package leaves to its extras for clients of other platforms: said in terms of our own extras."""

from __future__ import annotations

from typing import Final

from ..errors import MissingExtraError

_EXTRAS: Final = {"boto3": "bedrock", "botocore": "bedrock", "google": "vertex"}
"""Top-level modules, and which of our extras brings them."""


def missing_extra(error: Exception) -> MissingExtraError | None:
    """What to raise where `error` says that a platform's own package is not installed; None where it does not.

    The AWS clients let the `ModuleNotFoundError` out; Vertex made a `RuntimeError` of it in 0.78, and makes a
    `MissingDependencyError` of it since then, as Google Cloud does. Each has it as its cause.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ImportError):
            module = found.name or ""
            extra = _EXTRAS.get(module.partition(".")[0])
            if extra is not None:
                return MissingExtraError(extra, module)
        found = found.__cause__
    return None
