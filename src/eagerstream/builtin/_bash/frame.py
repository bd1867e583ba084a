r"""How a command is handed to the shell, and how its end is known: by what only the shell itself can say, at the end.

A frame is one line of script. Bash reads and parses a line as a whole before it runs any of it, so what stands behind
the command is in the shell's memory while the command runs, and nowhere else: in no pipe, variable, argument or file.

    \eval $'...' </dev/null 19>&1 >&19 2>&1 19>&-; (...)

The command runs inside `eval`: with stdout and stderr on the shell's stdout, and redirected in such a way that bash
puts all three back afterwards, whatever the command did to them. The shell's own script and its stderr, which carries
the report, are meanwhile on descriptors that bash closes for the programs that it starts.

Then a subshell tells the report on stderr: a random word, the exit status, the options that are on. And it sets a mark,
another random word, on stdout: the two streams come independently of each other, above all through a container, and
the mark tells where this command's output ends. Neither word stands in a command while a trap or a trace could see it;
only a DEBUG trap under `extdebug` can skip what would remove it. It lies no worse than a function that stands for `ls`.

The subshell is there so that its preparations touch nothing in the session. In POSIX mode a special builtin is found
before a function of the same name; so it does with nothing but these: `printf` and `echo` can be overridden for good.
What prints is therefore `trap -p`. The backslashes keep aliases away.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, NamedTuple

# 19: from 10 on bash keeps what it will put back, and scripts like 3 to 9 and 200; little is left to run in where a
# limit shuts out 19.
_RUN: Final = r"\eval %s </dev/null 19>&1 >&19 2>&1 19>&-"

_REPORT: Final = (
    "(POSIXLY_CORRECT=$?; "  # the exit status, kept by what switches to POSIX mode
    r"\set +vx; \trap - DEBUG ERR; "
    r'\trap "{word} $POSIXLY_CORRECT $SHELLOPTS" EXIT; '
    # The next command must be able to run as this one did: with the real eval, and with its redirections.
    r'\export -f eval && \trap "{word} $POSIXLY_CORRECT unfit" EXIT; '
    rf'({_RUN % ":"}) || \trap "{{word}} $POSIXLY_CORRECT unfit" EXIT; '  # where it fails, it ends its subshell
    r"\trap -p EXIT >&2; "
    r'\trap "{mark}" EXIT; \trap -p EXIT; \trap - EXIT; '
    # So that the next command finds it in $?. Inside a list of commands, it sets off neither an ERR trap nor `set -e`.
    r'\exit "$POSIXLY_CORRECT") && ((1))'
)

_UNFIT: Final = frozenset({"unfit", "history", "histexpand", "onecmd"})
"""A shell that keeps a history would put the frames into it, where the command could read its own; `set -t` ends it."""

_ESCAPES: Final = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r"})


class Report(NamedTuple):
    """What the shell says at the end of a command.

    Attributes:
        exit_status: 0 to 255.
        is_fit: The shell can run another command.
    """

    exit_status: int
    is_fit: bool


class Frame:
    """A command on its way through the shell.

    Args:
        command: Any text without NUL.

    Attributes:
        script: What the shell reads.
        mark: What stands behind the command's output.
    """

    def __init__(self, command: str) -> None:
        word, mark = secrets.token_hex(16), secrets.token_hex(16)
        run = _RUN % f"$'{command.translate(_ESCAPES)}'"
        self.script = f"{run}; {_REPORT.format(word=word, mark=mark)}\n".encode(errors="replace")
        self.mark = f"trap -- '{mark}' EXIT\n".encode()
        self._report = re.compile(rf"'{word} ([0-9]{{1,3}}) ([a-z:-]*)' EXIT\n".encode())

    def report_in(self, control: bytes) -> Report | None:
        """The shell's report in what came on its stderr; None where there is none. Anything may stand around it."""
        found = self._report.search(control)
        if found is None:
            return None
        options = found[2].decode().split(":")
        return Report(int(found[1]), _UNFIT.isdisjoint(options))
