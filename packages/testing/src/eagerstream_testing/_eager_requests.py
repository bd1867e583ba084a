"""Requests for eager inputs, and the timing that the others get."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eagerstream._support.bodies import block_index, is_fragment, model_text, tool_name
from eagerstream._support.terms import EAGER_FIELD, LEGACY_BETA
from eagerstream.recordings import Recording

from ._buffering import buffered
from ._framing import framing_of

_MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the recordings whose held back form is kept, so that it is not computed for each request."""


def eager_tools(body: Mapping[str, Any], betas: Sequence[str]) -> frozenset[str] | None:
    """Return the names of the tools whose inputs a request wants as they are written; `None` for all its tools.

    Args:
        body: The body of the request, with the complete conversation. Tools that its messages add count, too.
        betas: The betas of the request. The legacy beta is for all tools.
    """
    if LEGACY_BETA in betas:
        return None
    wants = {str(tool.get("name")): tool.get(EAGER_FIELD) is True for tool in _definitions(body)}
    if wants and all(wants.values()):
        return None
    return frozenset(name for name, is_eager in wants.items() if is_eager)


def _definitions(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the definitions of a request in the order in which they apply."""
    yield from _mappings(body.get("tools"))
    for message in _mappings(body.get("messages")):
        for block in _mappings(message.get("content")) if message.get("role") == "system" else ():
            tool = block.get("tool")
            definition = tool.get("definition") if isinstance(tool, Mapping) else None
            if block.get("type") == "tool_addition" and isinstance(definition, Mapping):
                yield definition


def _mappings(values: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, Mapping))


class InputBuffering:
    """Holds the inputs of responses back, as `buffered` does, unless the request wants them as they are written.

    A response without times, or without an input to hold back, stays unchanged, with its chunks.
    """

    def __init__(self) -> None:
        # By identity: comparing recordings would compare their bodies. The entry keeps its recording alive.
        self._kept: OrderedDict[tuple[int, frozenset[str]], tuple[Recording, Recording]] = OrderedDict()
        self._kept_bytes = 0

    def apply(self, recording: Recording, eager: frozenset[str] | None) -> Recording:
        """Return the response with the timing that its request gets. `eager` is the result of `eager_tools`."""
        if eager is None or recording.status != 200 or not recording.duration_s:
            return recording
        key = (id(recording), eager)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][1]
        held = buffered(recording, eager=eager) if _has_input_beside(recording, eager) else recording
        self._keep(key, recording, held)
        return held

    def _keep(self, key: tuple[int, frozenset[str]], recording: Recording, held: Recording) -> None:
        self._kept[key] = (recording, held)
        self._kept_bytes += len(recording.body)
        while self._kept_bytes > _MAX_KEPT_BYTES:
            _, (dropped, _) = self._kept.popitem(last=False)
            self._kept_bytes -= len(dropped.body)


def _has_input_beside(recording: Recording, eager: frozenset[str]) -> bool:
    """Return whether the response has an input of another tool than these."""
    names: dict[int | None, str] = {}
    for _, event in framing_of(recording).events(recording.body):
        if event.get("type") == "content_block_start":
            names[block_index(event)] = tool_name(event)
        elif is_fragment(event) and model_text(event) and names.get(block_index(event)) not in eager:
            return True
    return False
