"""The table of parsers in several languages."""

from __future__ import annotations

from benchmarks.partial_value_cells import Cell
from benchmarks.streaming_parsers import FRAGMENT_CHARS, SIZES, table


def _cells(side: str, us: tuple[float, float, float], *, flavor: str = "", sampled: bool = False) -> list[Cell]:
    return [
        Cell(flavor=flavor, side=side, size=size, chars=size, fragment_chars=FRAGMENT_CHARS, us=one, sampled=sampled)
        for size, one in zip(SIZES, us, strict=True)
    ]


def test_a_parser_that_reads_the_text_again_is_called_quadratic() -> None:
    """The table says for each side which language it is in, and what a document costs."""
    cells = [
        *_cells("eagerstream", (1.0, 1.0, 1.1), flavor="pure"),
        *_cells("eagerstream", (0.3, 0.3, 0.3), flavor="compiled"),
        *_cells("jiter", (2.0, 13.0, 128.0), flavor="pure", sampled=True),
        *_cells("partial-json", (20.0, 200.0, 2_000.4)),
    ]
    heads, rows = table(cells)
    assert all(len(row) == len(heads) for row in rows)
    assert rows == [
        ["eagerstream, pure", "Python", "1.00", "1.00", "1.10", "1.1", "linear"],
        ["eagerstream, compiled", "Python", "0.30", "0.30", "0.30", "1.0", "linear"],
        ["jiter", "Python", "~2.00", "~13", "~128", "9.8", "quadratic"],
        ["partial-json", "TypeScript", "20", "200", "2,000", "10.0", "quadratic"],
    ]
