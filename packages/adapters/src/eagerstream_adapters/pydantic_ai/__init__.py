"""pydantic-ai: tools that start while the model still writes, and inputs that you can watch. Extra `pydantic-ai`.

    agent = Agent("anthropic:claude-opus-4-7", capabilities=[EarlyStart([make_file, search])])
    result = await agent.run("Write a poem, and save it.")

`EarlyStart` is a pydantic-ai capability. It works with `run`, `iter`, `run_stream` and everything built on them.
`EagerToolset` gives an agent eagerstream's tools without an early start. `as_eager_tool` converts a pydantic-ai tool
for eagerstream. `StreamedParts` reads pydantic-ai's events of a response for an `InputAccumulator`.

pydantic-ai runs only on asyncio, and so does this module.
"""

from __future__ import annotations

try:
    from ._conversion import as_eager_tool
    from ._early_start import EarlyStart
    from ._parts import StreamedParts
    from ._toolset import EagerToolset
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("pydantic_ai"):
        raise
    from eagerstream.errors import MissingExtraError

    raise MissingExtraError("pydantic-ai", "pydantic-ai-slim", package="eagerstream-adapters") from _error

__all__ = ["EagerToolset", "EarlyStart", "StreamedParts", "as_eager_tool"]
