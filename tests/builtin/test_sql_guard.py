"""The guard of `SQL` lets through what is on its lists, refuses everything else, and costs little."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eagerstream.builtin import SQL
from eagerstream.builtin._sql import parsing
from eagerstream.builtin._sql.guard import checked_read
from eagerstream.errors import ToolError, UsageError
from tests.builtin.sql_queries import DUCKDB, GENERIC, MYSQL, POSTGRES
from tests.fuzz.sql_text import CORPUS
from tests.tables import rows

OWN = {"postgres": POSTGRES, "duckdb": DUCKDB, "mysql": MYSQL}
DIALECTS = ("postgres", "redshift", "duckdb", "mysql", "sqlite", "tsql", "oracle", "spark", "trino")
FILES = sorted(CORPUS.glob("*.sql"))


def refusal(sql: str, dialect: str = "postgres", extra: frozenset[str] = frozenset()) -> str:
    with pytest.raises(ToolError, match="The statement was not run") as refused:
        checked_read(sql, dialect, extra)
    assert refused.value.code == "PERMISSION_DENIED"
    return str(refused.value)


@cache
def sent_to_postgres() -> dict[str, str]:
    """All ordinary queries of PostgreSQL, and what is sent of each."""
    return {query: checked_read(query, "postgres") for query in (*GENERIC, *POSTGRES)}


@rows("number, dialect", [*enumerate(DIALECTS)])
def test_ordinary_queries(number: int, dialect: str) -> None:
    """A list that stood in the way of everyday work would be turned off. Each dialect has a third of what all have."""
    assert all(sent_to_postgres().values())
    if dialect != "postgres":
        for query in (*GENERIC[number % 3 :: 3], *OWN.get(dialect, ())):
            assert checked_read(query, dialect)


@pytest.mark.slow
@rows("dialect", DIALECTS)
def test_ordinary_queries_of_all_dialects(dialect: str) -> None:
    """What all databases have is read in each dialect."""
    for query in GENERIC:
        assert checked_read(query, dialect)


@rows("file", FILES)
def test_attacks(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each statement that once got through, or was tried, is refused in the dialect that its file is named after."""
    attacks = file.read_text("utf-8").splitlines()
    assert len(attacks) > 5
    for attack in attacks:
        refusal(attack, file.stem)
    assert caplog.text == ""


def test_postgres_agrees() -> None:
    """PostgreSQL's own parser takes what is sent for one SELECT that calls what is on the list."""
    pytest.importorskip("pglast")
    from tests.builtin.postgres_parser import check_one_read

    for query, sent in sent_to_postgres().items():
        assert check_one_read(sent), query


def test_the_second_opinion_sees_attacks() -> None:
    """Otherwise it would agree with anything: most attacks, unguarded, are more than a read to PostgreSQL's parser."""
    pytest.importorskip("pglast")
    from tests.builtin.postgres_parser import NotOneReadError, check_one_read

    seen = 0
    attacks = (CORPUS / "postgres.sql").read_text("utf-8").splitlines()
    for attack in attacks:
        try:
            seen += not check_one_read(attack)  # a syntax error: nothing of it runs
        except NotOneReadError:
            seen += 1
    assert seen >= len(attacks) - 2


@rows(
    "source, name",
    [
        ("trim('/etc/passwd')", "btrim"),
        ("unnest(ARRAY['/etc/passwd'])", "unnest"),
        ("unnest(ARRAY['/etc/passwd']) AS x", "x"),
        ("CAST('/etc/passwd' AS text)", "text"),
        ("CAST('/etc/passwd' AS text) AS x", "x"),
        ("lower('/etc/passwd') AS x(y)", "x"),
    ],
)
def test_both_see_a_call_behind_a_dot(source: str, name: str) -> None:
    """A dot behind the result of a function calls another one, though a table elsewhere has the same name."""
    attack = f"SELECT {name}.pg_read_file FROM {source} WHERE NOT EXISTS (SELECT 1 FROM t AS {name})"
    refusal(attack)
    pytest.importorskip("pglast")
    from tests.builtin.postgres_parser import NotOneReadError, check_one_read

    with pytest.raises(NotOneReadError):
        check_one_read(attack)


