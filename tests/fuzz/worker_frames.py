"""What a worker writes: messages, or a reason why it is ended. Nothing in it runs."""

from __future__ import annotations

import json
import pickle
from typing import Any, Final

import anyio

from eagerstream.errors import ToolError, WorkerLost
from eagerstream.tools import ToolResponse
from eagerstream_durable.workers._crossing import (
    RemoteError,
    error_as_bytes,
    error_from,
    response_as_bytes,
    response_from,
    to_bytes,
    value_from,
)
from eagerstream_durable.workers._frames import HEADER, Failed, FromProcess, Ready, Setup, answer
from eagerstream_durable.workers._messages import Cancelled, Ended, FromWorker, Progress, Refused, Started
from eagerstream_durable.workers._process import ProcessLine, WorkerProcess

from .choices import Choices, pieces
from .cost import check_kept, is_sampled

_MAX_BYTES: Final = 2_000
_SETUP: Final = Setup({}, "asyncio", (), _MAX_BYTES, 1.0)
_RAN: Final[list[str]] = []
_CODE: Final = f"import {__name__} as target; target._RAN.append('a text')"
_MARKED: Final = (
    "tuple",
    "bytes",
    "datetime",
    "date",
    "time",
    "timedelta",
    "Decimal",
    "UUID",
    "dict",
    "eval",
    "set",
    "",
)
_PLAIN: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1.5, "", "text", "\ud800", "2024-01-01", "00:00", "1e999999999", "YWI=", [], [1], {}, "9" * 5000,
    10**400, [_CODE], [["a", 1]], [1, 2, 3], [10**12, 0, 0],
)  # fmt: skip


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return _RAN.append, ("a pickle",)


