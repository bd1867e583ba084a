"""`StatementSplitter`: the statements of Python code, however its text arrives."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import assume, given, strategies as st
from tests.sampling import PARTS, drawn, is_in_part
from tests.tables import rows

from eagerstream_toolkit._code import statements
from eagerstream_toolkit._code.statements import Statement, StatementSplitter

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")

CLAUSES = ("else", "elif", "except", "finally")


def split(pieces: Iterable[str]) -> list[Statement]:
    """Return the statements of a source that arrives in pieces."""
    splitter = StatementSplitter()
    return [each for piece in pieces for each in splitter.feed(piece)] + splitter.close()


def in_pieces(source: str, chars: int) -> Iterable[str]:
    return (source[start : start + chars] for start in range(0, len(source), chars))


def expected(source: str) -> list[tuple[int, int, bool]]:
    """Return the first and last line of each top-level statement, as the compiler sees them, and if it has a block."""
    found: list[tuple[int, int, bool]] = []
    for node in ast.parse(source).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        last = node.end_lineno or first
        has_block = hasattr(node, "body") or hasattr(node, "cases")
        if found and first <= found[-1][1]:  # several statements on a line
            found[-1] = (found[-1][0], max(found[-1][1], last), has_block)
        else:
            found.append((first, last, has_block))
    return found


def lines_of(found: list[Statement]) -> list[tuple[int, int]]:
    return [(each.line, each.end_line) for each in found]


def is_valid(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError):
            return False
    return True


# --- code that the compiler accepts -----------------------------------------------------------------------------------

SIMPLE = [
    *["x = 1", "x = 1; y = 2;", "x = [\n1,\n# ]\n2]", "x = {\n'}': (\n')')}", "x = 1 + \\\n  2", "'a' \\\n'b'", "..."],
    *["'''a\n'b'\n  # no comment\nif x:\n'''", '"""\\"""\n"""', "'a\\\nb'", "r'\\''", "b'\"'", "rb'\\\\'", "u'x'"],
    *["match = 1", "match(x)", "match.y = 2", "match: int = 3", "match[x:y]", "case = 2", "type = 1", "type(x)"],
    *["match = {  # :\n1: 2}", "match = lambda: (\n0)", "type X = int", "print(match, case)", "# :\nmatch  # :"],
    *["é = 1", "else\u0301 = 1", "elsewhere = 1", "finally_()", "exceptional = 1", "elifs = 1", "变量 = '变量'"],
    *["x = y if'{'else z", "x = 1if'}'else(2)", "x = a or'{'", "x = lambda y: {y: 1}", "x: dict[str, int] = {}"],
    *["f'{x}'", "f'{{'", "f'}}'", "f'{{{x}}}'", "f'{x:>{y}}'", "f'{x!r:}'", "f'{x:%H:%M}'", "f'{x!r:>{y}.{z}}'"],
    *["f'{a[1:2]}'", "f'{ {1: 2}[1] }'", "f'{(lambda y: 1)(2)}'", "f'{(y := 1)}'", "f'{y:=1}'", "f'{x != y}'"],
    *["f'\\N{BULLET}{x}'", "rf'\\N{x}'", "f'\\{x}'", "f'\\\\{x}'", "rf'\\{x}'", "f'{x:\\{y}}'", "f'{x=}'", "Rf'{x}'"],
    *["f'{\"'\"}'", "f'{x:#}'", "f'''{\nx\n}'''", 'f"""{x:\n}"""', "f'''{'it''s'}'''", 'f"{x}\\"{y}"', "f'{x:{{}}}'"],
    *["f'{x # }\n}'", 'f"{d["a"]}"', 'f"{f"{f"{x}"}"}"', "f'{x\n}'", "f'{x:\n}'", "f'{'a' 'b'}'", "f'{'\\n'}'"],
    "f'\\'(' # '",
    *["t'{x}'", "tr'{x:{y}}'", "t'{f'{x}'}'", "RT'\\N{x}'", "await x", "x = await y", "x = 1\f", "x\t=\t1", "del x, y"],
]
"""Complete lines. Versions of Python that do not have a form leave it out."""
HEADS = [
    *[
        "if x:",
        "if x:\n{}\nelif y:",
        "if x:\n{}\nelse:",
        "while x:",
        "while x :  # :",
        "if (x and\ny):",
        "if x \\\nand y:",
    ],
    *["if x:\n{}\n# c\n\n  # d\nelse:", "if x:\n{}\n\\\nelse:", "for x in y:", "for x in y:\n{}\nelse :"],
    *["try:\n{}\nexcept:", "try:\n{}\nexcept* E:", "try:\n{}\nfinally:", "async for x in y:", "with a as b:"],
    *["try:\n{}\nexcept E:\n{}\nelse:\n{}\nfinally:", "async with a, b:", "async def f(x=':'):", "class A(B):"],
    *["def f(\nx, *, y\n) -> z:", "class else_:", "def else·():", "@d\nclass A:", "@d\\\n\ndef f():"],
    "@d(1,\n2)\n# c\n\n@e\nasync def f():",
]
"""Statements with blocks, without the last block."""
ONE_LINE = [
    *["if x: y", "if x: y; z;", "for x in y: z\nelse: z", "try: x\nexcept: y", "try: x\nexcept*E: y\nfinally: z"],
    *["def f(): return 1", "class A: pass", "with a: b", "@d\ndef f(): ...", "if x: '''\n'''\nelif y: (\n1)\nelse: z"],
    *["match x:\n case 1: y\n case _: z", "match x:  # :\n  case y: z"],
    "match (x,\ny):\n\tcase[1, _]: z\n\t#\n\n\tcase{'x': 1}:\n\t\tz",
]
BETWEEN = ["", "", "", "\n", "# it's\n", "  # c\n", "\n \t\n\f\n", "#\n\n#:(\n"]
SIMPLE = [each for each in SIMPLE if is_valid(each)]
ONE_LINE = [each for each in ONE_LINE if is_valid(each)]


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> str:
    """Return a statement with blocks, which have statements with blocks."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(ONE_LINE))
    head, *heads = draw(st.sampled_from(HEADS)).split("{}\n")
    indent = draw(st.sampled_from([" ", "\t", "    ", " \t"]))
    parts: list[str] = []
    for each in (head, *heads):
        inner = draw(st.lists(st.sampled_from(SIMPLE) | blocks(depth - 1), min_size=1, max_size=2))
        body = "\n".join(indent + line.replace("\n", "\n" + indent) for line in inner)
        parts.append(f"{each}\n{body}\n")
    return "".join(parts).removesuffix("\n")


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Return valid code."""
    between = st.sampled_from(BETWEEN)
    parts = draw(st.lists(st.sampled_from(SIMPLE) | blocks(), min_size=1, max_size=5))
    source = "".join(draw(between) + each + "\n" for each in parts) + draw(between)
    assume(is_valid(source))
    return source


