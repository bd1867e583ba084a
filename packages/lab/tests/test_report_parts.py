"""What the report is made of: the choice of runs, the words, and that a bar lies where its times are."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from unittest.mock import Mock, call

import anyio
import pytest
from hypothesis import given, strategies as st
from packages.lab.tests import made_results as made
from packages.lab.tests.made_results import (
    block_of,
    call_block,
    estimate,
    latency_of,
    made_case,
    made_results,
    made_run,
    poem_results,
    request_of,
)
from tests.tables import rows

from eagerstream.loop import Gaps, LatencyData
from eagerstream_lab import _waterfall as module
from eagerstream_lab._charts import gap_words, percentiles
from eagerstream_lab._drawing import (
    ARRIVAL,
    BLOCK,
    FAINT,
    INK,
    TOOL,
    Shapes,
    matplotlib_settings,
    new_figure,
    svg_of,
)
from eagerstream_lab._kinds import is_shown
from eagerstream_lab._metrics import METRICS, Unit
from eagerstream_lab._plan import verdict
from eagerstream_lab._results import ComparisonData, Estimate, MeasuredRun, Results
from eagerstream_lab._selection import gaps_s, median_run, pairs, scales_s, shown_runs
from eagerstream_lab._waterfall import Panel, hidden_rows
from eagerstream_lab._wording import (
    Names,
    Scale,
    cells,
    listed,
    metric_name,
    moment,
    notes_on,
    ratio_words,
    undecided,
    verdict_interval,
    verdict_words,
)
from eagerstream_testing.demos import poem

# --- a bar lies where its times are -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_run() -> LatencyData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poem, "_TOOL_S", 0.02)
        results: Results = anyio.run(partial(poem_results, repetitions=1, speed=100))
    return results["cases"][1]["runs"][0]["latency"]


def _paths(latency: LatencyData, end_s: float) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """(face, edge) to where its subpaths begin and end across."""
    import numpy as np
    from matplotlib.colors import to_hex
    from matplotlib.patches import PathPatch

    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with matplotlib_settings():
        axes = new_figure(9.5, 4).add_axes((0, 0, 1, 1))
        rows = module._rows(latency, 60)
        module._draw(axes, Panel("title", latency), rows, rows[-1].top + rows[-1].height, end_s)
        for patch in axes.patches:
            if isinstance(patch, PathPatch):
                face, edge = (
                    "none" if colour.endswith("00") else colour[:7]
                    for colour in (to_hex(patch.get_facecolor(), True), to_hex(patch.get_edgecolor(), True))
                )
                spans = found.setdefault((face, edge), [])
                for polygon in patch.get_path().to_polygons(closed_only=False):
                    across = np.asarray(polygon)[:, 0]
                    spans.append((float(across.min()), float(across.max())))
    return found


@pytest.mark.slow
def test_bars_lie_where_their_times_are(real_run: LatencyData) -> None:
    """Of a run on a socket: each block, each tool, each arrival and field of the input, each mark of the request."""
    _check_paths(_paths(real_run, 2.0), real_run)


def test_bars_and_the_line_of_a_resumed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a made run, without Matplotlib, and a line where another process continued it."""
    drawn: list[Shapes] = []
    monkeypatch.setattr(Shapes, "draw", lambda shapes, _: drawn.append(shapes))
    times = {"sent_s": 0.0, "headers_s": 0.2, "first_byte_s": 0.3, "message_stop_s": 2.9, "next_request_s": 4.0}
    first = request_of(call_block("look", 1.0), call_block("write", 1.8), **times)
    latency = latency_of(first, request_of(turn=2, **times), resumed_s=[2.5], duration_s=5.0)
    axes = Mock()
    axes.get_xlim.return_value = (0, 4.08)
    module._draw(axes, Panel("title", latency), module._rows(latency, 60), 4, 4.0)
    assert axes.axvline.call_args_list == [call(2.5, color=FAINT, linewidth=2.5)]
    sizes = [shown.args[2] for shown in axes.text.call_args_list if "fragment" in shown.args[2]]
    assert sizes == ["5 fragments, 2 fields"] * 2
    texts = {shown.args[2]: shown.args[0] for shown in axes.text.call_args_list}
    assert 2.5 < texts["resumed"] < 2.6
    assert {"title", "Turn 1", "look", "write", "Turn 2", "continues to 5.00\u00a0s \u2192"} < texts.keys()
    (shapes,) = drawn
    paths: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (face, edge, *_), lines in shapes._paths.items():
        across = ([at_s for at_s, _ in line] for line in lines)
        paths.setdefault((face, edge), []).extend((min(places), max(places)) for places in across)
    _check_paths(paths, latency)


