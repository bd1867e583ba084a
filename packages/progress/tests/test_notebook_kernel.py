"""The notebook of the docs, executed by a kernel and looked at in Chromium.

With `EAGERSTREAM_SCREENSHOTS=examples`, its outputs and its picture are written there anew.
"""

from __future__ import annotations

import os
import re
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.browser import chromium
from tests.source_tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

nbformat: Any = import_module("nbformat")  # without types
nbclient: Any = import_module("nbclient")
EXAMPLES = ROOT / "examples"
_HEAD = '<!doctype html><meta charset="utf-8"><title>Notebook</title><body style="font: 15px system-ui; width: 1000px">'


def executed() -> Any:
    """The notebook with its outputs. The kernel is that of this interpreter."""
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    return nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute(cwd=str(EXAMPLES))


def page_of(notebook: Any) -> str:
    """The cells as HTML, as notebook programs show them."""
    parts = [_HEAD]
    for cell in notebook.cells[2:]:  # after the title and the definitions
        style = "background: #f4f4f4; padding: 8px; font-size: 13px" if cell.cell_type == "code" else "font: inherit"
        parts.append(f'<pre style="{style}">{escape(cell.source)}</pre>')
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            parts.append(
                data.get("text/html") or f"<pre>{escape(output.get('text') or data.get('text/plain', ''))}</pre>"
            )
    return "\n".join(parts)


def test_the_notebook_of_the_docs(tmp_path: Path) -> None:
    """It runs without an error, and its outputs are displayed: panels, figures, a picture, and no markup of a model."""
    notebook = executed()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [[output.output_type for output in cell.outputs] for cell in code] == [
        [],
        ["display_data"],
        ["execute_result"],
        ["execute_result"],
        ["execute_result"],
        ["stream"],
    ]
    (tmp_path / "page.html").write_text(page_of(notebook), encoding="utf-8")
    with chromium(tmp_path / "profile") as browser:
        browser.set_window_size(1040, 1250)
        browser.get((tmp_path / "page.html").as_uri())
        text = browser.find_element("tag name", "body").text
        for shown in ("poem.txt", "15 degrees", "completed", "It is <15> degrees", "get_weather (1)"):
            assert shown in text
        assert "\x1b" not in text
        assert not re.search(r"\[\?\d+[hl]", text)
        picture = browser.find_element("tag name", "svg")
        assert picture.size["width"] > 200
        assert picture.size["height"] > 20
        browser.save_screenshot(str(tmp_path / "notebook.png"))
    if folder := os.environ.get("EAGERSTREAM_SCREENSHOTS"):
        kept = EXAMPLES.parent / folder
        (kept / "notebook.png").write_bytes((tmp_path / "notebook.png").read_bytes())
        for cell in notebook.cells:
            cell.metadata = {}
        nbformat.write(notebook, kept / "notebook.ipynb")
