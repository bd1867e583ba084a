"""What the results of the file tools say, in each language that they speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .._language import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One language; what stands in braces is filled in."""

    read: str
    listed: str
    more: str
    long_line: str
    past_end: str
    not_found: str
    not_a_folder: str
    is_folder: str
    denied: str
    not_text: str
    failed: str
    wrote: str
    edited: str
    edited_often: str
    no_single_match: str
    which_edit: str
    changed: str
    changed_alike: str
    deleted: str
    unread: str
    not_whole: str


WORDS: Final[Mapping[Language, Words]] = MappingProxyType(
    {
        "en": Words(
            read="Read {lines} of {total} lines of '{path}', from line {offset} on (the first is 0);"
            " {size} bytes, file_mtime_ms={mtime}",
            listed="'{path}' is a folder; {count} entries, from entry {offset} on (the first is 0)",
            more="There is more: continue with offset={next}",
            long_line="The end of line {line} is left out: the line has more than {max} bytes",
            past_end="offset={offset} is behind the end of '{path}'",
            not_found="'{path}' does not exist",
            not_a_folder="'{path}' cannot exist: a part of the path is a file, not a folder",
            is_folder="'{path}' is a folder",
            denied="No permission for '{path}'",
            not_text="'{path}' is not UTF-8 text",
            failed="'{path}' could not be used: {why}",
            wrote="Wrote {size} bytes to '{path}'",
            edited="Edited '{path}' ({change:+d} bytes)",
            edited_often="Made {count} edits to '{path}' ({change:+d} bytes)",
            no_single_match="old_string must match exactly one place in the file. It matches {count}.",
            which_edit="edits[{index}]: {what} No edit was made.",
            changed="'{path}' was changed since it was read: its file_mtime_ms is {current}, not {known}."
            " Nothing was written. Read it again.",
            changed_alike="'{path}' was changed since it was read, although its file_mtime_ms is the same."
            " Nothing was written. Read it again.",
            deleted="'{path}' was deleted since it was read. Nothing was written. Read it again.",
            unread="'{path}' exists, and was not read. Nothing was written. Read it first, then replace or edit it.",
            not_whole="Nothing was written to '{path}'.",
        ),
        "zh": Words(
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
        ),
    }
)
"""`zh` has the words of HelloAgents where these are laid down."""