def _check_paths(paths: dict[tuple[str, str], list[tuple[float, float]]], run: LatencyData) -> None:
    blocks = [block for request in run["requests"] for block in request["blocks"]]
    calls = [call for block in blocks if (call := block["call"])]
    assert paths[BLOCK, "none"] == [(block["first_fragment_s"], block["last_fragment_s"]) for block in blocks]
    assert paths[TOOL, TOOL] == [(call["start_s"], call["end_s"]) for call in calls]
    assert paths["none", TOOL] == [(call["admitted_s"], call["start_s"]) for call in calls]
    wholes = [span for span in paths["none", ARRIVAL] if span[0] != span[1]]
    assert wholes == [(block["start_s"], block["stop_s"]) for block in blocks]
    arrivals = [at_s for at_s, end_s in paths["none", ARRIVAL] if at_s == end_s]
    assert arrivals == [at_s for block in blocks for at_s, _, _ in block["arrivals"]]
    ticks = {at_s for at_s, _ in paths["none", INK]}
    assert {field["at_s"] for block in blocks for field in block["fields"]} <= ticks
    for request in run["requests"]:
        assert {request["sent_s"], request["headers_s"], request["first_byte_s"], request["message_stop_s"]} <= ticks
    first, last = run["requests"][0]["sent_s"], run["requests"][0]["next_request_s"]
    assert (first, last) in paths["none", FAINT], "the line of the first request"


def test_labels_that_would_lie_on_each_other_become_one() -> None:
    """With the times from the first to the last of them, as far as those differ."""
    marks = [(0.0, "sent"), (1.0, "headers"), (1.0001, "first byte"), (9.5, "message_stop"), (9.9, "all results")]
    labels = module._labels(marks, 10.0, 10 / 7.5)
    assert [label.words for label in labels] == [
        "sent",
        "headers, first byte 1.00\u00a0s",
        "message_stop, all results 9.50\u20139.90\u00a0s",
    ]
    assert labels[-1].align == "right"


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6), st.floats(6.5, 9))
def test_labels_have_room(at_s: list[float], inches: float) -> None:
    """Wherever the marks are, no label lies on another or leaves the line; each mark is in one, in order."""
    names = ("sent", "headers", "first byte", "message_stop", "all results", "next request")
    marks = list(zip(sorted(at_s), names, strict=False))
    inch_s = 10 / inches
    labels = module._labels(marks, 10.0, inch_s)
    assert [mark for label in labels for mark in label.marks] == marks
    used_s = 0.0
    for label in labels:
        wide_s = module._text_inches(label.words) * inch_s
        begin_s = label.at_s - wide_s if label.align == "right" else label.at_s
        assert used_s <= begin_s + 1e-9
        used_s = begin_s + wide_s
    assert used_s <= 10 + 1e-9


# --- what is shown ----------------------------------------------------------------------------------------------------


def _lasting(*durations: float | None, error: str | None = None) -> list[MeasuredRun]:
    return [
        made_run(latency_of(duration_s=duration), repetition=number, order=number, error=error)
        for number, duration in enumerate(durations)
    ]