@rows(
    "query, told",
    [
        ("SELECT pg_sleep(1)", "the function pg_sleep is not on the list"),
        ("SELECT public.lower(x)", "the function public.lower is not on the list"),
        ("SELECT (x).pg_sleep FROM t", "the dot before 'pg_sleep' may be a call"),
        ("SELECT x.pg_sleep FROM generate_series(1, 2) x", "x.pg_sleep may be a call: name the columns"),
        ("SELECT y.a FROM t", "y.a: its first part is not a table"),
        ("SELECT 1 OPERATOR(pg_catalog.+) 2", "the construct Operator"),
        ("SELECT * FROM t FOR UPDATE", "the clause LOCKS"),
        ("SELECT * FROM 'users'", "a text stands in the place of a table"),
        ('SELECT * FROM "a/b"', "only tables can be read"),
        ("DELETE FROM t", "only SELECT statements"),
    ],
)
def test_what_the_model_is_told(query: str, told: str) -> None:
    """The model learns what to leave out."""
    assert told in refusal(query)


@rows("error", [AttributeError, KeyError, RecursionError, AssertionError, MemoryError])
@rows("place", ["tokenize", "parse", "write"])
def test_any_exception_is_a_refusal(monkeypatch: pytest.MonkeyPatch, place: str, error: type[Exception]) -> None:
    """sqlglot raises whatever an odd statement makes it raise: `SELECT LATERAL .f` was an AttributeError."""
    import sqlglot
    from sqlglot import exp

    def fail(*_: Any, **__: Any) -> None:
        raise error("odd")

    assert checked_read("SELECT 1", "postgres")
    with monkeypatch.context() as patched:
        match place:
            case "tokenize":
                patched.setattr(sqlglot, "tokenize", fail)
            case "parse":
                patched.setattr(parsing._parser_class("postgres"), "parse", fail)
            case _:
                patched.setattr(exp.Select, "sql", fail)
        refusal("SELECT 1")


def test_what_is_written_is_checked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that writes another function than was read opens no way around the lists."""
    from sqlglot import exp

    monkeypatch.setattr(exp.Select, "sql", lambda *_, **__: "SELECT pg_sleep(9)")
    assert "pg_sleep" in refusal("SELECT 1")


def test_the_text_that_is_sent_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement is written again until nothing changes, and refused where that does not end."""
    from sqlglot import exp

    texts = iter(["SELECT 2", "SELECT 3", "SELECT pg_sleep(9)"])
    monkeypatch.setattr(exp.Select, "sql", lambda *_, **__: next(texts))
    assert "pg_sleep" in refusal("SELECT 1")
    numbers = iter(range(2, 9))
    monkeypatch.setattr(exp.Select, "sql", lambda *_, **__: f"SELECT {next(numbers)}")
    assert "another way each time" in refusal("SELECT 1")
    assert next(numbers) == 6


def test_redshift_folds_quoted_names() -> None:
    """There, `"X"` is `x`: a table of the one name is no cover for a function of the other."""
    attack = 'SELECT "X".pg_sleep FROM generate_series(1, 9) AS x WHERE NOT EXISTS (SELECT 1 FROM t AS "X")'
    assert "may be a call" in refusal(attack, "redshift")


@rows("name", ["utf8mb4#", "utf8mb4 ", "utf8mb4$#", "utf8mb4"])
def test_a_name_cannot_hide_a_call(name: str) -> None:
    """In MySQL, `#` opens a comment, which the line break in an alias would end."""
    refusal(
        f"SELECT CONVERT(name USING `{name}`), 1 AS `\n), LOAD_FILE(0x2f65), SLEEP(9) FROM users -- ` FROM users",
        "mysql",
    )


@rows("text", ["\n", "\r", "\0", "\x1b", "\x85", "\u2028"])
@rows("query", ['SELECT 1 AS "{}"', 'SELECT "{}" FROM t', 'SELECT x.a FROM t AS x("{}")'])
def test_names_have_no_control_characters(query: str, text: str) -> None:
    """A text may have line breaks; a quoted name may not, wherever it stands."""
    refusal(query.format(f"a{text}b"))
    assert checked_read("SELECT 'a\nb'", "postgres")


