"""Compare the README's sentence about the size of an installation with an environment: `.ci/installed` does it.

`python -m tests.docs.install_size <venv>` fails if the sentence is off by more than a fifth; `--write` corrects it. In the
environment is only what `pip install eagerstream` brings, with its byte code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

README: Final = Path(__file__).parents[2] / "README.md"
_ROW: Final = re.compile(r"\| install size \| (\d+) MB in (\d+) packages, [^|]* (\d+) MB of it \|")
_BLOCK: Final = 4096
_MAX_RATIO: Final = 1.2
"""Other versions of the dependencies change the size a little from week to week."""


def megabytes(folder: Path) -> int:
    """What the files take on a disk with blocks of 4 KB, as most have."""
    blocks = sum(-(-path.lstat().st_size // _BLOCK) for path in folder.rglob("*") if not path.is_dir())
    return round(blocks * _BLOCK / 1e6)


def main(venv: Path, *, write: bool) -> int:
    (packages,) = venv.glob("lib/python*/site-packages")
    measured = [megabytes(packages), len(list(packages.glob("*.dist-info"))), megabytes(packages / "anthropic")]
    size, count, anthropic = measured
    row = f"| install size | {size} MB in {count} packages, byte code included; the anthropic package alone is {anthropic} MB of it |"
    page = README.read_text("utf-8")
    said = _ROW.search(page)
    assert said, "the README has a row about the size"
    if write:
        README.write_text(_ROW.sub(row, page), "utf-8")
        return 0
    print(f"measured: {row}\nREADME:   {said[0]}")
    pairs = zip(map(int, said.groups()), measured, strict=True)
    return int(any(not 1 / _MAX_RATIO <= told / found <= _MAX_RATIO for told, found in pairs))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), write="--write" in sys.argv))
