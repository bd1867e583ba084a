"""The environment of the shell: without the API's keys, and without what makes a shell behave in ways of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "HISTFILE": "/dev/null"}
"""Nobody sits at a terminal: no colours, nothing that waits for a key, no history."""

_DISTURBING: Final = frozenset(
    {
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"),  # code that the shell would run
        *("SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_COMPAT", "BASH_XTRACEFD"),  # other rules, and traces
        *("CDPATH", "GLOBIGNORE", "TIMEFORMAT", "TMOUT"),
    }
)
_OF_THE_API: Final = "ANTHROPIC_"
_EXPORTED_FUNCTION: Final = "BASH_FUNC_"
_BEGINS_KEY: Final = "sk-ant-"


def shell_environment(inherited: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """What the shell is started with; `extra` counts more than what is inherited.

    Left out, from both: everything named `ANTHROPIC_*`; whatever holds a key of the API (`sk-ant-...`) under any name;
    exported functions; and variables that switch bash to other rules or have it run code. Other secrets are not known
    as such: what the shell must not see should not be in the environment of the program. Nor does this hide what is
    there: see `Bash` for `/proc/$PPID/environ`.
    """
    merged = {**inherited, **_QUIET, **extra}
    return {name: value for name, value in merged.items() if not _is_left_out(name, value)}


def _is_left_out(name: str, value: str) -> bool:
    return (
        name.upper().startswith(_OF_THE_API)
        or name.startswith(_EXPORTED_FUNCTION)
        or name in _DISTURBING
        or _BEGINS_KEY in value
    )
