"""The figures of the README and the docs, from `results.json`: `python -m benchmarks --render` writes them.

A section is between `<!-- bench: NAME -->` and `<!-- -->`, and belongs to the function of that name. It can be on any
page: `pages` finds it. It says the pace of its benchmarks, their peers with versions, the date and the load.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .partial_value_cells import Cell
from .results import BENCHMARKS, FOLDER, NOT_RECORDED, grid, named_peers, paces_of, read, rows_of
from .streaming_parsers import table

ROOT: Final = FOLDER.parent
_SECTION: Final = re.compile(r"(<!-- bench: ([a-z_]+) -->\n).*?(<!-- -->)", re.DOTALL)
_MEDIAN_FRAGMENT: Final = 7  # characters, of recorded streams
_SHOWN_SIZES: Final = (1_000, 1_000_000)  # characters
_COSTS: Final = ("unwatched", "hand_off", "many_inputs", "memory", "blocking", "startup", "bedrock_frames")
"""Benchmarks of other costs."""
_SPEED: Final = {
    "transport": "",
    "small_response": "",
    "long_runs": "",
    "thousand_runs": "",
    "partial_values": "a value after every fragment",
    "hand_off": "",
    "many_inputs": "",
}
"""Benchmarks of transport, start and scale, with the first words of their targets that are about these."""


Results = Mapping[str, Any]
"""Content of `results.json`."""
Body = Callable[[Results], str]


@dataclass(frozen=True)
class Section:
    """A generated part of a page.

    Attributes:
        body: Returns the figures.
        benchmarks: Benchmarks that the figures come from.
        is_complete: The body says the paces and the peers itself.
    """

    body: Body
    benchmarks: Sequence[str]
    is_complete: bool

    def text(self, results: Results) -> str:
        """Return the figures, and a line with their paces, peers, dates and loads.

        Raises:
            LookupError: The results lack a figure.
        """
        body = self.body(results)
        known = [results["conditions"][name] for name in self.benchmarks if name in results["conditions"]]
        when = f"Measured {_dates(known)}, load {_loads(known)}."
        if self.is_complete:
            return f"{body}\n\n{when}"
        paces = {name: ", or ".join(paces_of(results["benchmarks"][name])) for name in self.benchmarks}
        said = [pace if len(paces) == 1 else f"{pace} (`{name}`)" for name, pace in paces.items()]
        peers = named_peers(results, *self.benchmarks)
        return f"{body}\n\nPace: {'; '.join(said)}. Compared with {peers}. {when}"


def _dates(conditions: Iterable[Mapping[str, str]]) -> str:
    days = sorted({re.sub(" ..:.. UTC", "", each["date"]) for each in conditions})
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def _loads(conditions: Sequence[Mapping[str, str]]) -> str:
    loads = [load for each in conditions for load in each["load"].split(" to ")]
    known = sorted({load for load in loads if load != NOT_RECORDED}, key=float)
    shown = [" to ".join(dict.fromkeys((known[0], known[-1])))] if known else []
    return ", or ".join([*shown, *([NOT_RECORDED] if NOT_RECORDED in loads else [])])


SECTIONS: Final[dict[str, Section]] = {}
"""All sections by name: `_section` adds them."""


def _section(*benchmarks: str, is_complete: bool = False) -> Callable[[Body], Body]:
    """Make a function the body of the section of its name."""

    def add(body: Body) -> Body:
        SECTIONS[body.__name__] = Section(body, benchmarks, is_complete)
        return body

    return add


def pages() -> list[Path]:
    """Return the README and the other pages with sections. The reference gets its figures when it is built."""
    folders = ("start", "guides", "inside")
    others = (page for folder in folders for page in sorted((ROOT / "docs" / folder).glob("*.md")))
    written = [ROOT / "README.md", *others]
    return [page for page in written if _SECTION.search(page.read_text(encoding="utf-8"))]


def write() -> None:
    """Write all sections of the README and the docs.

    Raises:
        LookupError: The results lack a figure, for example because a package was not installed. Nothing is written.
    """
    results = read()
    texts = {page: rendered(page.read_text(encoding="utf-8"), results) for page in pages()}
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")


def rendered(text: str, results: Results) -> str:
    """Return a page with all sections written again.

    Args:
        text: The page.
        results: Content of `results.json`.

    Raises:
        LookupError: A section is unknown, or the results lack a figure.
    """
    return _SECTION.sub(lambda found: f"{found[1]}{SECTIONS[found[2]].text(results)}\n{found[3]}", text)


@_section("bytes_to_events", "startup", is_complete=True)
def price(results: Results) -> str:
    """Cost of an event and of the import in some sentences, to compare libraries."""
    cells = [
        cell
        for cell in results["benchmarks"]["bytes_to_events"]["cells"]
        if cell["fragment_chars"] == _MEDIAN_FRAGMENT and cell["size"] in _SHOWN_SIZES
    ]
    seconds = results["benchmarks"]["startup"]["seconds"]
    ours_ms, theirs_ms = (seconds[f"import {name}"] * 1000 for name in ("eagerstream", "anthropic"))
    (pace,) = paces_of(results["benchmarks"]["bytes_to_events"])
    (import_pace,) = paces_of(results["benchmarks"]["startup"])
    sizes = [f"{size:,}" for size in _SHOWN_SIZES]
    small, large = ([cell for cell in cells if cell["size"] == size] for size in _SHOWN_SIZES)
    return (
        f"From bytes to a readable partial value (pace: {pace}), an event takes"
        f" {_range([cell['core_us']['pure'] for cell in cells], '.1f')} µs, in a response with fragments of"
        f" {_MEDIAN_FRAGMENT} characters. The length of the input does not matter."
        f" `messages.stream()` of {named_peers(results, 'bytes_to_events')} takes {_span(small)} µs in an input of"
        f" {sizes[0]} characters, and {_span(large)} µs in one of {sizes[1]}."
        f" `import eagerstream` takes {ours_ms:.0f} ms, because heavy packages are loaded when they are first used."
        f" `import anthropic` takes {theirs_ms:,.0f} ms ({named_peers(results, 'startup')}; pace: {import_pace})."
    )


def _span(cells: Iterable[Mapping[str, Any]]) -> str:
    costs = [cell["anthropic_us"] for cell in cells]
    return f"{_rounded(min(costs))} to {_rounded(max(costs))}"


@_section("early_start")
def early_start(results: Results) -> str:
    """Table of the times at which tools start and the second request is sent."""
    names = {
        "anthropic runner": f"tool runner of anthropic {results['conditions']['early_start']['anthropic']}",
        "anthropic runner, eager": "the same, `run_tools_eagerly`",
        "eagerstream, write streams": "eagerstream, the third tool streams",
    }
    sides: dict[str, list[Mapping[str, Any]]] = {}
    for side in results["benchmarks"]["early_start"]["sides"]:
        sides.setdefault(side["side"], []).append(side)
    table = [
        [
            names.get(name, name),
            f"{short['fast1_start_s']:.2f}",
            " / ".join(dict.fromkeys((f"{short['stall_s']:.2f}", f"{long['stall_s']:.2f}"))),
            f"{short['second_request_s']:.2f} ({short['critical_path_s']:.2f})",
            f"{long['second_request_s']:.2f} ({long['critical_path_s']:.2f})",
        ]
        for name, (short, long) in sides.items()
    ]
    late_ms = [
        side["first_item_late_s"] * 1000 for many in sides.values() for side in many if side["first_item_late_s"]
    ]
    heads = ("", "`fast1` starts", "longest stall", "second request (critical path), tools of 0.5 s", "of 2 s")
    late = f"The streaming tool handles its first item {_range(late_ms, '.1f')} ms after the last byte of the item."
    return f"{_numbers(heads, table)}\n\n{late}"


@_section("fault_matrix")
def faults(results: Results) -> str:
    """Table of the conversations under faults, by side."""
    names = {
        "anthropic runner": f"tool runner of anthropic {results['conditions']['fault_matrix']['anthropic']}",
        "anthropic runner, eager": "`run_tools_eagerly`",
        "anthropic runner, eager, rescued": "`run_tools_eagerly`, rescued",
    }
    heads = {
        "ended well": ("ends", "well"),
        "its own error": ("ends", "own_error"),
        "another library's error": ("ends", "raw_error"),
        "short, without an error": ("ends", "quiet"),
        "no end within 10 s": ("ends", "hang"),
        "orphaned `tool_use`": ("orphaned",),
        "the same, if the broken response is kept": ("orphaned_if_kept",),
        "result lost": ("lost",),
        "done twice": ("twice",),
        "ran with a wrong input": ("wrong",),
    }
    sides = results["benchmarks"]["fault_matrix"]["sides"]
    table = [
        [names.get(side["side"], side["side"]), *(str(_at(side, *path)) for path in heads.values())] for side in sides
    ]
    ours = next(side for side in sides if side["side"] == "eagerstream")
    stopped = {
        row: (counts["own_error"], sum(counts.get(end, 0) for end in ours["ends"]))
        for row, counts in ours["by_fault"].items()
        if counts.get("own_error")
    }
    most = sorted(stopped.items(), key=lambda item: -item[1][0])
    told = "; ".join(f"{row}, {count} of {of}" for row, (count, of) in most[:3])
    rest = sum(count for _, (count, _) in most[3:])
    short = ", ".join(f"{row}, {counts['quiet']}" for row, counts in ours["by_fault"].items() if counts.get("quiet"))
    return (
        f"{_numbers(('', *heads), table)}\n\n"
        f"The {ours['ends']['own_error']} errors of eagerstream, by fault: {told}; others, {rest}."
        f" The {ours['ends']['quiet']} that ended short: {short}."
    )


@_section("frameworks")
def frameworks(results: Results) -> str:
    """Table of the frameworks alone and with early start."""
    heads = ("framework, alone / with eagerstream", "to a tool's first effect", "to all results", "to the end")
    return _numbers(heads, [row.strip("| ").split(" | ") for row in results["benchmarks"]["frameworks"]["table"]])


@_section("continued_inputs", is_complete=True)
def continued_inputs(results: Results) -> str:
    """Table of the files that are cut off, by size and side."""
    figures = results["benchmarks"]["continued_inputs"]
    (pace,) = paces_of(figures)
    heads = ("file", "way", "requests", "output tokens", "input tokens", "done after", "cost", "calls of the tool")
    table = [
        [
            f"{int(size) // 1000} KB",
            side,
            *(f"{found[name]:,}" for name in ("requests", "output_tokens", "input_tokens")),
            f"{found['done_s']:,.0f} s",
            f"{found['cost']:,}",
            str(found["calls"]),
        ]
        for size, sides in figures["found"].items()
        for side, found in sides.items()
    ]
    cut = f"Cut after {figures['max_tokens']:,} tokens, the cap is {figures['cap']:,}. Pace: {pace}."
    return f"{_numbers(heads, table, texts=2)}\n\n{cut}"


@_section("watchers")
def watchers(results: Results) -> str:
    """Effect of 200 watchers on a run."""
    sides = results["benchmarks"]["watchers"]
    told = [
        f"{sides[name]['ratio']:.3f} times its duration without watchers, {sides[name]['lost']} events lost, each seen"
        f" after {sides[name]['seen_p50_ms']:.0f} ms (p50) {where}"
        for name, where in {"sockets": "over sockets", "its own loop": "in the event loop of the run"}.items()
    ]
    return f"A run of 100 events a second with 200 watchers: {'; '.join(told)} (`python -m benchmarks watchers`)."


@_section("thousand_runs")
def thousand_runs(results: Results) -> str:
    """Table of 1,000 runs in one process."""
    figures = results["benchmarks"]["thousand_runs"]
    size = f"{figures['runs']:,} runs, {figures['events']:,} events"
    forms = {"ratio": ".2f", "gc_share": ".0%", "kb_per_run": ".0f", "unfairness": ".2f", "restarts": "d"}
    table = [[side["name"], *(f"{side[name]:{form}}" for name, form in forms.items())] for side in figures["sides"]]
    return _numbers((size, "CPU", "of it GC", "KB per run", "slowest / median", "restarts"), table)


@_section("transport")
def transport(results: Results) -> str:
    """Table of the CPU of a run over each client."""
    figures = results["benchmarks"]["transport"]
    tls = {side["name"]: f"{side['ratio']:.2f}" for side in figures.get("tls", ())}
    size = f"{figures['events']:,} events, one per read"
    table = [
        [
            side["name"],
            f"{side['ratio']:.2f}",
            f"{side['cpu_s'] / figures['events'] * 1e6:.0f}",
            tls.get(side["name"], ""),
        ]
        for side in figures["plain"]
    ]
    return _numbers((size, "CPU", "µs per event", "CPU, over TLS"), table)


@_section("transport", "thousand_runs")
def cpu_profile(results: Results) -> str:
    """Table of the CPU of an event, by part of the code: of one run, and of 1,000 at once."""
    one, many = (results["benchmarks"][name]["profiles"] for name in ("transport", "thousand_runs"))
    runs = results["benchmarks"]["thousand_runs"]["runs"]
    sides = {**one, **{f"{runs:,} at once: {name}": costs for name, costs in many.items()}}
    parts = {part for costs in sides.values() for part in costs}
    most = sorted(parts, key=lambda part: -sum(costs.get(part, 0.0) for costs in sides.values()))
    rows = [[part, *(f"{costs.get(part, 0.0):.1f}" for costs in sides.values())] for part in most]
    rows.append(["all", *(f"{sum(costs.values()):.1f}" for costs in sides.values())])
    return _numbers(("µs per event", *sides), rows)


@_section(*_SPEED, is_complete=True)
def speed_targets(results: Results) -> str:
    """Table of the targets for transport, start and scale, met or not.

    Raises:
        LookupError: None of them was measured.
    """
    rows = [
        (row.work, row.against, row.pace, row.target, row.measured, {True: "yes", False: "no", None: "-"}[row.met])
        for name, words in _SPEED.items()
        for row in rows_of(results, [name])
        if row.work.startswith(words)
    ]
    if not rows:
        raise LookupError("targets of speed")
    return grid(("work", "compared with", "pace", "target", "measured", "met"), rows)


@_section("threads")
def threads(results: Results) -> str:
    """Table of conversations with and without message threads."""
    lengths: dict[int, list[Mapping[str, Any]]] = {}
    for side in results["benchmarks"]["threads"]["sides"]:
        lengths.setdefault(side["turns"], []).append(side)
    table = [
        [
            str(turns),
            *(f"{side['sent_bytes'] / 1e3:,.0f}" for side in sides),
            *(" / ".join(f"{ms:.0f}" for ms in side["last_ms"].values()) for side in sides),
        ]
        for turns, sides in lengths.items()
    ]
    names = ("with threads", "without", "`tool_runner`")
    heads = ("turns", *(f"KB, {name}" for name in names), *(f"ms, {name}" for name in names))
    return _numbers(heads, table, texts=0)


@_section("growth")
def growth(results: Results) -> str:
    """Needs of 1,000 runs on a cluster, simulated."""
    clusters = results["benchmarks"]["growth"]["clusters"]
    one, many = (cluster for cluster in clusters if cluster["runs"] == 1_000)
    rate = many["turns_per_s"]
    waiting, working = many["workers"]["waiting"], many["workers"]["working"]
    return (
        "Simulated with the costs of one machine (`python -m benchmarks growth`): 1,000 runs that never pause send"
        f" {rate:.0f} requests per second ({rate * 60:,.0f} per minute), and need {many['gateways']} gateways,"
        f" {waiting} workers for tools that wait and {working} for tools that compute. With {one['gateways']} gateway,"
        f" the median turn takes {one['slowdown_p50']:.1f} times as long. RESULTS.md has the next limits."
    )


@_section("latency_marks")
def latency_marks(results: Results) -> str:
    """Cost and accuracy of the marks of a run."""
    marks = results["benchmarks"]["latency_marks"]
    gap_ms, mark_ms = marks["gap between two fragments"][0], marks["mark since the first byte"][0]
    ratios = [marks[way]["ratio"] for way in ("in chunks of its own", "at once")]
    return (
        f"The median error of a gap is {gap_ms:.2f} ms, of a mark {mark_ms:.2f} ms. A run with marks takes"
        f" {_range(ratios, '.3f')} times the CPU of a run without (`python -m benchmarks latency_marks`)."
    )


@_section("verdicts")
def verdicts(results: Results) -> str:
    """Errors and power of the lab's verdicts, in simulated benchmarks."""
    figures = results["benchmarks"]["verdicts"]
    shares = {(cell["noise"], cell["rounds"]): cell for cell in figures["cells"]}
    sizes = list(dict.fromkeys(rounds for _, rounds in shares))

    def row(name: str, noise: str, key: str) -> list[str]:
        found = (shares[noise, rounds][key] for rounds in sizes)
        return [name, *("" if one is None else f"{one['share'] * 100:.1f} %" for one in found)]

    noises = {"plain": "skewed", "real": "and correlated, with outliers and drift", "ties": "and rounded, with ties"}
    rows = [row(f"false difference: {name}", noise, "false") for noise, name in noises.items()]
    rows += [row(f"difference found: {name}", noise, "found") for noise, name in noises.items()]
    until = [shares[noise, "until"]["mean_rounds"] for noise in noises]
    told = (
        "With six rounds, one figure has a verdict, and otherwise two. `until` stopped after"
        f" {_range(until, '.0f')} rounds of 10 to {figures['looks'][-1]}, on average. Its intervals are"
        f" {figures['wider']:.2f} times as wide as those of a benchmark of a fixed length. `first verdict` stops at"
        " the first look with any verdict. For comparison: five rounds, 15 figures, and a verdict if all five"
        f" differences have one sign report a false difference in {figures['simplest']['share'] * 100:.0f} % of"
        " benchmarks."
    )
    return f"{_numbers(('share of benchmarks, by rounds', *sizes), rows)}\n\n{told}"


