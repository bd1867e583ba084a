"""pydantic-ai: tools that begin while the model still writes, and inputs that can be watched. Extra `pydantic-ai`.

    agent = Agent("anthropic:claude-opus-4-7", capabilities=[EarlyStart([make_file, search])])
    result = await agent.run("Write a poem, and save it.")

`EarlyStart` is a capability of pydantic-ai: it works with `run`, `iter`, `run_stream` and all that is made of them.
`EagerToolset` gives an agent eagerstream's tools without it, `as_eager_tool` a run of eagerstream one of pydantic-ai's.
`StreamedParts` reads pydantic-ai's events of a reply for an `InputAccumulator`.

pydantic-ai runs on asyncio, and so does this.
"""

from __future__ import annotations

try:
    from ._conversion import as_eager_tool
    from ._early_start import EarlyStart
    from ._parts import StreamedParts
    from ._toolset import EagerToolset
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("pydantic_ai"):
        raise
    from ...errors import MissingExtraError

    raise MissingExtraError("pydantic-ai", "pydantic-ai-slim") from error

__all__ = ["EagerToolset", "EarlyStart", "StreamedParts", "as_eager_tool"]
