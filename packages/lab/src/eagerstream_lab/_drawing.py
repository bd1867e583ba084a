"""Matplotlib figures as SVG elements that use the colours and fonts of the page.

Matplotlib writes a document with its own style rules and fixed colours, and repeats ids between figures. This module
turns it into an element without rules. Its ids have a prefix, and its colours are CSS variables. One picture then
serves on the screen, in dark mode and on paper. Many bars and lines are combined into few elements, which saves most of
the time and of the size.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Final, TypeAlias
from xml.etree import ElementTree as ET

from eagerstream._support.markup import Markup, plain
from eagerstream.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK: Final = "#1d1d24"
FAINT: Final = "#5d5d69"
RULE: Final = "#dedcd5"
GROUND: Final = "#fffffe"
BLOCK: Final = "#a9c6f5"
ARRIVAL: Final = "#2f62b5"
TOOL: Final = "#5b2a96"
ON_TOOL: Final = "#fefefe"
EAGER: Final = "#1d5fd1"
BUFFERED: Final = "#a34101"

_VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    RULE: "--rule",
    GROUND: "--card",
    BLOCK: "--block",
    ARRIVAL: "--arrival",
    TOOL: "--tool",
    ON_TOOL: "--on-tool",
    EAGER: "--eager",
    BUFFERED: "--buffered",
}
"""CSS variable of the page for each colour; see `page.html`."""

SIZE: Final = 9
"""Font size in points: 12 pixels if a figure has the width at which it was drawn."""

WIDE: Final = 9.5
NARROW: Final = 4.6
"""Widths of figures in inches: the column of the page, and half of it."""


@contextmanager
def matplotlib_settings() -> Iterator[None]:
    """Set Matplotlib to this module's settings until the block ends, then restore the user's settings.

    Settings apply to the process: figures that another thread draws meanwhile look like these.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench", error.name or "matplotlib", package="eagerstream-lab") from error
    log = logging.getLogger("matplotlib.font_manager")
    with mpl.rc_context(), warnings.catch_warnings(), ExitStack() as stack:
        # Fonts that are missing here are no matter: the page brings its own.
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        # The measuring font lacks some characters that a model writes. The page's fonts have them.
        warnings.filterwarnings("ignore", message=r".*[Gg]lyph.*")
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "eagerstream",
                "text.parse_math": False,  # a dollar is a dollar
                "axes.unicode_minus": True,
                "font.size": SIZE,
                "text.color": INK,
                "axes.labelcolor": FAINT,
                "axes.edgecolor": RULE,
                "axes.spines.left": False,
                "axes.spines.right": False,
                "axes.spines.top": False,
                "axes.facecolor": "none",
                "figure.facecolor": "none",
                "savefig.facecolor": "none",
                "xtick.color": RULE,
                "ytick.color": RULE,
                "xtick.labelcolor": FAINT,
                "ytick.labelcolor": FAINT,
                "grid.color": RULE,
                "grid.linewidth": 0.6,
                "axes.axisbelow": True,
                "path.simplify": False,  # many short lines are no curve
                "axes.xmargin": 0,
                "axes.ymargin": 0,
            }
        )
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, unknown to pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def svg_of(figure: Figure, *, prefix: str, label: str) -> Markup:
    """Return the figure as an element of a page.

    Args:
        figure: Figure drawn within `matplotlib_settings`.
        prefix: Prefix of its ids, unique in the page.
        label: Description for readers who cannot see the figure.
    """
    written = StringIO()
    figure.savefig(written, format="svg")
    root = ET.XML(written.getvalue())
    for parent in root.iter():
        for child in list(parent):
            if _name(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = {id for part in root.iter() for value in part.attrib.values() for id in _REFERENCES.findall(value)}
    for part in root.iter():
        part.tag = _name(part.tag)
        attributes = {_name(name): _rewritten(_name(name), value, prefix) for name, value in part.attrib.items()}
        if part.get("id") not in used:
            attributes.pop("id", None)
        part.attrib.clear()
        part.attrib.update(attributes)
    left, top, width, height = root.attrib["viewBox"].split()
    root.attrib.clear()
    root.attrib.update(
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"{left} {top} {width} {height}",
            "role": "img",
            "aria-label": plain(label),
            "style": f"max-width: {float(width) * 4 / 3:.0f}px",
        }
    )
    return Markup(_SPACE.sub("><", ET.tostring(root, encoding="unicode")))


