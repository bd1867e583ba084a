"""`secret_spans`: all secrets of a text, by their place in JSON, by their form, and by the names in front of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final, TypeAlias

from .forms import FORMS, by_form
from .json_text import decoded, may_be_json, read_json, written_spans
from .names import by_name
from .pem import private_keys
from .spans import SecretSpan, merged
from .tokens import by_token
from .words import Words

MAX_JSON_DEPTH: Final = 4
"""Maximum levels of JSON inside strings of JSON to read as JSON. Deeper strings are searched as plain text."""
_APART: Final = "\n\0\n"  # no secret contains it
_MAX_CONTEXT_CHARS: Final = 64


FindSecrets: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""A function from a text to the places of secrets in it that must be masked, too, each as its start and end."""

_further: ContextVar[FindSecrets | None] = ContextVar("_further", default=None)


@contextmanager
def finding_also(find: FindSecrets | None) -> Iterator[None]:
    """Let the searches in the block find what a function of the user finds, too.

    If it raises, or returns no places, the complete text is a secret: nothing that it should find may be seen.
    """
    token = _further.set(find)
    try:
        yield
    finally:
        _further.reset(token)


def secret_spans(text: str, key: str = "") -> Iterator[SecretSpan]:
    """Yield the places of the secrets in a text, in order; none overlaps or touches another.

    Args:
        text: Of any length.
        key: Name of the field that the text is the value of.

    A JSON text, complete or cut off, is read as JSON, and its strings are searched as texts. A masked text is therefore
    still JSON. The time is linear in the length of the text. No step of it keeps other threads waiting for long.
    """
    if not key and not may_be_json(text):
        yield from merged(_in_text(text), _found_further(text))
        return
    batch = Batch()
    document = Document(text)
    document.add_to(batch, key=key)
    batch.search()
    yield from document.secrets()


class Document:
    """A text and, if it is JSON, the texts inside it.

    Args:
        text: Of any length.
    """

    __slots__ = ("_inner", "_own", "_searched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._own: list[SecretSpan] = []  # by their places in the structure
        self._searched: list[SecretSpan] = []
        self._inner: list[tuple[int, int, Document]] = []

    def add_to(
        self, batch: Batch, *, key: str = "", left_out: Collection[int] = (), max_depth: int = MAX_JSON_DEPTH
    ) -> None:
        """Read the text as JSON if it is JSON, and add the texts to search to a batch.

        Args:
            batch: Searched later.
            key: Name of the field that the text is the value of. Some rules find a secret by it.
            left_out: Starts of strings that are neither masked nor searched.
            max_depth: Maximum depth of JSON inside strings.
        """
        if max_depth and may_be_json(self.text):
            scalars, end = read_json(self.text, key)
            scalars = [scalar for scalar in scalars if scalar.start < scalar.end and scalar.start not in left_out]
            self._own = [scalar.span() for scalar in scalars if scalar.is_secret]
            if end == len(self.text):
                for scalar in scalars:
                    if not scalar.is_secret and not scalar.is_number:
                        inner = Document(decoded(self.text[scalar.start : scalar.end]))
                        self._inner.append((scalar.start, scalar.end, inner))
                        inner.add_to(batch, key=scalar.key, max_depth=max_depth - 1)
                return
        batch.add(self, key)

    def found(self, span: SecretSpan) -> None:
        """Take the next secret that the search of a batch found in the text."""
        self._searched.append(span)

    def secrets(self) -> Iterator[SecretSpan]:
        """Yield the places of all secrets in the text, in order, after the batch was searched. None touches another."""
        of_inner = (
            SecretSpan(start + first, start + last, fill)
            for start, end, inner in self._inner
            if (found := list(inner.secrets()))
            for first, last, fill in written_spans(self.text[start:end], inner.text, found)
        )
        return merged(self._own, self._searched, of_inner, _found_further(self.text))


class Batch:
    """Many short texts that are searched as one: searching each by itself takes 30 microseconds more."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._documents: list[Document] = []
        self.size_chars = 0

    def add(self, document: Document, key: str = "") -> None:
        """Add a text, and the name of the field that it is the value of."""
        context = f"{key[-_MAX_CONTEXT_CHARS:]}: " if key else ""
        self._starts.append(self.size_chars + len(context))
        self._documents.append(document)
        self._parts += (context, document.text, _APART)
        self.size_chars += len(context) + len(document.text) + len(_APART)

    def search(self) -> None:
        """Find the secrets of each text, and forget the texts."""
        text = "".join(self._parts)
        for span in _in_text(text):
            number = bisect_right(self._starts, span.end - 1) - 1
            if number >= 0:
                begin, document = self._starts[number], self._documents[number]
                start, end = max(span.start - begin, 0), min(span.end - begin, len(document.text))
                if start < end:
                    document.found(SecretSpan(start, end, span.fill))
        self._parts, self._starts, self._documents, self.size_chars = [], [], [], 0


@cache
def _words() -> Words:
    return Words(word for form in FORMS for word in form.words)


def _found_further(text: str) -> list[SecretSpan]:
    find = _further.get()
    if find is None or not text:
        return []
    try:
        places = [SecretSpan(max(int(start), 0), min(int(end), len(text))) for start, end in find(text)]
    except Exception:
        return [SecretSpan(0, len(text))]
    return sorted(place for place in places if place.start < place.end)


def _in_text(text: str) -> Iterator[SecretSpan]:
    forms = by_form(text, _words().windows(text))
    return merged(private_keys(text), by_name(text), by_token(text), *forms)
