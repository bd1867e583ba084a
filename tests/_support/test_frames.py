"""The places that an exception has passed: the user's, and the library's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from eagerstream._support.frames import is_all_ours, places
from eagerstream.errors import UsageError
from eagerstream_wire._checks import check_count


def _ours() -> UsageError:
    """An error that only the library has seen: the frame of the test is cut off."""
    with pytest.raises(UsageError) as raised:
        check_count("n", 0)
    error = raised.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


def test_an_error_of_the_library() -> None:
    """Its own places are shown, as there are no others."""
    error = _ours()
    assert is_all_ours(error)
    assert "/eagerstream_wire/" in places(error)[-1]


@pytest.mark.anyio
async def test_an_error_that_came_through_the_user_s_code() -> None:
    """Then that is what counts, wherever it began."""

    async def of_the_user() -> None:
        check_count("n", 0)

    with pytest.raises(UsageError) as raised:
        await of_the_user()
    assert not is_all_ours(raised.value)
    assert [place.rpartition(".")[2] for place in places(raised.value)][-1] == "of_the_user"


def test_without_places() -> None:
    """An exception that was never raised."""
    assert is_all_ours(KeyError())
    assert places(KeyError()) == []


def test_what_the_library_runs_in() -> None:
    """Context managers of the standard library, and anyio: their frames between ours are no user's."""

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        yield

    with pytest.raises(UsageError) as raised, around():
        check_count("n", 0)
    error = raised.value
    while error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_filename == __file__:
        error.__traceback__ = error.__traceback__.tb_next
    assert is_all_ours(error)
