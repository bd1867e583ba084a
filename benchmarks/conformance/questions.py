"""Short texts that show the rules of a parser: what it shows of an unfinished text, and how it judges a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.results import grid

from .python.reading import NOTHING

UNFINISHED: Final = {
    "a string": '{"a":"x',
    "half an escape": '{"a":"x\\',
    "half of `\\u0041`": '{"a":"x\\u00',
    "half of a pair": '{"a":"x\\ud83d',
    "a number": '{"a":12',
    "an exponent": '{"a":1e',
    "a literal": '{"a":tr',
    "a key": '{"a":1,"b',
    "no value yet": '{"a":1,"b":',
    "a repeated key": '{"a":1,"a":"x',
}
"""Texts that may continue, by what is unfinished in them."""

WRONG: Final = {
    "a raw line feed": '{"a":"x\ny"}',
    "`\\d` in a string": '{"a":"x\\dy"}',
    "an unescaped quote": '{"a":"x"y"}',
    "no comma": '{"a":[1 2]}',
    "a comma too much": '{"a":1,}',
    "a bracket too much": '{"a":1}}',
    "`NaN`": '{"a":NaN}',
    "`01`": '{"a":01}',
}
"""Complete texts that are no JSON, by their mistake."""


def answers(partial_json: Callable[[Sequence[str]], Any]) -> dict[str, str]:
    """Return the answer to each question as Markdown, for an adapter that gets one character at a time.

    A parser that shows no values has no answers.
    """
    found = {}
    for name, text in {**UNFINISHED, **WRONG}.items():
        try:
            answer = partial_json([*text])
        except Exception:  # of the library
            found[name] = "an error"
            continue
        step = answer["steps"][len(text) - 1] if "steps" in answer else {}
        if "value" in step:
            found[name] = f"{_shown(step['value'])}{_verdict(answer, step) if name in WRONG else ''}"
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":")).replace('{"$nan":true}', "NaN")
    return "nothing" if value == NOTHING else f"`{text}`"


def _verdict(answer: Any, step: Any) -> str:
    """Return how a wrong text is judged, empty if the parser does not say that."""
    said = {answer.get("outcome"), step.get("state")}
    verdicts = {"invalid": ", refused", "valid": ", **accepted**", "incomplete": ", taken as cut"}
    return next((words for verdict, words in verdicts.items() if verdict in said), "")


def tables(peers: Sequence[dict[str, Any]]) -> str:
    """Return two tables as Markdown, of the peers that have answers."""
    shown = [peer for peer in peers if peer["answers"]]
    parts = []
    for texts in (UNFINISHED, WRONG):
        rows = [
            (f"{peer['package']} ({peer['language']})", *(peer["answers"].get(name, "") for name in texts))
            for peer in shown
        ]
        examples = ("the text", *(f"`{text}`".replace("\n", "⏎") for text in texts.values()))
        parts.append(grid(("unfinished" if texts is UNFINISHED else "wrong", *texts), [examples, *rows]))
    return "\n\n".join(parts)