SAMPLE = "\n".join(
    f"{between}{each}"
    for between, each in zip(
        ["", "", "# c\n", "\n\n", " # c\n"] * 99,
        [*SIMPLE, *ONE_LINE, *(head.replace("{}", "  (\n1)") + "\n  x # c\n\n  y" for head in HEADS), *SIMPLE[:3]],
        strict=False,
    )
)
"""Every form of statement, one after the other."""


def check_each_cut(source: str) -> None:
    """Check the statements that are complete after each character.

    They are the first statements of the complete source. A line is given at its end. A statement with a block is given
    as soon as the next one has so many characters that it cannot be an `else`.
    """
    wanted = expected(source)
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    splitter = StatementSplitter()
    found: list[Statement] = []
    due = 0
    for cut, char in enumerate(source, 1):
        found += splitter.feed(char)
        while due < len(wanted) and is_decided(source[:cut], wanted[due : due + 2], starts):
            due += 1
        assert len(found) == due, source[:cut]
    found += splitter.close()
    assert lines_of(found) == [each[:2] for each in wanted]
    for each in found:
        assert each.source.removesuffix("\n") == "\n".join(lines[each.line - 1 : each.end_line])


def is_decided(source: str, wanted: list[tuple[int, int, bool]], starts: list[int]) -> bool:
    """Return whether a beginning of the source shows that its last expected statement is complete."""
    _, end_line, has_block = wanted[0]
    if not has_block:
        return len(source) >= starts[end_line]
    next_one = source[starts[wanted[1][0] - 1] :].lstrip("\f") if len(wanted) > 1 else ""
    return next_one != "" and not any(each.startswith(next_one) for each in CLAUSES)


