"""Checks of names in a statement: sources are plain tables, and the base of a dot is one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot import exp


_TABLE_NAME: Final = re.compile(r"[\w $#-]{1,128}")
"""Names without slash, dot, colon or at sign. Others can link to servers, and DuckDB and Spark read them as files."""
_BIGQUERY_NAME: Final = re.compile(r"[\w $.*-]{1,1024}")
"""In BigQuery, `events_*` reads all tables with that prefix. Files are readable only through tables of their owner."""
_WORD: Final = re.compile(r"\w*")
_NAME: Final = re.compile(r"(?:\w[\w$]*)?")
_NAME_WITH_HASH: Final = re.compile(r"(?:\w[\w$#]*)?")
_HASH_IN_NAMES: Final = frozenset({"oracle", "tsql", "fabric"})
"""Dialects with `#` in names. In MySQL, it starts a comment."""
_PHRASES: Final = frozenset(
    {
        *("CURRENT ROW", "IN BOOLEAN MODE", "IN NATURAL LANGUAGE MODE", "WITH QUERY EXPANSION"),
        *("IN NATURAL LANGUAGE MODE WITH QUERY EXPANSION", "NULL ON ERROR", "ERROR ON ERROR", "NULL ON EMPTY"),
        "ERROR ON EMPTY",
    }
)
"""Phrases of several words that sqlglot keeps as one text."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_FORMATS: Final = frozenset(
    {
        *("avro", "binaryfile", "cloudfiles", "csv", "delta", "excel", "hive", "hudi", "iceberg", "image", "jdbc"),
        *("json", "kafka", "libsvm", "orc", "parquet", "rate", "text", "xml"),
    }
)
"""File formats. In Spark, Hive and Databricks, `csv.name` is a folder of files."""
_SUFFIXES: Final = frozenset(
    {
        *("avro", "csv", "db", "ddb", "duckdb", "fgb", "geojson", "gpkg", "gz", "json", "jsonl", "ndjson", "parquet"),
        *("shp", "tsv", "xlsx", "zst"),
    }
)
"""File suffixes. DuckDB joins the parts of a name with dots: if no table is named `users.csv`, it reads the file."""
_SPARK: Final = frozenset({"hive", "spark", "spark2", "databricks"})
POSTGRES: Final = frozenset({"postgres", "redshift", "materialize", "risingwave"})
_STRUCTS: Final = frozenset(
    {"athena", "bigquery", "clickhouse", "databricks", "dremio", "drill", "druid", "duckdb", "dune", "hive", "presto"}
    | {"spark", "spark2", "trino"}
)
"""Dialects in which a dot reads a field of a column and cannot call a function."""
_SEQUENCES: Final = frozenset({"currval", "nextval"})
"""Pseudo-columns in Oracle and Snowflake: `name.nextval` changes a sequence."""
_OUTPUTS: Final = frozenset({"key", "value", "ordinality"})
"""Columns of PostgreSQL's own set-returning functions."""
_VALUES: Final = frozenset(
    {
        *("current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp"),
        *("current_user", "localtime", "localtimestamp", "session_user", "system_user", "user"),
    }
)
"""PostgreSQL's calls without parentheses. They can follow FROM, and sqlglot parses them there as tables."""
_HINTS: Final = frozenset({"NOLOCK", "NOWAIT", "READCOMMITTED", "READPAST", "READUNCOMMITTED"})
_SAMPLES: Final = frozenset({"", "bernoulli", "block", "reservoir", "row", "system"})
_MAX_NAME_BYTES: Final = 63
"""Maximum length of a name. PostgreSQL truncates longer ones, and would find another name than the checked one."""


def ascii_lower(name: str) -> str:
    """Lower a name as databases do. `str.lower` would turn the Kelvin sign into the letter k."""
    return name.encode().lower().decode()


class NotAllowedError(ValueError):
    """A construct of a statement that no list allows. The text names it, for the model."""


def check_text(node: exp.Expr, dialect: str) -> None:
    """Check that unquoted text consists of words, and that quoted names have no control characters.

    Such text cannot end the construct that contains it, and cannot end a comment.

    Raises:
        NotAllowedError: The text has other characters, or a table sample or an interval has an unknown form.
    """
    from sqlglot import exp

    if isinstance(node, exp.Identifier) and node.args.get("quoted"):
        if _CONTROL.search(node.name):
            raise NotAllowedError("a quoted name has a line break or another control character in it")
        return
    quoted = isinstance(node, exp.Literal | exp.RawString | exp.ByteString | exp.UnicodeString | exp.National)
    if quoted and not _is_number(node):
        return
    for value in node.args.values():
        if isinstance(value, str) and not (_is_number(node) or _is_plain(value, node, dialect)):
            raise NotAllowedError(f"it has {value[:40]!r} in a place where a name is expected")
    if isinstance(node, exp.TableSample) and _text(node.args.get("method")).lower() not in _SAMPLES:
        raise NotAllowedError("it samples a table in an unknown way")
    if dialect in POSTGRES and isinstance(node, exp.Interval) and not isinstance(node.this, exp.Literal):
        raise NotAllowedError("an interval is one text: INTERVAL '1 day'")


