"""The tasks: the code that the model writes for each, and the same work as ordinary calls.

Both environments import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Call = tuple[str, dict[str, Any]]
"""The name of a tool, and its input."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task.

    Attributes:
        name: Its name, for tables.
        code: The code for `CodeTool`.
        code_mode: The code for `CodeMode`, if the other does not run there.
        turns: The same work as ordinary calls. Calls of one turn do not depend on each other.
        tokens_per_second: Speed at which the model writes.
        first_byte_s: Seconds from a request until the model writes.
        expected: Text that must be in the result of the code.
        expected_of_calls: Text that must be in the results of the ordinary calls.
    """

    name: str
    code: str
    code_mode: str = ""
    turns: tuple[tuple[Call, ...], ...]
    tokens_per_second: float = 200.0
    first_byte_s: float = 0.5
    expected: str
    expected_of_calls: str


# --- the prototype: two slow calls, and two seconds of writing --------------------------------------------------------

_FILLER: Final = "".join(f"x{number} = {number}\n" for number in range(200))
_PROTOTYPE: Final = (
    "a = asyncio.create_task(slow(n=1))\n"
    "b = asyncio.create_task(slow(n=2))\n"
    f"{_FILLER}"
    "result = (await a) + (await b)\n"
    "result\n"
)
# Monty has no `asyncio.create_task`, and a call that is started in one statement cannot be awaited in another.
_PROTOTYPE_IN_MONTY: Final = (
    f"import asyncio\na, b = await asyncio.gather(slow(n=1), slow(n=2))\n{_FILLER}result = a + b\nresult\n"
)

# --- fetch five things and compute ------------------------------------------------------------------------------------

CITIES: Final = {"oslo": 0.4, "lima": 0.6, "vienna": 0.8, "perth": 1.0, "quito": 1.2}
"""Seconds until the server answers, by city."""


def report(city: str) -> dict[str, Any]:
    """Return the weather of a week, made up from the city's name."""
    base = sum(map(ord, city)) % 20
    return {"city": city, "highs": [base + day for day in range(7)], "lows": [base - 2 * day for day in range(7)]}


_GATHER: Final = """\
import asyncio

oslo, lima, vienna, perth, quito = await asyncio.gather(
    fetch(path="/oslo"),
    fetch(path="/lima"),
    fetch(path="/vienna"),
    fetch(path="/perth"),
    fetch(path="/quito"),
)

"""
_ONE_BY_ONE: Final = "".join(f'{city} = await fetch(path="/{city}")\n' for city in CITIES)
_COMPUTE: Final = """\

def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)


def spread(report):
    warmest = max(report["highs"])
    coldest = min(report["lows"])
    return warmest - coldest


reports = [oslo, lima, vienna, perth, quito]
lines = []
for report in reports:
    high = round(mean(report["highs"]), 1)
    low = round(mean(report["lows"]), 1)
    lines.append(f"{report['city']}: {high} by day, {low} by night, {spread(report)} between")

warmest = oslo
for report in reports:
    if mean(report["highs"]) > mean(warmest["highs"]):
        warmest = report

calmest = oslo
for report in reports:
    if spread(report) < spread(calmest):
        calmest = report

overall = round(mean([mean(report["highs"]) for report in reports]), 2)
lines.append(f"The warmest city is {warmest['city']}, and the calmest is {calmest['city']}.")
for line in lines:
    print(line)
overall
"""
_OVERALL: Final = round(sum(sum(report(city)["highs"]) for city in CITIES) / 35, 2)


def _sum(city: str) -> str:
    return " + ".join(map(str, report(city)["highs"]))


_FETCH_TURNS: Final[tuple[tuple[Call, ...], ...]] = (
    tuple(("fetch", {"path": f"/{city}"}) for city in CITIES),
    tuple(("calculator", {"expression": f"({_sum(city)}) / 7"}) for city in CITIES),
    (("calculator", {"expression": f"({' + '.join(map(_sum, CITIES))}) / 35"}),),
)

# --- edit a file in ten places ----------------------------------------------------------------------------------------

