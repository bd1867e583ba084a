"""`is_compiled`: what the process runs, and the way to run the sources in any case."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.tables import rows

from eagerstream_wire import PartialJSON, is_compiled

_SHOW = """
import sys
from eagerstream_wire import PartialJSON, is_compiled
files = {module.__file__ for name, module in sys.modules.items() if name.startswith("eagerstream")}
print(is_compiled(), type(PartialJSON.feed).__name__, all(file.endswith(".py") for file in files))
"""


def test_it_says_what_runs() -> None:
    """A method of a compiled class is none of Python's functions."""
    assert is_compiled() is (type(PartialJSON.feed).__name__ != "function")


@rows("given, is_pure", [("1", True), ("0", False), ("", False)] if is_compiled() else [("1", True)])
def test_the_sources_can_be_run(given: str, *, is_pure: bool) -> None:
    """To look for an error, or to debug: without another installation, and for the process alone."""
    environment = {**os.environ, "EAGERSTREAM_PURE": given}
    done = subprocess.run([sys.executable, "-c", _SHOW], env=environment, capture_output=True, text=True, check=True)
    if is_pure:
        assert done.stdout == "False function True\n"
    else:
        assert done.stdout == "True method_descriptor False\n"
