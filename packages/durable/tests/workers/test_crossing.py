"""What a worker writes is data to the program, and never runs there."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.durable.tests.workers import evil, tools
from packages.durable.tests.workers.calls import a_call, answered, content
from pydantic import BaseModel
from tests.tables import rows

from eagerstream.errors import ToolError
from eagerstream.tools import ToolFailure, ToolResponse
from eagerstream_durable.workers import ProcessExecutor, ProcessPool
from eagerstream_durable.workers._crossing import (
    RemoteError,
    error_as_bytes,
    error_from,
    from_bytes,
    response_as_bytes,
    response_from,
    to_bytes,
    value_from,
)
from eagerstream_durable.workers._frames import HEADER, Failed, FromProcess, NoMessageError, Ready, answer, answer_from
from eagerstream_durable.workers._messages import Cancelled, Ended, Progress, Refused, Started
from eagerstream_durable.workers._process import ProcessLine
from eagerstream_wire._block_rules import text_block

# --- values -----------------------------------------------------------------------------------------------------------

_LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(st.characters()), st.binary()),
    st.datetimes().map(lambda each: each.replace(fold=0)),
    st.times().map(lambda each: each.replace(fold=0)),
    *(st.dates(), st.timedeltas(), st.decimals(allow_nan=False), st.uuids()),
)
_KEYS = st.one_of(st.text(st.characters(), max_size=9), st.sampled_from(["$eagerstream", "value"]))
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(_KEYS, inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_values_come_back(value: Any) -> None:
    """With their types, whatever is in them: also what looks like a mark."""
    found = from_bytes(to_bytes(value))
    assert (found, repr(found)) == (value, repr(value))


@dataclass
class _Point:
    x: int
    raw: bytes = b"ab"


class _Model(BaseModel):
    name: str


class _Colour(Enum):
    RED = "red"


class _NoText:
    def __repr__(self) -> str:
        raise ValueError("no")


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


@rows(
    "value, found",
    [
        ({1}, [1]),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({"p": _Point(1), "t": (1,)}, {"p": {"x": 1, "raw": "ab"}, "t": (1,)}),
        ([_Model(name="n"), _Colour.RED], [{"name": "n"}, "red"]),
        (datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)),
        (_NoText(), "<_NoText>"),
        (_CYCLE, "<list>"),
        (math.inf, math.inf),
    ],
)
def test_other_values(value: Any, found: Any) -> None:
    """They come in their JSON form, or as a text; none of them does harm."""
    assert value_from(to_bytes(value)) == found


@rows(
    "text",
    [
        '{"$eagerstream": "eval", "value": "1"}',
        '{"$eagerstream": ["tuple"], "value": []}',
        '{"$eagerstream": "tuple", "value": "abc"}',
        '{"$eagerstream": "tuple"}',
        '{"$eagerstream": "tuple", "value": [], "more": 1}',
        '{"$eagerstream": "dict", "value": [[1, 2]]}',
        '{"$eagerstream": "timedelta", "value": [1e9]}',
        '{"$eagerstream": "timedelta", "value": [999999999999]}',
        '{"$eagerstream": "Decimal", "value": "x"}',
        '{"$eagerstream": "bytes", "value": "x"}',
        '{"$eagerstream": "UUID", "value": 5}',
        "[" * 100_000,
        "9" * 10_000,
        "",
    ],
)
def test_values_that_are_none(text: str) -> None:
    """A text that says so stands for them."""
    assert str(value_from(text.encode())).startswith("<a value that cannot be read here: ")


# --- responses and exceptions -----------------------------------------------------------------------------------------


def test_a_response() -> None:
    """All of its parts come, a text that is also its data only once."""
    full = ToolResponse.partial(
        "t", {"a": (1, b"x")}, {"n": 1}, {"c": date(2024, 1, 1)}, "why", content=[text_block("b")]
    )
    for response in (full, ToolResponse.error("CONFLICT", "no"), ToolResponse.success("x" * 99, {"output": "x" * 99})):
        assert response_from(response_as_bytes(response)) == response
    assert response_as_bytes(ToolResponse.success("x" * 99, {"output": "x" * 99})).count(b"x" * 99) == 1


@rows("data", [b"", b"[]", b'{"status": "great"}', b'{"data": 5}', b'{"data": [1]}', pickle.dumps(1)])
def test_responses_that_are_none(data: bytes) -> None:
    """They raise, and the model is told that the result cannot be read."""
    with pytest.raises((ValueError, TypeError)):
        response_from(data)


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


@rows(
    "error",
    [
        FileNotFoundError(2, "No such file", "name"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        KeyError(("a", 1)),
        SystemExit(3),
        ToolError("message", hint="hint", code="RATE_LIMIT", content=[text_block("more")]),
    ],
)
def test_exceptions_that_come_back(error: BaseException) -> None:
    """Python's own, and that of tools, with what they hold, their notes, and the traceback in the worker."""
    error.add_note("a note")
    found = error_from(error_as_bytes(_raised(error)))
    assert (type(found), str(found), found.args) == (type(error), str(error), error.args)
    assert vars(found).keys() >= vars(error).keys()
    assert found.__notes__[0] == "a note"
    assert "in _raised" in found.__notes__[1]


