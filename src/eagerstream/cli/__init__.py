"""The `eagerstream` command.

Exit codes: 0 done, 1 the run failed (the API refused, the connection broke), 2 the command cannot be carried out as
given (a missing key, a port in use, a recording that does not parse), 130 interrupted.
"""

from __future__ import annotations

import io
import sys

from .._support.redaction import printable
from ..errors import EagerStreamError, MissingExtraError, UsageError


def main() -> None:
    """The entry point of the console script: one clear line instead of a traceback for what users can mend."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # a terminal or pipe that knows no ticks shows question marks
    try:
        _run()
    except BaseException as error:
        cause = error
        while isinstance(cause, BaseExceptionGroup):  # where several tasks fail, the first one says why
            cause = cause.exceptions[0]
        match cause:
            case EagerStreamError():
                _say(cause)
                sys.exit(2 if isinstance(cause, UsageError) else 1)
            case OSError():
                _say(cause)
                sys.exit(1)
            case KeyboardInterrupt():
                sys.exit(130)
            case SystemExit():  # also what rich makes of a pipe that was closed
                sys.exit(cause.code)
            case _:
                raise


def _say(error: BaseException) -> None:
    # One line, whatever a server says of its error.
    print("eagerstream:", " ".join(printable(str(error)).split("\n")), file=sys.stderr)


def _run() -> None:
    try:
        from ._commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        extra = "bench" if sys.argv[1:2] == ["bench"] else "cli"  # which is in it
        raise MissingExtraError(extra, error.name or "typer") from error
    app()
