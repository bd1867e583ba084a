"""`Shapes`: many bars and lines that become few elements, one for each style. It is most of the time and the size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Style: TypeAlias = tuple[str, str, float, bool]
_Point: TypeAlias = tuple[float, float]


class Shapes:
    """Bars and lines in the units of the axes that they are drawn on in the end.

    Styles lie on each other in the order in which they were first used.
    """

    def __init__(self) -> None:
        self._paths: dict[_Style, list[list[_Point]]] = {}
        self._diamonds: dict[tuple[str, str], list[_Point]] = {}

    def bar(self, start: float, stop: float, span: tuple[float, float], *, face: str, edge: str) -> None:
        """From `start` to `stop` across, `span` down; a colour may be "none"."""
        top, bottom = span
        corners = [(start, top), (stop, top), (stop, bottom), (start, bottom), (start, top)]
        self._paths.setdefault((face, edge, 0.8, False), []).append(corners)

    def line(self, points: list[_Point], *, colour: str, width: float = 1.0, dashed: bool = False) -> None:
        """From point to point."""
        self._paths.setdefault(("none", colour, width, dashed), []).append(points)

    def ticks(self, at: Iterable[float], span: tuple[float, float], *, colour: str, width: float) -> None:
        """Short lines down, at each place across."""
        top, bottom = span
        for place in at:
            self.line([(place, top), (place, bottom)], colour=colour, width=width)

    def diamond(self, at: float, down: float, *, face: str, edge: str) -> None:
        """A mark of one size, above all bars and lines."""
        self._diamonds.setdefault((face, edge), []).append((at, down))

    def draw(self, axes: Axes) -> None:
        """All of it, cut off where the axes end."""
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
