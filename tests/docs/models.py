"""Write the table of models into its page: `python -m tests.docs.models`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from eagerstream.tools import ModelFacts, model_table

PAGE: Final = Path(__file__).parents[2] / "docs/guides/models.md"
_BEGIN, _END = "<!-- models -->\n", "<!-- end of models -->"


def rendered() -> str:
    """The table in Markdown."""
    head = "| models | prefill | sampling parameters | `thinking` | forced `tool_choice` | context | output |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(_row, model_table())]) + "\n"


def _row(facts: ModelFacts) -> str:
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


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"(?s){_BEGIN}.*{_END}", lambda _: f"{_BEGIN}{rendered()}{_END}", page), "utf-8")