def test_the_tables_are_valid() -> None:
    """Otherwise the tests below would try less than they seem to."""
    assert all(is_valid(head.replace("{}", " x") + "\n x") for head in HEADS)
    assert is_valid(SAMPLE)
    assert len(SIMPLE) >= 70 + 9 * (sys.version_info >= (3, 12)) + 3 * (sys.version_info >= (3, 14))
    assert len(expected(SAMPLE)) > len(SIMPLE) + len(HEADS) + len(ONE_LINE)


def test_cut_at_every_character_of_a_sample() -> None:
    """Every form of statement is given when it is complete, and not before."""
    check_each_cut(SAMPLE)


@given(sources())
def test_cut_at_every_character(source: str) -> None:
    """So is any code made of these forms."""
    check_each_cut(source)


@rows("newline", ["\r\n", "\r"])
@rows("chars", [1, 2, 3])
def test_newlines_of_other_systems(newline: str, chars: int) -> None:
    """They end lines as in Python, and may be divided between pieces."""
    assert split(in_pieces(SAMPLE.replace("\n", newline), chars)) == split([SAMPLE])


@given(sources(), st.data())
def test_each_statement_is_what_the_compiler_saw(source: str, data: st.DataObject) -> None:
    """The nodes and positions of all statements together are those of the complete source."""
    nodes: list[ast.stmt] = []
    for each in split(in_pieces(source, data.draw(st.integers(1, 9)))):
        nodes += ast.parse("\n" * (each.line - 1) + each.source).body
    complete = ast.parse(source)
    assert ast.dump(ast.Module(nodes, []), include_attributes=True) == ast.dump(complete, include_attributes=True)


# --- the standard library ---------------------------------------------------------------------------------------------

LIBRARY = Path(sysconfig.get_path("stdlib"))
MODULES = [path for path in LIBRARY.glob("*.py") if path.is_file()]  # Debian's has a link to a file in /etc


@rows("path", drawn(MODULES, 6))
def test_some_modules_of_the_standard_library(path: Path) -> None:
    """Code that people wrote is divided as the compiler divides it."""
    source = path.read_text(encoding="utf-8")
    assert lines_of(split(in_pieces(source, 50))) == [each[:2] for each in expected(source)]


def test_cut_at_every_character_of_a_module() -> None:
    """Code that people wrote is given when it is complete, too."""
    check_each_cut((LIBRARY / "contextlib.py").read_text(encoding="utf-8")[:12_000].rpartition("\n\n\n")[0] + "\n")


@pytest.mark.slow
def test_all_of_the_standard_library() -> None:
    """Including its tests, which have every form of statement. A run in parts takes its part of the files."""
    files = 0
    for path in LIBRARY.rglob("*.py"):
        if "site-packages" in path.parts or not path.is_file() or not is_in_part(str(path.relative_to(LIBRARY))):
            continue
        source = path.read_bytes().decode(errors="replace")
        try:
            wanted = [each[:2] for each in expected(source)]
        except (SyntaxError, ValueError):  # a test of the compiler
            continue
        files += 1
        assert lines_of(split(in_pieces(source, 50))) == wanted, path
    assert files > 500 / PARTS


# --- any text ---------------------------------------------------------------------------------------------------------

FRAGMENTS = [
    *SIMPLE,
    *ONE_LINE,
    *(each.partition("{}")[0] for each in HEADS),
    *CLAUSES,
    *"()[]{}:;'\"\\\n\r\f\t #@\x00\ufeff",
]
FRAGMENTS += ["'''", '"""', "f'", 'f"""{', "f'{x:", "\\\n", "\r\n", "\n    ", "\n\t", "\n", "\\N{", "match ", "async "]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)


