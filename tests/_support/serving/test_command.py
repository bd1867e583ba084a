"""What a command that runs beside a server is told."""

from __future__ import annotations

from eagerstream._support.serving.command import reaching_this_machine
from tests.tables import rows


@rows(
    "environment, around",
    [
        ({}, "127.0.0.1,localhost"),
        ({"no_proxy": ""}, "127.0.0.1,localhost"),
        ({"no_proxy": "a.test"}, "a.test,127.0.0.1,localhost"),
        ({"NO_PROXY": "b.test"}, "b.test,127.0.0.1,localhost"),
        ({"no_proxy": "", "NO_PROXY": "b.test"}, "b.test,127.0.0.1,localhost"),
        ({"no_proxy": "a.test", "NO_PROXY": "b.test"}, "a.test,127.0.0.1,localhost"),
    ],
)
def test_hosts_that_are_reached_without_a_proxy(environment: dict[str, str], around: str) -> None:
    """This machine, and those that were without a proxy before, in whichever spelling a program reads."""
    assert reaching_this_machine(environment) == {"NO_PROXY": around, "no_proxy": around}
