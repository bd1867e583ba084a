"""The sandboxes that are attacked, and the table of the docs that says what each of them stops."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

from benchmarks.results import grid
from packages.toolkit.tests._code.attacks import Verdict, sandbox_mark
from tests.source_tree import ROOT

from eagerstream_toolkit import CodeSandbox, MontySandbox, ProcessSandbox

PAGE: Final = ROOT / "docs" / "guides" / "code.md"
TABLE: Final = re.compile(r"(<!-- attacks -->\n)(.*?)(<!-- -->)", re.DOTALL)

_PYTHON: Final = ("/usr/bin/python3", "-I")
"""The system's: other users may not be able to read the one of this environment."""
_CLEAN: Final = ("env", "-i", *(f"{name}={value}" for name, value in sandbox_mark().items()))
"""A wrapper has the environment of the program, and would pass it on."""
_AS_NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
_OTHER_USER: Final = (*_CLEAN, *_AS_NOBODY, *_PYTHON)
_BUBBLEWRAP: Final = (
    *_CLEAN,
    *(_AS_NOBODY if os.geteuid() == 0 else ()),  # root is the owner of the kernel's settings in a container, too
    *("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"),
    *("--tmpfs", "/tmp"),
    *_PYTHON,
)


def _process(argv: tuple[str, ...] | None = None) -> CodeSandbox:
    return ProcessSandbox(argv=argv, env=sandbox_mark(), grace_s=0.5)


SANDBOXES: Final[Mapping[str, Callable[[], CodeSandbox]]] = {
    "process": _process,
    "process of another user": lambda: _process(_OTHER_USER),
    "process in bubblewrap": lambda: _process(_BUBBLEWRAP),
    "Monty": lambda: MontySandbox(grace_s=0.5),
}

_SHOWN: Final = {Verdict.STOPPED: "stopped", Verdict.BOUNDED: "bounded", Verdict.NOT_STOPPED: "**not stopped**"}


@cache
def why_not(sandbox: str) -> str:
    """Return why this machine does not have a sandbox; empty if it does."""
    argv = {"process of another user": _OTHER_USER, "process in bubblewrap": _BUBBLEWRAP}.get(sandbox)
    if argv is None:
        return ""
    tried = subprocess.run([*argv, "-c", "pass"], capture_output=True, check=False)
    return f"{argv[len(_CLEAN)]} cannot start {_PYTHON[0]} here" if tried.returncode else ""


def expected() -> dict[str, dict[str, Verdict]]:
    """Return the table of the docs: attacks, and the verdict for each sandbox."""
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[2].splitlines() if "|" in line]
    verdicts = {shown: verdict for verdict, shown in _SHOWN.items()}
    head, _, *body = rows
    return {name: dict(zip(head[1:], map(verdicts.__getitem__, cells), strict=True)) for name, *cells in body}


def written(verdicts: Iterable[tuple[str, Mapping[str, Verdict]]]) -> str:
    """Return the table."""
    return grid(
        ("attack", *SANDBOXES), [(name, *(_SHOWN[found[each]] for each in SANDBOXES)) for name, found in verdicts]
    )
