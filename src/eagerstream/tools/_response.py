"""`ToolResponse`: the answer of a tool, with an explicit status that need not be guessed from a text.

Plain return values are wrapped into one, and exceptions are converted to one, so observers of calls read a single form.
The protocol is that of HelloAgents (`ToolResponse`, `ToolStatus`, `ToolErrorCode`), with `reason` and `content` added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from eagerstream_wire._assistant_message import Block

from .._support.error_groups import alone_in, members_of
from .._support.inspecting import without_middle
from ..errors import ToolError
from ..inputs._faults import InputError
from ._content import content_of, is_content_block


class ToolStatus(StrEnum):
    """The way in which a call went. Each member equals its value: `status == "success"`."""

    SUCCESS = "success"
    """As expected."""
    PARTIAL = "partial"
    """Usable, with a reservation: cut, a fallback, a part that failed."""
    ERROR = "error"
    """No usable result."""


class ToolErrorCode:
    """The kinds of errors: fifteen codes, and five more that older programs use."""

    NOT_FOUND: Final = "NOT_FOUND"
    ALREADY_EXISTS: Final = "ALREADY_EXISTS"
    PERMISSION_DENIED: Final = "PERMISSION_DENIED"
    INVALID_PARAM: Final = "INVALID_PARAM"
    INVALID_FORMAT: Final = "INVALID_FORMAT"
    EXECUTION_ERROR: Final = "EXECUTION_ERROR"
    TIMEOUT: Final = "TIMEOUT"
    CONFLICT: Final = "CONFLICT"
    CIRCUIT_OPEN: Final = "CIRCUIT_OPEN"
    RATE_LIMIT: Final = "RATE_LIMIT"
    NETWORK_ERROR: Final = "NETWORK_ERROR"
    SERVICE_UNAVAILABLE: Final = "SERVICE_UNAVAILABLE"
    PARTIAL_SUCCESS: Final = "PARTIAL_SUCCESS"
    DEPRECATED: Final = "DEPRECATED"
    UNKNOWN: Final = "UNKNOWN"

    ACCESS_DENIED: Final = "ACCESS_DENIED"
    IS_DIRECTORY: Final = "IS_DIRECTORY"
    BINARY_FILE: Final = "BINARY_FILE"
    INTERNAL_ERROR: Final = "INTERNAL_ERROR"
    API_ERROR: Final = "API_ERROR"

    UPSTREAM_CODES: Final = ("ACCESS_DENIED", "IS_DIRECTORY", "BINARY_FILE", "INTERNAL_ERROR", "API_ERROR")
    """The five older codes. They are valid, but not among the fifteen."""

    @classmethod
    def get_all_codes(cls) -> list[str]:
        """Return the fifteen codes, and those that a subclass adds."""
        named = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items() if name.isupper()}
        return [name for name, value in named.items() if isinstance(value, str) and name not in cls.UPSTREAM_CODES]

    @classmethod
    def is_valid_code(cls, code: str) -> bool:
        """Return True for one of the fifteen codes or of the five older ones."""
        return code in cls.get_all_codes() or code in cls.UPSTREAM_CODES


@dataclass
class ToolResponse:
    """The answer of a tool. Make one with `success`, `partial` or `error`.

    Attributes:
        status: The way in which the call went.
        text: Text for the model.
        data: The same as structured data, for programs. It is only sent if the tool has `include_data=True`.
        error_info: `{"code": str, "message": str}` of an `ERROR`; None otherwise.
        stats: Figures, for example `{"time_ms": 245, "count": 3}`.
        context: The circumstances of the call.
        reason: The reason for a `PARTIAL` status. The model sees it.
        content: Content blocks (images, documents) that follow the text.

    Raises:
        ValueError: `status` is no `ToolStatus`.
    """

    status: ToolStatus
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    error_info: dict[str, Any] | None = None
    stats: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    reason: str | None = None
    content: list[Block] = field(default_factory=list)

    def __repr__(self) -> str:
        # Without its contents: results do not belong in a log.
        code = f", {self.code!r:.80}" if self.status is ToolStatus.ERROR else ""
        blocks = f", {len(self.content)} blocks" if self.content else ""
        return f"ToolResponse({self.status.value}{code}, {len(self.text)} chars{blocks})"

    def __post_init__(self) -> None:
        self.status = ToolStatus(self.status)
        if self.status is not ToolStatus.ERROR:
            self.error_info = None
        elif not (self.error_info and isinstance(self.error_info, Mapping)):
            self.error_info = {"code": ToolErrorCode.UNKNOWN, "message": self.error_info or self.text}

    @classmethod
    def success(
        cls,
        text: str,
        data: Mapping[str, Any] | None = None,
        stats: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        content: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a response for a call that went as expected."""
        return cls(ToolStatus.SUCCESS, text, **_copies(data, stats, context, content))

    @classmethod
    def partial(
        cls,
        text: str,
        data: Mapping[str, Any] | None = None,
        stats: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        reason: str | None = None,
        *,
        content: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a response for an incomplete result. The model is told so, with the reason."""
        return cls(ToolStatus.PARTIAL, text, reason=reason, **_copies(data, stats, context, content))

    @classmethod
    def error(
        cls,
        code: str,
        message: str,
        stats: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        content: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a response for a call without a result. The model reads `[code] message` in an error result."""
        info = {"code": code, "message": message}
        return cls(ToolStatus.ERROR, message, error_info=info, **_copies(data, stats, context, content))

    @property
    def code(self) -> str | None:
        """The code of an `ERROR`; None for any other status."""
        if self.status is not ToolStatus.ERROR:
            return None
        return str((self.error_info or {}).get("code") or ToolErrorCode.UNKNOWN)

    def to_dict(self) -> dict[str, Any]:
        """Return the response as plain data: `status`, `text` and `data` always, the other fields if not empty."""
        plain: dict[str, Any] = {"status": self.status.value, "text": self.text, "data": self.data}
        optional = {
            "error": self.error_info,
            "stats": self.stats,
            "context": self.context,
            "reason": self.reason,
            "content": self.content,
        }
        return plain | {name: value for name, value in optional.items() if value}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text.

        Raises:
            TypeError, ValueError: A part has no JSON form, or contains itself.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore a response from the data that `to_dict` returned. Missing fields are empty; the status is a success.

        Raises:
            ValueError: The status is no `ToolStatus`.
            TypeError: The data is no mapping.
        """
        return cls(
            ToolStatus(plain.get("status", "success")),
            plain.get("text") or "",
            {**(plain.get("data") or {})},  # not `dict`: of pairs, it would make keys of any type
            plain.get("error") or plain.get("error_info"),
            plain.get("stats"),
            plain.get("context"),
            plain.get("reason"),
            list(plain.get("content") or ()),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Restore a response from the text that `to_json` returned; see `from_dict`.

        Raises:
            ValueError: `text` is no JSON, or its status is no `ToolStatus`.
            TypeError: `text` is no JSON object.
        """
        plain = json.loads(text)
        if not isinstance(plain, dict):
            raise TypeError(f"a ToolResponse is a JSON object, not {type(plain).__name__}")
        return cls.from_dict(plain)


def _copies(
    data: Mapping[str, Any] | None,
    stats: Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
    content: Sequence[Mapping[str, Any]] | Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of a response with these values. A later step drops content that is no block, and says so."""
    listed: Sequence[Any] = [content] if isinstance(content, Mapping | str) else content
    return {
        "data": dict(data or {}),
        "stats": None if stats is None else dict(stats),
        "context": None if context is None else dict(context),
        "content": [dict(block) if isinstance(block, Mapping) else block for block in listed],
    }


def error_code(error: BaseException) -> str:
    """Return the code for an exception; `EXECUTION_ERROR` if nothing more specific is known."""
    error = alone_in(error)
    code = getattr(error, "code", None)
    if isinstance(error, ToolError):
        return error.code or ToolErrorCode.EXECUTION_ERROR
    if isinstance(code, str) and ToolErrorCode.is_valid_code(code):
        return code
    names = {base.__name__ for base in type(error).__mro__}
    told: object = None
    for holder in (error, getattr(error, "response", None)):
        told = told or getattr(holder, "status_code", None)
    if type(error).__name__ == "HTTPError":  # of urllib
        told = told or code
    status = told if type(told) is int else None
    for matches, found in (
        (status == 429, ToolErrorCode.RATE_LIMIT),
        (status is not None and status >= 500, ToolErrorCode.SERVICE_UNAVAILABLE),
        (status == 404, ToolErrorCode.NOT_FOUND),
        (status in (401, 403), ToolErrorCode.PERMISSION_DENIED),
        (isinstance(error, FileNotFoundError), ToolErrorCode.NOT_FOUND),
        (isinstance(error, FileExistsError), ToolErrorCode.ALREADY_EXISTS),
        (isinstance(error, PermissionError), ToolErrorCode.PERMISSION_DENIED),
        # HTTP clients are recognized by class name: httpx and httpx2 may both be installed, or neither.
        (isinstance(error, TimeoutError) or names & _TIMEOUTS, ToolErrorCode.TIMEOUT),
        (isinstance(error, ConnectionError) or names & _NETWORK_ERRORS, ToolErrorCode.NETWORK_ERROR),
        (isinstance(error, InputError), ToolErrorCode.INVALID_PARAM),
        (isinstance(error, json.JSONDecodeError), ToolErrorCode.INVALID_FORMAT),
    ):
        if matches:
            return found
    return ToolErrorCode.EXECUTION_ERROR


_TIMEOUTS: Final = frozenset({"TimeoutException", "APITimeoutError"})
_NETWORK_ERRORS: Final = frozenset({"TransportError", "APIConnectionError", "URLError"})


def response_of(returned: Any) -> ToolResponse:
    """Return a tool's return value as a response: a response unchanged, anything else wrapped as a success.

    Raises:
        TypeError: The value has no JSON form.
    """
    if isinstance(returned, ToolResponse):
        return returned
    content = content_of(returned)
    data = {} if returned is None else {"output": returned}
    if isinstance(content, str):
        return ToolResponse.success(content, data)
    return ToolResponse.success("", data, content=content)


def error_response(error: BaseException) -> ToolResponse:
    """Return a tool's exception as a response; `error_text` is its text."""
    try:
        content: object = getattr(error, "content", None)
        code = error_code(error)
    except Exception:  # an exception may be of any class, and its attributes may run any code
        content, code = None, ToolErrorCode.EXECUTION_ERROR
    # The anthropic package's helpers raise an error with blocks (or a text) for the result, as ours does.
    blocks = content if isinstance(content, list | tuple) and all(map(is_content_block, content)) else ()
    data = error.data if isinstance(error, ToolError) else None
    return ToolResponse.error(code, error_text(error), content=blocks, data=data)


def error_text(error: BaseException) -> str:
    """Return `Class: message` without a traceback; only the class if there is no message. A group gives its members.

    An exception made for the model (`ToolError`, ours or the anthropic package's) keeps its words unchanged. Any other
    message loses tracebacks, files and lines of the program, links to pydantic's pages, and the middle if it is longer
    than 10,000 characters.
    """
    texts = [_text_of(member) for member in members_of(error)]
    if len(texts) > _MAX_MEMBERS:
        texts = [*texts[:_MAX_MEMBERS], f"and {len(texts) - _MAX_MEMBERS} more errors"]
    return texts[0] if len(texts) == 1 else without_middle("; ".join(texts), _MAX_ERROR_CHARS)


_MAX_ERROR_CHARS: Final = 10_000
_MAX_MEMBERS: Final = 20


def _text_of(error: BaseException) -> str:
    try:
        message = str(error)
        if isinstance(error, SyntaxError):  # its text contains the file's name, and the line of code
            line = f" (line {error.lineno})" if error.lineno else ""
            message = f"{error.msg}{line}"
    except Exception:
        message = ""
    if message and type(error).__name__ in ("ToolError", "InputError"):
        return message
    message = without_middle(without_source(message), _MAX_ERROR_CHARS)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# --- parts of the program that the model must not see -----------------------------------------------------------------

_BEGINS_TRACEBACK: Final = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\)")
_FRAME: Final = re.compile(r'[ ]*+File "[^"]*+", line [0-9]++')
_IN_GROUP: Final = re.compile(r"[ ]*+[|+](?:[ ]|[-+|]++(?:[ ][0-9]++[ ]-++)?$)?")
_CHAINS: Final = (
    "",
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_ABOUT: Final = "For further information visit https://errors.pydantic.dev/"
_SOURCE_FILE: Final = re.compile(r"[ ]\((?:/|[A-Za-z]:\\)[^()\n]{1,1000}\.(?:py|pyc|pyd|so)\)")


def without_source(text: str) -> str:
    """Return the message of an exception without the tracebacks it may quote, and without names of source files.

    Of a traceback, only its last line stays, the exception. A text without these parts stays unchanged.
    """
    text = _SOURCE_FILE.sub("", text)
    if _BEGINS_TRACEBACK.search(text) is None and 'File "' not in text and _ABOUT not in text:
        return text
    kept: list[str] = []
    inside = False  # of a traceback, up to the first line that is not indented
    was_inside = False
    in_group = False
    for line in text.splitlines():
        if in_group:
            line = _IN_GROUP.sub("", line, count=1)
        begin = _BEGINS_TRACEBACK.search(line)
        if begin is not None:
            before = line[: begin.start()].strip(" |+-")
            kept += [before] if before else []
            in_group = in_group or begin[0].startswith("Exception")
            inside = was_inside = True
        elif _FRAME.match(line):
            inside = was_inside = True
        elif not (inside and line[:1] in ("", " ", "\t")):
            inside = False
            if _ABOUT not in line and not (was_inside and line.strip() in _CHAINS):
                kept.append(line)
    return "\n".join(kept).strip()
