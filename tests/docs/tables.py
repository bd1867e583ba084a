"""Write the tables of models and of assumptions into their pages: `python -m tests.docs.tables`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eagerstream_testing._assumptions import Assumption, assumption_table
from eagerstream_wire import ModelFacts, model_table

_GUIDES: Final = Path(__file__).parents[2] / "docs/guides"


def models() -> str:
    """What each model accepts, in Markdown."""
    head = "| models | prefill | sampling parameters | `thinking` | forced `tool_choice` | context | output |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(_row_of_models, model_table())]) + "\n"


def _row_of_models(facts: ModelFacts) -> str:
    words = {True: "yes", False: "no", None: ""}
    sizes = ["" if size is None else f"{size:,}" for size in (facts.context_tokens, facts.output_tokens)]
    cells = [
        ", ".join(f"`{id}`" for id in facts.ids),
        words[facts.prefill],
        words[facts.sampling],
        ", ".join(f"`{kind}`" for kind in facts.thinking or ()),
        facts.forced_tool_choice or "",
        *sizes,
    ]
    return f"| {' | '.join(cells)} |"


def assumptions() -> str:
    """What is assumed of the API, in Markdown."""
    rows = map(_row_of_assumption, assumption_table()["assumptions"])
    return "\n".join(["| id | the API | source |", "|---|---|---|", *rows]) + "\n"


def _row_of_assumption(row: Assumption) -> str:
    statement = re.sub(r"(?<![`\w])([A-Za-z]+(?:_\w+)+(?:\.\w+)?)", r"`\1`", row.statement.replace("|", "\\|"))
    source = f"[{row.date}]({row.source})" if row.source.startswith("https://") else row.source
    return f"| `{row.id}` | {statement} | {source} |"


TABLES: Final[dict[Path, Callable[[], str]]] = {_GUIDES / "models.md": models, _GUIDES / "assumptions.md": assumptions}
"""The function that makes the table of a page. It stands between two comments, with the name of the page."""


def with_table(page: Path, rendered: str) -> str:
    """The text of a page with a table in place of the one that is there."""
    begin, end = f"<!-- {page.stem} -->\n", f"<!-- end of {page.stem} -->"
    return re.sub(f"(?s){begin}.*{end}", lambda _: f"{begin}{rendered}{end}", page.read_text("utf-8"))


if __name__ == "__main__":
    for page, table in TABLES.items():
        page.write_text(with_table(page, table()), "utf-8")
