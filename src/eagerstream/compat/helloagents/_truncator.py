"""Cuts tool outputs that are too long for a model, and optionally saves the complete output."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, TypedDict

from ... import builtin
from ...builtin import truncate_output
from ...builtin._truncation import KeptPart, TruncationStats
from ...tools import ToolResponse, ToolStatus
from ...wire import encodable
from ._trace.payload import plain
from ._trace.writing import new_file

_MAX_NAME_CHARS: Final = 64
_OMITTED: Final = "...(中间省略)..."
_LAST_BREAK: Final = re.compile(r"(?:\r\n|\n|\r)\Z")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")

_log = logging.getLogger(__name__)


class Truncated(TypedDict):
    """Result of `ObservationTruncator.truncate`.

    Attributes:
        truncated: Whether a part was omitted.
        preview: The kept lines, without a line break at the end. The complete output if no part was omitted.
        full_output_path: Path of the saved output, or `None` if it was not saved.
        stats: Sizes before and after the cut, in bytes of UTF-8.
    """

    truncated: bool
    preview: str
    full_output_path: str | None
    stats: TruncationStats


class ObservationTruncator:
    """Cutter of outputs to a maximum number of lines and of bytes. Both bounds apply to every preview.

    Args:
        max_lines: Maximum number of lines.
        max_bytes: Maximum size of a preview in UTF-8. A long line may be cut.
        truncate_direction: Kept end: `head`, `tail`, or both with `head_tail`.
        output_dir: Folder for complete copies of the outputs that are cut. It is made at once, readable only by its
            owner. `None` saves nothing.

    Raises:
        UsageError: A bound is less than 1, or the direction is unknown.
        OSError: The folder cannot be made.
    """

    def __init__(
        self,
        max_lines: int = 2000,
        max_bytes: int = 51_200,
        truncate_direction: KeptPart = "head",
        output_dir: str | Path | None = None,
    ) -> None:
        truncate_output("", max_lines, max_bytes, truncate_direction)  # raises for wrong options
        self.max_lines = max_lines
        self.max_bytes = max_bytes
        self.truncate_direction = truncate_direction
        self.output_dir = output_dir
        if output_dir is not None:
            Path(output_dir).mkdir(mode=0o700, parents=True, exist_ok=True)

    def truncate(self, tool_name: str, output: str, metadata: Mapping[str, Any] | None = None) -> Truncated:
        """Return an output within the bounds. If it is cut, save the complete output in `output_dir`, if given.

        Args:
            tool_name: Part of the file's name. Characters other than letters, digits, `_` and `-` become `_`.
            output: Output of the tool.
            metadata: Data to save with it.

        Returns:
            The preview and its statistics. If the file cannot be written, a warning is logged, and the path is `None`.
        """
        cut = truncate_output(output, self.max_lines, self.max_bytes, self.truncate_direction, omitted=_OMITTED)
        preview, stats, path = cut["preview"], cut["stats"], None
        if cut["truncated"]:
            preview = _LAST_BREAK.sub("", preview)  # HelloAgents joins the kept lines
            stats["kept_bytes"] = len(preview.encode())
            if self.output_dir is not None:
                path = self._save(tool_name, output, metadata)
        return {"truncated": cut["truncated"], "preview": preview, "full_output_path": path, "stats": stats}

    def truncate_response(self, tool_name: str, response: ToolResponse) -> ToolResponse:
        """Return a response with a text within the bounds. If the text fits, return the same response.

        A success becomes a `PARTIAL` with the reason, and an error stays an error. `data` is unchanged. If a file was
        saved, `context` has its `full_output_path`.
        """
        cut = self.truncate(tool_name, response.text)
        if not cut["truncated"]:
            return response
        stats = cut["stats"]
        reason = f"输出过长,已截断到 {stats['kept_lines']} 行(共 {stats['original_lines']} 行)"
        context = {**(response.context or {}), "full_output_path": cut["full_output_path"]}
        info = response.error_info
        if info is not None and info.get("message") == response.text:
            info = {**info, "message": cut["preview"]}
        return replace(
            response,
            status=ToolStatus.PARTIAL if info is None else ToolStatus.ERROR,
            text=cut["preview"],
            error_info=info,
            reason=response.reason or reason,
            context=context if cut["full_output_path"] else response.context,
        )

    def _save(self, tool_name: str, output: str, metadata: Mapping[str, Any] | None) -> str | None:
        at = datetime.now(UTC)
        whole = {
            "tool": str(encodable(tool_name)),
            "output": str(encodable(output)),
            "timestamp": at.isoformat(),
            "metadata": plain(metadata or {}),
        }
        name = f"tool_{at:%Y%m%d_%H%M%S_%f}_{_UNSAFE.sub('_', tool_name[:_MAX_NAME_CHARS])}"
        try:
            return _write_new(Path(self.output_dir or "."), name, json.dumps(whole, ensure_ascii=False, indent=2))
        except OSError as error:
            _log.warning("a tool's output cannot be saved: %s", error.strerror or type(error).__name__)
            return None


def _write_new(folder: Path, name: str, text: str) -> str:
    """Write a new file, and return its path. Concurrent calls may have the same microsecond."""
    for number in count():
        path = folder / (f"{name}_{number}.json" if number else f"{name}.json")
        try:
            with new_file(path) as file:
                file.write(text)
            return str(path)
        except FileExistsError:
            continue
    raise AssertionError  # `count` has no end


def truncate_results(results: Sequence[Any], limit: int) -> ToolResponse:
    """Return the first `limit` results. If there are more, the response is a `PARTIAL` with a Chinese text.

    `eagerstream.builtin.truncate_results` describes the data.

    Raises:
        UsageError: `limit` is less than 1.
    """
    response = builtin.truncate_results(results, limit)
    count = len(response.data["results"])
    if response.status is ToolStatus.SUCCESS:
        return replace(response, text=f"搜索完成({count} 条结果)")
    return replace(response, text=f"搜索完成(前 {count} 条结果)", reason=f"结果过多,已截断到 {count} 条")
