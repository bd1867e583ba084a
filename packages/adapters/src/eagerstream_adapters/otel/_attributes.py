"""Attributes of spans and metrics, from the parts of a run. They never have text that was written to or by a model.

Values that a peer or a model controls are bounded. Ids and names have a maximum length. An error type must look like
the name of an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from eagerstream._support.json_values import encodable
from eagerstream._support.redaction import redact_text
from eagerstream._support.terms import CANCELLED_TEXT
from eagerstream.errors import APIError
from eagerstream.tools import CallState, ToolCall, ToolErrorCode

from . import _conventions as names
from ._metrics import Attributes

MAX_CHARS: Final = 256
"""Maximum number of characters of an id, or of the name of a model."""
_MAX_STOP_SEQUENCES: Final = 32
_PORTS: Final = {"http": 80, "https": 443}
_ERROR_NAME: Final = re.compile(r"[\w.<>-]{1,128}")

# Clients of platforms that the conventions have names for. The client's own spans also use "anthropic" for Foundry and
# for the platforms of AWS and Google.
_PROVIDERS: Final = {
    "AsyncAnthropicBedrock": "aws.bedrock",
    "AsyncAnthropicBedrockMantle": "aws.bedrock",
    "AsyncAnthropicVertex": "gcp.vertex_ai",
}


def bounded(text: object) -> str:
    """Return a text as an attribute value: valid UTF-8, at most `MAX_CHARS` characters."""
    cut: str = encodable(str(text)[:MAX_CHARS])
    return cut


def peer_attributes(client: object) -> Attributes:
    """Return the provider, and its address and port if the client has a base URL."""
    classes = (base.__name__ for base in type(client).__mro__)
    provider = next((_PROVIDERS[name] for name in classes if name in _PROVIDERS), "anthropic")
    attributes: Attributes = {names.PROVIDER: provider}
    try:
        url = urlsplit(str(getattr(client, "base_url", "")))
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:  # no URL or no port: the request itself fails on it
        return attributes
    if url.hostname:
        attributes[names.SERVER_ADDRESS] = bounded(url.hostname)
        if port:
            attributes[names.SERVER_PORT] = port
    return attributes


def request_attributes(request: Mapping[str, Any], version: names.Conventions) -> Attributes:
    """Return the settings of a request, without its contents. Values of an unexpected type are omitted."""
    attributes: Attributes = {names.REQUEST_STREAM: True}
    if type(request.get("max_tokens")) is int:
        attributes[names.REQUEST_MAX_TOKENS] = request["max_tokens"]
    for field, name in (
        ("temperature", names.REQUEST_TEMPERATURE),
        ("top_p", names.REQUEST_TOP_P),
        ("top_k", names.REQUEST_TOP_K),
    ):
        if type(request.get(field)) in (int, float):
            attributes[name] = float(request[field])
    stops = request.get("stop_sequences")
    if isinstance(stops, list | tuple) and stops:
        texts = [stop for stop in stops[:_MAX_STOP_SEQUENCES] if isinstance(stop, str)]
        attributes[names.REQUEST_STOP_SEQUENCES] = [redact_text(bounded(text)) for text in texts]
    config = request.get("output_config")
    if isinstance(config, Mapping):
        if isinstance(config.get("format"), Mapping) and config["format"].get("type") == "json_schema":
            attributes[names.OUTPUT_TYPE] = "json"
        if version.reasoning_level and isinstance(config.get("effort"), str):
            attributes[version.reasoning_level] = bounded(config["effort"])
    return attributes


def usage_attributes(usage: object, version: names.Conventions, *, whole: bool = True) -> dict[str, int]:
    """Return the token counts of a response or of a run.

    The count of input tokens includes tokens that were read from the cache or written to it. The API counts these
    apart. Until the response is `whole`, its output counts are placeholders, and are omitted.
    """
    if not isinstance(usage, Mapping):
        return {}
    counts: dict[str, int] = {}
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    uncached = _count(usage, "input_tokens")
    if uncached is not None:
        counts[names.USAGE_INPUT_TOKENS] = uncached + (read or 0) + (written or 0)
    if read is not None:
        counts[names.USAGE_CACHE_READ] = read
    if written is not None:
        counts[version.cache_write] = written
    if whole:
        output = _count(usage, "output_tokens")
        if output is not None:
            counts[names.USAGE_OUTPUT_TOKENS] = output
        details = usage.get("output_tokens_details")
        thought = _count(details, "thinking_tokens") if isinstance(details, Mapping) else None
        if thought is not None:
            counts[names.USAGE_REASONING] = thought
    return counts


def _count(usage: Mapping[str, Any], field: str) -> int | None:
    count = usage.get(field)
    return count if type(count) is int and 0 <= count < 2**63 else None


def error_type(error: BaseException) -> str:
    """Return the name of an error: the API's error type, the HTTP status, or the class."""
    if isinstance(error, APIError):
        if error.error_type and _ERROR_NAME.fullmatch(error.error_type):
            return error.error_type
        if error.status_code is not None and error.status_code >= 400:
            return str(error.status_code)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return _checked(name)


def tool_error_type(call: ToolCall) -> str:
    """Return the name of a call's error: the code of its answer, or the class of the exception that its tool raised.

    `cancelled` means that the tool was cancelled. `withdrawn` means that the call could no longer start when the
    response had ended.
    """
    if call.response is None or call.response.text.startswith(CANCELLED_TEXT):
        return "cancelled"
    if call.state is CallState.WITHDRAWN:
        return "withdrawn"
    code = call.response.code
    if call.error is not None and code in (None, ToolErrorCode.EXECUTION_ERROR):  # too general
        return error_type(call.error)
    return _checked(code or ToolErrorCode.UNKNOWN)


def _checked(name: str) -> str:
    return name if _ERROR_NAME.fullmatch(name) else names.OTHER_ERROR
