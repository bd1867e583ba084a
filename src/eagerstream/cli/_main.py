"""The console script: errors of the commands as lines and exit codes, see the package."""

from __future__ import annotations

import io
import logging
import sys

from .._support.error_groups import members_of
from .._support.redaction import printable
from ..errors import EagerStreamError, MissingExtraError, UsageError


def run_app() -> None:
    """Run the command of this process, and end the process if the command fails.

    Raises:
        KeyboardInterrupt: The user interrupted the command.
        SystemExit: The command ended, or failed: with one of the exit codes of the package.
    """
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # print `?` for characters that the output cannot encode
    # The commands themselves tell how a run ended. Without a handler, Python would print the warning about it, too.
    logging.getLogger("eagerstream.loop").addHandler(logging.NullHandler())
    try:
        _run()
    except BaseException as error:
        match cause := members_of(error)[0]:
            case EagerStreamError():
                _say(cause)
                sys.exit(2 if isinstance(cause, UsageError) else 1)
            case OSError():
                _say(cause)
                sys.exit(1)
            case KeyboardInterrupt():
                raise KeyboardInterrupt from error
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
