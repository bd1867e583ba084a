"""The tasks: the code that the model writes for each, the same work as ordinary calls, and the tools.

Both environments import this module.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Self

from eagerstream.builtin import Calculator, Files

Call = tuple[str, dict[str, Any]]
"""The name of a tool, and its input."""


@dataclass
class Marks:
    """Moments of one run, in seconds since its request.

    Attributes:
        origin_s: The request, on the clock of `perf_counter`.
        effect_s: The first line of the first tool.
        end_s: The end of the run, with the model's answer.
    """

    origin_s: float = 0.0
    effect_s: float | None = None
    end_s: float | None = None

    def start(self) -> None:
        """Note the request: the run starts now."""
        self.origin_s = perf_counter()

    def effect(self) -> None:
        """Note that a tool has started."""
        if self.effect_s is None:
            self.effect_s = perf_counter() - self.origin_s

    def end(self) -> None:
        """Note the end of the run."""
        self.end_s = perf_counter() - self.origin_s


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

_SLOW_S: Final = 1.0
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


_EDITS: Final[tuple[Call, ...]] = tuple(
    ("Edit", {"path": FILE, "old_string": old, "new_string": new}) for old, new in map(_edit_of, _PLACES)
)

TASKS: Final = (
    Task(
        name="prototype",
        code=_PROTOTYPE,
        code_mode=_PROTOTYPE_IN_MONTY,
        turns=((("slow", {"n": 1}), ("slow", {"n": 2}), ("keep", {"lines": _FILLER})),),
        tokens_per_second=len(_PROTOTYPE) / 4 / 2.0,
        first_byte_s=0.0,
        expected="30",
        expected_of_calls="200 lines",
    ),
    Task(
        name="fetch five, compute",
        code=_GATHER + _COMPUTE,
        turns=_FETCH_TURNS,
        expected=str(_OVERALL),
        expected_of_calls=str(_OVERALL),
    ),
    Task(
        name="ten edits",
        code="".join(map(_edit_statement, _PLACES)) + 'print("All ten are edited.")\n',
        turns=(_EDITS,),
        expected="All ten are edited.",
        expected_of_calls="",
    ),
)
ONE_BY_ONE: Final = Task(
    name="fetch one by one, compute",
    code=_ONE_BY_ONE + _COMPUTE,
    turns=_FETCH_TURNS,
    expected=str(_OVERALL),
    expected_of_calls=str(_OVERALL),
)
"""The code awaits each answer before the next request, as models often write it."""

# --- the tools --------------------------------------------------------------------------------------------------------


class Workplace:
    """The tools of a run, and the file that they edit; a context manager.

    Args:
        marks: Takes the first effect.
        weather_url: Address of the server of `fetch`.
    """

    def __init__(self, marks: Marks, weather_url: str) -> None:
        self._marks = marks
        self._weather_url = weather_url
        self._folder = TemporaryDirectory()
        self._path = Path(self._folder.name) / FILE
        self._path.write_text(BEFORE, encoding="utf-8")
        self._files = Files(self._folder.name)
        self._calculator = Calculator()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def text(self) -> str:
        """The file now."""
        return self._path.read_text(encoding="utf-8")

    def tools(self) -> Mapping[str, Callable[..., Any]]:
        """Return the tools as async functions, by name."""

        async def slow(n: int) -> int:
            """Multiply by ten, in a second."""
            self._marks.effect()
            await asyncio.sleep(_SLOW_S)
            return n * 10

        async def keep(lines: str) -> str:
            """Keep lines."""
            self._marks.effect()
            return f"{lines.count(chr(10))} lines"

        async def fetch(path: str) -> dict[str, Any]:
            """Fetch the weather of a city: {"city": str, "highs": [int], "lows": [int]}."""
            self._marks.effect()
            return await asyncio.to_thread(_fetched, self._weather_url + path)

        async def calculator(expression: str) -> str:
            """Calculate."""
            self._marks.effect()
            return str((await self._calculator.call({"expression": expression})).text)

        async def Edit(path: str, old_string: str, new_string: str) -> str:  # noqa: N802  # the name of the tool
            """Replace a piece of a text file, which must be in it once."""
            self._marks.effect()
            done = await self._files.edit.call({"path": path, "old_string": old_string, "new_string": new_string})
            return str(done.text)

        return {function.__name__: function for function in (slow, keep, fetch, calculator, Edit)}


def _fetched(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url) as response:
        got: dict[str, Any] = json.load(response)
        return got


def check(task: Task, results: Sequence[str], workplace: Workplace) -> None:
    """Check that the work was done.

    Raises:
        RuntimeError: It was not.
    """
    if task.name == "ten edits" and workplace.text != edited(BEFORE):
        raise RuntimeError(f"the file is not as it must be; results: {results}")
    expected = task.expected if len(results) == 1 else task.expected_of_calls
    if not any(expected in result for result in results):
        raise RuntimeError(f"{expected!r} is not in the results: {results}")


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
