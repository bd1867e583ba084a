"""Statements that a fuzzer makes: sentences of a grammar, and known statements with pieces taken from one another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.builtin.sql_queries import DUCKDB, GENERIC, MYSQL, POSTGRES

from .choices import Choices

CORPUS: Final = Path(__file__).parent / "corpus" / "sql_guard"
_TOKEN: Final = re.compile(r"\s+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|::|->>?|.", re.DOTALL)
_ATOMS: Final = (
    *(
        "1",
        "'x'",
        "a",
        "x",
        "x.a",
        "x.pg_sleep",
        "t.*",
        "*",
        "NULL",
        "TRUE",
        "'/etc/passwd'",
        '"x"',
        '"x.csv"',
        "$1",
        "?",
    ),
    *("@v", "@@version", ":p", "$$x$$", "E'\\''", "U&'\\0041'", "x'4D'", "b'1'", "current_date", "user", "s.t.c"),
    *("ARRAY[1, 2]", "{'k': 1}", "date '2024-01-01'", "interval '1 day'", "1e9", "'{}'::jsonb", "x.nextval"),
    *("unnest.pg_sleep", "btrim.pg_read_file", "int4.pg_sleep"),
)
_NAMES: Final = (
    *("lower", "count", "pg_sleep", "pg_catalog.lower", "pg_catalog.pg_sleep", "public.lower", '"lower"', '"pg_sleep"'),
    *(
        "generate_series",
        "unnest",
        "read_text",
        "read_csv",
        "set_config",
        "nextval",
        "query_to_xml",
        "dblink",
        "lo_import",
    ),
    *("coalesce", "cast", "extract", "xmlparse", "json_object", "array", "row", "exists", "SLEEP", "LOAD_FILE", "glob"),
    *("pg_read_file", "ts_stat", "getenv", "system.main.read_text", "substring", "position", "trim", "overlay", "if"),
)
_OPERATORS: Final = (
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "<",
        "||",
        "->",
        "->>",
        "#>",
        "@>",
        "?",
        "&&",
        "~",
        "AND",
        "OR",
        "IS",
        "LIKE",
    ),
    *("IN", ".", "::", ":=", "=>", "OPERATOR(pg_catalog.+)", "COLLATE", "AT TIME ZONE", "IS DISTINCT FROM", "^", ","),
)
_TAILS: Final = (
    *("", "", "", " WHERE a = 1", " FOR UPDATE", " INTO x", " INTO OUTFILE '/tmp/x'", " LIMIT 1", " GROUP BY 1"),
    *(
        " ORDER BY a",
        " OFFSET 1",
        " FETCH FIRST 1 ROWS ONLY",
        " TABLESAMPLE system (1)",
        "; SELECT 1",
        " -- x",
        " /*! x */",
    ),
    *(
        " UNION SELECT 1",
        " WINDOW w AS (ORDER BY 1)",
        " HAVING a > 1",
        " QUALIFY 1 = 1",
        " LOCK IN SHARE MODE",
        " FORMAT JSON",
    ),
)
_WORDS: Final = (
    *_ATOMS,
    *_NAMES,
    *_OPERATORS,
    *_TAILS,
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ".",
    "AS",
    "FROM",
    "LATERAL",
    "SELECT",
)


def sql_text(choices: Choices) -> str:
    """Return a statement that a list of choices makes."""
    match choices.below(3):
        case 0:
            return _query(choices, 3)
        case 1:
            return _mixed(choices, known_statements())
        case _:
            return " ".join(["SELECT", *(choices.pick(_WORDS) for _ in range(choices.below(20)))])


@cache
def known_statements() -> tuple[str, ...]:
    """Return the attacks of the corpus, and ordinary queries."""
    attacks = [path.read_text("utf-8") for path in sorted(CORPUS.glob("*.sql"))]
    return tuple(
        line for text in (*attacks, *GENERIC, *POSTGRES, *DUCKDB, *MYSQL) for line in text.splitlines() if line
    )


def _mixed(choices: Choices, statements: Sequence[str]) -> str:
    """A statement, with tokens of it replaced, doubled or left out."""
    tokens = _TOKEN.findall(_some(choices, statements))
    for _ in range(choices.below(6)):
        at = _at(choices, tokens)
        match choices.below(4):
            case 0:
                tokens[at : at + 1] = [choices.pick(_WORDS)]
            case 1:
                tokens[at : at + choices.below(4)] = []
            case 2:
                other = _TOKEN.findall(_some(choices, statements))
                start = _at(choices, other)
                tokens[at:at] = other[start : start + choices.below(12)]
            case _:
                tokens[at:at] = [" ", choices.pick(_WORDS), " "]
    return "".join(tokens)


def _some(choices: Choices, statements: Sequence[str]) -> str:
    return statements[(choices.below(256) * 256 + choices.below(256)) % len(statements)]


def _at(choices: Choices, tokens: Sequence[str]) -> int:
    return choices.below(256) % len(tokens) if tokens else 0


def _query(choices: Choices, depth: int) -> str:
    match choices.below(8) if depth else 0:
        case 5:
            return f"WITH x{choices.pick(('', '(a)', '(pg_sleep)'))} AS ({_query(choices, depth - 1)}) {_select(choices, depth - 1)}"
        case 6:
            return f"{_select(choices, depth - 1)} {choices.pick(('UNION', 'UNION ALL', 'EXCEPT'))} {_select(choices, depth - 1)}"
        case 7:
            return choices.pick(("VALUES (1, 2)", "TABLE t", "(SELECT 1)", "FROM t", "SUMMARIZE t", "DELETE FROM t"))
        case _:
            return _select(choices, depth)


def _select(choices: Choices, depth: int) -> str:
    columns = ", ".join(_value(choices, depth) for _ in range(1 + choices.below(3)))
    sources = ", ".join(_source(choices, depth) for _ in range(choices.below(3)))
    behind = f" FROM {sources}" if sources else ""
    return f"SELECT {columns}{behind}{choices.pick(_TAILS)}"


def _source(choices: Choices, depth: int) -> str:
    alias = choices.pick(
        (
            "",
            " x",
            " AS x",
            " AS x(a)",
            " AS x(pg_sleep)",
            " x(a int)",
            " WITH ORDINALITY AS x",
            " AS unnest",
            " AS btrim",
            " AS int4",
        )
    )
    match choices.below(6) if depth else 0:
        case 0 | 1:
            return (
                choices.pick(
                    (
                        "t",
                        "s.t",
                        "x",
                        '"x.csv"',
                        "'x'",
                        "parquet.`/p`",
                        "ONLY t",
                        "users.csv",
                        "@s",
                        "CAST(9 AS int)",
                        "unnest(ARRAY[9])",
                        "trim('x')",
                    )
                )
                + alias
            )
        case 2:
            return f"({_query(choices, depth - 1)}){alias}"
        case 3:
            return f"LATERAL {_call(choices, depth)}{alias}"
        case 4:
            return f"{_source(choices, depth - 1)} JOIN {_source(choices, depth - 1)} ON {_value(choices, depth - 1)}"
        case _:
            return _call(choices, depth) + alias


def _call(choices: Choices, depth: int) -> str:
    arguments = ", ".join(_value(choices, depth - 1) for _ in range(choices.below(3)))
    behind = choices.pick(
        ("", "", "", " OVER (ORDER BY 1)", " FILTER (WHERE true)", ".pg_sleep", ".lower()", "[1]", "::text")
    )
    return f"{choices.pick(_NAMES)}({arguments}){behind}"


def _value(choices: Choices, depth: int) -> str:
    match choices.below(10) if depth > 0 else 0:
        case 0 | 1 | 2:
            return choices.pick(_ATOMS)
        case 3 | 4:
            return _call(choices, depth)
        case 5:
            return f"{_value(choices, depth - 1)} {choices.pick(_OPERATORS)} {_value(choices, depth - 1)}"
        case 6:
            return f"({_value(choices, depth - 1)}){choices.pick(('', '.pg_sleep', '.*', '.a', '[1]', '::regclass'))}"
        case 7:
            return f"({_query(choices, depth - 1)})"
        case 8:
            return f"CASE WHEN {_value(choices, depth - 1)} THEN {_value(choices, depth - 1)} END"
        case _:
            return f"{_value(choices, depth - 1)} AS {choices.pick(('a', 'pg_sleep', 'x', 'INTO', 'FROM'))}"
