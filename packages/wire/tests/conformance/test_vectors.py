"""The vectors of `packages/wire/conformance/`: they are what the generator makes, right by second readings, and true of the library."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from packages.wire.conformance import run
from packages.wire.conformance.adapters import eagerstream_wire as adapter
from packages.wire.tests.conformance.__main__ import GENERATORS
from packages.wire.tests.conformance.reading_json import Reading
from packages.wire.tests.conformance.writing import FOLDER, written
from tests.sampling import drawn
from tests.tables import rows

from eagerstream_wire._values import encodable

READ = ("sse", "partial_json", "inputs")
"""The kinds that need no run."""


def cases_of(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the cases of a kind, as the runner reads them."""
    yield from json.loads((FOLDER / f"{kind}.json").read_bytes(), object_hook=run.number)["cases"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", GENERATORS)
def test_files_are_what_the_generator_makes(kind: str) -> None:
    """An edited file would lose its edit with the next `make vectors`."""
    assert (FOLDER / f"{kind}.json").read_text("utf-8") == written(kind, GENERATORS[kind]()), "run `make vectors`"


@pytest.mark.slow
@pytest.mark.parametrize("kind", run.KINDS)
def test_files_fit_the_schema(kind: str) -> None:
    """An implementer relies on the schema, and a runner on ids and aspects."""
    schema = json.loads((FOLDER / "schema.json").read_bytes())
    file = json.loads((FOLDER / f"{kind}.json").read_bytes())
    jsonschema_rs.Draft202012Validator(schema).validate(encodable(file))
    cases = file["cases"]
    assert len({case["id"] for case in cases}) == len(cases)
    for case in cases:
        assert case["id"].startswith(f"{kind}/")
        steps = case.get("steps", [{"end": True}])
        assert ["end" in step for step in steps] == [False] * (len(steps) - 1) + [True]
        assert len({frozenset(step.keys() - set(run.ABOUT)) for step in steps}) == 1, case["id"]


@rows("kind", READ)
def test_the_library_is_right_strictly(kind: str) -> None:
    """The reference has to agree with itself. `.ci/wheels` runs all cases with both wheels, and so does the slow test."""
    for case in drawn(cases_of(kind), 1_000 if kind == "sse" else 20):  # all of `sse` take 0.3 s
        check(adapter, kind, case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", READ)
def test_the_library_is_right_strictly_in_all_cases(kind: str) -> None:
    """All cases take seconds."""
    for case in cases_of(kind):
        check(adapter, kind, case)
        if kind == "partial_json":
            _check_by_json_loads(case)


def check(adapter: Any, kind: str, case: dict[str, Any]) -> None:
    """Compare all aspects of a case strictly."""
    verdicts = run.judged(adapter, kind, case, strict=True)
    assert all(right for right, _ in verdicts.values()), (case["id"], verdicts)


def _accepts(text: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def test_json_loads_agrees() -> None:
    """The second reading could be wrong like the library; `json.loads` of Python shares no code with either."""
    for case in drawn(cases_of("partial_json"), 50):
        _check_by_json_loads(case)


def _check_by_json_loads(case: dict[str, Any]) -> None:
    text = "".join(step.get("feed", "") for step in case["steps"])
    end, outcome, at = case["steps"][-1], case["expect"]["outcome"], case["expect"]["error_at"]
    assert _accepts(text) == (outcome == "valid"), case["id"]
    if outcome == "valid":
        assert run.same(json.loads(text), end["value"], strict=True), case["id"]
    elif outcome == "incomplete":
        assert _accepts(text + Reading(text).closing), case["id"]
    else:
        # What comes before the wrong character can become a document. With it, nothing makes it one.
        before = Reading(text[:at])
        assert _accepts(text[:at] + before.closing), case["id"]
        closings = ["", before.closing, *(f"{first}{before.closing}" for first in '0"]},:')]
        assert not any(_accepts(text[: at + 1] + closing) for closing in closings), case["id"]


class _Forgetful:
    """An adapter of an implementation that lacks much, and is wrong once."""

    lacks = ("growing_strings",)

    @staticmethod
    def partial_json(fragments: list[str]) -> dict[str, Any]:
        answer = adapter.partial_json(fragments)
        if "".join(fragments) == "[]":
            raise ValueError("never seen that")
        return {"steps": [{"value": step["value"]} for step in answer["steps"]], "outcome": "valid"}


def test_missing_aspects_are_not_supported_and_differences_are_wrong() -> None:
    """A peer that lacks a feature must not look wrong, and one that is wrong must not look incomplete."""
    cases = {case["id"]: case for case in cases_of("partial_json")}

    def verdict(id: str) -> dict[str, bool | None]:
        return {
            key: right for key, (right, _) in run.judged(_Forgetful, "partial_json", cases[id], strict=False).items()
        }

    nothing_more = {"error_at": None, "finished": None, "state": None}
    assert verdict("partial_json/roots/empty-string") == {**nothing_more, "outcome": True, "value": True}
    assert verdict("partial_json/roots/string-then-nothing") == {**nothing_more, "outcome": False, "value": None}
    assert set(verdict("partial_json/roots/empty-array").values()) == {False}
    assert set(run.judged(_Forgetful, "sse", next(cases_of("sse")), strict=False).values()) == {(None, "")}


def test_other_conventions_are_right_unless_strict() -> None:
    """A number that shows early is no mistake, but not what the reference does either."""

    class Early:
        @staticmethod
        def partial_json(fragments: list[str]) -> dict[str, Any]:
            shown = {'{"n": 12': {"n": 12}, '{"n": 1234': {"n": 1234}}
            so_far = ["".join(fragments[: end + 1]) for end in range(len(fragments))]
            return {"steps": [{"value": shown.get(text, {})} for text in [*so_far, so_far[-1]]]}

    case = next(one for one in cases_of("partial_json") if one["id"].endswith("/bare-number-at-the-end"))
    assert run.judged(Early, "partial_json", case, strict=False)["value"][0]
    assert not run.judged(Early, "partial_json", case, strict=True)["value"][0]


def test_a_wrong_operation_is_wrong_also_if_not_strict() -> None:
    """Changes are judged by their effect."""

    class Wrong:
        @staticmethod
        def partial_json(fragments: list[str]) -> dict[str, Any]:
            answer = adapter.partial_json(fragments)
            for step in answer["steps"]:
                step["changes"] = [{**change, "value": "no"} for change in step["changes"]]
            return answer

    case = next(one for one in cases_of("partial_json") if one["id"].endswith("objects/nested"))
    verdicts = run.judged(Wrong, "partial_json", case, strict=False)
    assert {aspect for aspect, (right, _) in verdicts.items() if not right} == {"changes"}
    assert "do not lead" in verdicts["changes"][1]


def test_the_runner_prints_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that an implementer sees."""
    monkeypatch.setattr(
        "sys.argv", ["run", "packages.wire.conformance.adapters.eagerstream_wire", "--strict", "--only", "sse/ids/"]
    )
    with redirect_stdout(io.StringIO()) as printed:
        assert run.main() == 0
    assert re.search(r"sse: ids +1\d +0 +0\n", printed.getvalue())


def test_a_run_of_no_case_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id with a typing error would pass otherwise."""
    monkeypatch.setattr("sys.argv", ["run", "packages.wire.conformance.adapters.eagerstream_wire", "--only", "sse/idz"])
    with redirect_stdout(io.StringIO()):
        assert run.main() == "no case is named sse/idz..."


def test_the_runner_is_short() -> None:
    """It is meant to be written anew in other languages."""
    assert len(Path(run.__file__).read_text("utf-8").splitlines()) <= 150
