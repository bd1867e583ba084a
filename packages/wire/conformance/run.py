"""Run the conformance vectors against an implementation: `python -m conformance.run ADAPTER` (see README.md)."""

import argparse
import base64
import copy
import importlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KINDS = ("sse", "partial_json", "inputs", "histories", "faults")
STATES = ("value", "state")  # of these, the last of several steps counts; all others are lists, joined in order
ABOUT = ("feed", "base64", "end", "needs", "also")  # parts of a step that are not expected of it
Found = tuple[str, bool | None, str]  # aspect, right (None: not supported), difference


def number(item: dict[str, Any]) -> Any:
    """Return the number that `{"$number": "1e400"}` stands for, and any other object unchanged."""
    text = item.get("$number")
    return item if text is None else float(text) if set(text) & set(".eE") else int(text)


def same(left: Any, right: Any, strict: bool) -> bool:
    """Compare two JSON values. Numbers are equal if they are equal as doubles; strictly, also as integers."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key], strict) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(*pair, strict) for pair in zip(left, right, strict=True))
    if isinstance(left, int | float) and isinstance(right, int | float) and bool not in {type(left), type(right)}:
        return left == right if strict else float(repr(left)) == float(repr(right))  # no OverflowError
    return type(left) is type(right) and bool(left == right)


def changed(value: Any, changes: Iterable[dict[str, Any]]) -> Any:
    """Return a copy of a value after some changes: `add`, `replace` and `append`, at JSON pointers."""
    root = [copy.deepcopy(value)]
    for change in copy.deepcopy([*changes]):
        parent: Any = root
        *steps, last = ["0", *(step.replace("~1", "/").replace("~0", "~") for step in change["path"].split("/")[1:])]
        for step in steps:
            parent = parent[int(step) if isinstance(parent, list) else step]
        key: Any = int(last) if isinstance(parent, list) else last
        if isinstance(parent, list) and key == len(parent):
            parent.append(change["value"])
        else:
            parent[key] = parent[key] + change["value"] if change["op"] == "append" else change["value"]
    return root[0]


def results_in(messages: list[Any]) -> dict[str, str] | str:
    """Return call id to `ok` or `error`, or why the API would refuse this history."""
    results, calls, server = dict[str, str](), set[str](), set[str]()  # of the message before; the API runs the last
    for at, message in enumerate(messages):
        blocks = text if isinstance(text := message["content"], list) else [{"type": "text", "text": text}]
        is_wrong = message["role"] != ("user", "assistant")[at % 2] or {"type": "text", "text": ""} in blocks
        if is_wrong or not blocks or blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            return f"messages.{at}: wrong role, nothing in it, or thinking at its end"
        found = [block for block in blocks if block["type"] == "tool_result"]
        is_wrong = sorted(block["tool_use_id"] for block in found) != sorted(calls) or blocks[: len(found)] != found
        if is_wrong or (server and found != blocks):  # the API's own calls may wait for results of the client
            return f"messages.{at}: {sorted(calls | server)} need one result each, first in the message"
        results |= {block["tool_use_id"]: "error" if block.get("is_error") else "ok" for block in found}
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        server = {it["id"] for it in blocks if "_tool_use" in it["type"]} - {it.get("tool_use_id") for it in blocks}
    return "the last calls have no results" if calls else results  # the API continues a response without calls


def joined(steps: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return several steps as one."""
    whole: dict[str, Any] = {}
    for step in steps:  # all of a case have the same aspects
        whole = {key: item if key in (*STATES, *ABOUT) else [*whole.get(key, ()), *item] for key, item in step.items()}
    return whole


def compared(place: str, expected: dict[str, Any], got: dict[str, Any], also: Any, strict: bool) -> Iterator[Found]:
    """Compare what is expected in one place with the answer."""
    for aspect in expected.keys() - set(ABOUT):
        accepted = [expected[aspect], *(() if strict else also.get(aspect, ()))]
        right = any(same(one, got[aspect], strict) for one in accepted) if aspect in got else None
        yield aspect, right, f"{place}: expected {accepted[0]!r}, got {got.get(aspect)!r}"


