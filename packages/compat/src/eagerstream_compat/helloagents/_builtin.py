"""HelloAgents' tools, built on those of `eagerstream_toolkit`, and their texts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from anyio.from_thread import start_blocking_portal

import eagerstream_toolkit as builtin
from eagerstream.errors import ToolError
from eagerstream.inputs import InputError
from eagerstream.tools import Group, Tool as CoreTool, ToolErrorCode, ToolResponse, ToolStatus, error_response
from eagerstream_toolkit import Calculator, Files, FileWords

from ._registry import ToolRegistry
from ._tool import Tool, ToolParameter

FILE_WORDS: Final = FileWords(
    read="文件读取成功",
    listed="目录 '{path}': {count} 项, 从第 {offset} 项开始",
    more="内容未完: 请用 offset={next} 继续读取",
    long_line="第 {line} 行超过 {max} 字节, 其余部分已省略",
    past_end="offset={offset} 超出文件 '{path}' 的末尾",
    not_found="文件 '{path}' 不存在",
    not_a_folder="路径 '{path}' 无效: 其中一部分是文件而不是目录",
    is_folder="'{path}' 是目录",
    denied="没有 '{path}' 的访问权限",
    not_text="文件 '{path}' 不是 UTF-8 文本",
    failed="无法处理 '{path}': {why}",
    wrote="已写入 '{path}', {size} 字节",
    edited="已编辑 '{path}', 变化 {change:+d} 字节",
    edited_often="已对 '{path}' 执行 {count} 处编辑, 变化 {change:+d} 字节",
    no_single_match="old_string 必须唯一匹配文件内容。找到 {count} 处匹配。",
    which_edit="edits[{index}]: {what}未作任何修改。",
    changed="文件 '{path}' 在读取之后被修改: 当前 file_mtime_ms={current}, 已知 {known}。未写入, 请重新读取。",
    changed_alike="文件 '{path}' 在读取之后被修改, 但 file_mtime_ms 未变。未写入, 请重新读取。",
    deleted="文件 '{path}' 在读取之后被删除。未写入, 请重新读取。",
    unread="文件 '{path}' 已存在但尚未读取。未写入, 请先读取。",
    not_whole="未写入 '{path}'。",
)

CALCULATOR_WORDS: Final = {
    "result": "计算结果: {result}",
    "empty": "计算表达式不能为空",
    "syntax": "表达式语法错误: {why}",
    "failed": "计算失败: {why}",
    "unreadable": "不是算术表达式",
    "too_long": "长度超过 {detail} 个字符",
    "too_deep": "嵌套过深",
    "too_large": "数值过大",
    "not_real": "结果不是实数",
    "division": "除数为零",
    "domain": "{detail} 对该值没有定义",
    "arguments": "{detail} 的参数不正确",
    "unknown": "未知的函数或常量 {detail}",
    "unsupported": "包含不支持的内容",
}


class AdaptedTool(Tool):
    """Tool that passes its calls to another tool, whose name, description and parameters it has."""

    def __init__(self, tool: CoreTool) -> None:
        super().__init__(tool.name, tool.description)
        self._tool = tool

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        """Run `arun` in a new event loop in another thread. Any code may call this, and it blocks."""
        # Not the loop of all synchronous calls: a tool that runs there may call this, and would wait for itself.
        with start_blocking_portal() as portal:
            response: ToolResponse = portal.call(self.arun, parameters)
        return response

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Return the response of the tool. Every failure is an `ERROR`.

        Parameters that are `None` or unknown to the tool count as missing. Cancelling this cancels the call of the
        tool.
        """
        schema: Mapping[str, Any] = self._tool.input_schema
        given = {name: parameters[name] for name in schema["properties"] if parameters.get(name) is not None}
        missing = next((name for name in schema["required"] if name not in given), None)
        if missing is not None:
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, f"参数 '{missing}' 不能为空")
        try:
            response: ToolResponse = await self._tool.call(given)
        except (ToolError, InputError) as error:
            return error_response(error)
        return response

    def get_parameters(self) -> list[ToolParameter]:
        """Return the parameters of the tool."""
        schema: Mapping[str, Any] = self._tool.input_schema
        return [
            ToolParameter(
                name=name,
                type=str(described["type"] if "type" in described else described["anyOf"][0]["type"]),  # without null
                description=described["description"],
                required=name in schema["required"],
                default=described.get("default"),
            )
            for name, described in schema["properties"].items()
        ]