_REFERENCES: Final = re.compile(r"(?:^|url\()#([\w.-]+)")
_COLOURS: Final = re.compile(r"#[0-9a-f]{6}")
_FONTS: Final = re.compile(r"font-family: [^;]*;?")
_LONG_NUMBERS: Final = re.compile(r"(\d+\.\d\d)\d+")
_SPACE: Final = re.compile(r">\s*\n\s*<")


def _name(tag: str) -> str:
    return tag.rpartition("}")[2]


def _rewritten(name: str, value: str, prefix: str) -> str:
    match name:
        case "style":
            value = _COLOURS.sub(lambda found: f"var({_VARIABLES[found[0]]})", _FONTS.sub("", value))
        case "id":
            return prefix + value
        case "d" | "x" | "y" | "width" | "height" | "transform" | "points":
            value = _LONG_NUMBERS.sub(r"\1", value)
        case _:
            pass
    return _REFERENCES.sub(lambda found: f"{found[0].removesuffix(found[1])}{prefix}{found[1]}", value)


# --- many shapes ------------------------------------------------------------------------------------------------------


_Style: TypeAlias = tuple[str, str, float, bool]
_Point: TypeAlias = tuple[float, float]


class Shapes:
    """Bars and lines in units of the axes on which they are drawn.

    Styles are layered in the order of their first use.
    """

    def __init__(self) -> None:
        self._paths: dict[_Style, list[list[_Point]]] = {}
        self._diamonds: dict[tuple[str, str], list[_Point]] = {}

    def bar(self, start: float, stop: float, span: tuple[float, float], *, face: str, edge: str) -> None:
        """Add a bar from `start` to `stop` across and `span` down; a colour may be "none"."""
        top, bottom = span
        corners = [(start, top), (stop, top), (stop, bottom), (start, bottom), (start, top)]
        self._paths.setdefault((face, edge, 0.8, False), []).append(corners)

    def line(self, points: list[_Point], *, colour: str, width: float = 1.0, dashed: bool = False) -> None:
        """Add a line through the points."""
        self._paths.setdefault(("none", colour, width, dashed), []).append(points)

    def ticks(self, at: Iterable[float], span: tuple[float, float], *, colour: str, width: float) -> None:
        """Add short vertical lines, one at each position."""
        top, bottom = span
        for place in at:
            self.line([(place, top), (place, bottom)], colour=colour, width=width)

    def diamond(self, at: float, down: float, *, face: str, edge: str) -> None:
        """Add a mark of fixed size, above all bars and lines."""
        self._diamonds.setdefault((face, edge), []).append((at, down))

    def draw(self, axes: Axes) -> None:
        """Draw all shapes, clipped at the axes."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        for (face, edge, width, dashed), lines in self._paths.items():
            points = [point for line in lines for point in line]
            codes = [code for line in lines for code in (Path.MOVETO, *[Path.LINETO] * (len(line) - 1))]
            style = (0, (2, 2)) if dashed else "solid"
            path = Path(points, codes)
            axes.add_artist(PathPatch(path, facecolor=face, edgecolor=edge, linewidth=width, linestyle=style))
        for (face, edge), points in self._diamonds.items():
            across, down = zip(*points, strict=True)
            axes.plot(across, down, "D", markersize=4, markerfacecolor=face, markeredgecolor=edge, zorder=5)
