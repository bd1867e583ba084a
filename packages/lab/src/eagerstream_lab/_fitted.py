"""`Fitted`: a profile made from a recording with times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_testing import buffered

from ._profiles import DOCUMENTED, Kind, Piece, Profile, check_playable, fragments, recut
from ._results import VERSION, load_checked, save_json

MAX_BYTES: Final = 64 * 2**20
"""Maximum size of a profile file."""

_Chars = Annotated[int, Field(ge=1, le=2**30)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Drawn = tuple[_Chars, _Seconds]
"""A recorded fragment: its number of characters, and the seconds since the previous fragment of any block."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Fragments of one kind to draw from: the first of each block, and the later ones."""

    first: tuple[Drawn, ...] = field(repr=False)
    later: tuple[Drawn, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Profile whose responses arrive as a recording did.

    The fit has two parts: the time of the first byte, and the recorded fragments. For each fragment, it keeps the
    length together with the time since the previous fragment. So a relation between the two (a long fragment after a
    pause, several at once) is preserved. Inputs and all other blocks are fitted separately. So are the first fragment
    of a block and the later ones. Each fragment of a response is drawn from the recorded ones, independently of the
    previous one. Two things are not fitted: changes of pace within a response, and the places in an input at which it
    is cut.

    A recording is either eager or buffered. This class assumes an eager one, and simulates buffering on top.

    Attributes:
        name: Name in the settings of the results.
        first_byte_s: Time of the first event of a response, in seconds.
        eagerstream_profile: Version of the file's format, in which each fragment is `[chars, seconds]`.
        inputs, texts: Recorded fragments of each kind. If one is empty, its fragments are drawn from the other.
    """

    eagerstream_profile: Literal[1] = VERSION
    name: Annotated[str, Field(max_length=200)]
    first_byte_s: _Seconds
    inputs: Seen
    texts: Seen

    @classmethod
    def of(cls, recording: Recording, *, name: str) -> Fitted:
        """Fit a profile to a recording.

        Raises:
            UsageError: The recording cannot be played, has no times, or contains no fragments.
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
            seen, other = (self.inputs, self.texts) if kind == "input" else (self.texts, self.inputs)
            text = "".join(texts)
            pieces: list[Piece] = []
            start = 0
            while start < len(text):
                found = [(of.later, of.first) if index in begun else (of.first, of.later) for of in (seen, other)]
                chars, after_s = random.choice(next(drawn for drawn in chain.from_iterable(found) if drawn))
                begun.add(index)
                pieces.append(Piece(text[start : start + chars], after_s))
                start += chars
            return pieces

        played = recut(recording, cut, first_byte_s=self.first_byte_s)
        return played if eager else buffered(played)

    def save(self, path: Path) -> None:
        """Write the profile to a JSON file, replacing any existing file.

        Raises:
            UsageError: The file cannot be written.
        """
        save_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Fitted:
        """Load a profile from a file.

        Raises:
            UsageError: The file cannot be read, is too large, or is not a profile with fragments.
        """
        profile = load_checked(path, TypeAdapter(cls), what="profile", key="eagerstream_profile", max_bytes=MAX_BYTES)
        if not any((profile.inputs.first, profile.inputs.later, profile.texts.first, profile.texts.later)):
            raise UsageError(f"{path}: a profile without fragments")
        return profile


def named_profile(name: str) -> Profile:
    """Return the profile with this name, or from this file.

    Args:
        name: `"documented"`, a recording with times (.jsonl), or a saved profile (.json).

    Raises:
        UsageError: There is no such profile, the file cannot be read, or the recording cannot be fitted.
    """
    if name == DOCUMENTED.name:
        return DOCUMENTED
    path = Path(name)
    match path.suffix.lower():
        case ".json":
            return Fitted.load(path)
        case ".jsonl":
            return Fitted.of(Recording.load(path), name=path.stem)
        case _:
            known = f"{DOCUMENTED.name!r}, a recording with times (.jsonl) or a saved profile (.json)"
            raise UsageError(f"{name!r} is no profile: give {known}")
