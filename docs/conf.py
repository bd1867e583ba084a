"""Settings of Sphinx for the documentation: `make docs`."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# Pages are made of the package, its benchmarks and its tests, as they are in the checkout.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

project = "eagerstream"
author = "The eagerstream developers"
copyright = f"2026, {author}"
version = release = version_of("eagerstream")

extensions = [
    "myst_parser",
    "docs._ext.reference",
    "docs._ext.generated",
    "docs._ext.llms",
    "docs._ext.accessible",
    "docs._ext.links",
]
exclude_patterns = ["_ext"]

nitpicky = True  # a reference that leads nowhere is a warning, and a warning fails the build
default_role = "name"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120  # with the full names of types, which the page shows without module
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "eagerstream"
html_static_path = ["_static"]
html_css_files = ["eagerstream.css"]
html_copy_source = False
html_show_sphinx = False