@given(texts, st.data())
def test_any_chunking(text: str, data: st.DataObject) -> None:
    """The statements do not depend on the pieces. Together they have all of the code, in order, and nothing twice.

    If the compiler refuses the code, it refuses one of the statements. It also refuses a NUL in a comment, which is in
    no statement.
    """
    found = split([text])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    assert split(text[start:end] for start, end in pairwise([0, *cuts, len(text)])) == found
    assert split(text) == found
    lines = re.split(r"\r\n|\r|\n", text)
    assert "\0" in text or is_valid("\n".join(lines)) or not all(is_valid(each.source) for each in found)
    last = 0
    for each in found:
        assert all(is_blank(line) for line in lines[last : each.line - 1])
        text = "\n".join(lines[each.line - 1 : each.end_line])
        assert each.source in (text, text + "\n")
        last = each.end_line
    assert all(is_blank(line) for line in lines[last:])


def is_blank(line: str) -> bool:
    """Return whether a line has no code."""
    line = line.strip(" \t\f")
    return line in ("", "\\") or line.startswith("#")


@rows("text", ["", "\n", "\r", "\r\n \t\n", "# c", "# c\n#", "\f", "  # c\n\n", "\\\n\n", "\\\n# c"])
def test_text_without_code(text: str) -> None:
    """It gives no statement."""
    assert split([text]) == split(text) == []


@rows("before", ["", "x = 1\n", "if x:\n  y\n", "if x:\n  y\n# c\n\n", "@d\ndef f():\n\tx\n"])
@rows("end", ["\\", "\\\n", "\\\r\n", "\\\r", "\f\\\n", "\\\n\\\n", "\\ ", "x = 1 \\\n", "(\\\n"])
def test_a_backslash_at_the_end(before: str, end: str) -> None:
    """It joins nothing to its line. Without a statement of its own, code that no compiler accepts would run well."""
    found = split([before + end])
    assert split(before + end) == found
    assert found[:-1] == split([before])
    assert not is_valid(found[-1].source)


@rows("end", ["# \\", "x = r'\\ '\n", "\\\n# c", "\\\n\n", "x = 1 + \\\n1", "\\\nx = 2"])
def test_a_backslash_before_the_end(end: str) -> None:
    """The next line makes it valid, also an empty one."""
    assert is_valid("x = 1\n" + end)
    assert all(is_valid(each.source) for each in split("x = 1\n" + end))


@rows(
    "fault",
    [
        *[
            "x = (1]",
            "x = (1",
            "x = 'a",
            "x = '''a",
            "x = )",
            "x = f'{1",
            "x = f'{1!r",
            "x = f'{1:",
            "x = f'\\N{a'",
            "x = 1 \\ ",
        ],
        *[
            "  x = 1",
            "else: x",
            "except:\n  x",
            "if x:\ny",
            "def f():\n  x = [1)\n  y",
            "@d\nx = 1",
            "@d",
            "x = \x00",
            "x = $",
        ],
        *[
            "match x:\ncase 1: y",
            "for x in y",
            "x = 1 \\",
            "x = '\ud800",
            "x = f'''{a b",
            "x = f'{x:'}'",
            "if x:\n\ty\n        z",
        ],
    ],
)
def test_statements_before_a_fault(fault: str) -> None:
    """They are given as ever, and the next one that is given is the invalid one."""
    rests = ("", "\nz = 3\n", "\nif x:\n    z\nz\n")
    befores = ("x = 1\n", "x = '''\n'''\n# c\n", "@d\nclass A:\n  x\n\n\nx\n")
    for before, rest in product(befores, rests):
        found = split(before + fault + rest)
        wanted = [each[:2] for each in expected(before)]
        assert lines_of(found)[: len(wanted)] == wanted
        assert not is_valid(found[len(wanted)].source)


def test_a_statement_with_a_byte_order_mark_is_given_as_it_came() -> None:
    """The compiler rejects it, so it must not disappear."""
    assert [each.source for each in split("\ufeffx = 1\ny\n")] == ["\ufeffx = 1\n", "y\n"]


def test_the_open_statement() -> None:
    """`open` is the text that has not been given, without comments before and after it."""
    splitter = StatementSplitter()
    assert splitter.feed("x = 1\n# c\n\nif x:\n    y\n# c\n  #") == [Statement("x = 1\n", 1, 1)]
    assert splitter.open == "if x:\n    y\n  #"
    assert splitter.feed("\nel") == []
    assert splitter.open == "if x:\n    y\nel"
    assert splitter.feed("s") == []
    assert splitter.feed("ewhere") == [Statement("if x:\n    y\n", 4, 5)]
    assert splitter.open == "elsewhere"
    assert splitter.close() == [Statement("elsewhere", 8, 8)]
    assert splitter.open == ""


