"""The `eagerstream` command.

Exit codes:

- 0: The command completed. `record -- COMMAND` exits with the status of its command instead.
- 1: The run failed: the API refused a request, or the connection broke.
- 2: The command cannot run as given: a key is missing, a port is in use, or a recording does not parse.
- 130: The user interrupted the command.
"""

from __future__ import annotations

import io
import sys

from .._support.redaction import printable
from ..errors import EagerStreamError, MissingExtraError, UsageError


def main() -> None:
    """Run the console script. If the user can correct an error, print it in one line instead of a traceback."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # print `?` for characters that the output cannot encode
    try:
        _run()
    except BaseException as error:
        cause = error
        while isinstance(cause, BaseExceptionGroup):  # if several tasks fail, report the first error
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
            case SystemExit():  # rich raises it, too, when the reader closes the pipe
                sys.exit(cause.code)
            case _:
                raise


def _say(error: BaseException) -> None:
    # Print one line, even if a server's error text has several.
    print("eagerstream:", " ".join(printable(str(error)).split("\n")), file=sys.stderr)


def _run() -> None:
    try:
        from ._commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        extra = "bench" if sys.argv[1:2] == ["bench"] else "cli"  # the extra `bench` contains it, too
        raise MissingExtraError(extra, error.name or "typer") from error
    app()
