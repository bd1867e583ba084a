"""The `eagerstream` command.

Exit codes:

- 0: The command completed. `record -- COMMAND` exits with the status of its command instead.
- 1: The run failed: the API refused a request, or the connection broke.
- 2: The command cannot run as given: a key is missing, a port is in use, or a recording does not parse.
- 130: The user interrupted the command.
- 143: `runs work` got SIGTERM a second time, and gave the active runs up at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the console script. If the user can correct an error, print it in one line instead of a traceback."""
    try:
        # Imported here, because Ctrl-C may come while Python imports: half of the first half second is imports.
        from ._main import run_app

        run_app()
    except KeyboardInterrupt:
        sys.exit(130)
