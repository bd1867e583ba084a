"""The format of a recorded response, and the masking of secrets and contents in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from ._recording import Chunk as Chunk, Recording as Recording
else:  # or type checkers would take any name for one that is there
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "._recording": ("Chunk", "Recording"),
            "._redacted_body": ("redacted_body",),
            "._redacted_contents": ("masked_contents",),
        },
    )
