"""Cases of a loop in one test: for what awaits, or shares what is dear to make. `tests/tables.py` has rows for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*values: object) -> Iterator[None]:
    """Show the values of a case in the failure of its check."""
    try:
        yield
    except BaseException as failure:  # pytest's own failures are no exceptions
        failure.add_note(f"case: {', '.join(map(repr, values))}"[:2000])
        raise
