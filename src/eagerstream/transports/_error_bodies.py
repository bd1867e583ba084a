"""Bounded reading of error responses. HTTP clients read and unpack them completely, however long they are."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio.lowlevel

from .._support.cancellation import unwind
from .._support.unpacking import TooManyBytesError, Unpacker, UnpackingError
from ._error_responses import MAX_ERROR_BYTES
from ._failures import refusal

_is_bounded: ContextVar[bool] = ContextVar("eagerstream_is_bounded", default=False)


async def read_error(chunks: AsyncIterator[bytes], content_encoding: str) -> bytes:
    """Return the unpacked body of an error response, at most about `MAX_ERROR_BYTES`.

    Unreadable parts are dropped, because the status says enough.

    Args:
        chunks: The raw bytes. This function ends the iteration.
        content_encoding: The value of the response header.
    """
    content = b""
    received = 0
    try:
        unpacker = Unpacker(content_encoding, max_bytes=MAX_ERROR_BYTES, piece_bytes=4_096)
        async for chunk in chunks:
            for piece in unpacker.feed(chunk[: MAX_ERROR_BYTES - received]):
                content += piece
            received += len(chunk)
            if received >= MAX_ERROR_BYTES:
                break
            await anyio.lowlevel.checkpoint_if_cancelled()
    except (TooManyBytesError, UnpackingError):
        pass
    except Exception as error:
        if refusal(error) is error:
            raise
        # The connection was lost: use the bytes that arrived.
    finally:
        await unwind(chunks)
    return content


@contextmanager
def bounded_error_bodies(http_client: Any) -> Iterator[None]:
    """Bound the error bodies of requests that this task sends through an HTTP client inside the block.

    The anthropic package reads error bodies completely. Therefore its HTTP client gets a hook, once, which does nothing
    outside of such a block. If the client has no hooks, nothing is bounded.

    Args:
        http_client: An `AsyncClient` of httpx or httpx2, or anything else.
    """
    hooks = getattr(http_client, "event_hooks", None)
    if isinstance(hooks, dict) and _bound not in hooks.setdefault("response", []):
        hooks["response"].append(_bound)
    token = _is_bounded.set(True)
    try:
        yield
    finally:
        _is_bounded.reset(token)


async def _bound(response: Any) -> None:
    if not _is_bounded.get() or response.status_code < 400 or response.is_stream_consumed:
        return
    library: Any = sys.modules[type(response).__module__.partition(".")[0]]  # httpx or httpx2
    inner = response.stream
    content_encoding = response.headers.pop("content-encoding", "")

    class Bounded(library.AsyncByteStream):  # type: ignore[misc]  # the base is known at run time only
        """The start of the body, unpacked. It is read only on demand."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield await read_error(aiter(inner), content_encoding)

        async def aclose(self) -> None:
            await inner.aclose()

    response.stream = Bounded()
