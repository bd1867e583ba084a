"""`TolerantJSON`: the partial value as the `partial_json_parser` package sees it, for those who want its tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..limits import DEFAULT_LIMITS, Limits
from ._partial_json import PartialJSON
from ._values import JSON

if TYPE_CHECKING:
    from partial_json_parser import Allow


class TolerantJSON(PartialJSON):
    """A `PartialJSON` whose `value` is read by `partial_json_parser` until the document is whole.

    It shows what ours holds back (`1` before `10`, `True` from `tru`) and reads on where ours has stopped, as far as
    `allow` lets it. Each look at a new text parses all of it again, so looking at every fragment is quadratic. Whether
    the text is JSON is judged strictly all the same: tolerance is for display, never for running a tool.

    Args:
        allow: What may be incomplete, in the words of `partial_json_parser.Allow`; everything by default.
        limits: As for `PartialJSON`.
    """

    def __init__(self, *, allow: Allow | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        import partial_json_parser  # only here: the wire core loads nothing that was not asked for

        super().__init__(limits=limits)
        self._loads = partial_json_parser.loads
        self._allow = partial_json_parser.Allow.ALL if allow is None else allow
        self._text: list[str] = []
        self._seen_chars = 0
        self._tolerant: JSON = None

    def feed(self, fragment: str) -> None:
        """As `PartialJSON.feed`; what lies beyond `max_input_chars` is not read."""
        super().feed(fragment)
        if self._length <= self._max_chars:  # the bound holds for the package, too: it recurses, and reads all of it
            self._text.append(fragment)

    @property
    def value(self) -> JSON:
        """The tolerant reading of the text so far; the last one that succeeded where the package refuses it."""
        if self.complete:
            return super().value
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        if self._text and len(self._text[0]) != self._seen_chars:
            self._seen_chars = len(self._text[0])
            try:
                self._tolerant = self._loads(self._text[0], self._allow)
            except Exception:
                pass  # it raises on what it cannot complete, and recurses; the last good value stays
        return self._tolerant
