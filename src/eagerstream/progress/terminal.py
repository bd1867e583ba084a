"""Tool calls in a terminal: a tree that grows while the inputs are written, and plain lines for a pipe.

What a model wrote is shown as text and nothing else: no markup, no control characters.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ..redaction import printable
from ..run import RunEvent
from ..wire import JSON
from .observer import CallPhase, ObservedCall, RunObserver

_STYLES = {
    CallPhase.WRITING: "cyan",
    CallPhase.WAITING: "yellow",
    CallPhase.RUNNING: "magenta",
    CallPhase.DONE: "green",
    CallPhase.FAILED: "red",
    CallPhase.INVALID: "red",
    CallPhase.CUT: "red",
}
_SHOWN_ITEMS = 6
_SHOWN_CHARS = 72


def visible(text: str) -> str:
    """`text` on one line, without anything that a terminal would act on."""
    return printable(text).replace("\n", " ").replace("\t", " ")


class TerminalView:
    """What an observer has seen, as a renderable for `rich`; drawn anew each time it is printed."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer

    def __rich__(self) -> RenderableType:
        text = visible(self._observer.text)
        parts: list[RenderableType] = [Text(_tail(text, 200), style="italic")] if text else []
        parts += [_tree(call) for call in self._observer.calls]
        return Group(*parts)


def _tree(call: ObservedCall) -> Tree:
    style = _STYLES[call.phase]
    head = Text.assemble(
        (visible(call.input.name), "bold"),
        "  ",
        (call.phase.value, style),
        (f"  {call.bytes:,} bytes", "dim"),
    )
    if call.input.outcome is None and call.writing_s > 0:
        head.append(
            f"  {call.bytes / call.writing_s:,.0f} bytes/s  {call.fragments / call.writing_s:,.0f} fragments/s",
            style="dim",
        )
    if call.result_text:
        head.append(f"  → {_tail(visible(call.result_text), _SHOWN_CHARS)}", style=style)
    tree = Tree(head, guide_style="dim")
    for name, value in call.input.partial.items():
        done = name in call.finished
        mark = ("✓ ", "green") if done else ("… ", "cyan")
        _add(tree, Text.assemble(mark, (visible(name), "bold")), value, growing=not done)
    return tree


def _add(tree: Tree, label: Text, value: JSON, *, growing: bool) -> None:
    """One value below its label: scalars beside it, containers by their newest items."""
    cursor = "▌" if growing else ""
    if isinstance(value, str):
        tail = _tail(visible(value), _SHOWN_CHARS)
        tree.add(label + Text(f"  “{tail}{cursor}{'' if growing else '”'}"))
    elif isinstance(value, dict | list):
        branch = tree.add(label + Text(f"  {len(value):,} {'items' if isinstance(value, list) else 'fields'}", "dim"))
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value[-_SHOWN_ITEMS:]))
        items = items[-_SHOWN_ITEMS:]
        if hidden := len(value) - len(items):
            branch.add(Text(f"{hidden:,} earlier", "dim"))
        for number, (name, item) in enumerate(items):
            last = growing and number == len(items) - 1
            if isinstance(item, str) and isinstance(value, list):
                branch.add(Text(_tail(visible(item), _SHOWN_CHARS) + ("▌" if last else "")))
            else:
                _add(branch, Text(visible(str(name)) if isinstance(value, dict) else "-"), item, growing=last)
    else:
        tree.add(label + Text(f"  {visible(str(value))}"))


def _tail(text: str, length: int) -> str:
    return text if len(text) <= length else f"…{text[-length:]}"


class PlainLines:
    """A line for each thing that happens to a call, for a pipe or a log."""

    def __init__(self, observer: RunObserver, console: Console) -> None:
        self._observer = observer
        self._console = console
        self._printed: dict[int, tuple[CallPhase | None, int]] = {}  # by call: its phase and number of finished fields

    def feed(self, event: RunEvent) -> None:
        """Hand the event to the observer, and print a line for each thing that it changed."""
        call = self._observer.feed(event)
        if call is None:
            return
        phase, fields = self._printed.get(id(call), (None, 0))
        for name in call.finished[fields:]:
            self._print(call, f"✓ {visible(name)}")
        if call.phase is not phase:
            result = f": {_tail(visible(call.result_text), _SHOWN_CHARS)}" if call.result_text else ""
            self._print(call, f"{call.phase.value}{result}")
        self._printed[id(call)] = call.phase, len(call.finished)

    def _print(self, call: ObservedCall, what: str) -> None:
        line = f"{self._observer.elapsed_s:6.2f} s  {visible(call.input.name):<12} {call.bytes:>6,} bytes  {what}"
        self._console.print(Text(line), soft_wrap=True)
