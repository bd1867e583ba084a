"""The check of our English finds each kind of fault, at its line, and nothing in good text."""

from __future__ import annotations

from pathlib import Path

from tests.plain_english import IDIOMS, Text, faults_of_page, faults_of_rates, faults_of_source, faults_of_texts
from tests.tables import rows


@rows(
    "source",
    [
        '"""What a module holds."""',
        'class A:\n    """Who calls."""',
        'def f():\n    """How it runs."""',
        'async def f():\n    """If it runs."""',
        'LIMIT = 1\n"""Where it ends."""',
        'class A:\n    limit: int = 1\n    """Whether it ends."""',
    ],
)
def test_a_docstring_that_starts_with_a_clause(source: str) -> None:
    ((line, fault),) = faults_of_source(source)
    assert line == len(source.splitlines())
    assert "starts with" in fault


def test_good_texts() -> None:
    """Clauses are welcome after the first word, and strings that document nothing are not read."""
    assert list(faults_of_source('"""Return what it holds."""\nprint("""What?""")\n# If so, stop.\n')) == []


@rows("idiom", ["as it were", "is to be", "told of", "Where there is", "thereof", "whoever"])
def test_idioms(idiom: str) -> None:
    """A phrase is found in docstrings and comments, also broken over two lines."""
    broken = idiom.replace(" ", "\n# ")
    assert [line for line, _ in faults_of_source(f"x = 1\n\n# He {broken} that.\n")] == [3]
    assert [line for line, _ in faults_of_source(f'"""He {idiom} that."""')] == [1]


def test_each_idiom_has_its_own_advice() -> None:
    """The advice belongs to the pattern that matched, however many groups the patterns before it have."""
    ((_, fault),) = faults_of_texts([Text("They went on from here.", 1)])
    assert fault == f'"went on from": {IDIOMS["(?:go|goes|gone|going|went) on from"]}'


def test_long_sentences(tmp_path: Path) -> None:
    """Code is one word, and tables are no sentences."""
    page = tmp_path / "page.md"
    page.write_text(f"Short one here.\n\n{'word ' * 41}end.\n\n| {'cell ' * 50} |\n")
    assert [fault for _, fault in faults_of_page(page) if "42 words" in fault]
    page.write_text(f"Run `{'word ' * 50}` now.\n")
    assert list(faults_of_page(page)) == []


def test_words_used_too_often() -> None:
    """One "what" in a hundred words is too much, one in a thousand is not."""
    (fault,) = faults_of_rates([Text("what " + "word " * 99, 1)])
    assert fault.startswith('"what" appears 10.0 times')
    assert list(faults_of_rates([Text("what " + "word " * 999, 1)])) == []
