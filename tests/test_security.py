"""SECURITY.md names a test for each promise: they are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tables import rows

_ROOT = Path(__file__).parent.parent
_NAMED = sorted(
    set(
        re.findall(
            r"`((?:packages/\w+/)?tests/[\w/.]+\.py(?:::\w+)?)`", (_ROOT / "SECURITY.md").read_text(encoding="utf-8")
        )
    )
)


@rows("named", _NAMED)
def test_the_tests_are_there(named: str) -> None:
    """A promise whose test has gone, or has another name, is no promise."""
    path, _, function = named.partition("::")
    functions = set(re.findall(r"^(?:async )?def (\w+)", (_ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))
    assert function in functions if function else any(name.startswith("test_") for name in functions)


def test_there_are_some() -> None:
    """The pattern above finds what the page names."""
    assert len(_NAMED) > 20
