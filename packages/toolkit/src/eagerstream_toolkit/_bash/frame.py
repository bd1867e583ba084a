r"""Frames for commands: the script line that runs a command in the shell, and the report that marks its end.

A frame is one line of script. Bash parses a complete line before it runs any of it. While the command runs, the rest of
the line is only in the shell's memory. It is in no pipe, variable, argument or file, so the command cannot read or
forge it.

    \eval $'...' </dev/null 19>&1 >&19 2>&1 19>&-; (...)

The command runs inside `eval`. The redirections send stdout and stderr to the shell's stdout, and bash restores all
three streams afterwards, whatever the command did to them. The shell's script, and its stderr, which carries the
report, are on descriptors that bash closes for the programs that it starts.

Then a subshell prints the report on stderr: a random word, the exit status, and the options that are on. It also prints
a mark, another random word, on stdout. The two streams arrive independently, above all through a container. The mark
shows the end of this command's output. Neither word is in a command while a trap or a trace could see it. One exception
remains: a DEBUG trap under `extdebug` can skip the commands that remove the traps. It gains no more than a function
that replaces `ls`.

The subshell keeps these preparations out of the session. In POSIX mode, bash looks up special builtins before functions
of the same name, so the subshell uses only special builtins. `printf` and `echo` can be overridden permanently, so
`trap -p` prints the words. The backslashes disable aliases.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, NamedTuple

# Descriptor 19: from 10 on bash stores streams to restore, and scripts use descriptors like 3 to 9 and 200.
# If a limit on open files excludes 19, few commands could run anyway.
_RUN: Final = r"\eval %s </dev/null 19>&1 >&19 2>&1 19>&-"

_REPORT: Final = (
    "(POSIXLY_CORRECT=$?; "  # the exit status, saved by the assignment that also switches to POSIX mode
    r"\set +vx; \trap - DEBUG ERR; "
    r'\trap "{word} $POSIXLY_CORRECT $SHELLOPTS" EXIT; '
    # Check that the next command could run like this one: with the real eval and its redirections.
    r'\export -f eval && \trap "{word} $POSIXLY_CORRECT unfit" EXIT; '
    rf'({_RUN % ":"}) || \trap "{{word}} $POSIXLY_CORRECT unfit" EXIT; '  # a failure ends its subshell
    r"\trap -p EXIT >&2; "
    r'\trap "{mark}" EXIT; \trap -p EXIT; \trap - EXIT; '
    # Gives the next command this status in $?. In a list of commands it triggers neither an ERR trap nor `set -e`.
    r'\exit "$POSIXLY_CORRECT") && ((1))'
)

_UNFIT: Final = frozenset({"unfit", "history", "histexpand", "onecmd"})
"""Options that make a shell unusable: a history shows commands their own frames, and `set -t` ends the shell."""

_ESCAPES: Final = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r"})


class Report(NamedTuple):
    """The shell's report at the end of a command.

    Attributes:
        exit_status: 0 to 255.
        is_fit: True if the shell can run another command.
    """

    exit_status: int
    is_fit: bool


class Frame:
    """A command in the form that the shell reads.

    Args:
        command: Any text without NUL.

    Attributes:
        script: The bytes for the shell's stdin.
        mark: The bytes that end the command's output.
    """

    def __init__(self, command: str) -> None:
        word, mark = secrets.token_hex(16), secrets.token_hex(16)
        run = _RUN % f"$'{command.translate(_ESCAPES)}'"
        self.script = f"{run}; {_REPORT.format(word=word, mark=mark)}\n".encode(errors="replace")
        self.mark = f"trap -- '{mark}' EXIT\n".encode()
        self._report = re.compile(rf"'{word} ([0-9]{{1,3}}) ([a-z:-]*)' EXIT\n".encode())

    def report_in(self, control: bytes) -> Report | None:
        """Find the shell's report in its stderr. Other bytes may surround it. Return `None` if it is missing."""
        found = self._report.search(control)
        if found is None:
            return None
        options = found[2].decode().split(":")
        return Report(int(found[1]), _UNFIT.isdisjoint(options))
