"""The `eagerstream` command. It runs the commands of the packages that are installed.

A package registers each of its commands in the group `eagerstream.commands` of entry points: a function that takes
the arguments after the name of the command, and returns the exit code.

Exit codes:

- 0: The command completed. `record -- COMMAND` exits with the status of its command instead.
- 1: The run failed: the API refused a request, or the connection broke.
- 2: The command cannot run as given: a key is missing, a port is in use, or a recording does not parse.
- 130: The user interrupted the command.
- 143: `runs work` got SIGTERM a second time, and gave the active runs up at once.
"""

from __future__ import annotations

import sys

_COMMANDS = {
    "demo": ("progress", "play the main use: a poem streams into a tool's input while other tools run"),
    "watch": ("progress", "show runs on a web page"),
    "types": ("progress", "write TypeScript types of the inputs of tools"),
    "serve": ("testing", "answer as a Messages API on this machine"),
    "record": ("testing", "record the API's responses to a command's requests"),
    "verify": ("testing", "ask whether what the code assumes of the API holds"),
    "bench": ("lab", "measure the time that eager input streaming gains"),
    "runs": ("durable", "list and change the runs of a journal, and continue them"),
}
"""The project's own commands: the extra of `eagerstream` that installs the package of each, and a line for the help."""


def main() -> None:
    """Run the console script. If the user can correct an error, print it in one line instead of a traceback."""
    try:
        # Everything else is imported inside: Ctrl-C may come meanwhile, in half of the first half second.
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run the command with these arguments, and return its exit code.

    Raises:
        KeyboardInterrupt: The user interrupted the command.
        SystemExit: The arguments ask for help, or are wrong.
    """
    import io
    import logging

    from ._support.error_groups import members_of
    from .errors import EagerStreamError, UsageError

    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # print `?` for characters that the output cannot encode
    # The commands themselves tell how a run ended. Without a handler, Python would print the warning about it, too.
    logging.getLogger("eagerstream.loop").addHandler(logging.NullHandler())
    try:
        return _command(arguments)
    except BaseException as error:
        match cause := members_of(error)[0]:
            case EagerStreamError():
                _say(cause)
                return 2 if isinstance(cause, UsageError) else 1
            case OSError():
                _say(cause)
                return 1
            case KeyboardInterrupt():
                raise KeyboardInterrupt from error
            case SystemExit():  # rich raises it, too, when the reader closes the pipe
                raise SystemExit(cause.code) from error
            case _:
                raise


def _say(error: BaseException) -> None:
    from ._support.redaction import printable

    # Print one line, even if a server's error text has several.
    print("eagerstream:", " ".join(printable(str(error)).split("\n")), file=sys.stderr)


def _command(arguments: list[str]) -> int:
    import argparse
    from importlib.metadata import entry_points

    from .errors import MissingExtraError

    installed = {entry.name: entry for entry in entry_points(group="eagerstream.commands")}
    others = {name: ("", "of another package") for name in installed if name not in _COMMANDS}
    lines = [
        f"  {name:<8} {text}" + ("" if name in installed else f" (pip install 'eagerstream[{package}]')")
        for name, (package, text) in {**_COMMANDS, **others}.items()
    ]
    parser = argparse.ArgumentParser(
        "eagerstream",
        description="Watch a tool's input grow, then run the tool.",
        epilog="\n".join(["commands:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version(), help="show the version and exit")
    parser.add_argument("command", metavar="COMMAND", help="one of the list below; `COMMAND --help` describes it")
    # Whatever follows the name belongs to the command, `--` included.
    at = next((at for at, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments))
    name = parser.parse_args(arguments[: at + 1] or ["--help"]).command
    if name not in installed:
        if name in _COMMANDS:
            package, _ = _COMMANDS[name]
            raise MissingExtraError(package, f"eagerstream-{package}")
        parser.error(f"there is no command {name!r:.80}; there are {', '.join([*_COMMANDS, *others])}")
    code: int = installed[name].load()(arguments[at + 1 :])
    return code


def _version() -> str:
    from importlib.metadata import version

    from eagerstream_wire import is_compiled

    return f"eagerstream {version('eagerstream')} ({'compiled' if is_compiled() else 'pure Python'})"