def test_the_run_in_the_middle() -> None:
    """Nearest to the median of the durations; of those that are known, and did not fail."""
    case = made_case(_lasting(5.0, 1.0, 3.1, None, nan, 3.0, 9.0), streaming="eager")
    assert (run := median_run(case)) is not None
    assert run["latency"]["duration_s"] == 3.1
    assert [run["repetition"] for run in shown_runs(case, 1)] == [2, 0, 1, 3, 4, 5, 6]
    assert [run["repetition"] for run in shown_runs(case, 100)] == [2, 0]
    many = made_case(_lasting(*range(30)), streaming="eager")
    assert len(shown_runs(many, 1)) == 20
    assert median_run(made_case([], streaming="eager")) is None
    failed = made_case(_lasting(1.0, 2.0, error="E"), streaming="eager")
    assert median_run(failed) is None
    assert len(shown_runs(failed, 1)) == 2


def test_pairs_differ_in_streaming_only() -> None:
    """One of other tools or another source is no partner."""
    cases = [
        made_case([], streaming="eager", source="a"),
        made_case([], streaming="buffered", source="b"),
        made_case([], streaming="buffered", source="a", model="other"),
        made_case([], streaming="buffered", source="a"),
        made_case([], streaming="eager", source="b"),
    ]
    results = made_results(cases)
    assert [(pair.eager["source"], pair.buffered["id"]) for pair in pairs(results)] == [
        ("a", cases[3]["id"]),
        ("b", cases[1]["id"]),
    ]
    names = Names(results)
    assert names[cases[0]["id"]] == cases[0]["id"], "labels that are alike are not enough"
    assert names["unknown"] == "unknown"
    assert names.shared(cases[0]) == "a / claude-opus-4-7"


def test_gaps_are_those_of_inputs() -> None:
    """Of all runs that did not fail; fragments that came together have none between them. Without inputs: of all blocks."""
    text = block_of(kind="text", arrivals=[(0.0, 1, 1), (5.0, 1, 1)])
    input = block_of(outcome="valid", arrivals=[(0.0, 3, 9), (1.0, 1, 3), (3.0, 1, 3)])
    both, alone = latency_of(request_of(text, input)), latency_of(request_of(text), request_of(input, discarded=True))
    case = made_case([made_run(both), made_run(both, error="E"), made_run(both)], streaming="eager")
    assert sorted(gaps_s(case)) == [0.0] * 4 + [1.0] * 2 + [2.0] * 2
    assert gaps_s(made_case([made_run(alone)], streaming="eager")) == [5.0]


def test_one_scale_for_a_source() -> None:
    """The longest run that did not fail sets it; where all failed, the longest."""
    late = latency_of(request_of(call_block("a", 5.0)), duration_s=1.0)
    cases = [
        made_case([*_lasting(2.0, inf), made_run(late, error="E")], streaming="eager", source="a"),
        made_case(_lasting(3.0), streaming="buffered", source="a"),
        made_case([made_run(late, error="E")], streaming="eager", source="b"),
        made_case([], streaming="eager", source="c"),
    ]
    assert scales_s(made_results(cases)) == {"a": 3.0, "b": 7.0, "c": 1.0}
    assert hidden_rows(late, 1) == 1
    assert [len(module._rows(late, most)) for most in (1, 2, 9)] == [1, 2, 2]


# --- words ------------------------------------------------------------------------------------------------------------


@rows(
    "unit, value, text",
    [
        ("s", 12.345, "12.3\u00a0s"),
        ("s", 10.0, "10.0\u00a0s"),
        ("s", 1.0, "1.00\u00a0s"),
        ("s", 0.2814, "281\u00a0ms"),
        ("s", 0.0003, "0.30\u00a0ms"),
        ("s", 0.0, "0.00\u00a0s"),
        ("s", -0.5, "\u2212500\u00a0ms"),
        ("s", 1e12, "1.00e+12\u00a0s"),
        ("s", nan, "unknown"),
        ("share", 0.998, "99.8\u00a0%"),
        ("/s", 1046.2, "1,046/s"),
        ("", 3.0, "3.00"),
    ],
)
def test_quantities(unit: Unit, value: float, text: str) -> None:
    """Three digits or so, in a unit that needs no zeros."""
    assert Scale.of(unit, value).text(value).removesuffix("\u00a0s" if text == "unknown" else "\0") == text