@_section("speculation")
def speculation(results: Results) -> str:
    """Table of sessions with and without speculation across turns."""
    figures = results["benchmarks"]["speculation"]
    shares = {"25% hits": "0.25", "50%": "0.5", "75%": "0.75", "100%": "1", "as recorded": "recorded", "slower": "slow"}
    table = []
    for variant in figures["variants"]:
        cells, half = variant["cells"], variant["cells"]["0.5"]
        saved = (f"{cells[name]['saved']:.1%}" if name in cells else "" for name in shares.values())
        first = "the first result" if variant["tried"] == 1 else f"the first {variant['tried']} results"
        named = (f"{variant['session']}, {first}", variant["known_from"], f"{variant['seconds']:g} s")
        wasted = f"{half['wasted'] / half['hits']:.1f}"
        table.append([*named, *saved, wasted, "yes" if variant["pays"] else "no"])
    heads = ("session, and what is tried", "time known from", "a call takes", *shares, "wasted for a used one", "pays")
    return f"{_numbers(heads, table, texts=2)}\n\nAll {figures['pairs']:,} pairs of runs had equal histories."


@_section("other_tools")
def other_tools(results: Results) -> str:
    """Table of the same work measured by the lab and by other tools."""
    found = results["benchmarks"]["other_tools"]
    rows = [
        (name, tool, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.2f}")
        for tool in ("hyperfine", "aiperf")
        if tool in found
        for name, (theirs, ours) in found[tool]["figures"].items()
    ]
    heads = ("seconds, or requests per second", "tool", "its figure", "the lab", "times as much")
    return grid(heads, rows, [False, False, True, True, True])


