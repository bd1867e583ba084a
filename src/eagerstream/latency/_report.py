"""The results of a benchmark as one HTML file: nothing is fetched, nothing runs in it, and it can be printed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from .._support.files import replacing
from .._support.markup import element, joined
from . import _tables as tables
from ._drawing import matplotlib_settings
from ._pictures import Pictures
from ._results import Results
from ._wording import Names, moment


def write_report(results: Results, path: Path) -> None:
    """Write the report to a file; what is there is replaced, once the new one is whole.

    Args:
        results: What was measured.
        path: Of the HTML file.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        OSError: It cannot be written.
    """
    text = report_html(results)
    with replacing(path, private=False) as file:  # a report is to be shown to others
        file.write(text.encode())


def report_html(results: Results) -> str:
    """The report as text.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    names = Names(results)
    with matplotlib_settings():
        pictures = Pictures(results, names)
        main = element(
            "main",
            tables.verdicts(results, names),
            tables.medians(results, names),
            pictures.distributions(),
            pictures.beside(),
            pictures.gaps(),
            pictures.waterfalls(),
            tables.failed(results, names),
        )
    kind = "Simulated latency" if results["simulated"] else "Latency"
    title = joined(f"{kind} of streamed tool inputs, {moment(results['created_at'])}")
    page = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
    return page.substitute(title=title, body=joined(tables.head(results), main))