def _comparison(metric: str, *differences: float, ratio: Estimate | None = None, margin: float = 0.0) -> ComparisonData:
    found = estimate(differences * 6)
    return {
        "metric": metric,
        "base": "a",
        "other": "b",
        "difference": found,
        "ratio": ratio,
        "margin": margin,
        "verdict": verdict(found, margin=margin),
    }


def test_verdicts() -> None:
    """An amount and a direction, the interval as that of the amount; what is no time has other words."""
    earlier = _comparison("first_field_s", -12.0, ratio=estimate([0.2]))
    assert verdict_words(earlier) == "12.0\u00a0s earlier"
    assert verdict_interval(earlier) == "[12.0, 12.0]\u00a0s"
    assert ratio_words(earlier) == ", 0.2 times as much"
    assert verdict_interval(_comparison("duration_s", -1.0, -3.0)) == "[1.00, 3.00]\u00a0s"
    assert verdict_words(_comparison("longest_gap_s", 2.0)) == "2.00\u00a0s longer"
    assert verdict_words(_comparison("hidden_share", 0.25)) == "25.0\u00a0points more"
    assert verdict_words(_comparison("chars_per_s", -30)) == "30.0/s fewer"
    assert verdict_words(_comparison("won_s", 30)) == "30.0\u00a0s more"
    assert ratio_words(_comparison("duration_s", 1.0, ratio=estimate([1.01]))) == ""
    assert ratio_words(_comparison("duration_s", 1.0, ratio=estimate([55.2]))) == ", 55 times as much"
    assert verdict_words(_comparison("duration_s", 0.001, margin=0.02)) == "less than 20.0\u00a0ms apart"
    assert verdict_words(_comparison("hidden_share", 0.001, margin=0.02)) == "less than 2.00\u00a0points apart"


def test_reasons_for_no_verdict() -> None:
    """Each reason is told once, with all figures that have it."""
    few = _comparison("won_s", 1.0)
    few["difference"]["n"] = 4
    both = [_comparison(metric, -1.0, 1.0) for metric in ("duration_s", "first_byte_s")]
    small = _comparison("first_field_s", 0.001, 0.5, margin=0.02)
    few["verdict"] = "undecided"
    assert undecided([*both, few, small, _comparison("chars_per_s", 1.0)]) == [
        ("Complete run and First byte", "the interval contains 0"),
        ("Won by starting tools early", "4 of 6 values that it takes"),
        ("First finished field", "the interval is neither beyond 20.0\u00a0ms nor within it"),
    ]


def test_lines_of_the_table() -> None:
    """A name, both medians with units, the difference with its sign, its interval in the same unit, and a mark."""
    a, b = (estimate([value] * 6) for value in (1.52, 0.34))
    earlier = _comparison("first_field_s", -1.19, -1.17)
    assert cells(earlier, a, b) == (
        "First finished field",
        "1.52\u00a0s",
        "340\u00a0ms",
        "\u22121.18\u00a0s",
        "[\u22121.19, \u22121.17]",
        "\u2212",
    )
    more = _comparison("hidden_share", 0.12)
    more["verdict"] = None
    more["difference"]["n"] = 5
    assert cells(more, a, b)[3:] == ("+12.0\u00a0pts", "-", "")


def test_notes_say_how_certain_verdicts_are() -> None:
    """Together, and each by itself; and how many of the other intervals are wrong by chance."""
    primary, second = _comparison("duration_s", 1.0), _comparison("won_s", 1.0)
    primary["difference"]["confidence"] = 0.975
    others = [_comparison(metric, 1.0) for metric in METRICS][:13]
    for one in others:
        one["verdict"] = None
    together, level, chance = notes_on([primary, second, *others], 0.95)
    assert together.endswith("Only these figures have one: Complete run and Won by starting tools early.")
    assert level == "95 % is the confidence of the 2 verdicts together, and 97.5 % that of each."
    assert chance.startswith("Each of the other 13 intervals has 95 % by itself: about 0.7 of them exclude 0")
    assert notes_on([], 0.95) == []
    assert len(notes_on([_comparison("duration_s", 1.0)], 0.95)) == 1
    margin = notes_on([_comparison("duration_s", 1.0, margin=0.1)], 0.95)[0]
    assert "= no difference that matters" in margin


