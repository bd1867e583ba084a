"""`typed_message`: a message as an object of the anthropic package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anthropic.types import Message


def typed_message(message: Mapping[str, Any]) -> Message:
    """Return a message as an object of the anthropic package.

    Fields and blocks that the installed version does not know are kept, as in its own client.
    """
    from anthropic.types import Message  # takes 0.5 s to import

    return Message.construct(**message)
