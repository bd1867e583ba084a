"""A run that a request begins: nobody consumes its events but those who watch its log."""

from __future__ import annotations

from ..loop import Run
from ._log import RunLog


async def drive(run: Run, log: RunLog) -> None:
    """Run to the end, and close the log: also where the run never began, so that nobody waits for it for ever.

    Cancelled, it leaves the run, which closes everything.

    Raises:
        Exception: What ended the run; where it is an `EagerStreamError`, the records tell of it as well.
    """
    try:
        async with run:
            await run.finish()
    finally:
        log.close()
