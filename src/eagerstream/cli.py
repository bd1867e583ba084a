"""The `eagerstream` command.

Exit codes: 0 done, 1 the run failed (the API refused, the connection broke), 2 the command cannot be carried out as
given (a missing key, a port in use, a recording that does not parse), 130 interrupted.
"""

from __future__ import annotations

import sys

from .errors import EagerStreamError, MissingExtraError, UsageError


def main() -> None:
    """The entry point of the console script: one clear line instead of a traceback for what users can mend."""
    try:
        _run()
    except UsageError as error:
        _exit(str(error), 2)
    except EagerStreamError as error:
        _exit(str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    try:
        from .commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        raise MissingExtraError("cli", error.name or "typer") from error
    app()


def _exit(line: str, code: int) -> None:
    print(f"eagerstream: {line}", file=sys.stderr)
    sys.exit(code)
