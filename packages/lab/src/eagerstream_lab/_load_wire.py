"""The runs of a level as a proxy saw them: those of programs, and our own beside them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from eagerstream.calls import RunStatus

from ._load_plan import FIGURES
from ._load_runs import Figures, LoadedRun, Order
from ._metrics import METRICS
from ._wire import MANY, Exchange, Seen, wire_latency


def seen_runs(seen: Seen, runs: Sequence[LoadedRun], order: Order, *, stopped_s: float) -> list[LoadedRun]:
    """Return the runs with the figures that a proxy saw, of a level that was stopped at this time.

    A program's own start does not count: its figures count from its first request, plus the delay of its start. A run
    fails if the proxy saw no complete conversation of it.
    """
    by_run: dict[str, list[Exchange]] = {}
    for exchange in seen.exchanges:
        by_run.setdefault(exchange.run, []).append(exchange)
    found: list[LoadedRun] = []
    for one in runs:
        exchanges = by_run.get(one.name, [])
        if one.ended_s is None or not one.name:
            found.append(one)
            continue
        figures, fault, _ = _wire_figures(seen, exchanges)
        late_s = one.started_s - one.intended_s
        if order.program is None and exchanges:
            late_s = exchanges[0].sent_s - order.origin_s - one.intended_s
        own = zip(FIGURES, figures, one.figures, strict=True)
        merged = tuple(_added(value, late_s) if METRICS[figure].on_wire else client for figure, value, client in own)
        found.append(one._replace(figures=merged, error=one.error or fault))
    many = [exchange for name, exchanges in by_run.items() if name.startswith(MANY) for exchange in exchanges]
    return found + [_conversation(seen, exchanges, order, stopped_s) for exchanges in conversations(many)]


def _wire_figures(seen: Seen, exchanges: Sequence[Exchange]) -> tuple[Figures, str | None, str]:
    """Return the figures of a conversation since its first request, the class of its fault, and its status."""
    latency, fault = wire_latency(replace(seen, exchanges=tuple(exchanges), other_paths=()))
    values = [METRICS[figure].of(latency) if METRICS[figure].on_wire else None for figure in FIGURES]
    return tuple(values), type(fault).__name__ if fault is not None else None, latency.status


def _added(value: float | None, late_s: float) -> float | None:
    return None if value is None else value + late_s


def _conversation(seen: Seen, exchanges: Sequence[Exchange], order: Order, stopped_s: float) -> LoadedRun:
    """Return the run of a conversation of a program that runs many at once."""
    figures, fault, status = _wire_figures(seen, exchanges)
    started_s = exchanges[0].sent_s - order.origin_s
    end_s = exchanges[-1].end_s
    goes_on = fault is None and status in (RunStatus.LIMIT, RunStatus.PAUSED)
    if end_s is None or end_s >= stopped_s or goes_on:  # under way when the level was stopped
        return LoadedRun(exchanges[0].run, started_s, started_s, None, None, figures, queued=False)
    return LoadedRun(exchanges[0].run, started_s, started_s, end_s - order.origin_s, fault, figures, queued=False)


def conversations(exchanges: Iterable[Exchange]) -> list[list[Exchange]]:
    """Return the exchanges of each run of a program that runs many at once.

    A request continues an earlier one if its messages start with those of the earlier one. If several runs have the
    same messages, it continues the one whose response ended first.
    """
    found: list[list[Exchange]] = []
    waiting: dict[bytes, deque[list[Exchange]]] = {}
    for exchange in sorted(exchanges, key=lambda exchange: exchange.sent_s):
        digests = _digests(exchange.body)
        conversation: list[Exchange] | None = None
        for digest in reversed(digests[:-1]):
            ended = [one for one in waiting.get(digest, ()) if (one[-1].end_s or exchange.sent_s) < exchange.sent_s]
            if ended:
                conversation = min(ended, key=lambda one: one[-1].end_s or 0)
                waiting[digest].remove(conversation)
                break
        if conversation is None:
            conversation = []
            found.append(conversation)
        conversation.append(exchange)
        if digests:
            waiting.setdefault(digests[-1], deque()).append(conversation)
    return found


def _digests(body: bytes) -> list[bytes]:
    """Return a digest of the first message of a request, of the first two, and so on."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        return []
    messages = request.get("messages") if isinstance(request, dict) else None
    digest = b""
    found: list[bytes] = []
    for message in messages if isinstance(messages, list) else ():
        digest = sha256(digest + json.dumps(_without_marks(message), sort_keys=True).encode()).digest()
        found.append(digest)
    return found


def _without_marks(value: Any) -> Any:
    """Return a message without the marks of the cache: a loop moves them from request to request."""
    if isinstance(value, dict):
        return {key: _without_marks(part) for key, part in value.items() if key != "cache_control"}
    return [_without_marks(part) for part in value] if isinstance(value, list) else value
