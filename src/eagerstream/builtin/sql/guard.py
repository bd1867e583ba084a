"""What a statement would do, read with sqlglot before it is sent: one statement, and only one that reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import MissingExtraError, ToolError, UsageError

if TYPE_CHECKING:
    from sqlglot import Token, exp

_DIALECTS: Final = {
    "postgresql": "postgres",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "mariadb": "mysql",
    "pymysql": "mysql",
    "mysqldb": "mysql",
    "mssql": "tsql",
    "pymssql": "tsql",
    "sqlserver": "tsql",
    "oracledb": "oracle",
    "cx_oracle": "oracle",
}
"""What SQLAlchemy, people and drivers call a dialect, and sqlglot's word for it."""

_BEGINNINGS: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
_TRANSACTIONS: Final = frozenset(
    {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "PREPARE", "XA"}
)
_FORBIDDEN_PREFIXES: Final = (
    *("pg_read_", "pg_ls_", "pg_stat_file", "pg_stat_reset", "pg_sleep", "pg_terminate_", "pg_cancel_", "pg_reload_"),
    *("pg_rotate_", "pg_switch_", "pg_promote", "pg_create_", "pg_drop_", "pg_logical_", "pg_replication_", "pg_wal_"),
    *("pg_advisory_", "pg_try_advisory_", "pg_notify", "pg_file_", "pg_import_", "pg_export_", "lo_", "dblink"),
    *("pg_backup_", "pg_start_backup", "pg_stop_backup", "pg_log_", "pg_logdir_", "pg_logfile_"),
    *("xp_", "sp_", "dbms_", "utl_", "read_", "parquet_", "system$", "sys_"),
)
_FORBIDDEN_FUNCTIONS: Final = frozenset(
    {
        *("set_config", "setval", "nextval", "query_to_xml", "query_to_xml_and_xmlschema", "cursor_to_xml"),
        *("ts_stat", "ts_rewrite", "openrowset", "opendatasource", "openquery", "openxml"),
        *("load_file", "get_lock", "release_lock", "release_all_locks", "sleep", "benchmark", "master_pos_wait"),
        *("load_extension", "readfile", "writefile", "edit", "eval", "fts3_tokenizer"),
        *("glob", "sniff_csv", "query", "query_table", "iceberg_scan", "delta_scan", "sqlite_scan", "postgres_scan"),
        *("url", "file", "remote", "remotesecure", "s3", "gcs", "hdfs", "jdbc", "odbc", "mysql", "postgresql"),
        *("mongodb", "redis", "executable", "input", "cluster", "external_query", "httpuritype"),
        *("s3cluster", "urlcluster", "filecluster", "hdfscluster", "clusterallreplicas", "azureblobstorage"),
        *("deltalake", "iceberg", "hudi", "sqlite", "sleepeachrow", "sleep_ms", "setseed", "write_log"),
        *("query_to_xmlschema", "fn_get_audit_file", "fn_trace_gettable", "fn_xe_file_target_read_file"),
    }
)
"""Known to write, to reach files or the network, or to run SQL from text. A list cannot be whole, and need not be: it
is behind a user who may not."""

_DUCKDB_TABLE_FUNCTIONS: Final = frozenset(
    {
        *("generate_series", "json_each", "json_tree", "range", "repeat", "summary", "unnest"),
        *("duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_indexes", "duckdb_keywords"),
        *("duckdb_schemas", "duckdb_sequences", "duckdb_tables", "duckdb_types", "duckdb_views"),
        *("pragma_show", "pragma_storage_info", "pragma_table_info", "pragma_version"),
    }
)
"""Others read files (`json_execute_serialized_sql` too), write them (`enable_logging`) or set something."""
_DUCKDB_FILES: Final = frozenset(
    {
        *("avro", "csv", "db", "ddb", "duckdb", "geojson", "gz", "json", "jsonl", "ndjson", "parquet", "tsv", "xlsx"),
        "zst",
    }
)
_MAX_CHARS: Final = 100_000
_MAX_NESTED_TYPES: Final = 6
_WITHOUT_ARROW: Final = frozenset({"tsql", "fabric"})


def sqlglot_dialect(name: str) -> str:
    """What sqlglot calls a dialect.

    Raises:
        UsageError: It knows no such dialect.
        MissingExtraError: sqlglot is not installed.
    """
    known = _sqlglot().Dialects
    word = _DIALECTS.get(name.lower(), name.lower())
    if not word or word not in {dialect.value for dialect in known}:
        raise UsageError(f"sqlglot knows no dialect {name!r}, and nothing else can tell what its statements do")
    return word


def checked_read(sql: str, dialect: str) -> str:
    """The statement to send in the place of `sql`: written anew from what was checked, without comments.

    What is sent is what was understood, even where the database would have read the original in another way.

    Raises:
        ToolError: It is not one statement, or does more than read; the text is for the model.
    """
    sqlglot = _sqlglot()
    tokens = _only_statement(sql, dialect)
    if _beginning(tokens) not in _BEGINNINGS:
        raise _refused("only SELECT statements are allowed")
    _check_nesting(tokens, dialect)
    try:
        query = sqlglot.parse_one(sql, dialect=dialect)
        _check_reads(query)
        if dialect == "duckdb":
            _check_no_files(query)
            _check_table_functions(query)
        written: str = query.sql(
            dialect=dialect,
            comments=False,
            normalize_functions=False,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
        )
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
        raise _refused("it could not be read, or is not one SELECT statement") from None
    return written


