"""`SQLTool`: the builtin `SQL` in the form of anthropic-tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from eagerstream._support.options import with_defaults
from eagerstream.errors import ToolError
from eagerstream.tools import Tool, ToolErrorCode, ToolOptions, ToolResponse, ToolStatus, tool
from eagerstream_toolkit import SQL

from .._sync import SyncLoop, refuse_in_event_loop, run_plain
from ._base_tool import BaseTool, check_names, described_in_xml

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from eagerstream_toolkit import DBAPIConnection


class SQLTool(BaseTool):
    """Tool that runs the model's SQL statements with `eagerstream_toolkit.SQL`.

    That class describes the protection of a database. Unlike the tool of anthropic-tools, it only reads by default, and
    each call runs one statement. A SQLite file is opened again for each call. So a connection from
    `sqlite3.connect("test.db")` works, although it is bound to its thread. Its uncommitted changes are not visible.

    Args:
        name: The tool's name.
        description: Description for the model. The dialect and the schema are appended.
        parameters: `sql_query`, a `str`, in the form of `BaseTool`.
        db_schema: Description of the tables.
        db_conn: A connection of any DB-API driver, a path, or an `Engine` or `Connection` of SQLAlchemy.
        db_dialect: Dialect in the description, and of the read-only transaction.
        read_only: Whether statements may only read. `False` lets the model write: one statement, committed.

    Raises:
        ValueError: A parameter is wrong.
        UsageError: The database is of an unknown kind.
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
    ) -> None:
        super().__init__(name, description, parameters)
        if not self._has_own_answer():
            check_names(parameters, "sql_query")
        self.db_schema = db_schema
        self.db_conn = db_conn
        self.db_dialect = db_dialect
        self._read_only = read_only
        same: dict[str, Any] = {"schema": db_schema, "dialect": db_dialect}
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
        """Return all rows of a result, as `fetchall()` does. A statement without a result gives an empty list.

        The values are plain: dates, decimals and similar values are texts, and short binary data is `x'0a1b'`.

        Raises:
            ToolError: The database refuses the statement, or it takes more than 30 seconds. Also raised for more than
                10,000 rows, 100,000 characters of a value, or 1,000,000 characters of all values.
            UsageError: An event loop runs in this thread: await `ause_tool`.
        """
        refuse_in_event_loop("use_tool", "await ause_tool")
        return self._rows_of(anyio.run(self._for_programs.call, {"sql_query": sql_query}))

    async def ause_tool(self, arguments: Mapping[str, Any]) -> Any:
        """Return the same as `use_tool`. Cancelling it stops the statement if the driver can do that.

        Raises:
            ToolError: As for `use_tool`.
        """
        if self._has_own_answer():
            return await super().ause_tool(arguments)
        return self._rows_of(await _called(self._for_programs, arguments))

    def to_anthropic(self) -> dict[str, Any]:
        """Return the definition in the form of the Messages API. The description has the dialect and the schema."""
        return super().to_anthropic() | {"description": _described(self.description, self.db_schema, self.db_dialect)}

    def to_tool(self, **options: Unpack[ToolOptions]) -> Tool:
        """Return this tool for `eagerstream.run` and `eagerstream.stream`.

        It answers like the builtin `SQL`: results are bounded, and omissions are reported. If a class overrides
        `use_tool`, the returned value is the result.

        Args:
            options: As for `eagerstream.tool`, without the options of the definition. Calls that share a connection or
                write run one at a time, unless there is a `group`.
        """
        if self._has_own_answer():
            return super().to_tool(**options)

        async def query(arguments: dict[str, Any]) -> ToolResponse:
            return await _called(self._for_model, arguments)

        given = with_defaults(options, group=self._for_model.group, timeout_s=self._for_model.timeout_s)
        given["definition"] = self.to_anthropic()
        return tool(query, **given)

    def format_tool_for_claude(self) -> str:
        """Return the description in the XML of the old prompts, with the dialect and the schema."""
        described = _described(self.description, self.db_schema, self.db_dialect)
        return described_in_xml(self.name, described, self.parameters)

    def _rows_of(self, response: ToolResponse) -> list[tuple[Any, ...]]:
        if response.status is ToolStatus.ERROR:
            raise ToolError(response.text, code=response.code)
        if response.data["truncated"]:
            hint = "Ask for less, for example with LIMIT."
            if not self._read_only:
                hint += " The changes of the statement are kept."
            raise ToolError("The result is too large.", hint=hint, code=ToolErrorCode.INVALID_PARAM)
        return [tuple(row) for row in response.data["rows"]]

    def _has_own_answer(self) -> bool:
        return type(self).use_tool is not SQLTool.use_tool


async def _called(sql: SQL, arguments: Mapping[str, Any]) -> ToolResponse:
    """Return the response. Within a synchronous call, use the caller's thread, to which a database may be bound."""
    if SyncLoop.current() is None:
        response: ToolResponse = await sql.call(dict(arguments))
        return response
    return await run_plain(partial(anyio.run, sql.call, dict(arguments)))


def _described(description: str, schema: str, dialect: str) -> str:
    return f"{description}\nThe database uses the dialect {dialect}. Its schema:\n<schema>\n{schema}\n</schema>"
