"""`eagerstream runs`: the runs of a journal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import anyio
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagerstream._support.error_groups import members_of
from eagerstream._support.named_objects import load_named
from eagerstream._support.typer_app import new_app, run_app
from eagerstream._support.wording import clean, duration_text, size_text, visible
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream.loop import When

if TYPE_CHECKING:
    from . import CallView, Journal, RunApp, RunSummary

T = TypeVar("T")

_KEY: Final = "EAGERSTREAM_JOURNAL_KEY"
_APP_HELP: Final = "module:name of a function that gives a run its client and tools, see `RunApp`."

app = new_app(no_args_is_help=True)

_Where: TypeAlias = Annotated[
    str,
    typer.Option(
        "--journal",
        envvar="EAGERSTREAM_JOURNAL",
        help="Path of the SQLite file, or postgresql:// URL.",
        metavar="WHERE",
    ),
]
_RunId: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.", show_default=False)]
_CallId: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[CALL]", help="Id of the call. Not needed if only one waits.")
]
_AppName: TypeAlias = Annotated[str, typer.Argument(metavar="MODULE:NAME", help=_APP_HELP, show_default=False)]


@app.callback()
def runs() -> None:
    """List and change the runs of a journal, and continue them.

    The key of an encrypted journal is read from the environment variable EAGERSTREAM_JOURNAL_KEY.
    """


@app.command("list")
def list_runs(
    journal: _Where,
    *,
    status: Annotated[list[str] | None, typer.Option(help="Only runs with this status; repeatable.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of runs.", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each run.")] = False,
) -> None:
    """List runs, the last changed one first. In a pipe: a line for each run, with tabs."""
    found = _in(journal, lambda opened: opened.runs(status or (), limit=limit))
    if as_json:
        for summary in found:
            typer.echo(json.dumps(summary.to_dict()))
    elif sys.stdout.isatty():
        table = Table(*_COLUMNS, box=None, pad_edge=False, header_style="bold")
        for summary in found:
            table.add_row(*map(Text, _cells(summary)))
        Console().print(table)
    else:
        for summary in found:
            typer.echo("\t".join(_cells(summary)))


_COLUMNS: Final = ("run", "status", "owner", "turns", "tokens", "model", "asks", "messages", "idle", "size")


def _cells(summary: RunSummary) -> list[str]:
    facts = summary.facts
    return [
        visible(summary.run_id),
        summary.status,
        summary.owner,
        str(facts.get("turns", "-")),
        str(facts.get("tokens", "-")),
        clean(str(facts.get("model", "-"))),
        str(len(summary.approvals)) if summary.status == "waiting" else "0",
        str(summary.messages),
        duration_text(int(summary.idle_s)),
        size_text(summary.size_bytes),
    ]


@app.command()
def show(
    run: _RunId,
    journal: _Where,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the history as a JSON array, with secrets.")] = False,
) -> None:
    """Show the history of a run and its open calls. Secrets are masked, and long texts are cut."""
    view = _in(journal, lambda opened: opened.view(run))
    if as_json:
        typer.echo(json.dumps(view.messages))
        return
    for line in view.lines():
        typer.echo(line)


@app.command()
def cancel(
    run: _RunId,
    journal: _Where,
    *,
    call: Annotated[str | None, typer.Option(help="Id of a call. Only this call is cancelled.")] = None,
    reason: Annotated[str, typer.Option(help="Text for the model, about this call.")] = "",
) -> None:
    """Cancel a run, or one of its calls. If the run is not active, its next owner ends it."""
    if reason and call is None:
        raise typer.BadParameter("it is about a call: give its id, too", param_hint="--reason")

    async def cancelled(opened: Journal) -> RunSummary:
        if call is None:
            await opened.cancel(run)
        else:
            await opened.cancel_call(run, call, reason)
        return await opened.summary(run)

    _say_next(_in(journal, cancelled), "cancelled")


@app.command()
def say(
    run: _RunId,
    text: Annotated[str, typer.Argument(help="Text of the message.", show_default=False)],
    journal: _Where,
    *,
    when: Annotated[When, typer.Option(help="Time at which it is sent, see `Run.say`.")] = "when_idle",
) -> None:
    """Say something to the model of a run. A run that waits or has ended becomes due."""

    async def said(opened: Journal) -> RunSummary:
        await opened.say(run, text, when)
        return await opened.summary(run)

    _say_next(_in(journal, said), "said")


@app.command()
def approve(run: _RunId, journal: _Where, call: _CallId = None) -> None:
    """Approve a call that waits for a decision."""
    _decide(journal, run, call, decision=True)


@app.command()
def deny(
    run: _RunId,
    journal: _Where,
    call: _CallId = None,
    *,
    reason: Annotated[str | None, typer.Option(help="Reason, for the model.")] = None,
) -> None:
    """Deny a call that waits for a decision."""
    _decide(journal, run, call, decision=reason or False)


def _decide(where: str, run: str, call_id: str | None, *, decision: bool | str) -> None:
    async def decided(opened: Journal) -> tuple[CallView, RunSummary]:
        asked = (await opened.view(run)).approvals
        if not asked:
            raise UsageError("no call of this run waits for a decision")
        ids = ", ".join(visible(call.id) for call in asked)
        if call_id is None and len(asked) > 1:
            raise UsageError(f"several calls wait for a decision, so give the id of one: {ids}")
        call = next((call for call in asked if call_id in (None, call.id)), None)
        if call is None:
            raise UsageError(f"this call does not wait for a decision; these do: {ids}")
        await opened.decide(run, call.id, decision)
        return call, await opened.summary(run)

    call, summary = _in(where, decided)
    _say_next(summary, f"{'approved' if decision is True else 'denied'} {clean(call.name)} ({visible(call.id)})")


def _say_next(summary: RunSummary, done: str) -> None:
    then = "its owner takes notice" if summary.owner == "alive" else "a worker, or `runs resume`, continues it"
    typer.echo(f"{visible(summary.run_id)}: {done}; {then}")


@app.command()
def resume(run: _RunId, app_name: _AppName, journal: _Where) -> None:
    """Continue a run in this process, and print its status. Ctrl-C hands it over."""
    from eagerstream import loop

    from ._worker import arguments_of

    found = _app(app_name)

    async def resumed(opened: Journal) -> str:
        async with (
            arguments_of(found, await opened.read(run), run) as (client, options),
            loop.resume(client, opened, run, **options) as active,
        ):
            try:
                await active.finish()
            except anyio.get_cancelled_exc_class():
                active.hand_over(at_once=True)
                raise
        return active.result.status.value

    try:
        status = _in(journal, resumed)
    except Exception as error:
        # Texts of the library quote no contents; those of the application may.
        if isinstance(cause := members_of(error)[0], EagerStreamError):
            raise
        typer.echo(f"eagerstream: run {visible(run)} cannot be continued: {type(cause).__name__}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{visible(run)}: {status}")


@app.command()
def work(
    app_name: _AppName,
    journal: _Where,
    *,
    concurrency: Annotated[int, typer.Option(help="Maximum number of runs at a time.", min=1)] = 4,
    poll_s: Annotated[float, typer.Option(help="Seconds between two looks for runs that are due.")] = 1.0,
    grace_s: Annotated[
        float, typer.Option(help="After SIGTERM or Ctrl-C: seconds for turns to end. Then runs are given up at once.")
    ] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Stop when no run is due.")] = False,
) -> None:
    """Continue the runs that are due, until SIGTERM or Ctrl-C. Several workers may share a journal.

    A run is due if its process died or gave it up, if a decision has arrived, or if a message has.
    """
    found = _app(app_name)
    ended_by = _in(
        journal,
        lambda opened: _work(opened, found, concurrency=concurrency, poll_s=poll_s, grace_s=grace_s, once=once),
    )
    if ended_by:
        raise typer.Exit(128 + ended_by[-1])


async def _work(journal: Journal, app: RunApp, **options: Any) -> list[int]:
    """Work, and return the signal that ended it before the active runs were handed over, if any."""
    from . import work as work_on

    stop = anyio.Event()
    ended_by: list[int] = []
    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32":
            tasks.start_soon(_stop_at_signals, stop, ended_by, tasks.cancel_scope)
        await work_on(journal, app, stop=stop, on_run=_report, **options)
        tasks.cancel_scope.cancel()
    return ended_by


async def _stop_at_signals(stop: anyio.Event, ended_by: list[int], scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                typer.echo("eagerstream: giving up the active runs at once", err=True)
                ended_by.append(number)
                scope.cancel()
                return
            typer.echo("eagerstream: handing over the active runs", err=True)
            stop.set()


def _report(run_id: str, status: str) -> None:
    typer.echo(f"{visible(run_id)}: {status}")


def _app(place: str) -> RunApp:
    """Return the application with this name.

    Raises:
        UsageError: There is none.
    """
    found = load_named(place)
    if not callable(found):
        raise UsageError(f"{place} is not a function")
    app: RunApp = found
    return app


def _in(where: str, use: Callable[[Journal], Awaitable[T]]) -> T:
    """Open a journal that exists, and use it."""
    from . import Journal

    async def used() -> T:
        async with Journal(where, key=os.environ.get(_KEY) or None, create=False) as journal:
            return await use(journal)

    return anyio.run(used)


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "runs", arguments)