@_section("bytes_to_events")
def bytes_to_events(results: Results) -> str:
    """Table of updates with the partial value, compared with `messages.stream()`."""
    cells = results["benchmarks"]["bytes_to_events"]["cells"]
    shown = [cell for cell in cells if cell["fragment_chars"] == _MEDIAN_FRAGMENT and cell["size"] in _SHOWN_SIZES]
    table = []
    for cell in shown:
        about = "~" if cell["anthropic_sampled"] else ""
        core, ratios = cell["core_us"], cell["core_ratios"]
        ours = (f"{us:.1f}" for us in (core["pure"], core["compiled"], cell["stream_us"]))
        times = (f"{about}{_rounded(ratio)}" for ratio in (ratios["pure"], ratios["compiled"], cell["stream_ratio"]))
        theirs = f"{about}{_rounded(cell['anthropic_us'])}"
        table.append([cell["kind"], f"{cell['input_chars']:,}", *ours, theirs, *times])
    heads = (
        "input",
        "characters",
        "core",
        "compiled",
        "`stream()`",
        "`messages.stream()`",
        "core cheaper by",
        "compiled",
        "`stream()`",
    )
    ranges = [
        f"{name} {_rounded(min(ratios))} to {_rounded(max(ratios))}"
        for name, ratios in {
            "core": [cell["core_ratios"]["pure"] for cell in cells],
            "compiled": [cell["core_ratios"]["compiled"] for cell in cells],
            "`stream()`": [cell["stream_ratio"] for cell in cells],
        }.items()
    ]
    over_all = f"Ratios over all {len(cells)} cells (fragments of 4 to 64 characters): {', '.join(ranges)}."
    return f"{_numbers(heads, table)}\n\n{over_all}"


