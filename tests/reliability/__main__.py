"""Run the whole fault matrix, and write its table into the docs: `python -m tests.reliability`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.reliability.conversations import Report, converse_all, table
from tests.reliability.schedules import at_bytes, at_events

_PAGE = Path(__file__).parents[2] / "docs" / "guides" / "errors.md"
_TABLE = re.compile(r"(<!-- fault matrix -->\n).*?(<!-- -->)", re.DOTALL)
_PART = 500


def main() -> None:
    """The matrix in parts, so that progress is seen."""
    schedules = [*at_events(), *at_bytes()]
    reports: list[Report] = []
    for backend in ("asyncio", "trio"):
        for start in range(0, len(schedules), _PART):
            part = schedules[start : start + _PART]
            reports += converse_all(part, backend)
            print(f"{backend}: {start + len(part):,} of {len(schedules):,}", file=sys.stderr)
    said = table(reports)
    print(said)
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}{said}\n{found[2]}", page), encoding="utf-8")


main()