@rows(
    "dialect, query",
    [
        ("oracle", "SELECT a# FROM v$session"),
        ("tsql", "SELECT a FROM #t"),
        ("mysql", "SELECT a$b FROM t"),
        ("postgres", "SELECT a$b FROM t"),
        ("postgres", "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM t"),
        ("postgres", "SELECT INTERVAL '1-2' YEAR TO MONTH"),
    ],
)
def test_words_with_signs(dialect: str, query: str) -> None:
    """What is more than letters, and is a name or a phrase of the dialect, passes as it is."""
    assert checked_read(query, dialect)


@rows(
    "source, sent",
    [
        ("unnest(ARRAY[1])", 'UNNEST(ARRAY[1]) AS "unnest"'),
        ("LATERAL unnest(ARRAY[1])", 'LATERAL UNNEST(ARRAY[1]) AS "unnest"'),
        ("Generate_Series(1, 2)", 'Generate_Series(1, 2) AS "generate_series"'),
        ("pg_catalog.generate_series(1, 2)", 'pg_catalog.generate_series(1, 2) AS "generate_series"'),
        ("left('abc', 1)", "left('abc', 1) AS \"left\""),
        ("ROWS FROM (unnest(ARRAY[1]))", 'ROWS FROM (UNNEST(ARRAY[1])) AS "unnest"'),
        ("json_to_recordset('[]') AS (a INT)", "json_to_recordset('[]') AS \"json_to_recordset\"(a INT)"),
        ("lower('a') AS x", "lower('a') AS x"),
    ],
)
def test_functions_behind_from_are_named(source: str, sent: str) -> None:
    """PostgreSQL would otherwise give the result a name of its own, and `name.function` is a call there."""
    assert checked_read(f"SELECT * FROM {source}", "postgres") == f"SELECT * FROM {sent}"


@rows(
    "query, extra",
    [
        ("SELECT my_area(x) FROM t", {"my_area"}),
        ("SELECT app.area(x) FROM t", {"app.area"}),
        ('SELECT "myArea"(x) FROM t', {"myArea"}),
        ("SELECT a.x FROM app.areas(1) AS a(x)", {"app.areas"}),
    ],
)
def test_allowed_functions(query: str, extra: set[str]) -> None:
    """A function of the owner's can be called once he has named it, and only then."""
    refusal(query)
    refusal(query, extra=frozenset({"other"}))
    assert checked_read(query, "postgres", frozenset(extra)) == query


def test_allowed_functions_option(tmp_path: Path) -> None:
    """A text is no list of names; SQLite has no such list."""
    with pytest.raises(UsageError, match="allowed_functions must be"):
        SQL(":memory:", allowed_functions="my_area")
    with pytest.raises(UsageError, match="does not work with SQLite"):
        SQL(":memory:", allowed_functions=["my_area"])


@rows(
    "sql",
    [
        "(" * 1_000_000,
        "SELECT " + "(" * 101 + "1" + ")" * 101,
        "SELECT 1" + " + 1" * 5_000,  # 10,002 tokens
    ],
)
def test_bounds_come_first(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Nothing reads a statement that is too large or too deep."""
    monkeypatch.setattr(parsing._parser_class("postgres"), "parse", lambda *_: pytest.fail("it was read"))
    refusal(sql)


@rows("words", ["IF ", "NOT ", "CASE WHEN ", "- ", "(SELECT ", "f(x -> ", "ARRAY[", "EXISTS(SELECT "])
@rows("dialect", ["postgres", "duckdb", "mysql", "oracle", "tsql"])
def test_cost_grows_with_size(words: str, dialect: str) -> None:
    """What sqlglot reads twice would, 60 inside one another, take longer than anybody lives."""
    closing = "".join({"(": ")", "[": "]"}.get(character, "") for character in reversed(words))
    try:
        checked_read("SELECT " + words * 60 + "1" + closing * 60, dialect)
    except ToolError as refused:
        assert refused.code == "PERMISSION_DENIED"


def test_others_may_log(caplog: pytest.LogCaptureFixture) -> None:
    """Only what sqlglot logs about the model's statement is dropped."""
    refusal("SELECT AND IF")
    assert caplog.text == ""
    logging.getLogger("sqlglot").warning("mine")
    assert "mine" in caplog.text


def test_setting_of_the_connection_changes_no_text() -> None:
    """With `standard_conforming_strings = off`, a backslash would hide the end of a text."""
    assert checked_read("SELECT '\\', ' OR pg_sleep(9) --'", "postgres") == "SELECT e'\\\\', ' OR pg_sleep(9) --'"
