"""A journal of runs: each step is on the disk before it matters, so that a run survives the death of its process.

::

    async with Journal("runs.db") as journal:
        async with eagerstream.run(client, ..., journal=journal, run_id="order-17") as run:
            ...

`Journal` keeps runs in one SQLite file, or in a PostgreSQL database for many machines. Others implement
`eagerstream.loop.RunJournal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerstream._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from eagerstream.errors import (
        JournalError as JournalError,
        OwnershipLostError as OwnershipLostError,
        RunExistsError as RunExistsError,
        RunNotFoundError as RunNotFoundError,
        RunOwnedError as RunOwnedError,
    )

    from ._journal import Journal as Journal
    from ._summaries import RunSummary as RunSummary
    from ._view import CallView as CallView, RunView as RunView
    from ._worker import RunApp as RunApp, work as work
else:  # otherwise type checkers would accept any name
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "eagerstream.errors": (
                "JournalError",
                "OwnershipLostError",
                "RunExistsError",
                "RunNotFoundError",
                "RunOwnedError",
            ),
            "._journal": ("Journal",),
            "._summaries": ("RunSummary",),
            "._view": ("CallView", "RunView"),
            "._worker": ("RunApp", "work"),
        },
    )
