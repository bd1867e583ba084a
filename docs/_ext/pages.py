"""The pages of the reference: which of them has which public name.

A page lists names in blocks, and the build puts the documentation of each name there:

    ```{names}
    run
    loop.RunResult
    rest of loop
    ```

Names of the core are written without `eagerstream.`, those of other packages with theirs. `rest of loop` stands for
the names of that module that no page lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from .public_names import PublicName, by_definition, public_names

FOLDER: Final = Path(__file__).parents[1] / "reference"
BLOCK: Final = re.compile(r"^```\{names\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REST: Final = "rest of "


class PageError(Exception):
    """The pages and the public names do not agree."""


@cache
def pages() -> Mapping[str, tuple[PublicName, ...]]:
    """Return the names of each page, by the name of its file.

    Raises:
        PageError: A page lists a name that is not public, or that another place has.
    """
    return {
        file.name: tuple(name for block in BLOCK.findall(file.read_text(encoding="utf-8")) for name in names_in(block))
        for file in sorted(FOLDER.glob("*.md"))
    }


def names_in(block: str) -> Iterator[PublicName]:
    """Return the names that a block stands for.

    Raises:
        PageError: It lists a name that is not public.
    """
    for line in block.splitlines():
        if line.startswith(_REST):
            module = _with_package(line.removeprefix(_REST))
            rest = [name for full, name in public_names().items() if name.module == module and full not in _listed()]
            yield from sorted(rest, key=lambda name: (not name.name[0].isupper(), name.name))
        elif line:
            yield _public(line)


@cache
def _listed() -> frozenset[str]:
    """Return the names that a page has by their own line.

    Raises:
        PageError: Two places have one.
    """
    listed: set[str] = set()
    for file in FOLDER.glob("*.md"):
        for block in BLOCK.findall(file.read_text(encoding="utf-8")):
            for line in block.splitlines():
                if not line or line.startswith(_REST):
                    continue
                full = _public(line).full
                if full in listed:
                    raise PageError(f"{file.name}: {full} is in the reference twice")
                listed.add(full)
    return frozenset(listed)


def _with_package(name: str) -> str:
    """Return a name with its package. The core is meant if none is named."""
    return name if name.startswith("eagerstream_") else f"eagerstream.{name}"


def _public(text: str) -> PublicName:
    found = by_definition().get(_with_package(text))
    if found is None:
        raise PageError(f"the reference lists {text}, which is no public name")
    if found.full != _with_package(text):
        raise PageError(f"the reference lists {text}: write {found.full.removeprefix('eagerstream.')}")
    return found
