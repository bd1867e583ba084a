"""`ToolResponse`: what a tool answers, and the code that an exception stands for."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import urllib.error
from email.message import Message
from typing import Any

import httpx
import httpx2
import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import ToolError
from eagerstream.inputs import InputError
from eagerstream.tools import ToolErrorCode, ToolResponse, ToolStatus
from eagerstream.tools._response import error_code
from tests.support import anthropic_http_library
from tests.tables import rows

FIFTEEN = [
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "INVALID_PARAM",
    "INVALID_FORMAT",
    "EXECUTION_ERROR",
    "TIMEOUT",
    "CONFLICT",
    "CIRCUIT_OPEN",
    "RATE_LIMIT",
    "NETWORK_ERROR",
    "SERVICE_UNAVAILABLE",
    "PARTIAL_SUCCESS",
    "DEPRECATED",
    "UNKNOWN",
]
UPSTREAM = ["ACCESS_DENIED", "IS_DIRECTORY", "BINARY_FILE", "INTERNAL_ERROR", "API_ERROR"]

# --- status and codes -------------------------------------------------------------------------------------------------


def test_statuses() -> None:
    """Three of them, each equal to its own text, as programs of the protocol compare them."""
    assert [(status.name, status.value) for status in ToolStatus] == [
        ("SUCCESS", "success"),
        ("PARTIAL", "partial"),
        ("ERROR", "error"),
    ]
    assert json.dumps([*ToolStatus]) == '["success", "partial", "error"]'


def test_codes() -> None:
    """The document's fifteen, in its order; the five of older programs are valid, and not among them."""
    assert ToolErrorCode.get_all_codes() == FIFTEEN
    assert list(ToolErrorCode.UPSTREAM_CODES) == UPSTREAM
    assert [getattr(ToolErrorCode, name) for name in FIFTEEN + UPSTREAM] == FIFTEEN + UPSTREAM
    assert all(ToolErrorCode.is_valid_code(code) for code in FIFTEEN + UPSTREAM)
    for code in ("INVALID_CODE", "", "not_found", "UPSTREAM_CODES", "get_all_codes"):
        assert not ToolErrorCode.is_valid_code(code)


def test_codes_of_a_program_s_own() -> None:
    """A program that adds codes in a class of its own still has the fifteen."""

    class Codes(ToolErrorCode):
        QUOTA_EXCEEDED = "QUOTA_EXCEEDED"

    assert set(Codes.get_all_codes()) == {*FIFTEEN, "QUOTA_EXCEEDED"}
    assert Codes.is_valid_code("NOT_FOUND")


# --- responses --------------------------------------------------------------------------------------------------------


def test_fields() -> None:
    """The protocol's six fields come first and in its order, so that positional construction means the same."""
    names = [field.name for field in dataclasses.fields(ToolResponse)]
    assert names[:6] == ["status", "text", "data", "error_info", "stats", "context"]
    assert names[6:] == ["reason", "content"]
    made = ToolResponse(ToolStatus.SUCCESS, "t", {"a": 1}, None, {"time_ms": 2}, {"cwd": "/"}, "r")
    assert (made.text, made.data, made.error_info) == ("t", {"a": 1}, None)
    assert (made.stats, made.context, made.reason) == ({"time_ms": 2}, {"cwd": "/"}, "r")


def test_defaults_are_each_response_s_own() -> None:
    """What one response is given does not turn up in the next."""
    first, second = ToolResponse(ToolStatus.SUCCESS, "a"), ToolResponse(ToolStatus.SUCCESS, "b")
    first.data["x"] = 1
    first.content.append({"type": "text", "text": "x"})
    assert (second.data, second.content) == ({}, [])


def test_success() -> None:
    """Golden: with figures, kept as they are."""
    made = ToolResponse.success("3 files", {"files": ["a"]}, {"time_ms": 245, "count": 3}, {"cwd": "/"})
    assert made.status == "success"
    assert made.to_dict() == {
        "status": "success",
        "text": "3 files",
        "data": {"files": ["a"]},
        "stats": {"time_ms": 245, "count": 3},
        "context": {"cwd": "/"},
    }
    assert ToolResponse.success("ok").to_dict() == {"status": "success", "text": "ok", "data": {}}


def test_partial() -> None:
    """Golden: the reason is there where one was given, and only there."""
    made = ToolResponse.partial("100 rows", {"rows": 100}, reason="结果过多,已截断")
    assert made.to_dict() == {
        "status": "partial",
        "text": "100 rows",
        "data": {"rows": 100},
        "reason": "结果过多,已截断",
    }
    bare = ToolResponse.partial("some")
    assert (bare.reason, bare.error_info, bare.code) == (None, None, None)
    assert "reason" not in bare.to_dict()