class _Output:
    """The pipe of a worker; nothing in here waits, so that no event loop is needed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk][::-1]

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._chunks:
            raise anyio.EndOfStream
        return self._chunks.pop()


class _Process:
    def __init__(self, chunks: list[bytes]) -> None:
        self.stdout = _Output(chunks)


def check(data: bytes) -> None:
    """The reader ends in peace, whatever comes; each message is one of the documented ones, and holds only data."""
    choices = Choices(data)
    grammar = choices.below(4)
    seed = Choices(choices.take(6))
    stream = b"".join(_frame(choices) for _ in range(1 + choices.below(20))) if grammar else choices.rest()
    cut = pieces(seed, stream)
    worker, lines = _read(cut)
    assert worker.lost is None or 0 < len(worker.lost) < 11_000
    for line in lines:
        assert len(line._received) <= 20
        said = [_check_message(message) for message in line._received]
        assert said.count("Started") <= 1
        assert all(kind in ("Started", "Progress") for kind in said[:-1])
    assert not _RAN
    again, same = _read([stream])
    assert again.lost == worker.lost
    assert [line._received for line in same] == [line._received for line in lines]
    if is_sampled(data, 300):
        check_kept(lambda: _read(cut), 4 * len(stream) + 40 * _MAX_BYTES)


def _read(chunks: list[bytes]) -> tuple[WorkerProcess, list[ProcessLine]]:
    worker = WorkerProcess(_SETUP, start_timeout_s=1)
    lines = [worker.open(b"") for _ in range(2)]
    reading = worker._read(_Process(chunks), lambda _: None)  # type: ignore[arg-type]
    try:
        reading.send(None)
    except StopIteration:
        return worker, lines
    raise AssertionError("it waits for something")


def _check_message(message: FromWorker) -> str:
    match message:
        case Progress(value):
            _check_data(value_from(value))
        case Refused(text, code, error):
            assert isinstance(text, str)
            assert isinstance(code, str)
            _check_error(error)
        case Ended():
            _check_error(message.error)
            try:
                response = response_from(message.response)
            except (ValueError, TypeError, ArithmeticError, RecursionError):
                return "Ended"
            assert type(response) is ToolResponse
            for part in (response.text, response.data, response.error_info, response.stats, response.content):
                _check_data(part)
        case Started() | Cancelled():
            pass
    return type(message).__name__


def _check_error(data: bytes | None) -> None:
    if data is not None:
        error = error_from(data)
        assert type(error) in (RemoteError, ToolError) or type(error).__module__ == "builtins"
        _check_data(list(error.__notes__) if hasattr(error, "__notes__") else None)


def _check_data(value: Any) -> None:
    """Nothing but what `values` says, however it is nested."""
    pending = [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        assert kind.__module__ in ("builtins", "datetime", "decimal", "uuid"), kind
        assert not callable(item)
        if kind is dict:
            assert all(type(key) is str for key in item)
            pending += item.values()
        elif kind in (list, tuple):
            pending += item


# --- a grammar of frames ----------------------------------------------------------------------------------------------


def _frame(choices: Choices) -> bytes:
    line = choices.pick((0, 1, 1, 1, 2, 3))
    match choices.below(8):
        case 0:
            body = pickle.dumps(_Evil())
        case 1:
            body = json.dumps([choices.pick(("Ended", "Refused", "Ready", "Progress", "x")), _value(choices)]).encode()
            body += choices.pick((b"\n", b"", b"\n\n")) + choices.take(choices.below(9))
        case 2:
            return HEADER.pack(line, choices.pick((0, 1, _MAX_BYTES + 1, 1 << 40, (1 << 64) - 1))) + choices.take(9)
        case 3:
            written = answer(line, _message(choices))
            at = choices.below(min(256, len(written)))
            return written[:at] + choices.take(1) + written[at + 1 :]
        case _:
            return answer(line, _message(choices))
    return HEADER.pack(line, len(body)) + body


def _message(choices: Choices) -> FromProcess:
    match choices.below(10):
        case 0 | 1:
            return Ready()
        case 2:
            return Failed("why" * choices.below(200))
        case 3 | 4:
            return Started()
        case 5 | 6:
            return Progress(_bytes(choices))
        case 7:
            return Refused("no", choices.pick(("CODE", "")), _error(choices))
        case 8:
            return Cancelled(bool(choices.below(2)))
        case _:
            return Ended(_response(choices), bool(choices.below(2)), _error(choices), bool(choices.below(2)), 0.5)


def _response(choices: Choices) -> bytes:
    if choices.below(2):
        return _bytes(choices)
    names = ("status", "text", "data", "error_info", "stats", "context", "reason", "content", "output_is_text")
    plain = {choices.pick(names): _value(choices) for _ in range(choices.below(6))}
    return to_bytes(plain) if choices.below(2) else response_as_bytes(ToolResponse.success("t", plain))


def _error(choices: Choices) -> bytes | None:
    match choices.below(4):
        case 0:
            return None
        case 1:
            return _bytes(choices)
        case 2:
            return error_as_bytes(choices.pick((KeyError("a"), OSError(2, "x", "y"), ToolError("m"), WorkerLost("w"))))
        case _:
            names = ("KeyError", "OSError", "exec", "exec", "SystemExit", "UnicodeDecodeError", "BaseExceptionGroup")
            arguments = [_CODE] if choices.below(3) == 0 else _value(choices)
            plain = {"class": choices.pick(names), "text": "t", "notes": _value(choices), "arguments": arguments}
            if choices.below(3) == 0:
                plain["tool_error"] = _value(choices)
            return json.dumps(plain).encode()


def _bytes(choices: Choices) -> bytes:
    match choices.below(4):
        case 0:
            return choices.take(choices.below(30))
        case 1:
            return pickle.dumps(_Evil())
        case 2:
            return choices.pick((b"[", b'{"a":', b"9")) * choices.room
        case _:
            return json.dumps(_value(choices)).encode()


def _value(choices: Choices, depth: int = 0) -> Any:
    if depth > 5 or not choices.are_left:
        return None
    match choices.below(6):
        case 0:
            return [_value(choices, depth + 1) for _ in range(choices.below(4))]
        case 1:
            return {choices.pick(("a", "value", "$eagerstream")): _value(choices, depth + 1) for _ in range(3)}
        case 2 | 3:
            return {"$eagerstream": choices.pick(_MARKED), "value": _value(choices, depth + 1)}
        case _:
            return choices.pick(_PLAIN)
