"""Profiles: how a response without times of its own would arrive. All of it is simulated.

One follows the documentation of eager input streaming, `Documented`. One is fitted to a recording with times, `Fitted`,
in its own file. Both compute: the same arguments give the same times on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from ..errors import UsageError
from ..recordings import Recording
from ..testing import buffered
from ..testing._timing import TOKEN_CHARS
from ._pieces import Kind, Piece, fragments, recut


class Profile(Protocol):
    """Gives a reply its times, and its fragments.

    Attributes:
        name: In the settings of the results.
    """

    @property
    def name(self) -> str:
        """In the settings of the results."""
        ...

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """The reply as it would arrive, with eager input streaming or without; the same for the same seed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """How an input is cut into fragments.

    Attributes:
        chars: Lengths to draw from, each as likely as the others.
        inside_words: The share of those cuts that would fall between two letters or digits that stay there; the others
            move to the end of the word.
    """

    chars: tuple[int, ...]
    inside_words: float

    def split(self, text: str, random: Random) -> list[str]:
        """The text in fragments."""
        found: list[str] = []
        start = 0
        while start < len(text):
            end = start + random.choice(self.chars)
            if _is_inside_word(text, end) and random.random() >= self.inside_words:
                while _is_inside_word(text, end):
                    end += 1
            found.append(text[start:end])
            start = end
        return found


@dataclass(frozen=True, kw_only=True)
class Documented:
    """The example of Anthropic's documentation of eager input streaming (then "fine-grained tool streaming").

    It says that a large parameter begins to arrive after 3 s with eager input streaming and after 15 s without, and
    shows both streams. From these come the figures here:

    - The first fragment of the largest input of a reply comes at `eager_s`, later where what is before it takes longer,
      and its last one `buffered_s - eager_s` after that, evenly by characters. An input that is no longer than a
      fragment comes whole.
    - With eager input streaming fragments are longer and less often cut inside words: of the shown ones 37 and 24
      characters, not cut inside a word. The documentation says fewer word breaks, not none: one cut in ten.
    - Without, of the shown ones 2, 11, 6, 11, 5, 2, 6 and 5 characters, three of seven cuts inside words; and each
      top-level member of an input is held back until it is whole, then comes in a burst (see `replay.buffering`).
    - Not documented, and assumed: everything else is written at 80 tokens of 4 characters in a second, and begins after
      0.5 s at the earliest; times between fragments vary by up to `jitter` of their length, the first byte by up to
      `first_byte_jitter`.

    Attributes:
        eager_s, buffered_s: When the large parameter begins to arrive.
        eager, buffered: How inputs are cut.
        tokens_per_second: Of everything but the largest input.
        least_first_byte_s: Before the first event of a reply.
        jitter, first_byte_jitter: Shares, 0 to 1.
    """

    name: str = "documented"
    eager_s: float = 3.0
    buffered_s: float = 15.0
    eager: Cutting = Cutting(chars=(37, 24), inside_words=0.1)
    buffered: Cutting = Cutting(chars=(2, 11, 6, 11, 5, 2, 6, 5), inside_words=3 / 7)
    tokens_per_second: float = 80.0
    least_first_byte_s: float = 0.5
    jitter: float = 0.6
    first_byte_jitter: float = 0.05

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """See `Profile.play`."""
        pace_s = 1 / (self.tokens_per_second * TOKEN_CHARS)
        largest, size, before = _largest_input(recording)
        at_once = sum(self.eager.chars) / len(self.eager.chars)  # of the largest input, with its first fragment
        first_byte_s = self.least_first_byte_s
        large_pace_s = pace_s
        if largest is not None:
            first_byte_s = max(first_byte_s, self.eager_s - before * pace_s)
            large_pace_s = (self.buffered_s - self.eager_s) / (size - at_once) if size > at_once else 0.0
        cutting = self.eager if eager else self.buffered
        cuts, jitters = Random(f"cuts {seed}"), Random(f"jitter {seed}")
        written: dict[int, int] = {}

        def cut(kind: Kind, index: int, texts: Sequence[str]) -> list[Piece]:
            pieces = []
            for text in cutting.split("".join(texts), cuts) if kind == "input" else texts:
                start = written.get(index, 0)
                end = written[index] = start + len(text)
                if kind == "input" and index == largest:
                    after_s = (max(end, at_once) - max(start, at_once)) * large_pace_s
                else:
                    after_s = len(text) * pace_s
                pieces.append(Piece(text, after_s * (1 + self.jitter * jitters.uniform(-1, 1))))
            return pieces

        first_byte_s *= 1 + self.first_byte_jitter * Random(f"first byte {seed}").uniform(-1, 1)
        played = recut(recording, cut, first_byte_s=first_byte_s)
        return played if eager else buffered(played)


DOCUMENTED: Final = Documented()


def named_profile(name: str) -> Profile:
    """The profile of this name, or in this file: a recording with times (.jsonl), or a saved profile (.json).

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    if name == DOCUMENTED.name:
        return DOCUMENTED
    from ._fitted import Fitted

    path = Path(name)
    match path.suffix.lower():
        case ".json":
            return Fitted.load(path)
        case ".jsonl":
            return Fitted.of(Recording.load(path), name=path.stem)
        case _:
            known = f"{DOCUMENTED.name!r}, a recording with times (.jsonl) or a saved profile (.json)"
            raise UsageError(f"{name!r} is no profile: give {known}")


def _largest_input(recording: Recording) -> tuple[int | None, int, int]:
    """The index of the block with the largest input, its characters, and those that are written before it."""
    sizes: dict[int, int] = {}
    before: dict[int, int] = {}
    total = 0
    for fragment in fragments(recording):
        if fragment.kind == "input":
            before.setdefault(fragment.index, total)
            sizes[fragment.index] = sizes.get(fragment.index, 0) + len(fragment.text)
        total += len(fragment.text)
    if not sizes:
        return None, 0, 0
    largest = max(sizes, key=lambda index: sizes[index])
    return largest, sizes[largest], before[largest]


def _is_inside_word(text: str, at: int) -> bool:
    return at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