def test_error() -> None:
    """Golden: the document's two examples; text and message are the same, `error` is the key."""
    made = ToolResponse.error(code=ToolErrorCode.NOT_FOUND, message="文件 'config.py' 不存在")
    assert made.to_dict() == {
        "status": "error",
        "text": "文件 'config.py' 不存在",
        "data": {},
        "error": {"code": "NOT_FOUND", "message": "文件 'config.py' 不存在"},
    }
    made = ToolResponse.error(
        ToolErrorCode.INVALID_PARAM, "参数 'path' 不能为空", {"time_ms": 1}, {"path": ""}, data={"a": 1}
    )
    assert (made.code, made.text) == ("INVALID_PARAM", "参数 'path' 不能为空")
    assert (made.stats, made.context, made.data) == ({"time_ms": 1}, {"path": ""}, {"a": 1})


def test_only_an_error_has_an_error_info() -> None:
    """It has a code and a message, however it was made, and an empty `error_info` is a missing one."""
    for made in (ToolResponse(ToolStatus.ERROR, "boom"), ToolResponse(ToolStatus.ERROR, "boom", error_info={})):
        assert made.error_info == {"code": "UNKNOWN", "message": "boom"}
    told: Any = "what went wrong"
    for error, message in (({}, "boom"), (told, told)):
        response = ToolResponse.from_dict({"status": "error", "text": "boom", "error": error})
        assert (response.code, response.error_info) == ("UNKNOWN", {"code": "UNKNOWN", "message": message})
    plain = {"status": "success", "text": "fine", "error": {"code": "TIMEOUT", "message": "the first try"}}
    for other in (ToolResponse.from_dict(plain), ToolResponse(ToolStatus.PARTIAL, "some", error_info={"code": "X"})):
        assert (other.code, other.error_info) == (None, None)


def test_status_as_text() -> None:
    """A status may be given as its text, as it comes out of JSON; another text is refused."""
    assert ToolResponse("partial", "x").status is ToolStatus.PARTIAL  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="maybe"):
        ToolResponse("maybe", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="maybe"):
        ToolResponse.from_dict({"status": "maybe"})


def test_constructors_copy() -> None:
    """What a tool goes on writing into its own dict does not change what it has answered."""
    data, stats, context = {"a": 1}, {"n": 1}, {"c": 1}
    content = [{"type": "text", "text": "a"}]
    made = ToolResponse.success("x", data, stats, context, content=content)
    data["a"] = stats["n"] = context["c"] = 2
    content[0]["text"] = "b"
    assert (made.data, made.stats, made.context) == ({"a": 1}, {"n": 1}, {"c": 1})
    assert made.content == [{"type": "text", "text": "a"}]


@rows("plain", [{}, {"text": None}, {"data": None}, {"data": None, "error": None, "stats": None, "content": None}])
def test_from_little(plain: dict[str, Any]) -> None:
    """Whatever is missing is empty, and a missing status is a success."""
    assert ToolResponse.from_dict(plain) == ToolResponse(ToolStatus.SUCCESS, "")


def test_from_either_name_of_the_error() -> None:
    """`error` is what `to_dict` writes, `error_info` what the field is called: both are read; any code goes."""
    info = {"code": "TEST_ERROR", "message": "m"}
    for key in ("error", "error_info"):
        assert ToolResponse.from_dict({"status": "error", "text": "m", key: info}).code == "TEST_ERROR"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)
_OBJECT = st.dictionaries(st.text(max_size=5), _JSON, max_size=3)
_SOME = st.none() | _OBJECT.filter(bool)
_RESPONSES = st.one_of(
    st.builds(ToolResponse.success, st.text(), _OBJECT, _SOME, _SOME),
    st.builds(ToolResponse.partial, st.text(), _OBJECT, _SOME, _SOME, st.none() | st.text(min_size=1)),
    st.builds(ToolResponse.error, st.sampled_from(FIFTEEN) | st.text(), st.text(), _SOME, _SOME, data=_OBJECT),
    st.builds(
        lambda text, note: ToolResponse.success("", content=[{"type": "text", "text": text, **note}]),
        st.text(),
        _OBJECT,
    ),
)


def test_shown() -> None:
    """A response tells how it went and how much it says, and never what."""
    assert repr(ToolResponse.success("done", {"a": 1})) == "ToolResponse(success, 4 chars)"
    assert repr(ToolResponse.error("NOT_FOUND", "no file a.txt")) == "ToolResponse(error, 'NOT_FOUND', 13 chars)"
    assert repr(ToolResponse.success("", content=[{"type": "text"}])) == "ToolResponse(success, 0 chars, 1 blocks)"


@given(made=_RESPONSES)
def test_round_trip(made: ToolResponse) -> None:
    """A response that is written down and read again is the same, as plain data and as JSON."""
    assert ToolResponse.from_dict(made.to_dict()) == made
    assert ToolResponse.from_json(made.to_json()) == made
    assert (made.error_info is not None) == (made.status is ToolStatus.ERROR)


def test_json() -> None:
    """Golden: letters as they are, indented by two."""
    assert ToolResponse.success("ä", {"n": 1}).to_json() == (
        '{\n  "status": "success",\n  "text": "ä",\n  "data": {\n    "n": 1\n  }\n}'
    )
    with pytest.raises(TypeError):
        ToolResponse.success("x", {"n": object()}).to_json()
    for text in ("", "{", '{"status": "odd"}'):
        with pytest.raises(ValueError):
            ToolResponse.from_json(text)
    with pytest.raises(TypeError, match="not list"):
        ToolResponse.from_json("[]")


