"""The texts of HelloAgents' tools. Where its documents fix a text, it is that text to the letter."""

from __future__ import annotations

from typing import Final

from ....builtin._files.words import Words

FILES: Final = Words(
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

CALCULATOR: Final = {
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