class _Calculator(Calculator):
    words = CALCULATOR_WORDS


class CalculatorTool(AdaptedTool):
    """`eagerstream_toolkit.Calculator`, called `python_calculator`. It takes `{"input": str}` or `{"expression": str}`.

    Its data is `{"expression": str, "result": int | float, "result_str": str, "result_type": "int" | "float"}`. The
    error code is `INVALID_FORMAT` for an expression that cannot be parsed, `EXECUTION_ERROR` for one without a result,
    and `INVALID_PARAM` for a missing one.

    Unlike in HelloAgents, `2^3` is 8 (there it is 1: the bits that differ), and nothing is printed.
    """

    def __init__(self) -> None:
        super().__init__(_Calculator(name="python_calculator"))

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Return the value of an expression, or an error. Cancelling it cancels the call of the tool."""
        expression = parameters.get("input") or parameters.get("expression") or ""
        response = await super().arun({"expression": expression})
        if response.code is not None and isinstance(expression, str) and expression.strip():
            unreadable = response.code == ToolErrorCode.INVALID_FORMAT
            code = ToolErrorCode.INVALID_FORMAT if unreadable else ToolErrorCode.EXECUTION_ERROR
            return ToolResponse.error(code, response.text, context={"expression": expression})
        return response

    def get_parameters(self) -> list[ToolParameter]:
        """Return the expression as the parameter `input`."""
        (expression,) = super().get_parameters()
        expression.name = "input"
        return [expression]


def calculate(expression: str) -> ToolResponse:
    """Return the response of `CalculatorTool`. The model reads `.text`, and `.data["result"]` is the number."""
    return CalculatorTool().run({"input": expression})


_NO_LIMIT: Final = 1_000_000_000


class _Files(Files):
    words = FILE_WORDS


class FileTool(AdaptedTool):
    """Tool for the files of a folder, see `eagerstream_toolkit.Files`.

    No path leads out of the folder. Before a change, the old file is saved beside it as
    `.backups/{name}.{YYYYmmdd_HHMMSS}.bak`, and never deleted.

    Args:
        project_root: The folder. It must exist.
        working_dir: The folder in its place, if given.
        registry: Stores the known version of each file. Without it, a change checks only the given `file_mtime_ms`.

    Raises:
        UsageError: The folder does not exist, or this platform cannot keep paths inside a folder (Windows).

    Attributes:
        group: Group of all tools of one folder, as an option of `eagerstream.tool`. Calls of one turn run one after
            another, so that an edit sees the edits before it.
    """

    _core_name: ClassVar[str]

    def __init__(
        self,
        project_root: str | os.PathLike[str] = ".",
        working_dir: str | os.PathLike[str] | None = None,
        registry: ToolRegistry | None = None,
    ) -> None:
        self._files = _Files(working_dir or project_root, require_read=False, backups=True)
        super().__init__(next(tool for tool in self._files if tool.name == self._core_name))
        self.registry = registry
        self.group: str | Group | None = self._files.group

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Return the response of the tool. Every failure is an `ERROR`.

        Cancelling it leaves no partial change.
        """
        path = parameters.get("path")
        if not isinstance(path, str) or not path:
            return await super().arun({**parameters, "path": path or None})
        path = path.replace("\\", "/")
        try:
            place = self._files.jail.shown(self._files.jail.parts(path))
        except ToolError as error:
            return error_response(error)
        # The path that the program would look up, and the path that another spelling of it leads to.
        names = tuple(dict.fromkeys((place, parameters["path"])))
        # The version that the registry knows counts, because other tools may have changed the file.
        found = map(self.registry.get_read_metadata, names) if self.registry is not None else ()
        before = next(filter(None, found), None)
        if before is None:
            self._files.clear_read_cache(place)
        else:
            self._files.cache_read_metadata(place, before)
        response = await super().arun({**parameters, "path": path})
        known = self._files.get_read_metadata(place)
        if self.registry is None or (known is None and before is None):
            return response
        for name in names:
            if known is None:
                self.registry.clear_read_cache(name)
            elif known != before or self.registry.get_read_metadata(name) is None:
                self.registry.cache_read_metadata(name, known)
        return response

    def to_anthropic(self) -> dict[str, Any]:
        """Return the definition in the form of the Messages API. Its schema is more detailed than `get_parameters`."""
        definition = self._tool.to_dict()
        return {name: definition[name] for name in ("name", "description", "input_schema")}