def _is_plain(text: str, node: exp.Expr, dialect: str) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Identifier):
        pattern = _NAME_WITH_HASH if dialect in _HASH_IN_NAMES else _NAME
        return bool(pattern.fullmatch(text))
    return bool(_WORD.fullmatch(text)) or text in _PHRASES


def _is_number(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal) and not node.is_string and bool(re.fullmatch(r"[\w.+-]+", node.name))


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(getattr(value, "name", "") or "")


def check_table(table: exp.Table, dialect: str) -> None:
    """Check that a table is a plain name: not a string, a file, a URL or another server.

    Raises:
        NotAllowedError: It is, or may be, something else.
    """
    from sqlglot import exp

    if isinstance(table.this, exp.Func):
        return
    parts = table.parts
    pattern = _BIGQUERY_NAME if dialect == "bigquery" else _TABLE_NAME
    for part in parts:
        if not isinstance(part, exp.Identifier) or not pattern.fullmatch(part.name):
            raise NotAllowedError("only tables can be read, not files or other sources: a table's name is words")
    names = [part.name.lower() for part in parts]
    if dialect in POSTGRES and len(names) == 1 and names[0] in _VALUES and not parts[0].args.get("quoted"):
        raise NotAllowedError(f"{names[0]} is no table")
    if len(names) > 3:
        raise NotAllowedError("only tables of this database can be read")
    is_file = (dialect == "duckdb" and len(names) > 1 and names[-1] in _SUFFIXES) or (
        dialect in _SPARK and len(names) > 1 and names[0] in _FORMATS
    )
    if is_file:
        raise NotAllowedError("only tables can be read, not files")


def check_hint(hint: exp.WithTableHint) -> None:
    """Check that a T-SQL hint takes no locks that make a SELECT or other statements wait.

    Raises:
        NotAllowedError: The hint is not on the list.
    """
    for part in hint.expressions:
        if part.name.upper() not in _HINTS:
            raise NotAllowedError(f"the hint {part.name[:80]} is not on the list of what is allowed")