@_section("partial_values")
def partial_values(results: Results) -> str:
    """Table of a value after every fragment, compared with other parsers."""
    cells = {
        (cell["flavor"], cell["side"], cell["size"], cell["fragment_chars"]): cell
        for cell in results["benchmarks"]["partial_values"]["cells"]
    }
    sides = {
        "`PartialJSON`": ("pure", "eagerstream"),
        "compiled": ("compiled", "eagerstream"),
        "floor": ("pure", "floor"),
        "jsonriver (node)": ("", "jsonriver, one at a time"),
        "jiter": ("pure", "jiter"),
        "pydantic_core": ("pure", "pydantic_core"),
        "partial-json-parser": ("pure", "partial-json-parser"),
    }
    table = []
    for size, fragment in ((1_000, 4), (1_000, 64), (100_000, 4), (100_000, 64)):
        found = [cells.get((*side, size, fragment)) for side in sides.values()]
        shown = ["-" if cell is None else f"{'~' if cell['sampled'] else ''}{_rounded(cell['us'])}" for cell in found]
        table.append([f"{size:,}", str(fragment), *shown])
    return _numbers(("characters", "fragment", *sides), table, texts=0)


@_section("streaming_parsers")
def streaming_parsers(results: Results) -> str:
    """Table of a value after every fragment in parsers of several languages."""
    heads, rows = table(Cell(**cell) for cell in results["benchmarks"]["streaming_parsers"]["cells"])
    return grid(heads, rows, [title.endswith("characters") or title == "growth" for title in heads])