class ReadTool(FileTool):
    """Tool that reads a file or lists a folder: `{"path": str, "offset": int = 0, "limit": int = 2000}`, both in lines.

    For a file, the text only confirms the reading. Its lines are `data["content"]`, and a content block for the model.
    A result has at most 51,200 bytes of it, and is `PARTIAL` if there are more. For a folder, the list is in the text,
    and the data is `{"path", "is_directory": True, "entries": [{"name", "type", "size"}], "total_files",
    "total_dirs"}`.
    """

    _core_name = "Read"

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """Return the lines or the list. A `limit` of 0 or less means no limit. A negative `offset` means 0.

        Cancelling it leaves the registry unchanged.
        """
        given = dict(parameters)
        if type(given.get("offset")) is int:
            given["offset"] = max(given["offset"], 0)
        if type(given.get("limit")) is int and given["limit"] <= 0:
            given["limit"] = _NO_LIMIT
        response = await super().arun(given)
        if not response.data.get("is_directory"):
            return response
        # HelloAgents' programs expect the list in the text, and the counts of entries.
        kinds = Counter(entry["type"] for entry in response.data["entries"])
        counts = {"total_files": kinds.total() - kinds["directory"], "total_dirs": kinds["directory"]}
        lines = [response.text, *(block["text"] for block in response.content)]
        return replace(response, text="\n".join(lines), data={**response.data, **counts}, content=[])


class WriteTool(FileTool):
    """Tool that writes a complete file: `{"path": str, "content": str, "file_mtime_ms": int | None}`.

    Its data is `{"written": True, "size_bytes": int, "file_mtime_ms": int, "backup_path": str | None}`.
    """

    _core_name = "Write"


class EditTool(FileTool):
    """Tool that replaces a text in a file.

    Its input is `{"path": str, "old_string": str, "new_string": str, "file_mtime_ms": int | None}`.
    The file must contain `old_string` exactly once. The data is `{"modified": True, "changed_bytes": int, "size_bytes":
    int, "file_mtime_ms": int, "backup_path": str}`.
    """

    _core_name = "Edit"


class MultiEditTool(FileTool):
    """Tool that replaces several texts in a file, all or none.

    Its input is `{"path": str, "edits": list, "file_mtime_ms": int | None}`.
    Each edit is `{"old_string": str, "new_string": str}`, and sees the result of the edits before it. The data is that
    of `EditTool`, with `num_edits`.
    """

    _core_name = "MultiEdit"


def truncate_results(results: Sequence[Any], limit: int) -> ToolResponse:
    """Return the first `limit` results. If there are more, the response is a `PARTIAL` with a Chinese text.

    `eagerstream_toolkit.truncate_results` describes the data.

    Raises:
        UsageError: `limit` is less than 1.
    """
    response = builtin.truncate_results(results, limit)
    count = len(response.data["results"])
    if response.status is ToolStatus.SUCCESS:
        return replace(response, text=f"搜索完成({count} 条结果)")
    return replace(response, text=f"搜索完成(前 {count} 条结果)", reason=f"结果过多,已截断到 {count} 条")