def check_one_statement(sql: str, dialect: str) -> None:
    """That a statement which may write is one, and leaves the transaction to the tool.

    Raises:
        ToolError: It is not; the text is for the model.
    """
    if _beginning(_only_statement(sql, dialect)) in _TRANSACTIONS:
        raise _refused("each statement is committed by itself")


def _only_statement(sql: str, dialect: str) -> list[Token]:
    """The tokens of a text that has one statement."""
    sqlglot = _sqlglot()
    if len(sql) > _MAX_CHARS:
        raise _refused(f"it is longer than {_MAX_CHARS} characters")
    if "/*!" in sql or "/*M!" in sql:  # comments that MySQL and MariaDB run
        raise _refused("comments of the kind /*! */ are not allowed")
    try:
        tokens: list[Token] = sqlglot.tokenize(sql, dialect=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
        raise _refused("it could not be read") from None
    kinds = [token.token_type for token in tokens]
    while kinds and kinds[-1] is sqlglot.TokenType.SEMICOLON:
        kinds.pop()
    if not kinds:
        raise _refused("it is empty")
    if sqlglot.TokenType.SEMICOLON in kinds:
        raise _refused("only one statement at a time is allowed")
    return tokens


def _beginning(tokens: list[Token]) -> str:
    return str(tokens[0].text).upper()


def _check_nesting(tokens: list[Token], dialect: str) -> None:
    """That sqlglot reads the statement in time; nothing could stop it.

    It reads `decimal(...)` and `array[...]` as a type first and then again as an expression: each one inside another
    takes twice as long. In T-SQL, which has no `->`, each of those does.
    """
    sqlglot = _sqlglot()
    kinds = sqlglot.TokenType
    types = sqlglot.Dialect.get_or_raise(dialect).parser_class.TYPE_TOKENS
    opened: list[bool] = []
    depth = 0
    before = None
    for token in tokens:
        kind = token.token_type
        if kind in (kinds.L_PAREN, kinds.L_BRACKET):
            opened.append(before in types)
            depth += opened[-1]
        elif kind in (kinds.R_PAREN, kinds.R_BRACKET) and opened:
            depth -= opened.pop()
        if depth > _MAX_NESTED_TYPES or (kind is kinds.ARROW and dialect in _WITHOUT_ARROW):
            raise _refused("types are nested too deeply in it, or it is of another dialect")
        before = kind


def _check_reads(query: exp.Expr) -> None:
    from sqlglot import exp

    if not isinstance(query, exp.Query | exp.Values):
        raise _refused("only SELECT statements are allowed")
    writing = (
        *(exp.DML, exp.DDL, exp.Drop, exp.Alter, exp.Into, exp.Lock, exp.Command, exp.Execute, exp.Copy, exp.LoadData),
        *(exp.Set, exp.Pragma, exp.Transaction, exp.Commit, exp.Rollback, exp.Use, exp.Kill, exp.Attach, exp.Detach),
        *(exp.Analyze, exp.Cache, exp.Uncache, exp.Refresh, exp.Grant, exp.Revoke, exp.TruncateTable, exp.Merge),
        *(exp.Describe, exp.PropertyEQ, exp.NextValueFor),
    )
    for node in query.walk():
        if isinstance(node, writing) and not isinstance(node, exp.Query):
            raise _refused("it holds a part that does more than read")
        if any(map(_is_forbidden, _names_of(node))):
            raise _refused("it calls a function that is not allowed")


def _names_of(node: exp.Expr) -> list[str]:
    """The names of the function that is called, and of the package that it is in."""
    from sqlglot import exp

    if isinstance(node, exp.Dot):
        return [part.name for part in node.this.find_all(exp.Identifier)]
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return [node.name]
    return list(node.sql_names()) if isinstance(node, exp.Func) else []


def _is_forbidden(function: str) -> bool:
    name = function.lower()
    return name in _FORBIDDEN_FUNCTIONS or name.startswith(_FORBIDDEN_PREFIXES)


def _check_no_files(query: exp.Expr) -> None:
    """DuckDB takes the name of a table that is not there for the path, or the URL, of a file."""
    from sqlglot import exp

    for table in query.find_all(exp.Table):
        names = [part.name for part in table.parts]  # DuckDB joins them, with dots: `"/etc/users".csv`
        if any(character in name for name in names for character in "./\\:*?"):
            raise _refused("tables only can be read, not files")
        if len(names) > 1 and names[-1].lower() in _DUCKDB_FILES:
            raise _refused("tables only can be read, not files")


def _check_table_functions(query: exp.Expr) -> None:
    from sqlglot import exp

    for source in query.find_all(exp.Table, exp.Lateral):
        for name in _names_of(source.this):
            if name.lower() not in _DUCKDB_TABLE_FUNCTIONS:
                raise _refused("it reads from a function that is not allowed")


def _refused(why: str) -> ToolError:
    return ToolError(f"The statement was not run: {why}.", code="PERMISSION_DENIED")


def _sqlglot() -> Any:
    try:
        import sqlglot
    except ImportError:
        raise MissingExtraError("sql", "sqlglot") from None
    return sqlglot
