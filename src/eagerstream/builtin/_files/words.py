"""The texts of the file tools' results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The texts, with placeholders in braces. A subclass of `Files` may have others."""

    read: str = (
        "Read {lines} of {total} lines of '{path}', from line {offset} on (the first is 0);"
        " {size} bytes, file_mtime_ms={mtime}"
    )
    listed: str = "'{path}' is a folder; {count} entries, from entry {offset} on (the first is 0)"
    more: str = "There is more: continue with offset={next}"
    long_line: str = "The end of line {line} is left out: the line has more than {max} bytes"
    past_end: str = "offset={offset} is behind the end of '{path}'"
    not_found: str = "'{path}' does not exist"
    not_a_folder: str = "'{path}' cannot exist: a part of the path is a file, not a folder"
    is_folder: str = "'{path}' is a folder"
    denied: str = "No permission for '{path}'"
    not_text: str = "'{path}' is not UTF-8 text"
    failed: str = "'{path}' could not be used: {why}"
    wrote: str = "Wrote {size} bytes to '{path}'"
    edited: str = "Edited '{path}' ({change:+d} bytes)"
    edited_often: str = "Made {count} edits to '{path}' ({change:+d} bytes)"
    no_single_match: str = "old_string must match exactly one place in the file. It matches {count}."
    which_edit: str = "edits[{index}]: {what} No edit was made."
    changed: str = (
        "'{path}' was changed since it was read: its file_mtime_ms is {current}, not {known}."
        " Nothing was written. Read it again."
    )
    changed_alike: str = (
        "'{path}' was changed since it was read, although its file_mtime_ms is the same."
        " Nothing was written. Read it again."
    )
    deleted: str = "'{path}' was deleted since it was read. Nothing was written. Read it again."
    unread: str = "'{path}' exists, and was not read. Nothing was written. Read it first, then replace or edit it."
    not_whole: str = "Nothing was written to '{path}'."