def test_percentiles_need_values() -> None:
    """One is shown only from the number of gaps on that can bound it, in words as in the table and on the curve."""
    assert [is_shown(0.99, count) for count in (30, 367, 368)] == [False, False, True]
    for count, names in ((5, []), (6, ["p50"]), (35, ["p50"]), (36, ["p50", "p90"]), (368, ["p50", "p90", "p99"])):
        gaps = Gaps.of([0.01 * number for number in range(count)])
        assert gaps is not None
        assert [name for name, _, value in percentiles(gaps) if value is not None] == names
        words = gap_words(gaps)
        assert [name for name in ("p50", "p90", "p99") if name in words] == names
        assert words.endswith(f" of {count} gaps")


def test_names() -> None:
    """Of figures, as the benchmark has them, and of one that is not known; lists; times."""
    assert metric_name("first_field_s") == "First finished field"
    assert [metric_name(name).lower() for name in METRICS] == [metric.label.lower() for metric in METRICS.values()]
    assert set(made.METRICS) < set(METRICS)
    assert metric_name("cars_per_s") == "Cars_per_s"
    assert verdict_words(_comparison("cars", -3.0)) == "3.00 lower"
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert moment("2026-05-04T12:30:00+00:00") == "4 May 2026, 12:30 UTC"
    assert moment("2026-05-04T12:30:00") == "4 May 2026, 12:30"
    assert moment("<yesterday>") == "<yesterday>"


# --- HTML and SVG -----------------------------------------------------------------------------------------------------


def test_a_figure_in_a_page() -> None:
    """Its ids are those of the page, where something refers to them; its colours are the page's, and it has no rules."""
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 90 60">'
        '<metadata/>\n <defs><style type="text/css">*{}</style><path id="m1" d="M0 1.23456"/></defs><g id="axes_1">'
        f'<use xlink:href="#m1" style="font-family: Mono; stroke: {TOOL}"/><g clip-path="url(#p1)"><text>a &lt; b {TOOL}</text></g></g>'
        '<clipPath id="p1"/></svg>'
    )
    figure = Mock()
    figure.savefig = lambda file, format: file.write(drawn if format == "svg" else "")
    svg = str(svg_of(figure, prefix="f1-", label="a <line>"))
    assert 'aria-label="a &lt;line&gt;"' in svg
    assert "<style" not in svg
    assert "<metadata" not in svg
    assert 'viewBox="0 0 90 60" role="img"' in svg
    assert 'style="max-width: 120px"><defs><path id="f1-m1" d="M0 1.23"' in svg
    assert 'href="#f1-m1" style=" stroke: var(--tool)"' in svg
    assert '<g clip-path="url(#f1-p1)">' in svg
    assert '<clipPath id="f1-p1"' in svg
    assert "axes_1" not in svg
    assert f"<text>a &lt; b {TOOL}</text>" in svg


@pytest.mark.slow
def test_two_figures_share_no_id() -> None:
    """What Matplotlib names alike has a name for each figure, and leads there; its rules for all elements are gone."""
    made = []
    for prefix in ("f1-", "f2-"):
        with matplotlib_settings():
            figure = new_figure(4, 2)
            axes = figure.add_axes((0.1, 0.2, 0.8, 0.7))
            axes.plot([1, 2], [3, 4], "o-", color=TOOL)
            axes.text(1, 3, "url(#x) #1d1d24 <&>")
            made.append(svg_of(figure, prefix=prefix, label="a <line>"))
    assert made[0] != made[1]
    assert made[0].replace("f1-", "f2-") == made[1]
    assert "<style" not in made[0]
    assert "font-family" not in made[0]
    assert 'aria-label="a &lt;line&gt;"' in made[0]
    assert ">url(#x) #1d1d24 &lt;&amp;&gt;</text>" in made[0]
    assert "stroke: var(--tool)" in made[0]