_PLACES: Final = (
    "user",
    "order",
    "invoice",
    "ticket",
    "report",
    "customer",
    "product",
    "payment",
    "message",
    "session",
)


def _function(name: str) -> str:
    return (
        f"def load_{name}(connection, {name}_id):\n"
        f'    rows = connection.execute("SELECT * FROM {name}s WHERE id = " + str({name}_id))\n'
        "    return rows.fetchone()\n"
    )


def _edit_of(name: str) -> tuple[str, str]:
    old = (
        f'    rows = connection.execute("SELECT * FROM {name}s WHERE id = " + str({name}_id))\n'
        "    return rows.fetchone()"
    )
    new = (
        f'    rows = connection.execute("SELECT * FROM {name}s WHERE id = ?", ({name}_id,))\n'
        "    row = rows.fetchone()\n"
        "    if row is None:\n"
        f'        raise LookupError("no {name} has this id")\n'
        "    return row"
    )
    return old, new


FILE: Final = "store.py"
BEFORE: Final = "\n\n".join(map(_function, _PLACES))


def edited(text: str) -> str:
    """Return the text with all ten edits."""
    for name in _PLACES:
        text = text.replace(*_edit_of(name))
    return text


def _edit_statement(name: str) -> str:
    old, new = _edit_of(name)
    return f'await Edit(\n    path="{FILE}",\n    old_string="""{old}""",\n    new_string="""{new}""",\n)\n'


_EDIT_CALLS: Final[tuple[Call, ...]] = tuple(
    ("Edit", {"path": FILE, "old_string": old, "new_string": new}) for old, new in map(_edit_of, _PLACES)
)

PROTOTYPE: Final = Task(
    name="prototype",
    code=_PROTOTYPE,
    code_mode=_PROTOTYPE_IN_MONTY,
    turns=((("slow", {"n": 1}), ("slow", {"n": 2}), ("keep", {"lines": _FILLER})),),
    tokens_per_second=len(_PROTOTYPE) / 4 / 2.0,
    first_byte_s=0.0,
    expected="30",
    expected_of_calls="200 lines",
)
FETCH: Final = Task(
    name="fetch five, compute",
    code=_GATHER + _COMPUTE,
    turns=_FETCH_TURNS,
    expected=str(_OVERALL),
    expected_of_calls=str(_OVERALL),
)
EDITS: Final = Task(
    name="ten edits",
    code="".join(map(_edit_statement, _PLACES)) + 'print("All ten are edited.")\n',
    turns=(_EDIT_CALLS,),
    expected="All ten are edited.",
    expected_of_calls="",
)
ONE_BY_ONE: Final = Task(
    name="fetch one by one, compute",
    code=_ONE_BY_ONE + _COMPUTE,
    turns=_FETCH_TURNS,
    expected=str(_OVERALL),
    expected_of_calls=str(_OVERALL),
)
"""The code awaits each answer before the next request, as models often write it."""
TASKS: Final = (PROTOTYPE, FETCH, EDITS, ONE_BY_ONE)

# --- code of a size --------------------------------------------------------------------------------------------------

_UNIT: Final = '''\
totals_{n} = {{"first": {n}, "second": {n} * 2, "third": [{n}, 1, 2, 3]}}


def share_{n}(value, whole):
    """Return a value as a share of a whole."""
    if whole == 0:
        return 0
    return value / whole


shares_{n} = []
for value in totals_{n}["third"]:
    # Each is compared with the first of them.
    shares_{n}.append(share_{n}(value, totals_{n}["first"]))

if len(shares_{n}) > 3:
    best_{n} = max(shares_{n})
else:
    best_{n} = 0
label_{n} = f"{{totals_{n}['first']}} of {{len(shares_{n})}}: {{best_{n}}}"
'''
"""Simple statements, blocks, a function, a comment and strings: 20 lines of about 28 characters."""


def code_of(chars: int) -> str:
    """Return code of about this length without calls of tools."""
    units: list[str] = []
    length = 0
    while length < chars:
        units.append(_UNIT.format(n=len(units) + 1))
        length += len(units[-1])
    return "".join(units)[:chars].rpartition("\nlabel")[0] + "\n"
