"""Every program of `docs/start` and `docs/guides` runs against the double of the API, and prints what its page says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.programs import PAGES, programs
from tests.docs.scenarios import SCENARIOS

PROGRAMS = [program for page in PAGES for program in programs(page)]
CODE = {program.name: program.code for program in PROGRAMS}
PAGE_OF = {program.name: program.page for program in PROGRAMS}


def test_every_program_has_a_scenario() -> None:
    """A program without a marker, or a marker without a scenario, would be tried by nobody."""
    assert [f"{program.page}: {program.code.splitlines()[0]}" for program in PROGRAMS if not program.name] == []
    assert [name for name, count in Counter(program.name for program in PROGRAMS).items() if count > 1] == []
    assert sorted(CODE) == sorted(SCENARIOS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, id=f"{PAGE_OF.get(name)}:{name}") for name in SCENARIOS])
def test_a_program(name: str, tmp_path: Path) -> None:
    """It ends without an error, and its scenario finds what it looks for."""
    SCENARIOS[name].run(CODE[name], tmp_path)