def stepwise(call: Any, kind: str, case: dict[str, Any], lacks: set[str], strict: bool) -> Iterator[Found]:
    """Run a case with steps, cut in three ways."""
    *steps, end = case["steps"]
    feeds: list[Any] = [base64.b64decode(step["base64"]) if "base64" in step else step["feed"] for step in steps]
    feeds = [feed.encode() if kind != "partial_json" and isinstance(feed, str) else feed for feed in feeds]
    pieces = [[feed[at : at + 1] for at in range(len(feed))] or [feed] for feed in feeds]
    cuttings = {"as given": [[feed] for feed in feeds], "one by one": pieces}
    if feeds and (strict or case["expect"].get("outcome") != "invalid"):
        cuttings["at once"] = [[type(feeds[0])().join(feeds)]]
    for name, groups in cuttings.items():
        answer = call([piece for group in groups for piece in group])
        found, value = iter(answer.get("steps", ())), {"$nothing": True}
        for at, step in enumerate([*([joined(steps)] if name == "at once" else steps), end]):
            got = joined(next(found, {}) for _ in [*groups, [end]][at])
            if "changes" in step and "changes" in got and not (strict and name == "as given"):
                is_right = same(changed(value, got["changes"]), got["value"], strict)  # by any operations
                got["changes"] = step["changes"] if is_right else [*got["changes"], "do not lead to the value"]
            value = got.get("value", value)
            if not lacks & {*step.get("needs", ())}:
                yield from compared(f"{name}, step {at}", step, got, step.get("also", {}), strict)
        yield from compared(name, case["expect"], answer, case.get("also", {}), strict)


def judged(adapter: Any, kind: str, case: dict[str, Any], strict: bool) -> dict[str, tuple[bool | None, str]]:
    """Return for each aspect of a case whether it is right (None: not supported), and the first difference."""
    call, lacks = getattr(adapter, kind, None), {*getattr(adapter, "lacks", ())}
    aspects = {*case["expect"], *(key for step in case.get("steps", ()) for key in step)} - {*ABOUT}
    found: list[Found] = [(aspect, None, "") for aspect in aspects]
    if call is not None and not lacks & {*case.get("needs", ())}:
        try:
            if "steps" in case:
                found += stepwise(call, kind, case, lacks, strict)
            else:
                answer = call(case["given"])
                answer |= {"results": results_in(answer["messages"])} if "messages" in answer else {}
                found += compared("answer", case["expect"], answer, case.get("also", {}), strict)
        except Exception as error:  # of the adapter
            found = [(aspect, False, repr(error)) for aspect in aspects]
    worst_first = sorted(found, key=lambda one: (False, True, None).index(one[1]))
    return {aspect: next(one[1:] for one in worst_first if one[0] == aspect) for aspect in sorted(aspects)}


def main() -> int | str:
    """Print the differences and a table; return 1 if there is a difference, or that no case was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapter", help="a Python module; conformance.adapters.program for any other language")
    parser.add_argument("--strict", action="store_true", help="accept no other conventions")
    parser.add_argument("--only", default="", help="only the cases whose id starts with this")
    options = parser.parse_args()
    adapter = importlib.import_module(options.adapter)
    scores: Counter[tuple[str, bool | None]] = Counter()
    for kind in KINDS:
        for case in json.loads(Path(__file__).with_name(f"{kind}.json").read_bytes(), object_hook=number)["cases"]:
            verdicts = judged(adapter, kind, case, options.strict) if case["id"].startswith(options.only) else {}
            for aspect, (right, difference) in verdicts.items():
                scores[f"{kind}: {aspect}", right] += 1
                print(f"{case['id']}: {aspect} {difference}\n" if right is False else "", end="")
    print(f"{'':32}{'right':>8}{'wrong':>8}{'not supported':>16}")
    for row in dict.fromkeys(row for row, _ in scores):
        print(f"{row:32}{scores[row, True]:8}{scores[row, False]:8}{scores[row, None]:16}")
    return any(right is False for _, right in scores) if scores else f"no case is named {options.only}..."


if __name__ == "__main__":
    raise SystemExit(main())
