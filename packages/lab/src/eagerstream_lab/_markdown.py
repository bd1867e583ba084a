"""A comparison of benchmarks as Markdown, for a pull request or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eagerstream._support.markup import plain
from eagerstream._support.wording import count_text

from ._comparison import Compared
from ._trend import TREND_COLUMNS, trends
from ._wording import (
    LABEL_CHARS,
    LIMIT_STATES,
    NOT_IN_TURN,
    cells,
    commit_words,
    limit_words,
    metric_name,
    moment,
    notes_on,
    primary_first,
    verdict_interval,
    verdict_words,
)


def markdown(compared: Compared) -> str:
    """Return the limits, the verdicts and the trends. All figures are in a part that is closed at first.

    No text of a file can become a link, a mention or markup: all of them are code.
    """
    return "\n".join(_lines(compared)) + "\n"


def _lines(compared: Compared) -> Iterator[str]:
    files, limits = compared["files"], compared["limits"]
    exceeded = sum(limit["state"] == "exceeded" for limit in limits)
    how = f": {exceeded} of {count_text(len(limits), 'limit')} exceeded" if limits else ""
    yield f"### Benchmark{how}{' (simulated)' if compared['simulated'] else ''}"
    yield ""
    if limits:
        checked = (
            (_code(one["limit"]), LIMIT_STATES[one["state"]], _code(one["label"]), limit_words(one)) for one in limits
        )
        yield from _table(("limit", "", "case", "distance"), checked)
    judged = [(case, one) for case in compared["cases"] for one in case["metrics"] if one["verdict"] is not None]
    for case, one in judged:
        how = "undecided" if one["verdict"] == "undecided" else f"{verdict_words(one)} {verdict_interval(one)}"
        yield f"- {_code(case['label'])}: {metric_name(one['metric'])} {how}"
    yield ""
    for case in compared["cases"]:
        for metric, rows in trends(compared, case):
            yield f"**{metric}** of {_code(case['label'])}"
            yield ""
            yield from _table(TREND_COLUMNS, (tuple(map(_code, row)) for row in rows))
    for warning in compared["warnings"]:
        yield f"- {_code(f'warning: {warning}', 4 * LABEL_CHARS)}"
    for side, ids in (("a", compared["only_a"]), ("b", compared["only_b"])):
        for id in ids:
            yield f"- {f'only in {side}' if len(files) > 1 else 'compared with no other case'}: {_code(id)}"
    yield from ("", "<details><summary>All figures</summary>", "")
    if len(files) > 1:
        for side, file in (("a", files[0]), ("b", files[-1])):
            commit = f", commit {_code(commit_words(file['commit'], dirty=file['dirty']))}" if file["commit"] else ""
            yield f"{side}: {_code(file['name'])}, {_code(moment(file['created_at']))}{commit}"
            yield ""
    for case in compared["cases"]:
        yield _code(case["label"])
        yield ""
        figures = (cells(one, one["a"], one["b"]) for one in primary_first(case["metrics"]))
        yield from _table(("figure", "a", "b", "difference", "interval", ""), figures)
    notes = notes_on([one for case in compared["cases"] for one in case["metrics"]], compared["confidence"])
    for note in (*notes, *([NOT_IN_TURN] if len(files) > 1 else [])):
        yield note[:1].upper() + note[1:]
        yield ""
    yield "</details>"


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _code(text: str, chars: int = LABEL_CHARS) -> str:
    """Return text as code. A bar would end the cell of a table, also there."""
    shown = plain(text, chars).replace("`", "'").replace("|", "\u00a6")
    return f"`{shown}`" if shown.strip() else ""