@_section("typed_partials")
def typed_partials(results: Results) -> str:
    """Table of a typed value after every fragment, compared with other libraries."""
    figures = results["benchmarks"]["typed_partials"]["cells"]
    cells = {(cell["side"], cell["size"]): cell["us"] for cell in figures}
    sides = {
        "eagerstream": "eagerstream",
        "eagerstream, one string": "one string",
        "pydantic": "pydantic",
        "instructor": "instructor",
        "genkit": "genkit",
    }
    table = []
    for size in sorted({cell["size"] for cell in figures}):
        found = [cells.get((side, size)) for side in sides.values()]
        table.append([f"{size:,}", *("-" if us is None else _rounded(us) for us in found)])
    return _numbers(("characters", *sides), table, texts=0)


@_section(*_COSTS, is_complete=True)
def costs(results: Results) -> str:
    """Table of other costs, one per row."""
    costs = [*_streaming_costs(results["benchmarks"]), *_other_costs(results["benchmarks"])]
    rows = [
        (cost, named_peers(results, name), ", or ".join(paces_of(results["benchmarks"][name])), measured)
        for name, cost, measured in costs
    ]
    return grid(("cost", "compared with", "pace", "measured"), rows)


def _streaming_costs(all_figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the benchmark, the name and the figures of each cost."""
    cells = all_figures["unwatched"]["cells"]
    groups = {
        "recorded responses:": [cell for cell in cells if cell["kind"] == "recorded responses"],
        f"synthetic ones, fragments of {_MEDIAN_FRAGMENT}:": [
            cell for cell in cells if cell["fragment_chars"] == _MEDIAN_FRAGMENT
        ],
        "synthetic ones, fragments of 4 to 64:": [cell for cell in cells if cell["kind"] != "recorded responses"],
    }
    unwatched = "; ".join(
        f"{name} {_ratios(found, 'pure')} times (compiled {_ratios(found, 'compiled')})"
        for name, found in groups.items()
    )
    alone, beside = (
        f"p50 {case['ms']['50']:.2f}, p99 {case['ms']['99']:.2f} ms"
        f" (an empty task: {case['bare_ms']['50']:.2f}, {case['bare_ms']['99']:.2f})"
        for case in all_figures["hand_off"]["figures"]
    )
    many = all_figures["many_inputs"]
    return [
        ("unwatched", "updates, `partial` never read, compared with `jiter.from_json` of each `data:` line", unwatched),
        (
            "hand_off",
            "from the end of an input to the first line of its tool",
            f"{alone}; during 8 other streams {beside}",
        ),
        (
            "many_inputs",
            "1,000 inputs at once, compared with one after another",
            f"{many['at_once_us'] / many['one_after_another_us']:.2f} times the CPU per event",
        ),
    ]


def _other_costs(all_figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    memory = all_figures["memory"]["cells"]
    peaks = "; ".join(f"{cell['kind']}: {cell['peak']:.1f}" for cell in memory)
    more = _range([cell["peak"] - cell["value"] for cell in memory], ".1f")
    blocks = all_figures["blocking"]["blocks"]
    blocked = ", ".join(
        f"{max(block['longest_ms'] for block in blocks if step in block['step']):.2f} ms by {name}"
        for step, name in {
            "16 KB": "16 KB of body",
            "64 KB": "64 KB",
            "a look": "a read of `partial` after 16 MB",
            "the end": "the end of 16 MB",
            "the message": "the message with an input of 16 MB that is invalid at its end",
        }.items()
    )
    seconds = all_figures["startup"]["seconds"]
    first = ", ".join(
        f"{seconds[what] * 1000:,.0f} ms with {name}"
        for what, name in {
            "stream, HTTPTransport with httpx2": "`stream` over `HTTPTransport`",
            "stream, AsyncAnthropic": "`stream` over `AsyncAnthropic`",
            "anthropic, messages.stream()": "`messages.stream()`",
        }.items()
    )
    imports = ", ".join(
        f"`{name}` {seconds[name] * 1000:,.0f} ms" for name in ("import eagerstream", "import anthropic")
    )
    *frames, largest = (cell["ratio"] for cell in all_figures["bedrock_frames"]["cells"])
    return [
        (
            "memory",
            "peak memory while an input of 16 MB streams, in sizes of the input",
            f"{peaks}; {more} more than the value alone",
        ),
        ("blocking", "longest time for which the event loop is blocked", blocked),
        ("startup", "import", imports),
        ("startup", "from the start of a program to its first request", first),
        (
            "bedrock_frames",
            "frames of Bedrock, compared with the client's own decoder",
            f"{_range(frames, '.1f')} times cheaper; one event of 6 MB {largest:.0f} times",
        ),
    ]


@_section("code_tool")
def code_tool(results: Results) -> str:
    """Tables of code that runs while it is written: times of tasks, characters that are read, and fixed costs."""
    figures = results["benchmarks"]["code_tool"]
    tasks = list(dict.fromkeys(task for times in figures["sides"].values() for task in times))
    times = [
        [
            side,
            *(f"{times[task]['effect_s']:.2f} / {times[task]['end_s']:.2f}" if task in times else "" for task in tasks),
        ]
        for side, times in figures["sides"].items()
    ]
    read = [
        [
            cell["side"],
            f"{cell['chars']:,}",
            *(f"{cell[name] / cell['chars']:,.1f}" for name in ("json_chars", "code_chars", "compiled_chars")),
            f"{cell['early_chars'] / cell['chars']:.0%}",
            f"{cell['cpu_s'] / cell['chars'] * 1e6:.1f}",
        ]
        for cell in figures["cells"]
        if cell["compiled_chars"]
    ]
    costs = [
        [cost["name"], *("" if cost[name] is None else f"{cost[name]:.2f}" for name in _FIXED_COSTS)]
        for cost in figures["costs"]
    ]
    heads = ("code", "characters", "decoded as JSON", "examined", "compiled", "run early", "ms per 1,000")
    return "\n\n".join(
        (
            _numbers(("first effect / end", *tasks), times),
            "Characters read for each one of the code, for code of 1 to 100 KB without calls, and the CPU of the run:",
            _numbers(heads, read),
            "Milliseconds of the fixed parts. A direct call is one that the model makes itself:",
            _numbers(("", *_FIXED_COSTS.values()), costs),
        )
    )


_FIXED_COSTS: Final = {"start_ms": "start of the interpreter", "statement_ms": "statement", "call_ms": "call of a tool"}


@_section(*BENCHMARKS, is_complete=True)
def misses(results: Results) -> str:
    """Table of all targets that were missed."""
    rows = [row for row in rows_of(results) if row.met is not None]
    missed = [(row.work, row.against, row.pace, row.target, row.measured) for row in rows if not row.met]
    heads = ("work", "compared with", "pace", "target", "measured")
    return f"**{len(rows) - len(missed)} of {len(rows)} targets are met.** The others:\n\n{grid(heads, missed)}"


def _numbers(heads: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table whose first `texts` columns are texts, and whose others are numbers."""
    return grid(heads, rows, [number >= texts for number in range(len(heads))])


def _at(figures: Any, *path: str) -> Any:
    for name in path:
        figures = figures[name]
    return figures


def _ratios(cells: Iterable[Mapping[str, Any]], flavor: str) -> str:
    return _range([cell["ratio"] for cell in cells if cell["flavor"] == flavor], ".1f")


def _range(figures: Sequence[float], form: str) -> str:
    if not figures:
        raise LookupError("figures of one flavor or kind")
    return f"{min(figures):{form}} to {max(figures):{form}}"


def _rounded(figure: float) -> str:
    """Return three significant digits at most."""
    if figure < 1:
        return f"{figure:.2f}"
    if figure < 20:
        return f"{figure:.1f}"
    return f"{round(figure, 2 - len(str(int(figure))) + 1):,.0f}"
