"""Drive one target by coverage: `python -m tests.fuzz.with_atheris TARGET FOLDER [LIBFUZZER OPTION...]`.

A process of its own, because libFuzzer ends the process that it runs in. Its figures go to stderr, in its own words.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

from .slowest import timed

target, folder = sys.argv[1:3]
# What is imported anywhere else before this is not instrumented: coverage would not see it.
with atheris.instrument_imports(include=["eagerstream"]):
    from .targets import check_of

    check = check_of(target)

atheris.Setup([sys.argv[0], *sys.argv[3:]], timed(check, Path(folder)))
atheris.Fuzz()
