"""`TextEdit`: says which text file a call edits, for people who watch the model write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TextEdit:
    r"""A text file that a call edits, and the parameters with the new text: the result of a tool's option `edits`.

        def edits(input):                                           # only the finished parameters
            if "path" in input:
                return TextEdit(path=input["path"], new="new", old="old", text=read(input["path"]))

        @tool(edits=edits)
        async def replace(path: str, old: str, new: str) -> str: ...

    Those who watch then see a diff that grows. Nothing of it goes to the model, and the call does not depend on it.

    Attributes:
        path: The file, as people may see it.
        new: The parameter with the new text.
        old: The parameter with the text that is replaced, which must be in `text` once. None: nothing is replaced, or
            the complete file.
        each: The parameter with a list of edits, if there may be several. `new` and `old` are then fields of its items,
            and each edit sees the results of those before it. It needs `old`.
        after_line: Number of the line after which the new text is inserted; 0 for the start of the file. None: the new
            text replaces `old`, or the complete file.
        text: The text of the file, with `\n` as its line ends. Empty if the file is missing. None if it is not known:
            the diff then has no line numbers, and no lines around it.
    """

    path: str
    new: str
    old: str | None = None
    each: str | None = None
    after_line: int | None = None
    text: str | None = None
