"""`SQLTool`: the builtin `SQL`, as anthropic-tools has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from ...builtin import SQL
from ...builtin._tool_options import with_defaults
from ...errors import ToolError
from ...tools import Tool, ToolErrorCode, ToolOptions, ToolResponse, ToolStatus, tool
from .._sync import SyncLoop, refuse_in_event_loop, run_plain
from ._base_tool import BaseTool, check_names, described_in_xml

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from ...builtin._sql.tool import DBAPIConnection


class SQLTool(BaseTool):
    """Runs SQL statements of the model, by `eagerstream.builtin.SQL`, which says how a database is guarded.

    Unlike the tool of anthropic-tools it only reads, unless it is told otherwise; and each call runs one statement. A
    SQLite file is opened anew for each, so that a connection of `sqlite3.connect("test.db")`, which is bound to its
    thread, does: what it has not committed is not seen.

    Args:
        name: The tool's name.
        description: What the model reads of it; dialect and schema follow.
        parameters: `sql_query`, a `str`, in the form that `BaseTool` takes.
        db_schema: What tables there are.
        db_conn: A connection of any DB-API driver, a path, or an `Engine` or `Connection` of SQLAlchemy.
        db_dialect: As the model is told. Where it is not SQLite or SQLAlchemy, also what a statement is checked as.
        read_only: False lets the model write: one statement, committed.
        allowed_functions: Functions of your own that a statement may call as well. See `eagerstream.builtin.SQL`.

    Raises:
        ValueError: A parameter is wrong.
        UsageError: The database is of no known kind, or the dialect.
        MissingExtraError: It is not SQLite, and sqlglot is not installed.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Sequence[Mapping[str, Any]],
        db_schema: str,
        db_conn: str | Path | Engine | Connection | DBAPIConnection,
        db_dialect: str,
        *,
        read_only: bool = True,
        allowed_functions: Collection[str] = (),
    ) -> None:
        super().__init__(name, description, parameters)
        if not self._has_own_answer():
            check_names(parameters, "sql_query")
        self.db_schema = db_schema
        self.db_conn = db_conn
        self.db_dialect = db_dialect
        self._read_only = read_only
        same: dict[str, Any] = {"schema": db_schema, "dialect": db_dialect, "allowed_functions": allowed_functions}
        self._for_model = SQL(db_conn, read_only=read_only, **same)
        self._for_programs = SQL(
            db_conn,
            read_only=read_only,
            **same,
            max_rows=10_000,
            max_cell_chars=100_000,
            max_result_chars=1_000_000,
        )

    def use_tool(self, sql_query: str) -> list[tuple[Any, ...]]:
        """The rows of a result, all of them, as `fetchall()` gives them; none after a statement that has no result.

        Their values are plain: dates, decimals and the like are texts, short binary data is `x'0a1b'`.

        Raises:
            ToolError: The database refuses the statement, or it took more than 30 seconds; or there are more than
                10,000 rows, 100,000 characters of a value, or 1,000,000 of all of them.
            UsageError: An event loop runs in this thread: await `ause_tool`.
        """
        refuse_in_event_loop("use_tool", "await ause_tool")
        return self._rows_of(anyio.run(self._for_programs.call, {"sql_query": sql_query}))

    async def ause_tool(self, arguments: Mapping[str, Any]) -> Any:
        """The same as `use_tool`; cancelling it stops the statement, where the driver can.

        Raises:
            ToolError: As `use_tool`.
        """
        if self._has_own_answer():
            return await super().ause_tool(arguments)
        return self._rows_of(await _called(self._for_programs, arguments))

    def to_anthropic(self) -> dict[str, Any]:
        """The definition as the Messages API takes it: the description tells dialect and schema."""
        return super().to_anthropic() | {"description": _described(self.description, self.db_schema, self.db_dialect)}

    def to_tool(self, **options: Unpack[ToolOptions]) -> Tool:
        """The same as a tool for `eagerstream.run` and `eagerstream.stream`.

        It answers as the builtin `SQL`: with no more than a model should read, and what was left out is told. A class
        with a `use_tool` of its own answers with what that returns.

        Args:
            options: As of `eagerstream.tool`, without what belongs into the definition. Where calls share a connection,
                or write, they run one at a time unless there is a `group`.
        """
        if self._has_own_answer():
            return super().to_tool(**options)

        async def query(arguments: dict[str, Any]) -> ToolResponse:
            return await _called(self._for_model, arguments)

        given = with_defaults(options, group=self._for_model.group, timeout_s=self._for_model.timeout_s)
        given["definition"] = self.to_anthropic()
        return tool(query, **given)

    def format_tool_for_claude(self) -> str:
        """The description in the XML of the old prompts, with dialect and schema."""
        return construct_format_sql_tool_for_claude_prompt(
            self.name, self.description, self.parameters, self.db_schema, self.db_dialect
        )

    def _rows_of(self, response: ToolResponse) -> list[tuple[Any, ...]]:
        if response.status is ToolStatus.ERROR:
            raise ToolError(response.text, code=response.code)
        if response.data["truncated"]:
            hint = "Ask for less, for example with LIMIT."
            if not self._read_only:
                hint += " What the statement changed stays changed."
            raise ToolError("The result is too large.", hint=hint, code=ToolErrorCode.INVALID_PARAM)
        return [tuple(row) for row in response.data["rows"]]

    def _has_own_answer(self) -> bool:
        return type(self).use_tool is not SQLTool.use_tool


def construct_format_sql_tool_for_claude_prompt(
    name: str, description: str, parameters: Sequence[Mapping[str, Any]], db_schema: str, db_dialect: str
) -> str:
    """The description of a tool for a database in the XML of the old prompts. Nothing here sends it."""
    return described_in_xml(name, _described(description, db_schema, db_dialect), parameters)


async def _called(sql: SQL, arguments: Mapping[str, Any]) -> ToolResponse:
    """The response; within a synchronous call from the caller's thread, to which a database may be bound."""
    if SyncLoop.current() is None:
        response: ToolResponse = await sql.call(dict(arguments))
        return response
    return await run_plain(partial(anyio.run, sql.call, dict(arguments)))


def _described(description: str, schema: str, dialect: str) -> str:
    return f"{description}\nThe database uses the dialect {dialect}. Its schema:\n<schema>\n{schema}\n</schema>"
