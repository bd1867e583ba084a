"""The parts that the sections of a report are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._support.markup import Child, Markup, element
from .._support.wording import count_text
from ._results import Results


def section(results: Results, title: str, *content: Child, how: str | None = None) -> Markup:
    """A section of the page; its title says so where the figures are simulated.

    Args:
        results: Whose.
        title: Of the section.
        content: What it holds.
        how: How to read it.
    """
    if results["simulated"]:
        title += " (simulated)"
    return element("section", element("h2", title), element("p", how, class_="how") if how else None, *content)


def scroll(content: Markup, label: str) -> Markup:
    """What may be wider than a telephone; reached by the keyboard, so that it can be scrolled with it."""
    return element("div", content, class_="scroll", tabindex=0, role="group", aria_label=label)


def table(heads: Sequence[str], bodies: Iterable[Markup], *, numbers: Sequence[str] = ()) -> Markup:
    """A table; the columns of `numbers` stand at their right."""
    cells = (element("th", name, scope="col", class_="number" if name in numbers else None) for name in heads)
    return element("table", element("thead", element("tr", *cells)), *bodies)


def left_out(number: int, what: str) -> Markup | None:
    """That so many are not shown; nothing where all are."""
    if number <= 0:
        return None
    return element("p", f"{count_text(number, what)} left out; the results as JSON have all.", class_="how")
