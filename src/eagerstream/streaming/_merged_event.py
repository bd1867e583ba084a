"""`MergedEvent`: one event in place of several deltas of the same block, without loss of text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from eagerstream_wire import InputDelta, Patch, TextDelta, ThinkingDelta, merge_patches

from ._output import OutputDelta


class MergedEvent:
    """An event that waits to be handed out, and the later ones that were merged into it.

    Attributes:
        event: The event, without the later ones.
        chars: Length of the text of all of them.
    """

    # The texts are in a list, joined once: `+=` is quadratic if a consumer sleeps through a large input.

    __slots__ = ("chars", "event", "finished", "patches", "texts", "tokens")

    def __init__(self, event: Any) -> None:
        self.event = event
        self.patches: list[Patch] | None = []  # None: the changes of a part are not known
        self.finished: list[str] = []
        self._keep_changes(event)
        self.texts = [_text(event)]
        self.tokens = _tokens(event)
        self.chars = len(self.texts[0])

    def merge(self, event: Any) -> None:
        """Add a later event with the same `merge_key`."""
        if not isinstance(event, InputDelta | TextDelta | ThinkingDelta | OutputDelta):
            self.event = event  # the newest counts
            return
        text = _text(event)
        self._keep_changes(event)
        self.texts.append(text)
        self.chars += len(text)
        if (tokens := _tokens(event)) is not None:
            self.tokens = tokens + (self.tokens or 0)

    def _keep_changes(self, event: Any) -> None:
        if isinstance(event, InputDelta):
            # An observer that wants changes may come or go while deltas wait. The changes of a part of them would pass
            # for all (test_changes_that_are_known_in_part_are_none).
            if event.patch is None:
                self.patches = None
            elif self.patches is not None:
                self.patches.append(event.patch)
                self.finished += event.finished

    def merged(self) -> Any:
        """Return one event in place of all of them."""
        if len(self.texts) == 1:
            return self.event
        text = "".join(self.texts)
        match self.event:
            case InputDelta(input=input) if self.patches is not None:
                return InputDelta(input, text, merge_patches(self.patches), self.finished)
            case InputDelta(input=input):
                return InputDelta(input, text)
            case TextDelta(index=index):
                return TextDelta(index, text)
            case ThinkingDelta(index=index):
                return ThinkingDelta(index, text, self.tokens)
            case OutputDelta(index=index, output=output):
                return OutputDelta(index, output, text)
            case _:
                raise AssertionError("only deltas are merged")


def _text(event: Any) -> str:
    match event:
        case InputDelta(fragment=text) | TextDelta(text=text) | ThinkingDelta(thinking=text):
            return text
        case OutputDelta(fragment=text):
            return text
        case _:
            return ""


def _tokens(event: Any) -> int | None:
    return event.estimated_tokens if isinstance(event, ThinkingDelta) else None


def merge_key(event: Any) -> Hashable:
    """Return the key of an event: a later one with the same key can be merged into it. None: none can be."""
    # An input by identity, since an index may be used twice. A held delta keeps its input alive, so the `id` is its
    # own. Texts have an index only, but a `MessageStart` between two messages separates them.
    match event:
        case InputDelta(input=input):
            return id(input)
        case TextDelta(index=index):
            return ("text", index)
        case ThinkingDelta(index=index):
            return ("thinking", index)
        case OutputDelta(output=output):
            return id(output)
        case _:
            # Events of which only the newest counts say so themselves (the progress of a tool).
            newest_of: Hashable = getattr(event, "newest_of", None)
            return newest_of