class Scope:
    """The names of all FROM clauses of a statement. All scopes are combined.

    PostgreSQL reads `x.f` as `f(x)` if `x` has no column `f`. If `x` is a table, the argument is a row, and no function
    with an effect takes a row. If `x` is the result of a function, the argument is a value. Its columns must therefore
    be declared: `AS x(f)`.
    """

    def __init__(self, query: exp.Expr, dialect: str) -> None:
        from sqlglot import exp

        self._dialect = dialect
        self._tables: set[tuple[str, ...]] = set()
        self._results: dict[str, frozenset[str]] = {}
        for source in query.find_all(exp.Table, exp.Subquery, exp.Values, exp.Unnest, exp.Lateral, exp.Pivot):
            self._add(source)

    def check_column(self, column: exp.Column, functions: frozenset[str]) -> None:
        """Check the base of `base.column`.

        Raises:
            NotAllowedError: No FROM clause has the base, or it is a function's result without that column.
        """
        from sqlglot import exp

        if not column.args.get("table"):
            return
        *base, name = (self._normal(part) for part in column.parts)
        is_star = isinstance(column.this, exp.Star)
        shown = ".".join(part.name for part in column.parts)[:60]
        if self._dialect in _STRUCTS:
            return
        if name in _SEQUENCES:
            raise NotAllowedError(f"{shown} is not allowed")
        if len(base) == 1 and base[0] in self._results:
            if not is_star and self._dialect in POSTGRES and name not in self._results[base[0]] | functions:
                raise NotAllowedError(f"{shown} may be a call: name the columns of the function, as in f() AS a(b)")
        elif tuple(base) not in self._tables:
            raise NotAllowedError(f"{shown}: its first part is not a table of the FROM clause")

    def check_dot(self, dot: exp.Dot) -> None:
        """Check a dot behind anything but a table. It may only read fields, in dialects without calls by dot.

        Raises:
            NotAllowedError: It may be a call.
        """
        from sqlglot import exp

        last = dot.expression
        if isinstance(dot.parent, exp.DataType):  # the schema of a type
            return
        if isinstance(last, exp.Star) or (self._dialect in _STRUCTS and isinstance(last, exp.Identifier | exp.Dot)):
            return
        raise NotAllowedError(f"the dot before {last.name[:60]!r} may be a call: put only tables before a dot")

    def _add(self, source: exp.Expr) -> None:
        from sqlglot import exp

        alias = source.args.get("alias")
        name = alias.this if isinstance(alias, exp.TableAlias) else alias
        columns = [column.this if isinstance(column, exp.ColumnDef) else column for column in _columns(alias)]
        if isinstance(source, exp.Unnest):  # sqlglot stores the last one, of WITH ORDINALITY, apart from the others
            columns.append(source.args.get("offset"))
        is_function = isinstance(source, exp.Unnest) or (
            isinstance(source, exp.Table | exp.Lateral) and not isinstance(source.this, exp.Identifier | exp.Subquery)
        )
        if is_function:
            if name is None:
                name = exp.to_identifier(source.this.name) if isinstance(source.this, exp.Func) else None
            key = self._normal(name)
            names = frozenset({key, *map(self._normal, columns)}) | _OUTPUTS
            self._results[key] = self._results.get(key, names) & names
        elif name is not None:
            self._tables.add((self._normal(name),))
        elif isinstance(source, exp.Table):
            parts = [self._normal(part) for part in source.parts]
            self._tables.update(tuple(parts[start:]) for start in range(len(parts)))

    def _normal(self, name: object) -> str:
        """Return a name in the database's comparison form. Anything but a name gives an empty text."""
        from sqlglot import exp

        if not isinstance(name, exp.Expr):
            return ""
        text = name.name
        if self._dialect in POSTGRES and len(text.encode()) > _MAX_NAME_BYTES:
            raise NotAllowedError("a name in it is too long")
        keeps_case = self._dialect in POSTGRES and self._dialect != "redshift"
        return text if keeps_case and name.args.get("quoted") else ascii_lower(text)


def _columns(alias: exp.Expr | None) -> list[exp.Expr]:
    return list(alias.args.get("columns") or ()) if alias is not None else []


# --- behind FROM in PostgreSQL ----------------------------------------------------------------------------------------


def name_functions(query: exp.Expr) -> None:
    """Give every function behind FROM without an alias its own name as the alias.

    Otherwise PostgreSQL names the result itself: `trim('x')` becomes `btrim`, and `CAST(1 AS int)` becomes `int4`. With
    an alias in the sent text, PostgreSQL uses the checked name.
    """
    from sqlglot import exp

    for source in list(query.find_all(exp.Table, exp.Unnest, exp.Lateral)):
        name = _function_name(source)
        is_inside = isinstance(source.parent, exp.Lateral) or source.arg_key == "rows_from"
        if name is None or is_inside:
            continue
        alias = source.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(name, quoted=True))
        source.set("alias", alias)


def check_source(node: exp.Expr) -> None:
    """Check that only a table, a query, values or a plain function call follows FROM.

    Raises:
        NotAllowedError: It is another expression, such as `CAST(...)`, which PostgreSQL also treats as a function.
    """
    from sqlglot import exp

    if isinstance(node, exp.From | exp.Join):
        allowed = isinstance(node.this, exp.Table | exp.Subquery | exp.Values | exp.Unnest | exp.Lateral)
    elif isinstance(node, exp.Table):
        functions = node.args.get("rows_from") or ()
        allowed = isinstance(node.this, exp.Identifier | exp.Anonymous) or bool(functions)
        allowed &= all(isinstance(function, exp.Table | exp.Unnest) for function in functions)
    elif isinstance(node, exp.Lateral):
        allowed = isinstance(node.this, exp.Anonymous | exp.Unnest | exp.Subquery)
    else:
        return
    if not allowed:
        raise NotAllowedError("only tables, queries, VALUES and functions with plain arguments can stand behind FROM")


def _function_name(source: exp.Expr) -> str | None:
    """Return the name of the function that a source calls, or `None`."""
    from sqlglot import exp

    if isinstance(source, exp.Unnest):
        return "unnest"
    functions = source.args.get("rows_from")
    called = functions[0] if functions else source.this
    if isinstance(called, exp.Table | exp.Unnest):
        return _function_name(called)
    if not isinstance(called, exp.Anonymous):
        return None
    is_quoted = isinstance(called.this, exp.Identifier) and called.this.args.get("quoted")
    return str(called.name) if is_quoted else ascii_lower(called.name)
