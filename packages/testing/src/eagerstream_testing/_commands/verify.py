"""`eagerstream verify`: ask the API, or the double, whether what the code assumes of the API holds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import typer
from rich.console import Console
from rich.markup import escape

from eagerstream._support.redaction import printable
from eagerstream._support.typer_app import new_app, run_app
from eagerstream.errors import UsageError

from .. import Platform, ReplayServer, Scenario
from .._assumptions import Assumption, assumption_table
from .._verifying import AssumedModel, Verdict, verdict_of

_CLIENTS: Final[Mapping[Platform, str]] = {
    Platform.ANTHROPIC: "AsyncAnthropic",
    Platform.BEDROCK: "AsyncAnthropicBedrock",
    Platform.BEDROCK_MANTLE: "AsyncAnthropicBedrockMantle",
    Platform.AWS: "AsyncAnthropicAWS",
    Platform.VERTEX: "AsyncAnthropicVertex",
    Platform.FOUNDRY: "AsyncAnthropicFoundry",
    Platform.GOOGLE_CLOUD: "AsyncAnthropicGoogleCloud",
}


app = new_app()


@app.command()
def verify(
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the API, with your key. It shows the cost and asks first.")
    ] = False,
    platform: Annotated[Platform, typer.Option(help="The platform whose client is used.")] = Platform.ANTHROPIC,
    model: Annotated[str | None, typer.Option(help="The model to ask, by its name on the platform.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Ask only about this assumption, by its id. Repeatable.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before requests that cost something.")] = False,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write the verdicts to this file, too.", dir_okay=False)
    ] = None,
) -> None:
    """Ask whether what the code assumes of the API holds: one small request for each assumption.

    Without --live, nothing leaves this machine: the double of the API answers.
    """
    table = assumption_table()
    known: dict[str, Assumption] = {assumption.id: assumption for assumption in table["assumptions"]}
    if unknown := [id for id in only or () if id not in known]:
        raise UsageError(f"there is no assumption {', '.join(unknown)}; there are {', '.join(known)}")
    assumptions = [known[id] for id in only] if only else table["assumptions"]
    if live and platform is not Platform.ANTHROPIC and model is None:
        raise UsageError(f"--platform {platform} --live needs --model: the name of a model there")
    if live and platform is Platform.ANTHROPIC and not os.environ.get("ANTHROPIC_API_KEY"):
        raise UsageError("--live needs the environment variable ANTHROPIC_API_KEY")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"the folder {output.parent} does not exist")
    model = model or str(table["model"])
    console = Console(highlight=False)
    if live:
        console.print(escape(_cost(assumptions, model, platform, table)))
        if not yes and not typer.confirm("Send them?"):
            raise typer.Exit(1)
    else:
        console.print("The double of the API answers. With --live, the API does.")
    verdicts = anyio.run(lambda: _asked(console, assumptions, model, platform, live=live))
    if output is not None:
        output.write_text(json.dumps(_report(verdicts, model, platform, live=live), indent=2) + "\n", "utf-8")
    failed = sum(bool(verdict.faults) for verdict in verdicts)
    skipped = sum(verdict.skipped is not None for verdict in verdicts)
    console.print(f"{len(verdicts) - failed - skipped} hold, {failed} do not, {skipped} were not asked.")
    if failed:
        raise typer.Exit(1)


def _cost(assumptions: Sequence[Assumption], model: str, platform: Platform, table: Mapping[str, Any]) -> str:
    """Return what the requests cost, at most, in words."""
    dollars, unpriced = 0.0, False
    tokens = [0, 0]
    requests = billed = 0
    models: dict[str, None] = {}
    for assumption in assumptions:
        asked = _asked_model(assumption, model, platform, live=True)
        if assumption.unfit_for(asked, platform) is not None:
            continue
        requests += 1
        models[asked] = None
        if any(assumption.tokens):
            billed += 1
            prices = table["prices"].get(asked)
            unpriced = unpriced or prices is None
            for at, number in enumerate(assumption.tokens):
                tokens[at] += number
                dollars += number * (prices or (0, 0))[at] / 1_000_000
    price = (
        f"its price is not known here, see {table['prices_from']}"
        if unpriced
        else f"${max(dollars, 0.01):.2f} at most, by the prices of {table['stated_at']}"
    )
    return (
        f"{requests} requests to {platform}, to {', '.join(models)}: {billed} are answered, with about {tokens[0]:,} "
        f"tokens of input and {tokens[1]:,} of output at most; {price}. The others cost nothing."
    )


def _asked_model(assumption: Assumption, model: str, platform: Platform, *, live: bool) -> str:
    """Return the model to ask. Other platforms have other names for the models that a few assumptions are about."""
    is_named = platform is Platform.ANTHROPIC or not live
    return assumption.model if assumption.model is not None and is_named else model


async def _asked(
    console: Console, assumptions: Sequence[Assumption], model: str, platform: Platform, *, live: bool
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with ExitStack() as stack:
        if not live:
            server = stack.enter_context(ReplayServer(Scenario.of(AssumedModel())))
            os.environ.update(server.environment())
        async with _client(platform, live=live) as client:
            for assumption in assumptions:
                asked = _asked_model(assumption, model, platform, live=live)
                verdict = await verdict_of(client, assumption, model=asked, platform=platform)
                verdicts.append(verdict)
                mark = "[dim]-[/]" if verdict.skipped else "[red]✗[/]" if verdict.faults else "[green]✓[/]"
                console.print(f"{mark} {assumption.id}: {escape(assumption.statement)}")
                for line in [verdict.skipped] if verdict.skipped else verdict.faults:
                    console.print(f"    {escape(printable(line))}")
                if verdict.faults:
                    console.print(f"    {assumption.source} ({assumption.date})", style="dim")
    return verdicts


def _client(platform: Platform, *, live: bool) -> Any:
    """Return the client of a platform. It finds its credentials as the tools of the platform do."""
    import anthropic
    from anthropic.lib import bedrock, vertex

    name = _CLIENTS[platform]
    kind = next((found for place in (anthropic, bedrock, vertex) if (found := getattr(place, name, None))), None)
    if kind is None:
        raise UsageError(f"anthropic {anthropic.__version__} has no {name}: a newer one has it")
    options: dict[str, Any] = {}
    token = os.environ.get("GOOGLE_ACCESS_TOKEN") if live else "simulated"
    if platform is Platform.VERTEX:
        options["access_token"] = token
    if platform is Platform.GOOGLE_CLOUD and token:
        options["token_provider"] = lambda: token
    try:
        return kind(**options)
    except (anthropic.AnthropicError, ValueError) as error:  # a setting is missing
        raise UsageError(f"{name}: {error}") from error


def _report(verdicts: Sequence[Verdict], model: str, platform: Platform, *, live: bool) -> dict[str, Any]:
    """Return the verdicts as JSON, to report them."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "asked": str(platform) if live else "the double",
        "model": model,
        "eagerstream": version("eagerstream"),
        "anthropic": version("anthropic"),
        "verdicts": [
            {"id": verdict.assumption.id, "holds": None if verdict.skipped else not verdict.faults}
            | ({"why": verdict.skipped or list(verdict.faults)} if verdict.skipped or verdict.faults else {})
            for verdict in verdicts
        ],
    }


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_app(app, "verify", arguments)
