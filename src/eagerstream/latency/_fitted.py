"""`Fitted`: a profile taken from a recording with times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from ..errors import UsageError
from ..recordings import Recording
from ..testing import buffered
from ._profiles import Kind, Piece, check_playable, fragments, recut
from ._results import load_checked, save_json

VERSION: Final = 1
MAX_BYTES: Final = 64 * 2**20
"""Of a profile that is read."""

_Chars = Annotated[int, Field(ge=1, le=2**30)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Drawn = tuple[_Chars, _Seconds]
"""A fragment that was seen: its characters, and the seconds since the fragment before it, of whatever block."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Fragments of one kind, to draw from: those that began a block, and the others."""

    first: tuple[Drawn, ...] = field(repr=False)
    later: tuple[Drawn, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Replies that arrive as a recording did.

    Fitted are the time of the first byte, and for each fragment its length together with the time since the fragment
    before it, so that whatever holds between the two (long after a pause, several at once) holds in what is drawn; of
    inputs and of everything else apart, and of the first fragment of a block apart from later ones. Each fragment of a
    reply is drawn from those seen, independently of the one before it. Not fitted: how the pace changes in the course
    of a reply, and what inputs hold where they are cut.

    A recording is of one way to stream: this takes it for an eager one, and simulates buffering on top.

    Attributes:
        name: In the settings of the results.
        first_byte_s: The first event of a reply.
        eagerstream_profile: The version of the file's format, in which each fragment is `[chars, seconds]`.
        inputs, texts: What was seen of each; one of the two may be empty, and is drawn from the other then.
    """

    eagerstream_profile: Literal[1] = VERSION
    name: Annotated[str, Field(max_length=200)]
    first_byte_s: _Seconds
    inputs: Seen
    texts: Seen

    @classmethod
    def of(cls, recording: Recording, *, name: str) -> Fitted:
        """Fitted to a recording.

        Raises:
            UsageError: It has no times, or the model wrote nothing in it.
        """
        check_playable(recording, name)
        seen: dict[tuple[Kind, bool], list[Drawn]] = {}
        begun: set[int] = set()
        previous_s = first_byte_s = recording.chunks[0].at_s if recording.chunks else 0.0
        for fragment in fragments(recording):
            drawn = (len(fragment.text), fragment.at_s - previous_s)
            seen.setdefault((fragment.kind, fragment.index not in begun), []).append(drawn)
            begun.add(fragment.index)
            previous_s = fragment.at_s
        if not seen:
            raise UsageError(f"{name}: nothing can be fitted to a recording in which the model writes nothing")
        if not recording.duration_s:
            raise UsageError(f"{name}: nothing can be fitted to a recording without arrival times")
        inputs, texts = (
            Seen(first=tuple(seen.get((kind, True), ())), later=tuple(seen.get((kind, False), ())))
            for kind in ("input", "text")
        )
        return cls(name=name, first_byte_s=first_byte_s, inputs=inputs, texts=texts)

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """See `Profile.play`."""
        random = Random(f"fitted {seed}")
        begun: set[int] = set()

        def cut(kind: Kind, index: int, texts: Sequence[str]) -> list[Piece]:
            text = "".join(texts)
            pieces: list[Piece] = []
            start = 0
            while start < len(text):
                chars, after_s = random.choice(self._choices(kind, is_first=index not in begun))
                begun.add(index)
                pieces.append(Piece(text[start : start + chars], after_s))
                start += chars
            return pieces

        played = recut(recording, cut, first_byte_s=self.first_byte_s)
        return played if eager else buffered(played)

    def _choices(self, kind: Kind, *, is_first: bool) -> Sequence[Drawn]:
        seen, other = (self.inputs, self.texts) if kind == "input" else (self.texts, self.inputs)
        found = [(of.first, of.later) if is_first else (of.later, of.first) for of in (seen, other)]
        return next(drawn for drawn in chain.from_iterable(found) if drawn)

    def save(self, path: Path) -> None:
        """Write it to a JSON file, over whatever is there.

        Raises:
            UsageError: The file cannot be written.
        """
        save_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Fitted:
        """The profile in a file.

        Raises:
            UsageError: It cannot be read, or is none.
        """
        key = ("eagerstream_profile", VERSION)
        profile = load_checked(path, TypeAdapter(cls), what="profile", version=key, max_bytes=MAX_BYTES)
        if not any((profile.inputs.first, profile.inputs.later, profile.texts.first, profile.texts.later)):
            raise UsageError(f"{path}: a profile without fragments")
        return profile
