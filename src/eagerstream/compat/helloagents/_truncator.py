"""Tool outputs that are too long for a model: cut, and saved as a whole where that is asked for."""

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
from ...builtin._truncation import Direction, TruncationStats
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
    """What `ObservationTruncator.truncate` gives.

    Attributes:
        truncated: Something was left out.
        preview: The kept lines, without a line break at the end. The output itself if nothing was left out.
        full_output_path: Where all of it is; None where it was not saved.
        stats: What was cut, with sizes in bytes of UTF-8.
    """

    truncated: bool
    preview: str
    full_output_path: str | None
    stats: TruncationStats


class ObservationTruncator:
    """Cuts outputs to so many lines and so many bytes; both hold for every preview.

    Args:
        max_lines: Lines that are kept.
        max_bytes: Of a preview, in UTF-8; a long line may be cut.
        truncate_direction: Which end is kept: `head`, `tail`, or both with `head_tail`.
        output_dir: Outputs that are cut are saved whole in this folder, which is made at once, readable by their owner
            only. None: nothing is saved.

    Raises:
        UsageError: A bound is less than 1, or there is no such direction.
        OSError: The folder cannot be made.
    """

    def __init__(
        self,
        max_lines: int = 2000,
        max_bytes: int = 51_200,
        truncate_direction: Direction = "head",
        output_dir: str | Path | None = None,
    ) -> None:
        truncate_output("", max_lines, max_bytes, truncate_direction)  # refuses what it cannot go by
        self.max_lines = max_lines
        self.max_bytes = max_bytes
        self.truncate_direction = truncate_direction
        self.output_dir = output_dir
        if output_dir is not None:
            Path(output_dir).mkdir(mode=0o700, parents=True, exist_ok=True)

    def truncate(self, tool_name: str, output: str, metadata: Mapping[str, Any] | None = None) -> Truncated:
        """An output within the bounds; with `output_dir` the whole of it in a file where it was cut.

        Args:
            tool_name: Is part of the name of the file, as far as it is made of letters, digits, `_` and `-`.
            output: What the tool gave.
            metadata: Is saved with it.

        Returns:
            Where the file cannot be written, the log tells so, and there is no path.
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
        """A response whose text is within the bounds; itself where it was before.

        A success becomes a `PARTIAL` with the reason, and an error stays one. `data` stays as it is; `context` has the
        `full_output_path` where there is one.
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
    """Write a file of its own: calls that run at a time may come at the same microsecond."""
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
    """The first `limit` results, with a `PARTIAL` that says so in Chinese where there are more.

    `eagerstream.builtin.truncate_results` knows more of it.

    Raises:
        UsageError: `limit` is less than 1.
    """
    response = builtin.truncate_results(results, limit)
    count = len(response.data["results"])
    if response.status is ToolStatus.SUCCESS:
        return replace(response, text=f"搜索完成({count} 条结果)")
    return replace(response, text=f"搜索完成(前 {count} 条结果)", reason=f"结果过多,已截断到 {count} 条")