# --- exceptions -------------------------------------------------------------------------------------------------------


class _Coded(Exception):
    def __init__(self, code: object) -> None:
        self.code = code


class _Status(Exception):
    def __init__(self, status_code: object) -> None:
        self.status_code = status_code


@rows(
    "error, code",
    [
        (FileNotFoundError("a"), "NOT_FOUND"),
        (FileExistsError("a"), "ALREADY_EXISTS"),
        (PermissionError("a"), "PERMISSION_DENIED"),
        (TimeoutError("a"), "TIMEOUT"),
        (TimeoutError(), "TIMEOUT"),
        (ConnectionError("a"), "NETWORK_ERROR"),
        (ConnectionRefusedError("a"), "NETWORK_ERROR"),
        (BrokenPipeError("a"), "NETWORK_ERROR"),
        (InputError("a"), "INVALID_PARAM"),
        (json.JSONDecodeError("a", "", 0), "INVALID_FORMAT"),
        (ValueError("a"), "EXECUTION_ERROR"),
        (TypeError("a"), "EXECUTION_ERROR"),
        (KeyError("a"), "EXECUTION_ERROR"),
        (OSError("a"), "EXECUTION_ERROR"),
        (asyncio.CancelledError(), "EXECUTION_ERROR"),
        (ToolError("a"), "EXECUTION_ERROR"),
        (ToolError("a", code="CONFLICT"), "CONFLICT"),
        (ToolError("a", code="OF_MY_OWN"), "OF_MY_OWN"),
        (ToolError.rate_limited(60), "RATE_LIMIT"),
        (_Coded("CIRCUIT_OPEN"), "CIRCUIT_OPEN"),
        (_Coded("BINARY_FILE"), "BINARY_FILE"),
        (_Coded("ENOENT"), "EXECUTION_ERROR"),
        (_Coded(404), "EXECUTION_ERROR"),
        (_Coded(["NOT_FOUND"]), "EXECUTION_ERROR"),
        (_Status(429), "RATE_LIMIT"),
        (_Status(True), "EXECUTION_ERROR"),
        (_Status("500"), "EXECUTION_ERROR"),
    ],
)
def test_codes_of_exceptions(error: BaseException, code: str) -> None:
    """What went wrong is told by its kind, so that a watcher need not read texts."""
    assert error_code(error) == code


_STATUSES = {
    400: "EXECUTION_ERROR",
    401: "PERMISSION_DENIED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    418: "EXECUTION_ERROR",
    429: "RATE_LIMIT",
    500: "SERVICE_UNAVAILABLE",
    503: "SERVICE_UNAVAILABLE",
    529: "SERVICE_UNAVAILABLE",
}


@rows("library", [httpx, httpx2])
@rows("status, code", _STATUSES.items())
def test_codes_of_http_statuses(library: Any, status: int, code: str) -> None:
    """The real exceptions of both HTTP libraries."""
    response = library.Response(status, request=library.Request("GET", "http://local/"))
    with pytest.raises(library.HTTPStatusError) as caught:
        response.raise_for_status()
    assert error_code(caught.value) == code


@rows("library", [httpx, httpx2])
@rows(
    "name, code",
    [
        ("ConnectError", "NETWORK_ERROR"),
        ("ReadError", "NETWORK_ERROR"),
        ("RemoteProtocolError", "NETWORK_ERROR"),
        ("ConnectTimeout", "TIMEOUT"),
        ("ReadTimeout", "TIMEOUT"),
        ("PoolTimeout", "TIMEOUT"),
    ],
)
def test_codes_of_http_transports(library: Any, name: str, code: str) -> None:
    """A timeout is a transport error of these clients as well: the closer word counts."""
    assert error_code(getattr(library, name)("no route")) == code


def test_codes_of_the_anthropic_package_s_status_errors() -> None:
    """A tool may well ask a model itself."""
    import anthropic

    library = anthropic_http_library()
    response = library.Response(429, request=library.Request("POST", "http://local/"))
    assert error_code(anthropic.RateLimitError("slow down", response=response, body=None)) == "RATE_LIMIT"


@rows("status, code", [(404, "NOT_FOUND"), (429, "RATE_LIMIT"), (503, "SERVICE_UNAVAILABLE")])
def test_codes_of_the_standard_library_s_http_errors(status: int, code: str) -> None:
    """A `def` tool that uses urllib fails in the same ways."""
    with urllib.error.HTTPError("http://local/", status, "no", Message(), None) as error:
        assert error_code(error) == code


def test_the_code_of_a_group() -> None:
    """A tool with a task group fails with a group: one member, or several of a kind, say what kind of failure it is."""
    assert error_code(ExceptionGroup("unhandled errors in a TaskGroup", [TimeoutError("slow")])) == "TIMEOUT"


def test_data_that_is_no_mapping() -> None:
    """Pairs are none: a worker could choose keys of numbers whose hash table takes quadratic time."""
    with pytest.raises(TypeError):
        ToolResponse.from_dict({"data": [[-1, "a"]]})
