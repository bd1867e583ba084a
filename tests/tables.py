"""Tables of cases in one test: for pure functions, whose cases are many and cost next to nothing.

A case of `pytest.mark.parametrize` costs about 2 ms, in each process that collects it and in the reports about it. A row
costs what it computes. Use `parametrize` if a case needs fixtures of its own, awaits, or is worth running alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

TestT = TypeVar("TestT", bound=Callable[..., None])


def rows(names: str, values: Iterable[Any]) -> Callable[[TestT], TestT]:
    """Run a test for each row, as one test: `@rows("text, expected", [("a", 1), ("b", 2)])`.

    All rows run. The failures are raised together, each with a note that shows its row. Decorators of this kind can be
    stacked, as those of `parametrize`: then each row of one meets each of the other. Fixtures are shared by all rows.

    Args:
        names: The parameters that a row gives, with commas. One name takes each value as it is.
        values: The rows. They are read when the test runs, so a generator serves one test only.
            An empty table is a failure.
    """
    parameters = [name.strip() for name in names.split(",")]

    def decorate(test: TestT) -> TestT:
        signature = inspect.signature(test)
        missing = [name for name in parameters if name not in signature.parameters]
        assert not missing, f"{test.__name__} has no parameters named {missing}"

        @functools.wraps(test)
        def each(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            count = 0
            for count, value in enumerate(values, 1):
                row = value if len(parameters) > 1 else (value,)
                arguments = dict(zip(parameters, row, strict=True))
                try:
                    test(**arguments, **fixtures)
                except (Exception, pytest.fail.Exception) as failure:  # `pytest.raises` raises the latter
                    failure.add_note(f"row {count}: {_shown(arguments)}")
                    failures.append(failure)
            assert count, "the table has no rows"
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {count} rows", failures)

        others = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        each.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # pytest reads it
        return each  # type: ignore[return-value]  # as pytest calls it

    return decorate


def _shown(arguments: dict[str, Any]) -> str:
    try:
        return repr(arguments)[:2000]
    except Exception as error:  # too deep, too many digits, or the point of the test
        return f"its values cannot be shown ({type(error).__name__})"
