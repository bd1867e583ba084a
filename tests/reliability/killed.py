"""Kill runs in all ways, and write the table into the docs: `python -m tests.reliability.killed [SHARE]`."""

from __future__ import annotations

import re
import sys
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from packages.durable.tests.journal.conftest import running_server

from tests.reliability.killing_runs import WAYS, Tally, killed, table

_PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "durable.md"
_TABLE: Final = re.compile(r"(<!-- killed anywhere -->\n).*?(<!-- -->)", re.DOTALL)
_KILLS: Final = {"instants": 2_000, "before": 300, "after": 300, "power": 300, "postgres": 300, "changes": 300}
_PART: Final = 50


def main() -> None:
    """In parts, so that progress is seen."""
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    tallies: dict[str, Tally] = {}
    with running_server() as server:
        for name, way in WAYS.items():
            tally = tallies[name] = Tally()
            seeds = count()
            while tally.kills < _KILLS[way] * share:
                with TemporaryDirectory() as folder:
                    one = partial(killed, Path(folder), way, seeds, kills=_PART, server=server)
                    tally.add(anyio.run(one))
                print(f"{name}: {tally.kills:,} kills, {len(tally.violations)} violations", file=sys.stderr)
                print(*tally.violations, sep="\n", file=sys.stderr)
    said = table(tallies)
    print(said)
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}{said}\n{found[2]}", page), encoding="utf-8")


main()