def test_other_exceptions() -> None:
    """They come as a `RemoteError`, which has their class and what the model is told."""
    found = error_from(error_as_bytes(_raised(tools.NeedsTwo("a", "b"))))
    assert isinstance(found, RemoteError)
    assert (found.class_name, found.text) == ("NeedsTwo", "NeedsTwo: a and b")


@rows(
    "plain",
    [
        {"class": "exec", "text": "1", "notes": [], "arguments": ["import os; os.environ['RAN'] = '1'"]},
        {"class": "ExceptionGroup", "text": "1", "notes": [], "arguments": ["1/0", [1]]},
        {"class": "object", "text": "1", "notes": [], "arguments": []},
        {"class": "OSError", "text": "1", "notes": [], "arguments": 5},
        {"class": "X", "text": "1", "notes": [], "tool_error": [1]},
        {"class": ["OSError"], "text": "1", "notes": []},
        {"class": "X", "text": "1", "notes": 5},
        {"class": "X", "text": "1", "notes": [5]},
        {},
        [],
    ],
)
def test_exceptions_that_are_none(plain: Any) -> None:
    """A `RemoteError` stands for them: no class but Python's exceptions is ever called."""
    assert type(error_from(json.dumps(plain).encode())) is RemoteError
    assert "RAN" not in os.environ


# --- messages ---------------------------------------------------------------------------------------------------------

_MESSAGES: list[FromProcess] = [
    Ready(),
    Failed("why \ud800\n"),
    Started(),
    Progress(b"\n\xff"),
    Refused("no \ud800\n", "CODE", b"error"),
    Refused("no", "CODE"),
    Ended(b"response\n", raised=True, error=b"error\n", include_data=True, blocked_s=0.5),
    Ended(b""),
    Cancelled(at_work=True),
]


@rows("message", _MESSAGES)
def test_messages_come_back(message: FromProcess) -> None:
    """Each as it was."""
    written = answer(7, message)
    assert HEADER.unpack(written[: HEADER.size]) == (7, len(written) - HEADER.size)
    assert answer_from(written[HEADER.size :]) == message


@rows(
    "body",
    [
        b"",
        b"\n",
        b'["Ready"]',
        b'["Ready"]\nmore',
        b'["Setup"]\n',
        b'"Ready"\n',
        b'["Ended", true, true, 0.0]\n',
        b'["Ended", true, true, NaN, 0]\n',
        b'["Ended", true, true, -1.0, 0]\n',
        b'["Ended", true, true, 0.0, 1]\n',
        b'["Ended", true, true, 0.0, -1]\n',
        b'["Refused", 5, 0]\n',
        b'["Refused", "", 0]\n\xff',
        b'["Cancelled", 1]\n',
        b" " * 5_000 + b'["Ready"]\n',
        b"[" * 4_000 + b"\n",
        b"\xff\n",
        pickle.dumps(Ready()),
    ],
)
def test_bodies_that_are_no_messages(body: bytes) -> None:
    """They raise one error, whatever is wrong."""
    with pytest.raises(NoMessageError):
        answer_from(body)


class _Owner:
    was_ended = False


def test_no_more_waits_than_a_call_needs() -> None:
    """A worker that says more than it can have to say is found out; values of progress replace one another."""
    line = ProcessLine(_Owner(), 1, b"", max_message_bytes=99)  # type: ignore[arg-type]
    assert line.put(Started())
    assert not line.put(Started())
    assert all(line.put(Progress(b"%d" % number)) for number in range(1000))
    assert line.put(Ended(b""))
    assert not line.put(Ended(b""))
    assert not line.put(Progress(b""))
    assert len(line._received) <= 20


# --- a worker that wants to get out -----------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_runs_here(tmp_path: Path) -> None:
    """Neither objects in results, progress and exceptions nor a pickle between the messages run what is in them."""
    hostile: list[tuple[Any, Callable[[str], bool]]] = [
        (evil.evil_data, lambda told: told == "done"),
        (evil.evil_error, lambda told: told.startswith("EvilError")),
        (evil.evil_frame, lambda told: "it sent what is no message" in told),
    ]
    async with ProcessPool(1, preload=["packages.durable.tests.workers.evil"]) as pool:
        executor = ProcessExecutor([tool for tool, _ in hostile], pool=pool)
        for tool, is_told in hostile:
            call = await answered(executor, a_call(tool.name, log=str(tmp_path / "log")))
            assert is_told(content(call)), content(call)
    ran_in = (tmp_path / "log").read_text().split() if (tmp_path / "log").exists() else []
    assert str(os.getpid()) not in ran_in


class _ApplicationError(ToolError):
    """A class that the other process may not have."""


@rows("error", [KeyError("secret"), _ApplicationError("words"), ToolError("words"), ExceptionGroup("", [OSError(5)])])
def test_a_failure_is_what_it_was_there(error: Exception) -> None:
    """The class of the exception may not exist here."""
    original = _raised(error)
    assert ToolFailure.of("t", error_from(error_as_bytes(original))) == ToolFailure.of("t", original)