# --- cost -------------------------------------------------------------------------------------------------------------


class CountingPattern:
    """A pattern that counts the characters that its searches pass."""

    def __init__(self, pattern: re.Pattern[str], counts: list[int]) -> None:
        self._pattern = pattern
        self._counts = counts

    def search(self, line: str, position: int) -> re.Match[str] | None:
        found = self._pattern.search(line, position)
        self._counts.append((len(line) if found is None else found.end()) - position)
        return found

    def match(self, line: str, position: int = 0, *end: int) -> re.Match[str] | None:
        found = self._pattern.match(line, position, *end)
        self._counts.append(0 if found is None else found.end() - position)
        return found


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of characters of each search."""
    counts: list[int] = []
    for name in ("_CODE", "_WORD", "_INDENT"):
        monkeypatch.setattr(statements, name, CountingPattern(getattr(statements, name), counts))
    for patterns in (statements._PLAIN, statements._FORMATTED):
        for quotes, pattern in patterns.items():
            monkeypatch.setitem(patterns, quotes, CountingPattern(pattern, counts))
    return counts


HUGE = {
    "a line": "x = " + "1 + " * 2_500 + "1\n",
    "a string": "'''" + "a 'line'\n" * 1_100 + "'''\n",
    "an f-string": "f'''" + "{x!r:>{y}}\n" * 900 + "'''\n",
    "an open bracket": "x = [\n" + "1, # ]\n" * 1_400,
    "open brackets": "(" * 10_000,
    "open fields": "f'{" * 3_300,
    "decorators": "@d\n" * 1_000 + "def f(): pass\n",
    "a block": "if x:\n" + "    y = 1\n\n" * 900,
    "clauses": "if x: y\n" + "elif x: y\n" * 1_000,
    "statements": "x = 1\n" * 1_600,
    "comments": "if x: y\n" + "# c\n" * 2_500,
    "names of characters": "f'" + "\\N{" * 3_300,
    "backslashes": "x = " + "\\" * 10_000,
    "backslashes in a string": "x = '" + "\\" * 10_000,
    "continued lines": "x = 1\\\n" + "+ 1\\\n" * 2_000,
    "quotes": "x = " + "''" * 5_000,
    "prefixes": "x = " + "rb" * 5_000,
    "spaces": " " * 10_000,
    "a long name": "if x: y\n" + "e" * 10_000,
}


@rows("name, source", HUGE.items())
def test_the_cost_is_linear(name: str, source: str, counts: list[int]) -> None:
    """No character is examined anew for each piece or each line, however large the open statement is."""
    assert 3_000 <= len(source) <= 11_000, name
    counts.clear()
    split(source)
    # Once in strings or brackets, and at the beginning of a line for the indentation and the first word.
    assert sum(counts) <= 5 * len(source)
    assert len(counts) <= 2 * len(source)


LONG = {
    "statements": "x = 1\n" * 20_000,
    "a line": "x = [" + "[], " * 30_000 + "]\n",
    "a line without an end": "x = [" + "{'a': 1}, " * 10_000,
    "a string": "x = '''" + "it's" * 30_000 + "'''\n",
    "a formatted string": "f'" + "{x}" * 30_000 + "'\n",
    "lines of a block": "if x:\n" + "  y = [1]\n" * 10_000,
}


@rows("name, source", LONG.items())
def test_no_step_is_long(name: str, source: str, counts: list[int]) -> None:
    """A fragment may bring a megabyte of code, or a line may end that has grown for long: both took a second."""
    splitter = StatementSplitter()
    found: list[Statement] = []
    most = pauses = 0
    for steps in (splitter.steps(source), splitter.last_steps()):
        counts.clear()
        for step in steps:
            most = max(most, len(counts))
            pauses += step is None
            found += [] if step is None else [step]
            counts.clear()
        most = max(most, len(counts))
    assert found == split([source]), name
    assert pauses >= 10
    assert most <= 6_000  # searches, of 0.5 to 1 us each
