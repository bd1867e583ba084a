"""Terms that several packages use: of the API, of its tools, and of the answers to calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eagerstream_wire._block_rules import text_block, tool_result
from eagerstream_wire._events import TEXT_FIELDS
from eagerstream_wire._message_inputs import TOOL_BLOCKS
from eagerstream_wire._server_tools import error_code_of, is_error_result, is_server_result
from eagerstream_wire._stop_reasons import standard_stop_reason
from eagerstream_wire._tool_kind import (
    EAGER_FIELD,
    LEGACY_BETA,
    USER_DEFINED,
    accepted_betas,
    betas_for,
    forbids_legacy_beta,
    tool_kind,
)
from eagerstream_wire._type_variables import InputT

__all__ = [
    "BETA_HEADER",
    "CANCELLED_TEXT",
    "EAGER_FIELD",
    "IMAGE_TYPES",
    "IN_DEFINITION",
    "LEGACY_BETA",
    "NOT_RUN",
    "PDF_TYPE",
    "TEXT_FIELDS",
    "TOOL_BLOCKS",
    "USER_DEFINED",
    "InputT",
    "accepted_betas",
    "assistant_messages",
    "betas_for",
    "betas_in",
    "betas_of_header",
    "error_code_of",
    "forbids_legacy_beta",
    "is_error_result",
    "is_server_result",
    "media_type",
    "standard_stop_reason",
    "text_block",
    "tool_kind",
    "tool_result",
]

BETA_HEADER: Final = "anthropic-beta"
IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types that the API accepts as an image."""

PDF_TYPE: Final = "application/pdf"
"""The media type that the API accepts as a document of bytes."""
IN_DEFINITION: Final = ("strict", "cache_control", "defer_loading", "allowed_callers", "input_examples")
"""Options that are fields of the definition. If a verbatim definition is given, they belong in it."""
NOT_RUN: Final = "Not executed: the response ended before this call was run."
CANCELLED_TEXT: Final = "The run was cancelled while this tool was running: it may have done a part of its work."


def betas_in(headers: Mapping[str, object]) -> list[str]:
    """Return the betas in `anthropic-beta` of a request's headers, in any case; an empty list if there are none."""
    return betas_of_header({name.lower(): value for name, value in headers.items()}.get(BETA_HEADER))


def betas_of_header(value: object) -> list[str]:
    """Return the betas in the value of `anthropic-beta`; an empty list if the header is missing."""
    # The anthropic package uses an object to express the removal of a header.
    named = value.split(",") if isinstance(value, str) else ()
    return [beta.strip() for beta in named if beta.strip()]


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def assistant_messages(request: Mapping[str, Any]) -> int:
    """Return the number of the turn that a request asks for."""
    messages = request.get("messages")
    if not isinstance(messages, list):
        return 0
    return sum(isinstance(message, Mapping) and message.get("role") == "assistant" for message in messages)
