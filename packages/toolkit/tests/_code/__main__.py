"""Attack every sandbox, and write the table into the docs: `python -m packages.toolkit.tests._code`, as root."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
from packages.toolkit.tests._code.attacks import ATTACKS, Verdict, verdict
from packages.toolkit.tests._code.sandboxes import PAGE, SANDBOXES, TABLE, why_not, written


async def main() -> None:
    """Each attack in each sandbox, one after the other."""
    if missing := [reason for reason in map(why_not, SANDBOXES) if reason]:
        sys.exit("; ".join(missing))
    found: dict[str, dict[str, Verdict]] = {}
    for attack in ATTACKS:
        found[attack.name] = {}
        for name, sandbox in SANDBOXES.items():
            with tempfile.TemporaryDirectory() as folder:
                found[attack.name][name] = await verdict(attack, sandbox(), Path(folder))
        print(attack.name, *(each.value for each in found[attack.name].values()), sep=" | ", file=sys.stderr)
    table = written(found.items())
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda old: f"{old[1]}{table}\n{old[3]}", page), encoding="utf-8")


anyio.run(main)
